"""Processes of ours: their environment, the lines they say, how they end, the end of their logs."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slsgd_mx
from slsgd_mx.system.processes import Reader, environment, how_it_ended, tail

HOME = str(Path(slsgd_mx.__file__).resolve().parent.parent)


class Pipe:
    """A child's standard output, written by the test."""

    def __init__(self):
        out, self.entry = os.pipe()
        self.out = os.fdopen(out, "rb", buffering=0)
        self.reader = Reader(SimpleNamespace(stdout=self.out))

    def say(self, data):
        os.write(self.entry, data)
        return self.reader.read()

    def end(self):
        os.close(self.entry)
        self.entry = None
        return self.reader.read()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        if self.entry is not None:
            os.close(self.entry)
        self.out.close()


# ---- Reader --------------------------------------------------------------------------------


def test_one_message_in_parts():
    with Pipe() as pipe:
        assert pipe.say(b'{"a"') == []
        assert pipe.say(b": 1") == []
        assert pipe.say(b"}") == []
        assert pipe.say(b"\n") == [{"a": 1}]
        assert not pipe.reader.ended


def test_several_messages_at_once_and_a_beginning():
    with Pipe() as pipe:
        assert pipe.say(b'{"a": 1}\n{"a": 2}\n{"a"') == [{"a": 1}, {"a": 2}]
        assert pipe.say(b': 3}\n{"a": 4}\n') == [{"a": 3}, {"a": 4}]


def test_the_end_is_noted():
    with Pipe() as pipe:
        assert pipe.say(b'{"a": 1}\n') == [{"a": 1}]
        assert not pipe.reader.ended
        assert pipe.end() == []
        assert pipe.reader.ended


def test_half_a_message_at_the_end_is_none():
    """As of a child that was killed while it wrote."""
    with Pipe() as pipe:
        assert pipe.say(b'{"a": 1}\n{"a": ') == [{"a": 1}]
        assert pipe.end() == [] and pipe.reader.ended


def test_a_message_longer_than_one_read():
    text = "x" * 200_000
    with Pipe() as pipe:
        data, said = json.dumps({"text": text}).encode() + b"\n", []
        for start in range(0, len(data), 50_000):
            said += pipe.say(data[start : start + 50_000])
        assert said == [{"text": text}]


@given(
    st.lists(st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.floats(0, 1))),
    st.data(),
)
def test_wherever_lines_are_cut(messages, data):
    body = b"".join(json.dumps(m, ensure_ascii=False).encode() + b"\n" for m in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    with Pipe() as pipe:
        said = []
        for start, stop in zip([0, *cuts], [*cuts, len(body)]):
            if start < stop:
                said += pipe.say(body[start:stop])
        assert said == messages


# ---- how it ended --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, text",
    [
        (0, "exited with 0"),
        (75, "exited with 75"),
        (-int(signal.SIGKILL), "was killed by SIGKILL"),
        (-int(signal.SIGTERM), "was killed by SIGTERM"),
        (-int(signal.SIGSEGV), "was killed by SIGSEGV"),
        (-99, "was killed by signal 99"),
    ],
)
def test_how_it_ended(code, text):
    assert how_it_ended(code) == text


def test_how_a_real_process_ended():
    process = subprocess.Popen(["sleep", "60"])
    process.kill()
    assert how_it_ended(process.wait()) == "was killed by SIGKILL"


# ---- tail ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, lines, end",
    [
        ("", 5, ""),
        ("one\n", 5, "one"),
        ("one", 5, "one"),
        ("1\n2\n3\n4\n5\n6\n", 5, "2\n3\n4\n5\n6"),
        ("1\n2\n3", 1, "3"),
        ("1\n2\n3\n", 1, "3"),
    ],
)
def test_tail(tmp_path, text, lines, end):
    path = tmp_path / "log"
    path.write_text(text)
    assert tail(path, lines) == end


def test_tail_of_five_unless_said(tmp_path):
    path = tmp_path / "log"
    path.write_text("\n".join("abcdefgh"))
    assert tail(path) == "d\ne\nf\ng\nh"


def test_tail_of_what_is_no_text(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"fine\n\xff\xfe broken\n")
    assert tail(path, 1).endswith(" broken")


def test_tail_of_what_cannot_be_read(tmp_path):
    assert tail(tmp_path / "none") == ""
    assert tail(tmp_path) == ""


# ---- environment ---------------------------------------------------------------------------


def test_environment_has_threads_and_the_way_to_this_package(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("SOMETHING", "else")
    given = environment(3, DMLC_ROLE="server", SOMETHING="new")
    assert given["OMP_NUM_THREADS"] == "3"
    assert given["PYTHONPATH"] == os.pathsep.join([HOME, "/elsewhere"])
    assert given["DMLC_ROLE"] == "server" and given["SOMETHING"] == "new"
    assert given["PATH"] == os.environ["PATH"]
    assert os.environ["OMP_NUM_THREADS"] == "7" and "DMLC_ROLE" not in os.environ


@pytest.mark.parametrize("path", [None, ""])
def test_environment_without_a_python_path(monkeypatch, path):
    """An empty entry would be the working folder."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    assert environment(1)["PYTHONPATH"] == HOME


def test_a_child_reports_on_standard_output_alone():
    """Whatever else is printed, by Python or not, goes to standard error."""
    program = (
        "import os; from slsgd_mx.processes import reporter; report = reporter();"
        "print('noise', flush=True); os.write(1, b'more noise'); report(event='end', t=1)"
    )
    child = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        env=environment(1),
        check=True,
    )
    assert child.stdout == b'{"event": "end", "t": 1}\n'
    assert b"noise" in child.stderr and b"more noise" in child.stderr
