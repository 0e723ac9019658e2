"""Real processes over loopback compute what one process does, to the bit."""

import json
import signal
import subprocess
import sys

import pytest
from helpers.parameter_server import COMMAND, Roles, environment, wait_until
from helpers.run_folders import numbers

from slsgd_mx.errors import ConfigError, DataError, DivergedError
from slsgd_mx.parameter_server.launcher import Options, launch
from slsgd_mx.rules import trimmed_mean as aggregation
from slsgd_mx.runs.folder import RunStore
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train
from slsgd_mx.tasks.sizes import SIZES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")


@pytest.fixture(scope="module")
def config(tiny):
    """Attacked, with pushes refused, epochs without enough of them, and a decay of alpha."""
    faults = dict(q=1, b=1, attack="nan", drop_rate=0.2, partition="unbalanced")
    return tiny(epochs=7, eval_every=3, alpha=0.5, alpha_decay_epoch=2, **faults)


@pytest.fixture(scope="module")
def alone(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("alone") / "run")


@pytest.mark.parametrize("workers, servers", [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_any_number_of_workers_and_servers_gives_the_same_bytes(
    config, alone, tmp_path, workers, servers
):
    heard = []
    result = launch(
        config, tmp_path / "run", listener=heard.append, options=Options(workers, servers)
    )
    assert numbers(result.folder) == numbers(alone.folder)
    assert [progress.epoch for progress in heard] == list(range(8))
    assert {"1", "0"} & {row["skipped"] for row in result.rows}  # faults there were
    assert sum(int(row["refused"]) for row in result.rows) == 7
    (session,) = RunStore(result.folder, config).sessions()
    assert (session["engine"], session["workers"], session["servers"]) == ("ps", workers, servers)
    logs = {path.stem for path in (result.folder / "logs").iterdir()}
    names = {f"worker-{n}" for n in range(workers)} | {f"server-{n}" for n in range(servers)}
    assert logs == names | {"scheduler"}


def test_bytes_and_seconds_are_in_the_metrics(tiny, tmp_path):
    """k pushes and W pulls of the model an epoch, and next to nothing else."""
    config = tiny(epochs=4, eval_every=1, width=32)
    result = launch(config, tmp_path / "run", options=Options(2, 2))
    size = sum(value.nbytes for value in RunStore(result.folder, config).model().values())
    for row in result.rows[1:]:  # the first has the start in it
        assert float(row["training_seconds"]) > 0 and float(row["transfer_seconds"]) > 0
        assert float(row["aggregation_seconds"]) > 0
        assert 1 <= int(row["bytes_sent"]) / ((config.k + 2) * size) < 1.05


@pytest.mark.parametrize("tiny", sorted(set(SIZES) - {"cifar"}), indirect=True)
def test_other_tasks_too(tiny, tmp_path):
    config = tiny(epochs=3, q=1, b=1, alpha=0.5, alpha_decay_epoch=1)
    alone = train(config, tmp_path / "alone")
    result = launch(config, tmp_path / "run", options=Options(2, 2))
    assert numbers(result.folder) == numbers(alone.folder)


def test_one_engine_goes_on_where_the_other_stopped(config, alone, tmp_path):
    def stop(progress):
        if progress.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(config, tmp_path / "run", listener=stop, options=Options(2, 1))
    assert train(config, tmp_path / "run").resumed_from >= 4
    assert numbers(tmp_path / "run") == numbers(alone.folder)


def test_a_run_that_diverges_ends_for_everybody(tiny, tmp_path):
    config = tiny(q=1, attack="nan", nonfinite="keep", epochs=5)
    with pytest.raises(DivergedError, match="stopped being finite in epoch 1"):
        launch(config, tmp_path / "run", options=Options(2, 1))
    assert [row["epoch"] for row in read_metrics(tmp_path / "run")] == ["1"]
    with pytest.raises(DivergedError):  # and says so again at once
        launch(config, tmp_path / "run", options=Options(2, 1))


def test_missing_data_is_said_once_and_not_tried_again(tiny, tmp_path):
    config = tiny(data="cifar10")
    with pytest.raises(DataError, match="nowhere"):
        launch(config, tmp_path / "run", tmp_path / "nowhere", options=Options(2, 1))


def test_rules_for_whole_models_need_one_server(tiny, tmp_path, monkeypatch):
    rule = aggregation.Rule(aggregation.mean_rows, "a rule", coordinate_wise=False)
    monkeypatch.setitem(aggregation.RULES, "nearest", rule)
    with pytest.raises(ConfigError, match="'nearest' compares whole models.*needs servers = 1"):
        launch(tiny(rule="nearest"), tmp_path / "run", options=Options(2, 2))
    assert not (tmp_path / "run").exists()


# ---- the command line ----------------------------------------------------------------------

SIZES = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"


def call(*words, **options):
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, words)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def test_launch_and_what_it_says(tmp_path):
    words = ["cifar", *SIZES.split(), "--epochs", "3", "--b", "1", "--q", "1", "--out"]
    launched = call("launch", "--workers", 2, "--servers", 2, "--", *words, tmp_path / "launched")
    assert launched.returncode == 0, launched.stderr
    assert "run folder:" in launched.stdout and "3/3" in launched.stderr
    assert launched.stderr.count("images/s") >= 1 and "worker" not in launched.stderr
    alone = call(*words, tmp_path / "alone")
    assert numbers(tmp_path / "launched") == numbers(tmp_path / "alone")
    assert alone.stdout.splitlines()[0] == launched.stdout.splitlines()[0]
    again = call("launch", "--", *words, tmp_path / "launched")
    assert again.returncode == 0 and "already done" in again.stdout


@pytest.mark.parametrize(
    "words, message",
    [
        (["launch"], "after -- comes a training command (cifar, lstm"),
        (["launch", "--", "fig3"], "not 'fig3'"),
        (["launch", "--workers", "0", "--", "cifar"], "0 is not in the range x>=1"),
        (["launch", "--patience", "1", "--", "cifar"], "patience=1 is out of range: needs"),
        (["launch", "--deadline", "-2", "--", "cifar"], "deadline=-2 is out of range: needs"),
        (["launch", "--", "cifar", "--b", "9"], "b=9 is out of range for k=10"),
        (["dist", "server"], "DMLC_NUM_WORKER is not set"),
        (["dist", "worker", "--", "cifar", "--repeats", "2"], "give each job its own --seed"),
        (["fig3", "--workers", "2"], "--workers and --servers go with --engine ps"),
    ],
)
def test_wrong_calls_say_what_is_legal(words, message):
    done = call(*words)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert message in done.stderr


def test_a_figure_on_the_parameter_server(tmp_path):
    sizes = f"{SIZES} --epochs 2 --eval-every 1 --no-warm-up --alphas 1 --loss 2"
    for engine, flags in {"local": [], "ps": ["--workers", "2"]}.items():
        places = ["--runs", tmp_path / engine / "runs", "--out", tmp_path / engine / "pictures"]
        done = call("fig6", *sizes.split(), "--engine", engine, *flags, *places)
        assert done.returncode == 0, done.stderr
    tables = [tmp_path / engine / "pictures" / "fig06.csv" for engine in ("local", "ps")]
    assert tables[0].read_bytes() == tables[1].read_bytes()
    runs = [path for path in (tmp_path / "ps" / "runs").iterdir() if path.name != "logs"]
    assert len(runs) == 3
    for folder in runs:
        sessions = json.loads((folder / "manifest.json").read_text())["sessions"]
        assert sessions[-1]["engine"] == "ps"
        assert numbers(folder) == numbers(tmp_path / "local" / "runs" / folder.name)


# ---- roles one by one ----------------------------------------------------------------------


@pytest.fixture
def roles(tmp_path):
    started = Roles(tmp_path, workers=2, servers=2)
    yield started
    started.stop()


WORDS = ["cifar", *SIZES.split(), "--epochs", "3", "--eval-every", "1", "--q", "1", "--b", "1"]


def test_roles_placed_by_somebody_else(roles, tmp_path):
    out = ["--out", tmp_path / "run"]
    roles.start("scheduler", "dist", "scheduler")
    for number in range(2):
        roles.start(f"server-{number}", "dist", "server")
        roles.start(f"worker-{number}", "dist", "worker", "--", *WORDS, *out)
    assert set(roles.wait().values()) == {0}
    call(*WORDS, "--out", tmp_path / "alone")
    assert numbers(tmp_path / "run") == numbers(tmp_path / "alone")
    said = [roles.log(f"worker-{number}").read_text() for number in range(2)]
    assert sum("run folder:" in text for text in said) == 1
    assert sum("worker 0 has ended; it has the results" in text for text in said) == 1


def test_workers_that_compute_something_else_are_refused(roles, tmp_path):
    roles.start("scheduler", "dist", "scheduler", "--patience", 6)
    for number in range(2):
        roles.start(f"server-{number}", "dist", "server", "--patience", 6)
        words = [*WORDS, "--seed", number, "--out", tmp_path / "run"]
        roles.start(f"worker-{number}", "dist", "worker", "--patience", 6, "--", *words)
    codes = roles.wait()
    assert 2 in codes.values() and 0 not in [codes["worker-0"], codes["worker-1"]]
    said = [roles.log(f"worker-{number}").read_text() for number in range(2)]
    assert sum("not about to compute what worker 0 does" in text for text in said) == 1


GARBAGE = """
import pickle, sys
import numpy as np
from slsgd_mx._mxnet import mx
from slsgd_mx.arrays import as_ndarray
from slsgd_mx.cli import main
from slsgd_mx.dist import client
from slsgd_mx.parameter_server.protocol import MODEL, STATUS, key_on, status_size

class Bomb:
    def __reduce__(self):
        return (open, (sys.argv[1], "w"))

push = client.DistributedServer.push

def push_rubbish_too(self, key, value, slot):
    kv, servers, k = self.node.kv, self.node.cluster.servers, self.settings.k
    if not self._slots._arrived[slot]:
        for text in ("", "rubbish {", "[]", '{"do": "reboot"}', '{"do": "commit"}', "\\x00\\xff",
                     '{"do": "commit", "epoch": 999, "alpha": 1, "accepted": [], "refused": [],'
                     ' "applied": false}', pickle.dumps(Bomb(), 0).decode("latin-1")):
            for head in (0, 1, 6, 77):
                kv._send_command_to_servers(head, text)
        sizes = [memory.size for memory in self._pieces.memory]
        epoch = self.epoch + 1
        for header in ((epoch, k), (epoch, -7), (epoch, 0.5), (np.nan, slot), (epoch + 1, slot),
                       (epoch - 1, slot), (np.inf, np.inf)):
            arrays = [as_ndarray(np.full(size, np.nan, np.float32)) for size in sizes]
            for array in arrays:
                array[:2] = mx.nd.array(header)
            self._wire.push([key_on(s, servers, MODEL) for s in range(servers)], arrays)
        noise = np.full(status_size(k), np.nan, np.float32)
        self._wire.push([key_on(0, servers, STATUS)], [as_ndarray(noise)])
    push(self, key, value, slot)

client.DistributedServer.push = push_rubbish_too
sys.argv[1:] = sys.argv[2:]
main(prog_name="slsgd-mx")
"""


def test_rubbish_is_logged_and_changes_nothing(roles, tmp_path):
    """Commands that are none, pickles, pushes of garbage to slots that are none: ignored."""
    roles.start("scheduler", "dist", "scheduler")
    for number in range(2):
        roles.start(f"server-{number}", "dist", "server")
        words = [tmp_path / "bomb", "dist", "worker", "--", *WORDS, "--out", tmp_path / "run"]
        roles.start(f"worker-{number}", *words, code=GARBAGE)
    assert set(roles.wait().values()) == {0}
    call(*WORDS, "--out", tmp_path / "alone")
    assert numbers(tmp_path / "run") == numbers(tmp_path / "alone")
    assert not (tmp_path / "bomb").exists()
    log = roles.log("server-0").read_text()
    for text in ("no JSON", "unknown command 'reboot'", "slot=4, not 0 <= slot < 4", "epoch 999"):
        assert text in log, log[-3000:]
    assert "Traceback" not in log


def test_one_worker_too_many_is_left_waiting(roles, tmp_path):
    roles.start("scheduler", "dist", "scheduler")
    for number in range(2):
        roles.start(f"server-{number}", "dist", "server")
    words = ["dist", "worker", "--", *WORDS, "--epochs", 60, "--out", tmp_path / "run"]
    for number in range(2):
        roles.start(f"worker-{number}", *words)
    wait_until(lambda: read_metrics(tmp_path / "run"), "the first epoch")
    extra = roles.start("worker-extra", *words)
    invited = [process for process in roles.processes.values() if process is not extra]
    assert {process.wait(60) for process in invited} == {0}
    assert (tmp_path / "run" / "DONE").exists() and extra.poll() is None


def test_a_server_told_to_stop_stops_and_so_do_all(roles, tmp_path):
    roles.start("scheduler", "dist", "scheduler", "--patience", 6)
    for number in range(2):
        roles.start(f"server-{number}", "dist", "server", "--patience", 6)
        words = [*WORDS, "--epochs", 5000, "--out", tmp_path / "run"]
        roles.start(f"worker-{number}", "dist", "worker", "--patience", 6, "--", *words)
    wait_until(lambda: read_metrics(tmp_path / "run"), "the first epoch")
    roles.processes["server-1"].terminate()
    codes = roles.wait()
    assert codes.pop("server-1") == -signal.SIGTERM
    assert set(codes.values()) == {75}


OWN_RULE = """
from slsgd_mx import aggregation
from slsgd_mx.cli import main
aggregation.RULES["mine"] = aggregation.RULES["mean"]
main(prog_name="slsgd-mx")
"""


def test_a_server_that_cannot_start_ends_the_run(roles, tmp_path):
    """A rule that workers know and servers do not: told, and nobody waits for ever."""
    roles.start("scheduler", "dist", "scheduler", "--patience", 6)
    words = [*WORDS[:-2], "--rule", "mine", "--out", tmp_path / "run"]
    for number in range(2):
        roles.start(f"server-{number}", "dist", "server", "--patience", 6)
        arguments = ["dist", "worker", "--patience", 6, "--", *words]
        roles.start(f"worker-{number}", *arguments, code=OWN_RULE)
    codes = roles.wait()
    assert sorted(codes[f"worker-{number}"] for number in range(2)) == [1, 75]
    said = [roles.log(f"worker-{number}").read_text() for number in range(2)]
    assert sum("a server did not take its part of the model" in text for text in said) == 1
    assert "rule='mine' is unknown" in roles.log("server-0").read_text()
