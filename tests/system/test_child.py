"""The child's side: which functions a job may name, how jobs end, exit codes, standard output."""

import contextlib
import gc
import io
import json
import os
import signal
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from slsgd_mx import errors
from slsgd_mx.parameter_server.protocol import ProtocolError
from slsgd_mx.system import child
from slsgd_mx.system.processes import Child, environment


@pytest.mark.parametrize(
    "name",
    ["os:system", "slsgd_mx:train", "slsgd_mx_more.x:f", "slsgd_mx.errors", "slsgd_mx.errors:",
     "slsgd_mx.system.files:os.remove", "slsgd_mx.system.child:_private", "", ".errors:f"],
)  # fmt: skip
def test_names_outside_the_package_are_refused(name):
    with pytest.raises(errors.ConfigError) as error:
        child.find(name)
    assert str(error.value) == f"do={name!r} is out of range: needs slsgd_mx.MODULE:FUNCTION"


def test_a_job_names_a_function_of_the_package():
    assert child.find("slsgd_mx.system.child:find") is child.find


def ends(monkeypatch, error=None, **content):
    """How a job ends whose function returns the content, or raises the error."""

    def function(job, report):
        if error is not None:
            raise error
        return content

    monkeypatch.setattr(child, "find", lambda name: function)
    return child.do({"do": "it"}, None)


@pytest.mark.parametrize(
    "error, status, kind, code",
    [
        (errors.ConfigError("x"), "failed", "ConfigError", 2),
        (errors.DataError("x"), "failed", "DataError", 1),
        (errors.LostError("x"), "failed", "LostError", 75),
        (ProtocolError("x"), "failed", "ConfigError", 2),  # the class of errors.py it derives from
        (errors.DivergedError("x"), "diverged", None, 0),
    ],
)
def test_an_error_on_purpose_is_the_end_of_its_job(monkeypatch, capsys, error, status, kind, code):
    end, found = ends(monkeypatch, error)
    assert (end["status"], end["why"], end.get("kind"), found) == (status, "x", kind, code)
    assert capsys.readouterr().err == ""


def test_what_a_job_leaves_in_cycles_is_freed_before_it_ends(monkeypatch):
    """Networks are cycles: without this, a child holds those of several jobs."""
    left, reports = [], []

    class Network:
        pass

    def do(job, report):
        network = Network()
        network.itself = network
        left.append(weakref.ref(network))
        return {"status": "done"}, 0

    def report(**message):
        reports.append((message["status"], [network() for network in left]))

    monkeypatch.setattr(child, "do", do)
    monkeypatch.setattr(child, "reporter", lambda: report)
    monkeypatch.setattr(child, "die_with_parent", lambda number, parent: None)
    monkeypatch.setattr(child.signals, "install", lambda: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}\n{}\n"))
    gc.disable()
    try:
        assert child.main(0, 0) == 0
    finally:
        gc.enable()
    assert reports == [("done", [None]), ("done", [None, None])]


def test_other_ends(monkeypatch, capsys):
    assert ends(monkeypatch) == ({"status": "done"}, 0)
    assert ends(monkeypatch, number=1) == ({"status": "done", "number": 1}, 0)
    unexpected = {"status": "failed", "why": "KeyError: 'a'", "kind": ""}
    assert ends(monkeypatch, KeyError("a")) == (unexpected, 1)
    assert "Traceback" in capsys.readouterr().err
    for passed_on in (KeyboardInterrupt, BrokenPipeError):
        with pytest.raises(passed_on):
            ends(monkeypatch, passed_on())
    assert child.do({}, None)[0]["why"] == "KeyError: 'do'"


@pytest.fixture
def process():
    started = Child(threads=1)
    yield started
    started.process.kill()
    started.process.wait()
    started.close()


def test_a_child_exits_with_the_code_of_its_last_job_when_its_input_ends(process):
    process.send({"do": "slsgd_mx.system.child:dance"})
    process.send({"do": "os:getcwd"}, last=True)
    messages = [json.loads(line) for line in process.pipe.read().splitlines()]
    assert messages[0]["why"].startswith("AttributeError: ") and messages[0]["kind"] == ""
    assert messages[1]["why"].startswith("do='os:getcwd' is out of range")
    assert {(message["event"], message["status"]) for message in messages} == {("end", "failed")}
    assert process.process.wait(60) == 2


