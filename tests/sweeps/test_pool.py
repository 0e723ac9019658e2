"""Jobs in child processes: jobs that fail, processes that die, data that is missing, Ctrl-C."""

import json
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
from helpers.run_folders import interrupt

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import InUseError
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.sweeps import job as jobs_module
from slsgd_mx.sweeps.pool import RETRIES, Job, Pool
from slsgd_mx.system.processes import Child
from slsgd_mx.system.threads import thread_count

pytestmark = pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest

NO_END = 100_000  # epochs


@pytest.fixture(scope="module")
def pool():
    """One process at a time, so that jobs start in order; tests leave it idle."""
    with Pool(processes=1, threads=1) as opened:
        yield opened


@pytest.fixture
def small(tiny):
    """``small(**changes)``: one epoch of two devices."""
    few = dict(n=4, k=2, epochs=1, warm_up=False)
    return lambda **changes: tiny(**{**few, **changes})


@pytest.fixture
def job(small, tmp_path):
    """``job(name, ...)``: train in the folder of that name, with a changed configuration."""

    def job(name, needs=None, group="", config=None, folder=None, **changes):
        message = {
            "do": "slsgd_mx.sweeps.job:train",
            "config": (config or small(**changes)).to_json(),
            "folder": str(tmp_path / (folder or name)),
            "prefix": None if needs is None else str(tmp_path / needs),
            "data_dir": str(tmp_path / "no data"),
            "log": str(tmp_path / "logs" / f"{name}.log"),
        }
        return Job(name, message, needs, group)

    return job


class Recorder:
    """A listener that records the reports, and the process of each job."""

    def __init__(self, pool):
        self.pool, self.events, self.processes = pool, [], {}

    def __call__(self, job, message):
        self.events.append((job.name, message["event"], message.get("epoch")))
        for one in self.pool.busy:
            self.processes[one.job.name] = one.process.pid


def statuses(results):
    return {name: result.status for name, result in results.items()}


def test_a_job_waits_for_the_one_it_needs(pool, job, tmp_path):
    recorder = Recorder(pool)
    later = dict(epochs=3, alpha=0.5, alpha_decay_epoch=1)
    jobs = [job("branch", needs="beginning", **later), job("beginning", alpha_decay_epoch=1)]
    assert statuses(pool.run(jobs, recorder)) == {"beginning": "done", "branch": "done"}
    assert recorder.events == [
        ("beginning", "start", 0),
        ("beginning", "epoch", 1),
        ("beginning", "end", None),
        ("branch", "start", 1),
        ("branch", "epoch", 2),
        ("branch", "epoch", 3),
        ("branch", "end", None),
    ]
    assert len(set(recorder.processes.values())) == 1  # MXNet is loaded only once
    assert len(read_metrics(tmp_path / "branch")) == 3
    assert pool.busy == [] and len(pool.idle) == 1


def test_an_error_fails_its_own_job_only(pool, job, tmp_path):
    recorder = Recorder(pool)
    jobs = [job("run"), job("stranger", folder="run", seed=1), job("after", needs="stranger")]
    jobs += [Job("nonsense", {"do": "os:getcwd"}), job("next", seed=2)]
    results = pool.run(jobs, recorder)
    expected = dict(run="done", stranger="failed", after="skipped", nonsense="failed", next="done")
    assert statuses(results) == expected
    assert "holds another run (seed=0 there, 1 here)" in results["stranger"].why
    assert results["after"].why == "it starts after stranger, which failed"
    assert results["nonsense"].why.startswith("do='os:getcwd' is out of range: needs ")
    assert recorder.processes["run"] == recorder.processes["next"]
    assert not results["stranger"].ok and results["next"].ok
    assert not (tmp_path / "after").exists()


def test_a_diverged_run_and_those_that_start_from_it_are_results(pool, job, tmp_path):
    harm = dict(q=1, attack="nan", nonfinite="keep", alpha_decay_epoch=1)
    results = pool.run([job("first", **harm), job("second", needs="first", epochs=2, **harm)])
    assert statuses(results) == {"first": "diverged", "second": "diverged"}
    for name, result in results.items():
        assert result.ok and "stopped being finite or a metric became NaN in epoch 1" in result.why
        assert len(read_metrics(tmp_path / name)) == 1


