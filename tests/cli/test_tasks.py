"""Figures and the arena on a user's workload: ``--task``, ``--arrays``, ``--poisoned-devices``."""

import csv
import json
import sys
from pathlib import Path

import pytest
from helpers.blobs import write_arrays, write_plugin
from helpers.command_line import call
from helpers.run_folders import keep, numbers

from slsgd_mx.arena.grid import Arena
from slsgd_mx.runs.stored_config import read_config
from slsgd_mx.runs.trainer import train

pytestmark = pytest.mark.usefixtures("elsewhere", "fresh_plugins")

ARENA = "arena --task images --arrays my.npz --preset smoke --network mlp:width=4 -n 6 -k 4 --b 1"
ARENA += (
    " --batch-size 5 --epochs 2 --eval-every 1 --rule mean --attack alie --threads 1 --no-share"
)
FIGURE = "fig12 --plugin own.py --task blobs"


@pytest.fixture(autouse=True)
def files(elsewhere):
    """A plug-in with the task blobs, and arrays."""
    write_plugin("own.py")
    write_arrays("my.npz")


def table(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def bytes_of_runs(home):
    return {path.parent.name: numbers(path.parent) for path in Path(home).glob("*/DONE")}


def test_a_figure_of_a_workload_of_a_plugin():
    planned = call(f"{FIGURE} --jobs 1 --dry-run --json")
    assert planned.exit_code == 0, planned.output
    document = json.loads(planned.stdout)
    assert document["forecast"]["seconds"] > 0
    assert {run["config"]["task"] for run in document["runs"]} == {"blobs"}
    result = call(f"{FIGURE} --jobs 2")
    assert result.exit_code == 0, result.output
    (folder,) = Path("figures").iterdir()
    assert folder.name == "blobs-small"
    rows = table(folder / "fig12.csv")
    assert {row["task"] for row in rows} == {"blobs"} and {row["q"] for row in rows} == {"0", "2"}
    for name, found in bytes_of_runs("runs").items():
        config = read_config(Path("runs") / name)
        assert numbers(train(config, Path("alone") / name).folder) == found  # without a prefix
    again = call(f"{FIGURE} --json")
    assert json.loads(again.stdout)["figures"]["fig12"][0] == str(folder / "fig12.png")
    assert "nothing to compute: all 6 runs are finished" in again.stderr
    other = call(f"{FIGURE} --set spread=2 --preset long --draw-only")
    assert other.exit_code == 1 and "none of its 6 runs is finished" in other.output


@pytest.mark.skipif(sys.platform != "linux", reason="MXNet's parameter server: Linux")
def test_an_arena_of_arrays_on_two_servers_gives_the_same_bytes():
    first = call(f"{ARENA} --jobs 2 --poisoned-devices 2 --figures out")
    assert first.exit_code == 0, first.output
    assert Path("out/arena.md").read_text().startswith("## balanced, 2 poisoned devices, b=1")
    assert "Workload: images, network mlp:width=4. Data: my.npz" in Path("out/arena.md").read_text()
    rows = table("out/arena.csv")
    assert [(row["task"], row["poisoned_devices"], row["attack"]) for row in rows] == [
        ("images", "2", "none"),
        ("images", "2", "alie"),
    ]
    (board,) = json.loads(Path("out/arena.json").read_text())["boards"]
    assert (board["q"], board["poisoned_devices"]) == (0, 2)
    servers = "--engine ps --workers 2 --servers 2 --runs ps --figures out-ps"
    second = call(f"{ARENA} --poisoned-devices 2 {servers}")
    assert second.exit_code == 0, second.output
    assert bytes_of_runs("ps") == bytes_of_runs("runs")
    assert Path("out-ps/arena.csv").read_bytes() == Path("out/arena.csv").read_bytes()


@pytest.mark.parametrize(
    "line, said",
    [
        ("fig3 --task nosuch", "'nosuch' is not one of cifar, lstm, images"),
        ("fig3 --task images --preset paper", "preset='paper' is unknown: choose one of laptop"),
        ("fig3 --arrays my.npz", "--arrays and --network go with --task images"),
        ("arena --network mlp", "--arrays and --network go with --task images"),
        ("arena --task images --arrays own.py", "own.py cannot be read as arrays (it is not"),
        ("fig3 --set gamma=3", "--set goes with --task and another workload"),
        ("fig3 --task cifar --set gamma=3", "--set goes with --task and another workload"),
        ("fig3 --task images --set b=3", "--set b=... is not possible: this command sets it"),
        ("fig1 --task images --set gamma=3", "--set gamma=... is not possible"),
        ("fig1 --task images --set q=2", "--set q=... is not possible"),
        ("arena --task images --set seed=3", "--set seed=... is not possible"),
        ("arena --task images --set nothing=3", "'nothing' is not part of a configuration"),
        ("arena --task lstm --set epochs=x", "epochs='x' must be a whole number"),
        ("fig12 --task images --set epochs=3 --set eval_every=x", "eval_every='x' must be a wh"),
        ("fig3 --task images --set gamma", "--set 'gamma' is not NAME=VALUE"),
        ("fig3 --task images --arrays my.npz --train-images 9", "train_images follows from --arr"),
        ("fig3 --task images --arrays my.npz --data-dir .", "give either --arrays or --data-dir"),
        ("fig3 --task images --released", "the released code has no task 'images'"),
        ("fig4 --plugin own.py --task blobs", "it needs the unbalanced partition"),
        ("fig11 --task images --batch-size 900", "batch_size=900 is out of range"),
        ("arena --plugin own.py --task blobs --partition balanced", "has a partition of its own"),
        ("fig12 --plugin own.py --task blobs --set attack=worst-case", "task blobs has none (has"),
        ("arena --q 1 --poisoned-devices 2", "give either --q or --poisoned-devices"),
        ("arena --poisoned-devices 0", "poisoned_devices=0 is out of range: needs poisoned_dev"),
        ("arena --poisoned-devices 101", "needs 0 <= poisoned_devices <= n=100"),
        ("fig3 --poisoned-devices 101", "needs 0 <= poisoned_devices <= n=100"),
        ("fig1 --poisoned-devices 3", "No such option"),
    ],
)
def test_wrong_calls_are_refused_in_one_sentence(line, said):
    result = call(f"{line} --dry-run")
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())
    assert not Path("runs").exists()


def test_an_arena_of_a_plugin_has_its_own_partition_and_preset():
    line = "arena --plugin own.py --task blobs --rule median --attack ipm --b 2 --draw-only"
    assert call(f"{line} --set gamma=0.2").exit_code == 1 and not Path("figures").exists()
    choices = dict(rules=("median",), attacks=("ipm",), bs=(2,), changes={"gamma": 0.2})
    run = Arena("small", task="blobs", **choices).runs()[0]
    keep(Path("runs") / run.slug, run, run.epochs)
    result = call(f"{line} --set gamma=0.2 --json")
    assert result.exit_code == 1 and "not finished" in result.output
    assert "Nothing is computed with --draw-only or from an archive" in result.output
    (folder,) = Path("figures").iterdir()
    assert folder.name == "blobs-small-attack-ipm-b-2-gamma-0.2-rule-median"
    content = json.loads((folder / "arena.json").read_text())
    assert (content["task"], content["preset"]) == ("blobs", "small")
    assert content["boards"][0]["partition"] == "own"


def test_a_value_is_given_once():
    result = call(f"{FIGURE} --epochs 3 --set epochs=4 --dry-run")
    assert result.exit_code == 2
    assert "give epochs either as an option or with --set, not both" in result.output
