"""Worker processes: jobs that fail, processes that die, data that is missing, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import slsgd_mx
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import InUseError
from slsgd_mx.runs.checkpoints import newest_epoch
from slsgd_mx.runs.folder import RunStore
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train
from slsgd_mx.sweeps import job as worker
from slsgd_mx.sweeps.pool import Job, Pool
from slsgd_mx.system.threads import thread_count

on_text = pytest.mark.parametrize("tiny", ["lstm"], indirect=True)  # the quicker one

NO_END = 100_000  # epochs


@pytest.fixture(scope="module")
def pool():
    """One process at a time, so that jobs begin in their order; tests leave it idle."""
    with Pool(processes=1, threads=1) as opened:
        yield opened


@pytest.fixture
def small(tiny):
    """``small(**changes)``: one epoch of two devices."""

    def small(**changes):
        few = dict(n=4, k=2, epochs=1, loss_batches=2, warm_up=False)
        return tiny(**{**few, **changes})

    return small


@pytest.fixture
def job(small, tmp_path):
    """``job(name, ...)``: train in the folder of that name, with changes of the configuration."""

    def job(name, needs=None, group="", config=None, folder=None, **changes):
        message = {
            "do": "train",
            "config": (config or small(**changes)).to_json(),
            "folder": str(tmp_path / (folder or name)),
            "prefix": None if needs is None else str(tmp_path / needs),
            "data_dir": str(tmp_path / "no data"),
            "log": str(tmp_path / "logs" / f"{name}.log"),
        }
        return Job(name, message, needs, group)

    return job


class Ear:
    """A listener that keeps what it heard, and by which process."""

    def __init__(self, pool):
        self.pool, self.events, self.processes = pool, [], {}

    def __call__(self, job, message):
        self.events.append((job.name, message["event"], message.get("epoch")))
        for one in self.pool.busy:
            self.processes[one.job.name] = one.process.pid


def statuses(results):
    return {name: result.status for name, result in results.items()}


# ---- jobs ----------------------------------------------------------------------------------


@on_text
def test_a_job_waits_for_the_one_it_needs(pool, job, tmp_path):
    ear = Ear(pool)
    later = dict(epochs=3, alpha=0.5, alpha_decay_epoch=1)
    jobs = [job("branch", needs="beginning", **later), job("beginning", alpha_decay_epoch=1)]
    assert statuses(pool.run(jobs, ear)) == {"beginning": "done", "branch": "done"}
    assert ear.events == [
        ("beginning", "start", 0),
        ("beginning", "epoch", 1),
        ("beginning", "end", None),
        ("branch", "start", 1),
        ("branch", "epoch", 2),
        ("branch", "epoch", 3),
        ("branch", "end", None),
    ]
    assert ear.processes["branch"] == ear.processes["beginning"]  # MXNet is loaded only once
    assert len(read_metrics(tmp_path / "branch")) == 3
    assert pool.busy == [] and len(pool.idle) == 1


@on_text
def test_an_error_is_the_result_of_its_job_alone(pool, job, tmp_path):
    ear = Ear(pool)
    results = pool.run(
        [
            job("run"),
            job("stranger", folder="run", seed=1),
            job("after", needs="stranger"),
            Job("nonsense", {"do": "nonsense"}),
            job("next", seed=2),
        ],
        ear,
    )
    assert statuses(results) == {
        "run": "done",
        "stranger": "failed",
        "after": "skipped",
        "nonsense": "failed",
        "next": "done",
    }
    assert "holds another run (seed=0 there, 1 here)" in results["stranger"].why
    assert results["after"].why == "it begins after stranger, which failed"
    assert results["nonsense"].why == "KeyError: 'nonsense'"
    assert ear.processes["run"] == ear.processes["next"]
    assert not results["stranger"].ok and results["next"].ok
    assert not (tmp_path / "after").exists()


@on_text
def test_a_run_that_diverges_is_a_result_and_so_are_those_after_it(pool, job, tmp_path):
    harm = dict(q=1, attack="nan", nonfinite="keep", alpha_decay_epoch=1)
    results = pool.run([job("first", **harm), job("second", needs="first", epochs=2, **harm)])
    assert statuses(results) == {"first": "diverged", "second": "diverged"}
    for name, result in results.items():
        assert result.ok and "stopped being finite in epoch 1" in result.why
        assert len(read_metrics(tmp_path / name)) == 1


@on_text
def test_missing_data_is_found_out_once(pool, job):
    """The rest of its group is not tried; other data are not concerned; next time it is."""

    def jobs():
        real = [RunConfig(seed=seed) for seed in range(3)]
        assert real[0].sizes.data == "cifar10"
        first, second, third = (job(f"r{c.seed}", group="cifar10", config=c) for c in real)
        return [first, job("drawn", group="synthetic"), second, third]

    for _ in range(2):
        results = pool.run(jobs())
        assert statuses(results) == {
            "r0": "failed",
            "drawn": "done",
            "r1": "skipped",
            "r2": "skipped",
        }
        assert results["r0"].why == results["r1"].why == results["r2"].why
        assert "no data" in results["r0"].why


@on_text
def test_what_is_said_goes_to_the_log_of_the_job(pool, job, small, tmp_path):
    """Here, that a run goes on with another number of threads; and an error of ours."""

    def stop(progress):
        if progress.epoch == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(small(epochs=2), tmp_path / "warned", listener=stop)
    manifest = tmp_path / "warned" / "manifest.json"
    (session,) = json.loads(manifest.read_text())["sessions"]
    manifest.write_text(json.dumps({"sessions": [{**session, "threads": 7}]}))
    ear = Ear(pool)
    broken = job("broken")
    broken.message["folder"] = 3
    jobs = [job("quiet"), job("warned", epochs=2), broken, job("as quiet")]
    results = pool.run(jobs, ear)
    assert [results[one.name].status for one in jobs] == ["done", "done", "failed", "done"]
    assert results["broken"].why.startswith("TypeError: ")
    assert ("warned", "start", 1) in ear.events
    logs = {path.name: path.read_text() for path in (tmp_path / "logs").iterdir()}
    assert set(logs) == {"warned.log", "broken.log"}
    assert "threads 7 -> 1" in logs["warned.log"]
    assert "Traceback" in logs["broken.log"] and "TypeError" in logs["broken.log"]


@on_text
def test_a_folder_that_is_still_held_is_waited_for(pool, job, small, tmp_path, monkeypatch):
    holder, let_go = RunStore(tmp_path / "run", small()), threading.Event()
    holder.__enter__()

    def release():
        let_go.set()
        holder.__exit__()

    def listen(job, message):
        assert message["event"] != "start" or let_go.is_set()

    pool.run([job("warm")])  # MXNet is loaded: the job below begins at once
    later = threading.Timer(0.5, release)
    later.start()
    assert statuses(pool.run([job("run")], listen)) == {"run": "done"}
    later.join()
    monkeypatch.setattr(worker, "PATIENCE", 0)
    refused = pytest.raises(InUseError, match="held is in use by another process")
    with RunStore(tmp_path / "held", small()), refused:
        worker._train_patiently(job("held").message, lambda progress: None)


# ---- processes -----------------------------------------------------------------------------


@on_text
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["SIGKILL", "SIGTERM"])
def test_a_killed_process_fails_its_job_only(pool, job, tmp_path, number):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "victim.log").write_text("of another time\n")
    ear = Ear(pool)

    def kill(running, message):
        ear(running, message)
        if ear.events[-1] == ("victim", "epoch", 1):
            (tmp_path / "logs" / "victim.log").write_text("its last words\n")
            os.kill(pool.busy[0].process.pid, number)

    jobs = [
        job("victim", epochs=NO_END),
        job("after", needs="victim"),
        job("after that", needs="after"),
        job("other", seed=1),
    ]
    results = pool.run(jobs, kill)
    assert statuses(results) == {
        "victim": "failed",
        "after": "skipped",
        "after that": "skipped",
        "other": "done",
    }
    if number == signal.SIGKILL:
        assert "its process was killed by SIGKILL" in results["victim"].why
        assert results["victim"].why.endswith("victim.log ends with:\nits last words")
    else:
        assert "was told to stop" in results["victim"].why and "saved" in results["victim"].why
        assert newest_epoch(tmp_path / "victim" / "checkpoint") >= 1
    assert "begins after victim" in results["after"].why
    assert "begins after after" in results["after that"].why
    assert ear.processes["other"] != ear.processes["victim"]
    assert ("victim", "end", None) in ear.events and ("after", "end", None) in ear.events


@on_text
def test_an_idle_process_that_died_is_replaced(pool, job):
    assert pool.run([job("first")])["first"].ok
    (idle,) = pool.idle
    idle.process.kill()
    idle.process.wait()
    assert pool.run([job("second", seed=1)])["second"].ok
    (now,) = pool.idle
    assert now.process.pid != idle.process.pid


@on_text
def test_threads_reach_the_process_and_leaving_lets_it_save(job, small, tmp_path):
    """Ctrl-C in the middle of a run: what was computed is on disk, and the process is gone."""

    def stop(running, message):
        if message.get("epoch") == 2:
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
    with RunStore(
        tmp_path / "run", RunConfig.from_json(job("run", epochs=NO_END).message["config"])
    ):
        pass  # nobody holds it


@pytest.fixture
def alone():
    """A worker process without a pool."""
    home = str(Path(slsgd_mx.__file__).parent.parent)
    path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-m", "slsgd_mx.sweeps.job"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
    )
    yield process
    process.kill()
    process.wait()


def test_a_process_ends_with_its_input(alone):
    said = alone.communicate(b'{"do": "dance"}\n{"do": "sing"}\n', timeout=60)[0]
    messages = [json.loads(line) for line in said.splitlines()]
    assert [message["why"] for message in messages] == ["KeyError: 'dance'", "KeyError: 'sing'"]
    assert {(message["event"], message["status"]) for message in messages} == {("end", "failed")}
    assert alone.returncode == 0


@on_text
def test_a_process_that_nobody_listens_to_saves_and_ends(alone, job, tmp_path):
    """What tells it that its pool is gone where the system does not."""
    alone.stdin.write(json.dumps(job("run", epochs=NO_END).message).encode() + b"\n")
    alone.stdin.flush()
    assert json.loads(alone.stdout.readline()) == {"event": "start", "epoch": 0}
    assert json.loads(alone.stdout.readline()) == {"event": "epoch", "epoch": 1}
    alone.stdout.close()
    assert alone.wait(60) == 1
    assert newest_epoch(tmp_path / "run" / "checkpoint") >= 1
    assert not (tmp_path / "logs" / "run.log").exists()
