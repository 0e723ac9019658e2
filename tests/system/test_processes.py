"""The parent's side of child processes: environment, messages, exit codes, the end of a log."""

import json
import os
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import slsgd_mx
from slsgd_mx.system.processes import Reader, environment, how_it_ended, is_stopped, tail

HOME = str(Path(slsgd_mx.__file__).resolve().parent.parent)


class Pipe(Reader):
    """A child's standard output, written by the test."""

    def __init__(self):
        out, entry = os.pipe()
        super().__init__(os.fdopen(out, "rb", buffering=0))
        self.entry = os.fdopen(entry, "wb", buffering=0)

    def say(self, data):
        self.entry.write(data)
        return self.read()

    def close(self):
        self.entry.close()
        self.pipe.close()


@pytest.mark.parametrize("rest", [b"", b'{"a": '], ids=["whole", "half"])
def test_the_end_is_noted_and_half_a_message_ignored(rest):
    """A child that is killed while it writes leaves half a message."""
    with closing(Pipe()) as pipe:
        assert pipe.say(b'{"a": 1}\n' + rest) == [{"a": 1}]
        assert not pipe.ended
        pipe.entry.close()
        assert pipe.read() == [] and pipe.ended


def test_an_interrupted_child_has_ended():
    with closing(Pipe()) as pipe:
        end = {"event": "end", "status": "interrupted"}
        assert pipe.say(json.dumps(end).encode() + b"\n") == [end] and pipe.ended


def test_a_message_longer_than_one_read():
    text = "x" * 200_000
    with closing(Pipe()) as pipe:
        data, said = json.dumps({"text": text}).encode() + b"\n", []
        for start in range(0, len(data), 50_000):
            said += pipe.say(data[start : start + 50_000])
        assert said == [{"text": text}]


values = st.text(max_size=5) | st.floats(0, 1)


@given(st.lists(st.dictionaries(st.text(max_size=5), values, max_size=2), max_size=4), st.data())
def test_wherever_lines_are_cut(messages, data):
    body = b"".join(json.dumps(m, ensure_ascii=False).encode() + b"\n" for m in messages)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    with closing(Pipe()) as pipe:
        said = []
        for start, stop in zip([0, *cuts], [*cuts, len(body)]):
            if start < stop:
                said += pipe.say(body[start:stop])
            assert said == messages[: body[:stop].count(b"\n")] and not pipe.ended


@pytest.mark.parametrize(
    "code, text",
    [
        (0, "exited with 0"),
        (75, "exited with 75"),
        (-int(signal.SIGTERM), "was killed by SIGTERM"),
        (-int(signal.SIGSEGV), "was killed by SIGSEGV"),
        (-99, "was killed by signal 99"),
    ],
)
def test_how_it_ended(code, text):
    assert how_it_ended(code) == text


def test_a_real_process_that_is_suspended_and_killed():
    process = subprocess.Popen(["sleep", "60"])
    assert not is_stopped(process.pid)
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    assert is_stopped(process.pid) or not Path("/proc/self/stat").exists()
    process.kill()
    assert how_it_ended(process.wait()) == "was killed by SIGKILL"
    assert not is_stopped(process.pid)


@pytest.mark.parametrize(
    "text, lines, end",
    [
        (b"", [], ""),
        (b"one\n", [], "one"),
        (b"one", [], "one"),
        (b"1\n2\n3\n4\n5\n6\n", [], "2\n3\n4\n5\n6"),
        (b"1\n2\n3", [1], "3"),
        (b"1\n2\n3\n", [1], "3"),
        (b"1\n2\n3\n", [5, 2], "2\n3"),
        (b"1\n2\n", [5, 4], ""),
        (b"fine\n\xff\xfe broken\n", [1], "\ufffd\ufffd broken"),
    ],
)
def test_tail(tmp_path, text, lines, end):
    path = tmp_path / "log"
    path.write_bytes(text)
    assert tail(path, *lines) == end
    assert tail(tmp_path / "none") == tail(tmp_path) == ""


@pytest.mark.parametrize("path, more", [("/elsewhere", ["/elsewhere"]), ("", []), (None, [])])
def test_environment_sets_threads_and_the_path_of_this_package(monkeypatch, path, more):
    """An empty entry in the path would be the working folder."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.setenv("SOMETHING", "else")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    if path is not None:
        monkeypatch.setenv("PYTHONPATH", path)
    given = environment(3, DMLC_ROLE="server", SOMETHING="new")
    assert given["OMP_NUM_THREADS"] == "3"
    assert given["PYTHONPATH"] == os.pathsep.join([HOME, *more])
    assert given["DMLC_ROLE"] == "server" and given["SOMETHING"] == "new"
    assert given["PATH"] == os.environ["PATH"]
    assert os.environ["OMP_NUM_THREADS"] == "7" and "DMLC_ROLE" not in os.environ