def test_missing_data_is_reported_once(pool, job):
    """The rest of its group is skipped, other data is unaffected, and the next run tries again."""

    def jobs():
        real = [RunConfig(seed=seed) for seed in range(3)]
        assert real[0].sizes.data == "cifar10"
        first, second, third = (job(f"r{c.seed}", group="cifar10", config=c) for c in real)
        return [first, job("drawn", group="synthetic"), second, third]

    for _ in range(2):
        results = pool.run(jobs())
        assert statuses(results) == dict(r0="failed", drawn="done", r1="skipped", r2="skipped")
        assert results["r0"].why == results["r1"].why == results["r2"].why
        assert "no data" in results["r0"].why


def test_a_full_disk_stops_all_jobs(pool, job, tmp_path):
    """Whatever their data, the others would fail too; the next call tries again."""
    (tmp_path / "file").touch()
    jobs = [job("full", folder="file/run"), job("other", group="b"), job("third", needs="full")]
    results = pool.run(jobs)
    assert statuses(results) == dict(full="failed", other="skipped", third="skipped")
    assert results["full"].why == results["other"].why == results["third"].why
    assert "cannot write to" in results["full"].why
    assert statuses(pool.run([job("other")])) == {"other": "done"}


def test_output_goes_to_the_log_of_the_job(pool, job, small, tmp_path):
    """A warning that a run resumes with another number of threads; the traceback of a bug."""
    interrupt(small(epochs=2), tmp_path / "warned", 1)
    manifest = tmp_path / "warned" / "manifest.json"
    (session,) = json.loads(manifest.read_text())["sessions"]
    manifest.write_text(json.dumps({"sessions": [{**session, "threads": 7}]}))
    recorder = Recorder(pool)
    broken = job("broken")
    broken.message["folder"] = 3
    jobs = [job("quiet"), job("warned", epochs=2), broken, job("as quiet")]
    results = pool.run(jobs, recorder)
    assert [results[one.name].status for one in jobs] == ["done", "done", "failed", "done"]
    assert results["broken"].why.startswith("TypeError: ")
    assert ("warned", "start", 1) in recorder.events
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert set(logs) == {"warned.log", "broken.log"}
    assert "threads 7 -> 1" in logs["warned.log"]
    assert "Traceback" in logs["broken.log"] and "TypeError" in logs["broken.log"]


def test_a_job_waits_for_a_folder_in_use(pool, job, small, tmp_path, monkeypatch):
    holder, let_go = RunFolder(tmp_path / "run", small()), threading.Event()
    holder.__enter__()

    def release():
        let_go.set()
        holder.__exit__()

    def listen(job, message):
        assert message["event"] != "start" or let_go.is_set()

    pool.run([job("warm")])  # MXNet is loaded: the job below starts at once
    later = threading.Timer(0.5, release)
    later.start()
    assert statuses(pool.run([job("run")], listen)) == {"run": "done"}
    later.join()
    monkeypatch.setattr(jobs_module, "PATIENCE", 0)
    refused = pytest.raises(InUseError, match="held is in use by another process")
    with RunFolder(tmp_path / "held", small()), refused:
        jobs_module.train(job("held").message, lambda **message: None)


