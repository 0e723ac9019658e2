"""``--json`` on every command that prints results: standard output is one document."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from slsgd_mx.cli import COMMANDS, main
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.trainer import train

TINY = "--preset smoke --train-images 80 --test-images 20 -n 8 -k 4 --batch-size 10 --width 2"


pytestmark = pytest.mark.usefixtures("elsewhere")


def call(line, code=0):
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout), result.stderr


def flags(command):
    return {flag for parameter in command.params for flag in parameter.opts}


def test_every_command_that_prints_results_has_the_option():
    silent = {"dist"}  # its roles report to each other
    for name in set(COMMANDS) - silent:
        command = main.get_command(None, name)
        subcommands = getattr(command, "commands", {}).values()
        for each in subcommands or [command]:
            assert "--json" in flags(each), f"{name} {each.name}"


def test_training_prints_the_numbers_of_its_runs():
    line = f"cifar {TINY} --epochs 2 --eval-every 1 --repeats 2 --json --out both"
    document, said = call(line)
    assert document["folder"] == "both" and document["picture"] == "both/curve.png"
    assert [run["config"]["seed"] for run in document["runs"]] == [0, 1]
    for run in document["runs"]:
        assert (run["status"], run["epoch"], run["epochs"]) == ("done", 2, 2)
        rows = read_metrics(Path(run["folder"]))
        assert run["metrics"]["train_loss"] == [float(row["train_loss"]) for row in rows]
        assert run["last"]["test_accuracy"] == float(rows[-1]["test_accuracy"])
    assert said.count("epoch 2/2: train loss") == 2 and "run folder: both" in said
    again, said = call(line)
    assert again == document and said.count("already done") == 2


def test_a_diverged_run_is_a_document_and_exit_code_1():
    line = f"cifar {TINY} --epochs 2 --q 1 --attack nan --nonfinite keep --json --out run"
    document, said = call(line, code=1)
    (run,) = document["runs"]
    assert run["status"] == "diverged" and run["last"]["train_loss"] is None  # NaN
    assert (
        "stopped being finite or a metric became NaN in epoch 1" in run["why"]
        and run["why"] in said
    )


def test_partition():
    line = "partition --data synthetic --train-images 400 -n 10 --json --picture p.png"
    document, said = call(line)
    assert document["sizes"] == [40] * 10 and sum(map(sum, document["label_counts"])) == 400
    assert "10 devices of 40 images" in said


def test_a_plan_and_its_forecast():
    document, said = call("fig3 --preset smoke --width 2 --epochs 2 --dry-run --json")
    assert document["epochs"] == sum(run["left"] for run in document["runs"]) > 0
    assert {run["state"] for run in document["runs"]} == {"missing"}
    assert document["forecast"]["seconds"] > 0 and "forecast for" in said


def test_data():
    document, _ = call("data where --json")
    assert document["cifar10"]["present"] is False and document["wikitext2"]["folder"]
    document, said = call("data verify cifar10 --json", code=1)
    assert document["cifar10"]["ok"] is False and "missing or damaged: cifar10" in said


def test_launch_passes_it_on(monkeypatch):
    def train_here(config, folder, data_dir, listener, options):
        return train(config, folder, data_dir, listener)

    monkeypatch.setattr("slsgd_mx.parameter_server.launcher.launch", train_here)
    line = f"cifar {TINY} --epochs 1 --eval-every 1 --out run"
    document, _ = call(f"launch --workers 1 --json -- {line}")
    assert document["runs"][0]["status"] == "done" and document["folder"] == "run"
