"""``slsgd-mx runs``: list, show, compare, export, at 80 columns and as JSON."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from helpers.run_folders import keep, store_run

from slsgd_mx.cli import main

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(autouse=True)
def home(tiny, tmp_path, monkeypatch):
    """Four runs in runs/, two of which differ only in their seed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    for seed in (0, 1):
        store_run(Path("runs"), tiny(seed=seed), [3, 2, 1 + seed])
    store_run(Path("runs"), tiny(q=1, b=1, attack="negation"), [3, 2.5, 2.25])
    keep(Path("runs/mine"), tiny(q=1), 1, 2)
    return Path("runs")


def call(line):
    result = CliRunner().invoke(main, line.split())
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert all(len(text) <= 80 for text in result.stdout.splitlines() if "/" not in text)
    return result


def test_lists_of_repeats_fit_80_columns(tiny):
    for seed in (0, 1):
        keep(Path(f"runs/{tiny().slug}-repeats/seed{seed}"), tiny(seed=seed), 3)
    said = call("runs").output
    assert f"{tiny().identity[:6]}/seed1" in said
    assert max(map(len, said.splitlines())) <= 80


def test_the_list_shows_what_differs_progress_and_last_metrics():
    result = call("runs")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "4 runs in runs"
    assert "in common: task=cifar data=synthetic n=8 k=4" in lines[1]
    head = next(n for n, line in enumerate(lines) if line.startswith("run "))
    assert lines[head].split() == [
        "run",
        "epoch",
        "status",
        "b",
        "q",
        "attack",
        "seed",
        "loss",
        "loss",
        "accuracy",
    ]
    assert lines[head - 1].split() == ["train", "test", "test"]
    rows = [line.split() for line in lines[head + 1 :]]
    assert len(rows) == 4
    assert rows[-1] == [
        "mine",
        "2/3",
        "interrupted",
        "0",
        "1",
        "label-flip",
        "0",
        "0.5000",
        "0.5000",
        "0.5000",
    ]
    assert [row[1:] for row in rows if "negation" in row] == [
        ["3/3", "done", "1", "1", "negation", "0", "2.250", "2.250", "2.250"]
    ]


def test_conditions_choose_runs():
    result = call("runs --where q=1 --where attack!=label-flip")
    assert result.output.startswith("1 of 4 runs in runs") and "negation" in result.output
    none = call("runs --where b=9")
    assert none.exit_code == 0 and none.output == "0 of 4 runs in runs\n"
    wrong = call("runs --where beta=1")
    assert wrong.exit_code == 2 and "names no symbol: choose one of task" in wrong.output


def test_a_table_that_does_not_fit_becomes_paragraphs(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    output = call("runs").output
    assert "mine  2/3  interrupted\n    b=0 q=1 attack=label-flip seed=0\n" in output
    assert max(map(len, output.splitlines())) <= 50


def test_show_prints_everything_about_a_run():
    for name in ("mine", "runs/mine"):
        result = call(f"runs show {name}")
        assert result.exit_code == 0, result.output
        assert result.output.startswith("runs/mine\ninterrupted, epoch 2 of 3\n")
        for word in ("attack=label-flip", "width=2", "computed by"):
            assert word in result.output
        assert result.output.splitlines()[-1].split() == ["2", "0.5", "0.5", "0.5", "0.5"]
    missing = call("runs show zebra")
    assert missing.exit_code == 2 and "'zebra' is no run folder" in missing.output


def test_compare_prints_a_table_and_draws():
    result = call("runs compare mine negation --picture p.png")
    assert result.exit_code == 0, result.output
    assert "metrics after epoch 2, the last that all of them have evaluated" in result.output
    assert "picture: p.png" in result.output and Path("p.png").read_bytes().startswith(PNG)
    rows = [line.split() for line in result.output.splitlines()]
    assert ["mine", "interrupted", "0", "label-flip", "0.5000", "0.5000", "0.5000"] in rows
    one = call("runs compare mine mine")
    assert one.exit_code == 2 and "at least two different runs" in one.output
    wrong = call("runs compare mine negation --metric loss --picture q.png")
    assert wrong.exit_code == 2 and "metric='loss' is unknown" in wrong.output
    assert not Path("q.png").exists()


def test_compare_takes_absolute_and_relative_paths():
    (other,) = Path("runs").resolve().glob("*negation*")
    result = call(f"runs compare runs/mine {other} --picture p.png")
    assert result.exit_code == 0, result.output
    assert any(line.startswith("mine ") for line in result.output.splitlines())


def test_a_run_is_not_compared_with_itself_under_another_name():
    result = call(f"runs compare mine runs/mine {Path('runs/mine').resolve()} --picture p.png")
    assert result.exit_code == 2 and "at least two different runs" in result.output


def test_runs_without_a_metric_in_common_are_not_compared():
    (table,) = Path("runs").glob("*negation*/metrics.csv")
    text = table.read_text()
    table.write_text(text.replace("train_", "my_").replace("test_", "own_"))  # its first line
    result = call("runs compare mine negation --picture p.png")
    assert result.exit_code == 2 and not Path("p.png").exists()
    said = " ".join(result.output.split())
    assert "the runs have no metric in common: mine has train_loss, " in said, said


def test_export_writes_one_file():
    nothing = call("runs export --where b=77 --out nothing.csv")
    assert (
        nothing.exit_code == 0 and "warning: none of the 4 runs in runs is chosen" in nothing.output
    )
    result = call("runs export --where q=1")
    assert result.exit_code == 0 and "15 rows of 2 runs: runs.csv" in result.output
    with open("runs.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15 and {row["attack"] for row in rows} == {"label-flip", "negation"}
    assert call("runs export --wide --out wide.csv").output == "11 rows of 4 runs: wide.csv\n"


@pytest.mark.parametrize(
    "line, keys",
    [
        ("runs --json", {"runs_folder", "differ", "in_common", "runs"}),
        (
            "runs show mine --json",
            {"folder", "status", "epoch", "epochs", "why", "last", "config", "manifest", "metrics"},
        ),
        ("runs compare mine negation --json", {"epoch", "differ", "runs", "picture"}),
        ("runs export --json", {"file", "columns", "rows", "runs"}),
    ],
)
def test_json_is_all_that_standard_output_holds(line, keys):
    result = call(line)
    assert result.exit_code == 0, result.output
    assert set(json.loads(result.stdout)) == keys and result.stderr


def test_options_of_the_list_do_not_apply_to_subcommands():
    result = call("runs --where b=1 export")
    assert result.exit_code == 2 and "put the options after the subcommand" in result.output
    result = call("runs --runs nowhere")
    assert result.exit_code == 1 and "nowhere is not a folder" in result.output
