"""Commands about data: where they are, whether they are sound, how they are divided; the demo."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.command_line import PNG, call

from slsgd_mx.cli import main
from slsgd_mx.data.arrays import sizes_in
from slsgd_mx.partitions import label_counts
from slsgd_mx.presets import preset
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.tasks.build import build_task

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.mark.parametrize("kind, flag", [("balanced", "--picture"), ("unbalanced", "--out")])
def test_partition_draws_a_picture(kind, flag):
    result = call(f"partition --data synthetic --train-images 400 -n 10 --{kind} {flag} p.png")
    assert result.exit_code == 0, result.output
    assert Path("p.png").read_bytes().startswith(PNG)
    sizes = "40" if kind == "balanced" else "8 to 72"
    assert f"10 devices of {sizes} images" in result.output
    assert ("--out of this command is now --picture" in result.output) == (flag == "--out")


def test_the_seed_of_the_partition_changes_the_partition():
    line = "partition --data synthetic --train-images 400 -n 10 --unbalanced --json"
    counts = [
        json.loads(call(f"{line} {seed} --picture p.png").stdout)["label_counts"]
        for seed in ("", "--seed 1", "--seed 0")
    ]
    assert counts[0] == counts[2] != counts[1]


@pytest.mark.parametrize("line", ["cifar --epochs 1", "lstm --epochs 1", "partition"])
def test_missing_data_names_three_solutions(line):
    result = call(line)
    assert result.exit_code == 1
    for way in ("slsgd-mx data fetch", "--data-dir", "--data synthetic"):
        assert way in result.output
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    "line",
    ["cifar --epochs 1", "lstm --epochs 1", "partition", "demo --preset laptop", "train cifar"],
)
def test_data_are_sought_in_the_folder_given(line):
    result = call(f"{line} --data-dir my-own-data")
    assert result.exit_code == 1 and "my-own-data" in result.output


def test_mirrors_and_home_reach_the_download(monkeypatch):
    asked = []
    download = lambda *names, **options: asked.append((names, options)) or Path("x")  # noqa: E731
    monkeypatch.setattr("slsgd_mx.data.fetch.fetch", download)
    call("data fetch cifar10 --mirror http://a --mirror http://b --data-home home")
    call("data fetch wikitext2")
    assert asked == [
        (("cifar10", Path("home")), {"mirrors": ("http://a", "http://b")}),
        (("wikitext2", None), {"mirrors": None}),
    ]


def test_where_and_verify_without_data():
    where = call("data where")
    assert where.exit_code == 0 and "cifar10" in where.output and "wikitext2" in where.output
    assert "no-data" in where.output and "missing" in where.output
    verify = call("data verify cifar10")
    assert verify.exit_code == 1 and "slsgd-mx data fetch" in verify.output


def test_verify_damaged_data():
    Path("home/cifar10").mkdir(parents=True)
    Path("home/cifar10/cifar-10-binary.tar.gz").write_bytes(b"not an archive")
    result = call("data verify cifar10 --data-home home")
    assert result.exit_code == 1 and "wrong" in result.output


@pytest.mark.parametrize(
    "line",
    [
        "fig1 --preset smoke --draw-only",
        "arena --preset smoke --draw-only",
        "partition --preset smoke -n 4 --train-images 100",
    ],
)
def test_a_folder_of_data_that_is_not_read_is_warned_about(line):
    said = "warning: --data-dir mine is not read: the data is synthetic"
    assert said in call(f"{line} --data-dir mine").stderr
    assert said not in call(line).stderr


def test_an_empty_folder_of_data_is_not_the_current_one():
    result = CliRunner().invoke(main, ["data", "where", "--data-home", ""])
    assert result.exit_code == 2 and "the path is empty" in result.output


def test_the_demo_compares_three_runs_at_smoke_size():
    result = call("demo --epochs 1 --runs here --data-dir mine")
    assert result.exit_code == 0, result.output
    assert "warning: --data-dir mine is not read" in result.stderr
    assert "picture: here/demo-synthetic.png  (numbers: demo-synthetic.csv)" in result.output
    assert Path("here/demo-synthetic.png").read_bytes().startswith(PNG)
    with open("here/demo-synthetic.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["curve"] for row in rows] == [
        *("FedAvg; no attack", "FedAvg; label-flip attack", "SLSGD (b=2); label-flip attack")
    ]
    runs = [read_metrics(path.parent)[-1] for path in Path("here").glob("*/DONE")]
    assert sorted(row["train_loss"] for row in rows) == sorted(run["train_loss"] for run in runs)
    for row in rows:
        assert f"train loss {float(row['train_loss']):.4f}" in result.output
    again = call("demo --epochs 1 --out here")  # the name of 0.1.0
    assert "--out of this command is now --runs: use that name" in again.stderr
    assert again.output.count("already done") == 3
    document = json.loads(call("demo --epochs 1 --runs here --json").stdout)
    assert [run["config"]["q"] for run in document["runs"]] == [0, 2, 2]
    assert document["picture"] == "here/demo-synthetic.png" and document["numbers"]


def test_the_partition_of_own_arrays():
    y = np.arange(60) % 3
    arrays = dict(x_train=np.ones((60, 2)), y_train=y, x_test=np.ones((3, 2)), y_test=y[:3])
    np.savez("my.npz", **arrays)
    line = "partition --arrays my.npz -n 6 --partition shards:labels=1 --picture p.png"
    result = call(f"{line} --json")
    assert result.exit_code == 0 and Path("p.png").exists(), result.output
    counts = np.array(json.loads(result.stdout)["label_counts"])
    config = preset("images", "smoke", n=6, k=6, partition="shards:labels=1", network="mlp",
                    **sizes_in(Path("my.npz")))  # fmt: skip
    devices = build_task(config, Path("my.npz")).devices
    assert (counts == label_counts(devices, y, 3)).all()
    wrong = call(f"{line} --data synthetic")
    assert wrong.exit_code == 2 and "--data does not go with --arrays" in wrong.output
