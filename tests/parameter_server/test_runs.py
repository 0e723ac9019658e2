"""Real processes on the loopback device compute the same bits as one process."""

import json
import signal
import sys

import pytest
from click.testing import CliRunner
from helpers.parameter_server import (
    COMMAND,
    PATIENCE,
    SMOKE,
    Roles,
    capture,
    environment,
    wait_until,
)
from helpers.run_folders import numbers

from slsgd_mx.cli import main
from slsgd_mx.errors import ConfigError, DataError, DivergedError
from slsgd_mx.parameter_server.launcher import Options, launch
from slsgd_mx.parameter_server.node import Cluster
from slsgd_mx.parameter_server.secret import new_secret
from slsgd_mx.rules import RULES, Rule, mean_rows
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train
from slsgd_mx.tasks.sizes import SIZES

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")


@pytest.fixture(scope="module")
def config(tiny):
    """With discarded and missing pushes, skipped epochs (2, 4 and 6) and a decay of alpha."""
    faults = dict(q=1, b=1, attack="nan", drop_rate=0.2, partition="unbalanced")
    return tiny(epochs=7, eval_every=3, alpha=0.5, alpha_decay_epoch=2, **faults)


@pytest.fixture(scope="module")
def alone(config, tmp_path_factory):
    return train(config, tmp_path_factory.mktemp("alone") / "run")


@pytest.mark.parametrize("workers, servers, memory", [(1, 1, "1GB"), (3, 2, "0"), (2, 3, "1GB")])
def test_any_number_of_workers_and_servers_gives_the_same_bytes(
    config, alone, tmp_path, workers, servers, memory, monkeypatch
):
    """Also if the servers keep the pushes in files."""
    monkeypatch.setenv("SLSGD_MX_SLOT_MEMORY", memory)
    heard = []
    options = Options(workers, servers)
    result = launch(config, tmp_path / "run", listener=heard.append, options=options)
    assert numbers(result.folder) == numbers(alone.folder)
    assert [progress.epoch for progress in heard] == list(range(8))
    assert [row["skipped"] for row in result.rows] == ["1", "2", "0"]
    assert [row["refused"] for row in result.rows] == ["3", "3", "1"]
    (session,) = RunFolder(result.folder, config).sessions()
    assert (session["engine"], session["workers"], session["servers"]) == ("ps", workers, servers)
    logs = {path.stem for path in (result.folder / "logs").iterdir()}
    names = {f"worker-{n}" for n in range(workers)} | {f"server-{n}" for n in range(servers)}
    assert logs == names | {"scheduler"}
    assert not list(result.folder.glob("slots*"))


def test_bytes_and_seconds_are_in_the_metrics(tiny, tmp_path):
    """An epoch moves k pushes and W pulls of the model, and very little else."""
    config = tiny(epochs=4, eval_every=1, width=32)
    result = launch(config, tmp_path / "run", options=Options(2, 1))
    size = sum(value.nbytes for value in RunFolder(result.folder, config).model().values())
    for row in result.rows[1:]:  # the first includes the start
        assert float(row["training_seconds"]) > 0 and float(row["transfer_seconds"]) > 0
        assert float(row["aggregation_seconds"]) > 0
        assert 1 <= int(row["bytes_sent"]) / ((config.k + 2) * size) < 1.05


@pytest.mark.parametrize("tiny", sorted(set(SIZES) - {"cifar"}), indirect=True)
def test_other_tasks_too(tiny, tmp_path):
    config = tiny(epochs=3, q=1, b=1, alpha=0.5, alpha_decay_epoch=1)
    alone = train(config, tmp_path / "alone")
    result = launch(config, tmp_path / "run", options=Options(2, 2))
    assert numbers(result.folder) == numbers(alone.folder)


def test_a_backdoor_is_planted_and_measured_by_all_workers(tiny, tmp_path):
    config = tiny(q=2, attack="backdoor:factor=2", test_images=60)
    alone = train(config, tmp_path / "alone")
    assert {"attack_success", "accuracy_9"} < set(alone.rows[-1])
    result = launch(config, tmp_path / "run", options=Options(2, 2))
    assert numbers(result.folder) == numbers(alone.folder)