def test_an_idle_child_ends_when_told_to_stop(process):
    process.send({"do": "os:getcwd"})
    assert process.read()[0]["status"] == "failed" and not process.ended  # signals are handled
    process.process.send_signal(signal.SIGTERM)
    assert process.read() == [{"event": "end", "status": "interrupted"}] and process.ended
    assert process.process.wait(60) == 143


def test_a_child_imports_what_its_parent_imports_and_not_the_working_folder(tmp_path, monkeypatch):
    """A module of the user there, or another version of this package."""
    (tmp_path / "slsgd_mx").mkdir()
    for name in ("slsgd_mx/__init__.py", "json.py", "runpy.py"):
        (tmp_path / name).write_text("raise SystemExit('the wrong module')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*filter(None, sys.path), tmp_path])  # Python skips the last
    with open("log", "w+b") as log, contextlib.closing(Child(threads=1, log=log)) as started:
        started.send({"do": "os:getcwd"}, last=True)
        (message,) = started.read() or [{"why": (tmp_path / "log").read_text()}]
        assert message["why"].startswith("do='os:getcwd' is out of range")
        assert started.process.wait(60) == 2


def test_a_child_whose_parent_is_dead_exits():
    other = os.getppid()  # not the parent of the child
    started = subprocess.run(
        [sys.executable, "-m", "slsgd_mx.system.child", str(other), "15"],
        input=b'{"do": "os:getcwd"}\n',
        capture_output=True,
        env=environment(1),
    )
    assert started.returncode == 1 and started.stdout == b""


def test_a_child_reports_on_standard_output_alone():
    """Anything else that is printed, by Python or not, goes to standard error."""
    program = (
        "import os; from slsgd_mx.system.child import reporter; report = reporter();"
        "print('noise', flush=True); os.write(1, b'more noise'); report(event='end', t=1)"
    )
    started = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, env=environment(1), check=True
    )
    assert started.stdout == b'{"event": "end", "t": 1}\n'
    assert b"noise" in started.stderr and b"more noise" in started.stderr


INTERRUPTED_WHILE_REPORTING = """
import json, os, signal, sys
from slsgd_mx.system import child

def encode(message, dumps=json.dumps):
    if message["event"] == "epoch":
        os.kill(os.getpid(), signal.SIGTERM)
    return dumps(message)

def function(job, report):
    report(event="epoch")
    os._exit(7)

json.dumps, child.find = encode, lambda name: function
sys.exit(child.main(os.getppid(), 15))
"""


def test_an_interrupt_while_reporting_is_raised_after_the_report():
    """The line is whole, and the job does not go on to wait for other processes."""
    started = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_REPORTING],
        input=b'{"do": "it"}\n',
        capture_output=True,
        env=environment(1),
    )
    messages = [json.loads(line) for line in started.stdout.splitlines()]
    assert messages == [{"event": "epoch"}, {"event": "end", "status": "interrupted"}]
    assert started.returncode == 143


def sessions_have_priorities():
    """Whether this kernel shares the processor between sessions."""
    setting = Path("/proc/sys/kernel/sched_autogroup_enabled")
    return setting.exists() and setting.read_text().strip() == "1"


@pytest.mark.skipif(not sessions_have_priorities(), reason="sessions have no priority here")
def test_the_session_of_a_child_has_the_priority_of_its_parent():
    program = """
from slsgd_mx.system.processes import Child
child = Child(1)
child.send({"do": ""})
child.read()
print(open(f"/proc/{child.process.pid}/autogroup").read())
child.close()
child.process.wait()
"""
    command = ["nice", "-n", "5", sys.executable, "-c", program]
    out = subprocess.run(command, env=environment(1), capture_output=True, text=True, check=True)
    assert out.stdout.split()[-2:] == ["nice", str(min(19, os.nice(0) + 5))]