def test_a_job_waits_as_long_as_the_other_process_makes_progress(job, tmp_path, monkeypatch):
    """A row every 500 seconds for an hour, then none: the job gives up 600 seconds later."""
    now, table = [0], tmp_path / "held" / "metrics.csv"
    table.parent.mkdir()
    table.touch()

    def busy(*arguments, **options):
        hour = min(now[0], 3600)
        os.utime(table, (hour // 500, hour // 500))
        raise InUseError("held is in use by another process")

    def sleep(seconds):
        assert 0 < seconds <= 5
        now[0] += 10

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(jobs_module, "time", clock)
    monkeypatch.setattr(jobs_module, "_engine", lambda job: busy)
    with pytest.raises(InUseError):
        jobs_module.train(job("held").message, lambda **message: None)
    assert now[0] == 3500 + 610  # the last change was seen at 3500


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_killed_process_fails_its_job_only(pool, job, tmp_path, number):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "victim.log").write_text("of an earlier job\n")
    recorder, killed = Recorder(pool), []

    def kill(running, message):
        recorder(running, message)
        if recorder.events[-1][:2] == ("victim", "epoch"):
            (tmp_path / "logs" / "victim.log").write_text("its last line\n")
            killed.append(next(c for c in pool.busy if c.job.name == "victim").process.pid)
            os.kill(killed[-1], number)

    jobs = [job("victim", epochs=NO_END), job("after", needs="victim")]
    jobs += [job("last", needs="after"), job("other", seed=1)]
    results = pool.run(jobs, kill)
    expected = dict(victim="failed", after="skipped", last="skipped", other="done")
    assert statuses(results) == expected
    if number == signal.SIGKILL:
        assert len(set(killed)) == 1 + RETRIES
        assert "its process was killed by SIGKILL" in results["victim"].why
        assert results["victim"].why.endswith("victim.log ends with:\nits last line")
    else:
        assert "was told to stop" in results["victim"].why and "saved" in results["victim"].why
        assert newest_epoch(tmp_path / "victim" / "checkpoint") >= 1
    assert "starts after victim" in results["after"].why
    assert "starts after after" in results["last"].why
    assert recorder.processes["other"] != recorder.processes["victim"]
    assert ("victim", "end", None) in recorder.events and ("after", "end", None) in recorder.events


def test_a_job_whose_process_is_killed_once_is_resumed(pool, job, tmp_path, capsys):
    """Those that need it wait for it."""
    killed = []

    def kill(running, message):
        if running.name == "victim" and message["event"] == "epoch" and not killed:
            killed.append(pool.busy[0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    victim = job("victim", epochs=2, alpha_decay_epoch=2)
    later = dict(epochs=3, alpha=0.5, alpha_decay_epoch=2)
    results = pool.run([victim, job("after", needs="victim", **later)], kill)
    assert statuses(results) == dict(victim="done", after="done") and killed
    said = capsys.readouterr().err
    assert "victim: its process was killed by SIGKILL" in said and "is started again" in said


@pytest.mark.parametrize("at_once", [True, False])
def test_a_process_that_is_told_to_stop_when_its_job_has_ended(pool, job, monkeypatch, at_once):
    """It then reports two ends, of which the first counts, whether they are read at once or not."""
    read, told = Child.read, []

    def read_and_stop(child):
        messages = read(child)
        if messages and messages[-1]["event"] == "end" and not told:
            told.append(child.process.pid)
            child.process.terminate()
            while not child.has_reported():
                time.sleep(0.01)
            while at_once and not child.ended:
                messages += read(child)
            monkeypatch.setattr(child.process, "poll", lambda: None)  # it still ends
        return messages

    monkeypatch.setattr(Child, "read", read_and_stop)
    results = pool.run([job("first"), job("second", seed=1)])
    assert statuses(results) == dict(first="done", second="done") and told


def test_an_idle_process_that_died_is_replaced(pool, job):
    assert pool.run([job("first")])["first"].ok
    (idle,) = pool.idle
    idle.process.kill()
    idle.process.wait()
    assert pool.run([job("second", seed=1)])["second"].ok
    (now,) = pool.idle
    assert now.process.pid != idle.process.pid


@pytest.mark.parametrize("suspended", [False, True])
def test_leaving_a_pool_saves_and_its_threads_reach_the_process(job, small, tmp_path, suspended):
    """Ctrl-C in the middle of a run: the epochs computed are on disk, and the process has ended."""

    def stop(running, message):
        if message.get("epoch") == 2:
            if suspended:
                opened.busy[0].process.send_signal(signal.SIGSTOP)
            raise KeyboardInterrupt

    threads = 1 + thread_count() % 2  # another number than ours
    opened = Pool(processes=1, threads=threads)
    with pytest.raises(KeyboardInterrupt), opened:
        opened.run([job("run", epochs=NO_END)], stop)
    (one,) = opened.busy
    assert one.process.returncode is not None
    assert newest_epoch(tmp_path / "run" / "checkpoint") >= 2
    (session,) = json.loads((tmp_path / "run" / "manifest.json").read_text())["sessions"]
    assert session["threads"] == threads
    RunFolder(tmp_path / "run", small(epochs=NO_END)).check_free()


def test_a_child_whose_reports_nobody_reads_saves_and_exits(job, tmp_path):
    """This is how a child notices the end of its parent on systems that do not tell it."""
    child = Child(threads=1)
    child.send(job("run", epochs=NO_END).message)
    heard = []
    while len(heard) < 2:
        heard += child.read()
    assert heard[0] == {"event": "start", "epoch": 0}
    assert heard[1] == {"event": "epoch", "epoch": 1}
    child.close()
    assert child.process.wait(60) == 1
    assert newest_epoch(tmp_path / "run" / "checkpoint") >= 1
    assert not (tmp_path / "logs" / "run.log").exists()
