"""slsgd-mx arena: a tiny smoke arena from the command to its files."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.run_folders import store_run

from slsgd_mx.cli import main, sweeping
from slsgd_mx.runs.pushes import read_pushes

TINY = "arena --preset smoke --train-images 80 --test-images 20 -n 8 -k 6 --batch-size 10 --width 2"
TINY += " --epochs 2 --eval-every 1 --b 1 --q 1 --jobs 1 --runs runs --figures out"
SMOKE = f"{TINY} --rule mean --rule trimmed-mean --attack alie"
PLUGIN = """
from slsgd_mx import register_attack

@register_attack("stay")
def stay(seen):
    "Push x_{t-1}."
    return seen.previous
"""
FILES = {f"arena.{ending}" for ending in ("png", "svg", "csv", "json", "md")} | {"arena-used.png"}


pytestmark = pytest.mark.usefixtures("elsewhere", "fresh_plugins")


def call(line):
    result = CliRunner().invoke(main, line.split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def table():
    with open("out/arena.csv") as file:
        return list(csv.DictReader(file))


def test_a_smoke_arena_computes_its_runs_and_writes_every_file():
    Path("mine.py").write_text(PLUGIN)
    more = "--plugin mine.py --attack stay --curves --cell trimmed-mean alie"
    first = call(f"{SMOKE} {more}")
    assert first.exit_code == 0, first.output
    pictures = {"arena-curves-1.png", "arena-cells.png"}
    assert {path.name for path in Path("out").iterdir()} == FILES | pictures
    for picture in Path("out").glob("*.png"):
        assert picture.read_bytes().startswith(b"\x89PNG")
    rows = {(row["rule"], row["attack"]): row for row in table()}
    assert list(rows) == [
        (r, a) for r in ("mean", "trimmed-mean") for a in ("none", "alie", "stay")
    ]
    runs = {path.parent.name: path.parent for path in Path("runs").glob("*/DONE")}
    content = json.loads(Path("out/arena.json").read_text())
    cells = {(cell["rule"], cell["attack"]): cell for cell in content["boards"][0]["cells"]}
    for key, row in rows.items():
        (run,) = cells[key]["runs"]
        (folder,) = [path for name, path in runs.items() if name.endswith(run["identity"])]
        last = (folder / "metrics.csv").read_text().splitlines()[-1].split(",")
        assert float(row["test_accuracy"]) == run["test_accuracy"][-1] == float(last[4])
        assert (row["seeds"], row["empty_because"]) == ("1", "")
        pushes = read_pushes(folder)[-1]  # the last half of two epochs
        assert float(row["honest_lost"]) == pytest.approx(pushes.honest_lost, abs=1e-5)
        if key[1] == "none":
            assert row["poisoned_used"] == "" and cells[key]["poisoned_used"] is None
        else:
            assert float(row["poisoned_used"]) == pytest.approx(pushes.poisoned_used, abs=1e-5)
    assert float(rows["mean", "alie"]["poisoned_used"]) == 1
    assert float(rows["trimmed-mean", "alie"]["poisoned_used"]) < 1
    words = Path("out/arena.md").read_text()
    assert words.startswith("## balanced, q=1, b=1, alpha=1\n\n- Best worst case: ")
    assert words.split("\n\nData:")[0] in first.output
    before = {path: path.read_bytes() for path in Path("out").iterdir()}
    again = call(f"{SMOKE} {more}")
    assert again.exit_code == 0 and "nothing to compute" in again.output
    assert {path: path.read_bytes() for path in Path("out").iterdir()} == before
    planned = call(f"{SMOKE} {more} --dry-run")
    assert planned.exit_code == 0 and "runs: 6, of which 6 are finished" in planned.output


def test_a_run_that_cannot_change_the_model_ends_and_is_scored():
    """nan leaves 4 of 6 pushes, and b=2 needs 5: no epoch of the run, nor of its prefix, counts."""
    tiny = TINY.replace("--b 1 --q 1", "--b 2 --q 2")
    line = f"{tiny} --rule trimmed-mean --attack nan"
    first = call(line)
    assert first.exit_code == 0, first.output
    said = "trimmed-mean under nan: too few pushes were left, so no epoch changed the model"
    assert said in first.output and "missing" not in first.output
    again = call(line)
    assert again.exit_code == 0 and said in again.output
    rows = {(row["rule"], row["attack"]): row for row in table()}
    assert 0 < float(rows["trimmed-mean", "nan"]["test_accuracy"]) < 1


def test_engine_and_empty_cells(monkeypatch):
    asked = []

    def compute(plan, data_dir, jobs, threads, servers):
        wanted = [step.config for step in plan.to_do if step.wanted]
        asked.append((len(wanted), jobs, servers))
        store_run(Path("runs"), wanted[0], [0.5, 0.5])
        return {}

    monkeypatch.setattr(sweeping, "compute", compute)
    more = "--attack alie-optimal --attack worst-case --engine ps --workers 2 --servers 2"
    result = call(f"{SMOKE} {more}")
    ((left, jobs, servers),) = asked
    assert (left, jobs) == (4, 1) and (servers["workers"], servers["servers"]) == (2, 2)
    assert "attack alie-optimal compares whole models: needs servers = 1, not 2" in result.output
    assert "mean / worst-case" in result.output and "task cifar has none" in result.output
    assert result.exit_code == 1 and "not finished" in result.output  # but for one run
    empty = {row["attack"] for row in table() if row["empty_because"]}
    assert empty == {"alie-optimal", "worst-case"}


@pytest.mark.parametrize(
    "more, said",
    [
        ("--cell krum alie", "'krum' is not in this arena, which has mean, trimmed-mean"),
        ("--cell mean ipm", "'ipm' is not in this arena, which has none, alie"),
        ("--batch-size 11", "batch_size=11 is out of range"),
        ("--engine ps --workers 7", "workers=7 is out of range: needs 1 <= workers <= k=6"),
        ("--workers 2", "go with --engine ps"),
    ],
)
def test_wrong_calls(more, said):
    result = call(f"{SMOKE} {more}")
    assert result.exit_code == 2 and said in result.output
    assert not Path("runs").exists()


def test_a_cell_may_be_spelt_as_the_rule_and_the_attack_may():
    words = "--rule bucketing:s=2+median --attack ipm:epsilon=2 --cell bucketing:s=2+median"
    result = call(f"{TINY} {words} ipm:epsilon=2.0 --dry-run")
    assert result.exit_code == 0, result.output
    result = call(f"{TINY} --rule mean --attack ipm:epsilon=0.5 --cell mean ipm --dry-run")
    assert result.exit_code == 0, result.output


def test_an_alpha_that_never_acts_is_warned_about():
    result = call(f"{SMOKE} --alpha 1 --alpha 0.8 --alpha-decay-epoch 2 --dry-run")
    assert result.exit_code == 0 and "runs: 4, of which 0 are finished" in result.output
    said = "warning: cifar: alpha decays after epoch 2, but runs end at T=2: alpha < 1 gives"
    assert said in result.output


def test_an_arena_without_cells_is_refused():
    result = call(f"{TINY} --rule bulyan")
    assert result.exit_code == 2
    assert "no cell of this arena can be computed: b=1 is out of range for k=6" in result.output