def test_one_engine_resumes_the_run_of_the_other(config, alone, tmp_path):
    def stop(progress):
        if progress.epoch == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(config, tmp_path / "run", listener=stop)
    assert train(config, tmp_path / "run").resumed_from >= 4
    assert numbers(tmp_path / "run") == numbers(alone.folder)


def test_diverged_run_ends_for_all_workers(tiny, tmp_path):
    config = tiny(q=1, attack="nan", nonfinite="keep", epochs=5)
    for _ in range(2):  # the second time without computing anything
        with pytest.raises(
            DivergedError, match="stopped being finite or a metric became NaN in epoch 1"
        ):
            launch(config, tmp_path / "run")
        assert [row["epoch"] for row in read_metrics(tmp_path / "run")] == ["1"]


def test_missing_data_is_an_error_without_restarts(tiny, tmp_path):
    with pytest.raises(DataError, match="nowhere"):
        launch(tiny(data="cifar10"), tmp_path / "run", tmp_path / "nowhere", options=Options(1))


def test_whole_model_rules_need_one_server(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(RULES, "nearest", Rule("a rule", mean_rows, whole=True))
    with pytest.raises(ConfigError, match="'nearest' compares whole models.*needs servers = 1"):
        launch(tiny(rule="nearest"), tmp_path / "run", options=Options(2, 2))
    assert not (tmp_path / "run").exists()


# ---- the command line ----------------------------------------------------------------------

WORDS = ["cifar", *SMOKE.split(), "--epochs", "3", "--eval-every", "1", "--q", "1", "--b", "1"]


def call(*words):
    return capture(sys.executable, "-c", COMMAND, *words)


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """``WORDS`` run as a command in one process: the run folder and the output."""
    folder = tmp_path_factory.mktemp("command") / "run"
    done = call(*WORDS, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder, done.stdout


def test_launch_command(command, tmp_path):
    alone, output = command
    words = [*WORDS, "--out", tmp_path / "run"]
    launched = call("launch", "--workers", 2, "--servers", 2, "--", *words)
    assert launched.returncode == 0, launched.stderr
    assert "run folder:" in launched.stdout and "3/3" in launched.stderr
    assert "epoch 3/3: train loss" in launched.stderr and "worker" not in launched.stderr
    assert numbers(tmp_path / "run") == numbers(alone)
    assert output.splitlines()[0] == launched.stdout.splitlines()[0]
    again = call("launch", "--", *words)
    assert again.returncode == 0 and "already done" in again.stdout


@pytest.mark.parametrize(
    "words, message",
    [
        (["launch"], "after -- comes a training command (cifar, lstm"),
        (["launch", "--", "fig3"], "not 'fig3'"),
        (["launch", "--workers", "0", "--", "cifar"], "0 is not in the range 1<=x<=10000"),
        (["launch", "--patience", "1", "--", "cifar"], "patience=1 is out of range: needs"),
        (["launch", "--deadline", "-2", "--", "cifar"], "deadline=-2 is out of range: needs"),
        (["launch", "--", "cifar", "--b", "9"], "b=9 is out of range for k=10"),
        (["dist", "server"], "DMLC_NUM_WORKER is not set"),
        (["dist", "worker", "--", "cifar", "--repeats", "2"], "start one job for each --seed"),
        (["fig3", "--workers", "2"], "--workers and --servers go with --engine ps"),
    ],
)
def test_wrong_calls_name_the_legal_values(words, message):
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2 and isinstance(done.exception, SystemExit)
    assert message in done.output


def test_a_missing_secret_is_a_wrong_call():
    cluster = Cluster(1, 1, "127.0.0.1", 9).variables("server")
    words = [sys.executable, "-c", COMMAND, "dist", "server"]
    done = capture(*words, env=environment(**cluster, SLSGD_MX_SECRET=""))
    assert done.returncode == 2 and "SLSGD_MX_SECRET is not set: give all" in done.stderr


def test_a_figure_on_the_parameter_server(tmp_path):
    sizes = f"{SMOKE} --epochs 2 --eval-every 1 --no-warm-up --alphas 1 --loss 2"
    for engine, flags in {"local": [], "ps": ["--workers", "1"]}.items():
        places = ["--runs", tmp_path / engine / "runs", "--figures", tmp_path / engine / "pictures"]
        done = call("fig6", *sizes.split(), "--engine", engine, *flags, *places)
        assert done.returncode == 0, done.stderr
    tables = [tmp_path / engine / "pictures" / "fig06.csv" for engine in ("local", "ps")]
    assert tables[0].read_bytes() == tables[1].read_bytes()
    runs = [path.parent for path in (tmp_path / "ps" / "runs").glob("*/config.json")]
    assert len(runs) == 3
    for folder in runs:
        sessions = json.loads((folder / "manifest.json").read_text())["sessions"]
        assert sessions[-1]["engine"] == "ps"
        assert numbers(folder) == numbers(tmp_path / "local" / "runs" / folder.name)


# ---- roles one by one ----------------------------------------------------------------------


@pytest.fixture
def roles(request, tmp_path):
    started = Roles(tmp_path, workers=2, servers=getattr(request, "param", 1))
    yield started
    started.stop()


two_servers = pytest.mark.parametrize("roles", [2], indirect=True)


@two_servers
def test_roles_started_one_by_one(roles, command, tmp_path):
    roles.start_all([*WORDS, "--out", tmp_path / "run"])
    assert set(roles.wait().values()) == {0}
    assert numbers(tmp_path / "run") == numbers(command[0])
    assert roles.say("run folder:", "worker 0 has ended; it has the results") == [1, 1]


def test_workers_with_another_configuration_are_rejected(roles, tmp_path):
    words = [*WORDS, "--out", tmp_path / "run"]
    roles.start_all(words, patience=6, different=["--seed", 1])
    codes = roles.wait()
    assert 2 in codes.values() and 0 not in [codes["worker-0"], codes["worker-1"]]
    assert roles.say("would not compute the same as worker 0") == [1]


def test_workers_with_another_secret_are_rejected(roles, tmp_path):
    words = [*WORDS, "--out", tmp_path / "run"]
    roles.start_all(words, patience=6, secrets={"worker-1": new_secret()})
    codes = roles.wait()
    assert 0 not in [codes["worker-0"], codes["worker-1"]]
    follower = "this worker would not compute the same as worker 0"  # worker-1 is either
    coordinator = "a server did not accept its shard of the model"
    assert sum(roles.say(follower, coordinator)) >= 1
    assert not (tmp_path / "run" / "metrics.csv").exists() or not read_metrics(tmp_path / "run")


def test_superfluous_worker_does_not_disturb_the_run(roles, tmp_path):
    words = [*WORDS, "--epochs", 60, "--out", tmp_path / "run"]
    roles.start_all(words)
    wait_until(lambda: read_metrics(tmp_path / "run"), "the first epoch")
    extra = roles.start("worker-extra", "dist", "worker", "--", *words)
    others = [process for process in roles.processes.values() if process is not extra]
    assert {process.wait(PATIENCE) for process in others} == {0}
    assert (tmp_path / "run" / "DONE").exists()
    assert extra.poll() in (None, 75)  # it waits for a place, or has given up


@two_servers
def test_all_roles_exit_after_a_server_was_terminated(roles, tmp_path):
    roles.start_all([*WORDS, "--epochs", 5000, "--out", tmp_path / "run"], patience=6)
    wait_until(lambda: read_metrics(tmp_path / "run"), "the first epoch")
    roles.processes["server-1"].terminate()
    codes = roles.wait()
    assert codes.pop("server-1") == -signal.SIGTERM
    assert set(codes.values()) == {75}


OWN_RULE = """
from slsgd_mx.cli import main
from slsgd_mx.rules import RULES
RULES["mine"] = RULES["mean"]
main(prog_name="slsgd-mx")
"""


def test_server_that_cannot_start_ends_the_run(roles, tmp_path):
    """The workers know a rule that the servers do not: all exit, and the logs say why."""
    words = [*WORDS[:-2], "--rule", "mine", "--out", tmp_path / "run"]
    roles.start_all(words, patience=6, code=OWN_RULE)
    codes = roles.wait()
    assert sorted(codes[f"worker-{number}"] for number in range(2)) == [1, 75]
    assert roles.say("a server did not accept its shard of the model") == [1]
    assert "rule='mine' is unknown" in roles.log("server-0").read_text()
