"""Run folders read back: numbers, dictionaries, statuses, older versions, damage."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.run_folders import cut_lines, forget_digests, interrupt, keep, store_run

from slsgd_mx import load_run, load_runs
from slsgd_mx.cli import main
from slsgd_mx.errors import RunError
from slsgd_mx.runs import records
from slsgd_mx.runs.folder import RunFolder

OLD = next((Path(__file__).parent / "written_by_0.1.0").iterdir())


def test_numbers_are_arrays_and_the_rest_plain_dictionaries(tiny, tmp_path):
    config = tiny(epochs=4, eval_every=2, q=1, b=1, local_steps=(1, 2))
    run = load_run(keep(tmp_path / "run", config, 2, 4))
    assert (run.path, run.status, run.epoch, run.why) == (tmp_path / "run", "done", 4, "")
    assert run["epoch"].dtype == np.int64 and run["epoch"].tolist() == [2, 4]
    assert run["test_accuracy"].dtype == np.float64 and run["test_accuracy"].tolist() == [0.5, 0.5]
    assert run["refused_devices"].tolist() == ["", ""]
    assert run.config == json.loads(config.to_json())
    assert (run.symbols["b"], run.symbols["width"], run.symbols["local_steps"]) == (1, 2, [1, 2])
    assert run.metrics == config.sizes.metrics
    assert run.last == dict.fromkeys(config.sizes.metrics, 0.5)
    with pytest.raises(KeyError, match="no column 'loss'; its columns: epoch, alpha, train_loss"):
        run["loss"]


def test_statuses_and_epochs(tiny, tmp_path):
    def status(name):
        run = load_run(tmp_path / name)
        return run.status, run.epoch

    keep(tmp_path / "begun", tiny(), 2)
    assert status("begun") == ("interrupted", 2)
    with RunFolder(tmp_path / "begun", tiny()):
        assert status("begun") == ("running", 2)
    assert status("begun") == ("interrupted", 2)
    keep(tmp_path / "diverged", tiny(seed=1), 2, diverged=True)
    assert status("diverged") == ("diverged", 2)
    assert (
        "stopped being finite or a metric became NaN in epoch 2"
        in load_run(tmp_path / "diverged").why
    )
    keep(tmp_path / "failed", tiny(seed=2), 2)
    (tmp_path / "failed" / "FAILED").write_text("no update was applied\n")
    assert status("failed") == ("failed", 2) and load_run(tmp_path / "failed").why
    with RunFolder(tmp_path / "new", tiny(seed=3)):
        pass
    assert status("new") == ("interrupted", 0) and load_run(tmp_path / "new").last == {}
    assert [run.path.name for run in load_runs(tmp_path)] == ["begun", "diverged", "failed", "new"]


def test_checkpoints_count_between_evaluations(tiny, tmp_path):
    interrupt(tiny(epochs=7, eval_every=3), tmp_path / "run", 5)
    run = load_run(tmp_path / "run")
    assert (run.status, run.epoch, run["epoch"].tolist()) == ("interrupted", 5, [3])


def test_a_folder_of_0_1_0_has_today_s_names():
    run = load_run(OLD)
    assert run.status == "done" and run.config["task"] == "cifar"
    assert run.config["sizes"]["partition"] == "balanced" and run.symbols["boost"] == 1.0
    assert run["epoch"].tolist() == [1, 2, 3, 4][: len(run["epoch"])]
    assert run["test_accuracy"].dtype == np.float64


def test_a_configuration_with_an_unknown_attack_is_read_as_it_is(tiny, tmp_path):
    keep(tmp_path / "run", tiny(q=1), 3)
    file = tmp_path / "run" / "config.json"
    file.write_text(file.read_text().replace("label-flip", "from-a-plug-in"))
    forget_digests(tmp_path / "run")
    run = load_run(tmp_path / "run")
    assert (run.symbols["attack"], run.symbols["width"], run.status) == (
        "from-a-plug-in",
        2,
        "done",
    )


def test_a_strange_configuration_of_an_unknown_task_is_an_error(tiny, tmp_path):
    file = keep(tmp_path / "run", tiny(), 3) / "config.json"
    values = json.loads(file.read_text())
    for changes in (dict(epochs="abc"), dict(epochs=None), dict(epochs=True), dict(task=[])):
        file.write_text(json.dumps({**values, "task": "unknown", **changes}))
        forget_digests(tmp_path / "run")
        with pytest.raises(RunError, match="is not the configuration of a run"):
            load_run(tmp_path / "run")


def test_damage_is_reported_and_other_runs_are_read(tiny, tmp_path, capsys):
    keep(tmp_path / "runs" / "good", tiny(), 3)
    keep(tmp_path / "runs" / "x-repeats" / "seed1", tiny(seed=1), 3)
    keep(tmp_path / "runs" / "cut", tiny(seed=2), 3)
    (tmp_path / "runs" / "cut" / "metrics.csv").write_bytes(b"\xff\xfe")
    keep(tmp_path / "runs" / "lost", tiny(seed=3), 3)
    (tmp_path / "runs" / "lost" / "config.json").write_text("[1, 2]")
    found = load_runs(tmp_path / "runs")
    names = {str(run.path.relative_to(tmp_path / "runs")): run.status for run in found}
    assert names == {"cut": "damaged", "good": "done", "x-repeats/seed1": "done"}
    assert "is damaged: it is not text" in found[0].why
    assert "config.json is not the configuration of a run" in capsys.readouterr().err
    assert [run.path for run in load_runs(tmp_path / "runs" / "good")] == [
        tmp_path / "runs" / "good"
    ]


def test_a_run_that_may_not_be_read_is_left_out_with_a_warning(tiny, tmp_path, capsys, monkeypatch):
    for name in ("mine", "theirs"):
        keep(tmp_path / name, tiny(), 3)

    def refuse(path, most=None, read=records.read_text):
        if path.parent.name == "theirs":
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(records, "read_text", refuse)
    assert [run.path.name for run in load_runs(tmp_path)] == ["mine"]
    assert "Permission denied: " in capsys.readouterr().err


def test_links_to_run_folders_count_once(tiny, tmp_path):
    """One that was moved to another disk is found, a second name of one that is here is not."""
    keep(tmp_path / "elsewhere" / "moved", tiny(), 3)
    keep(tmp_path / "runs" / "here", tiny(seed=1), 3)
    for name, target in dict(
        moved="../elsewhere/moved", again="here", gone="nowhere", loop=".", up="../elsewhere"
    ).items():
        (tmp_path / "runs" / name).symlink_to(target)
    assert [run.path.name for run in load_runs(tmp_path / "runs")] == ["here", "moved"]


def test_a_half_written_row_is_left_out(tiny, tmp_path):
    store_run(tmp_path, tiny(), [3, 2, 1])
    folder = tmp_path / tiny().slug
    cut_lines(folder / "metrics.csv", 3)
    with open(folder / "metrics.csv", "a") as file:
        file.write("3,1.0,0.")
    assert load_run(folder)["train_loss"].tolist() == [3, 2]


def test_no_run(tmp_path):
    with pytest.raises(RunError, match="holds no run: there is no config.json in it"):
        load_run(tmp_path)
    with pytest.raises(RunError, match="gone is not a folder"):
        load_runs(tmp_path / "gone")
    assert load_runs(tmp_path) == []


def test_reading_changes_nothing(tmp_path):
    shutil.copytree(OLD, tmp_path / OLD.name)
    before = {p.name: p.read_bytes() for p in (tmp_path / OLD.name).iterdir() if p.is_file()}
    load_runs(tmp_path)
    assert before == {p.name: p.read_bytes() for p in (tmp_path / OLD.name).iterdir()}


def test_a_finished_run_that_lacks_rows_is_damaged(tiny, tmp_path):
    folder = keep(tmp_path / "run", tiny(), 1, 2, 3)
    assert load_run(folder).status == "done"
    lines = (folder / "metrics.csv").read_text().splitlines(keepends=True)
    (folder / "metrics.csv").write_text("".join(lines[:-1]))
    assert load_run(folder).why.endswith(
        "metrics.csv is damaged: it was changed after the run finished"
    )
    forget_digests(folder)
    run = load_run(folder)
    assert run.status == "damaged" and run.why.endswith("metrics.csv ends before the last epoch")
    assert run["epoch"].tolist() == [1, 2]
    assert repr(run) == f"Run(path={folder!r}, status='damaged', epoch=2, why={run.why!r})"


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    "column, cell, legal",
    [
        ("train_loss", "abc", "a number"),
        ("train_loss", "", "a number"),
        ("epoch", "abc", "a whole number"),
        ("epoch", "nan", "a whole number"),
        ("epoch", "1.5", "a whole number"),
    ],
)
def test_cells_that_are_no_numbers_are_damage_of_one_run_only(tiny, tmp_path, column, cell, legal):
    keep(tmp_path / "other", tiny(seed=1), 1)
    path = keep(tmp_path / "run", tiny(), 1) / "metrics.csv"
    header, row = (line.split(",") for line in path.read_text().splitlines())
    row[header.index(column)] = cell
    path.write_text(",".join(header) + "\n" + ",".join(row) + "\n")
    run = load_run(tmp_path / "run")
    said = f"in the column '{column}' not every cell is {legal}"
    assert run.status == "damaged" and run.why.endswith(said) and run.metrics == ()
    for command in ("runs", "runs show other", "runs export"):
        result = CliRunner().invoke(main, [*command.split(), "--runs", str(tmp_path)])
        assert result.exit_code == 0, (command, result.output)


def test_a_column_of_text_is_no_metric(tiny, tmp_path):
    path = keep(tmp_path / "run", tiny(), 1) / "metrics.csv"
    header, row = path.read_text().splitlines()
    path.write_text(f"{header},remark\n{row},fine\n")
    run = load_run(tmp_path / "run")
    assert run["remark"].tolist() == ["fine"] and "remark" not in run.metrics


@pytest.mark.parametrize(
    "changes",
    [{"zz": {"task": [{}]}}, {"attack": ["x"]}, {"alpha": "x"}, {"rule": 3}, {"zz": [{}]}],
    ids=str,
)
def test_strange_values_of_an_unknown_configuration_are_refused(tiny, tmp_path, changes):
    """One of a plug-in that is not loaded cannot be checked otherwise."""
    file = keep(tmp_path / "run", tiny(), 1) / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "rule": "unknown", **changes}))
    with pytest.raises(RunError, match="has a value of another kind"):
        load_run(tmp_path / "run")


@pytest.mark.usefixtures("elsewhere")
def test_sizes_do_not_hide_the_symbols_of_a_configuration(tiny, tmp_path):
    file = keep(tmp_path / "run", tiny(), 1) / "config.json"
    strange = {"rule": "unknown", "zz": {"task": ["x"], "size": 3}}
    file.write_text(json.dumps({**json.loads(file.read_text()), **strange}))
    symbols = load_run(tmp_path / "run").symbols
    assert symbols["task"] == "cifar" and symbols["size"] == 3
    assert CliRunner().invoke(main, ["runs", "--runs", str(tmp_path)]).exit_code == 0


def test_folders_that_are_nested_too_deeply_are_not_searched(tiny, tmp_path):
    """Python before 3.12 would walk until its stack overflows."""
    keep(tmp_path / "a" / "run", tiny(), 1)
    deep = tmp_path / "deep"
    os.mkdir(deep)
    here = os.open(deep, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    try:
        assert [run.path.name for run in load_runs(tmp_path)] == ["run"]
    finally:
        subprocess.run(["rm", "-r", str(deep)], check=True)  # shutil.rmtree could not


def test_files_that_are_too_long_are_not_read(tiny, tmp_path, monkeypatch):
    folder = keep(tmp_path / "run", tiny(), 1)
    cells = sum(line.count(",") + 1 for line in (folder / "metrics.csv").read_text().splitlines())
    monkeypatch.setattr(records, "MOST_CELLS", cells)
    assert load_run(folder).status == "interrupted"
    monkeypatch.setattr(records, "MOST_CELLS", cells - 1)
    assert f"has more than {cells - 1} cells" in load_run(folder).why
    with open(folder / "metrics.csv", "r+b") as file:
        file.truncate(2**31)  # sparse: it takes no space
    assert f"has more than {100 * (cells - 1):,} bytes" in load_run(folder).why
    with open(folder / "config.json", "r+b") as file:
        file.truncate(2**31)
    with pytest.raises(RunError, match="has more than 16,777,216 bytes"):
        load_run(folder)
