"""Results prove themselves: what was changed is noticed, what is good is kept."""

import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.command_line import call
from helpers.run_folders import VALUES, cut, flip, forget_digests, interrupt, keep, numbers

from slsgd_mx.cli import main
from slsgd_mx.errors import RunError
from slsgd_mx.runs import checkpoints
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.metrics import read_metrics
from slsgd_mx.runs.proof import close
from slsgd_mx.runs.pushes import read_pushes
from slsgd_mx.runs.records import load_run
from slsgd_mx.runs.status import read_outcome
from slsgd_mx.runs.trainer import train
from slsgd_mx.runs.verify import verify_run
from slsgd_mx.system.files import digest, save_arrays

pytestmark = pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest


@pytest.fixture
def done(tiny, tmp_path):
    """A finished run."""
    config = tiny(epochs=4, eval_every=2)
    train(config, tmp_path / "run")
    return RunFolder(tmp_path / "run", config)


def change_a_number(path):
    lines = path.read_text().splitlines()
    cells = lines[1].split(",")
    cells[2] = repr(float(cells[2]) + 1e-9)
    path.write_text("\n".join([lines[0], ",".join(cells), *lines[2:]]) + "\n")


@pytest.mark.parametrize("name", ["metrics.csv", "pushes.csv", "model.params"])
@pytest.mark.parametrize("harm", [flip, cut, os.unlink, change_a_number])
def test_a_finished_run_that_was_altered_is_not_done(done, name, harm):
    if harm is change_a_number and name != "metrics.csv":
        pytest.skip("numbers of rows only")
    harm(done.path / name)
    before = {path.name: path.read_bytes() for path in done.path.iterdir() if path.is_file()}
    what = "missing" if harm is os.unlink else "damaged: it was changed"
    with pytest.raises(RunError, match=f"{name} is {what}.*compute the run again"):
        done.finished()
    with pytest.raises(RunError, match=f"{name} is {what}"):
        train(done.config, done.path)
    assert read_outcome(done.path, done.config).state == "damaged"
    after = {path.name: path.read_bytes() for path in done.path.iterdir() if path.is_file()}
    assert after == before  # nothing is truncated or removed


@pytest.mark.parametrize("harm", [os.unlink, lambda path: path.write_text("{}"), cut])
def test_a_lost_closing_record_is_read_from_the_manifest(done, harm, capsys):
    content = (done.path / "DONE").read_text()
    harm(done.path / "DONE")
    assert done.finished() and read_outcome(done.path, done.config).state == "done"
    train(done.config, done.path)
    assert (done.path / "DONE").read_text() == content
    assert "DONE was lost: it is restored from manifest.json" in capsys.readouterr().err
    change_a_number(done.path / "metrics.csv")
    with pytest.raises(RunError, match="is damaged"):
        done.finished()


def test_a_damaged_closing_record_without_a_copy_keeps_rows_and_model(done):
    forget_digests(done.path)
    (done.path / "DONE").write_text("rubbish")
    with pytest.raises(RunError, match="DONE is damaged.*rows and its model are kept"):
        train(done.config, done.path)
    assert (done.path / "model.params").exists() and len(done.rows()) == 2


def test_a_run_of_an_earlier_version_is_accepted(done):
    forget_digests(done.path)
    assert done.finished()
    flip(done.path / "model.params")  # the only digest that 0.1.0 stored
    with pytest.raises(RunError, match=r"model\.params is damaged"):
        done.finished()


def test_rows_without_a_checkpoint_are_kept_aside(done, capsys):
    """The closing record and the digests are lost: the run starts again, its rows stay."""
    expected, rows = numbers(done.path), (done.path / "metrics.csv").read_bytes()
    forget_digests(done.path)
    (done.path / "DONE").unlink()
    shutil.rmtree(done.path / "checkpoint")
    train(done.config, done.path)
    assert (done.path / "metrics.csv.before-1").read_bytes() == rows
    assert "kept in metrics.csv.before-1" in capsys.readouterr().err
    assert numbers(done.path) == expected


def test_rows_changed_before_a_checkpoint_are_noticed_on_resuming(tiny, tmp_path):
    config = tiny(epochs=6, eval_every=1)
    interrupt(config, tmp_path / "run", 4)
    change_a_number(tmp_path / "run" / "metrics.csv")
    with pytest.raises(RunError, match=r"metrics\.csv is damaged"):
        train(config, tmp_path / "run")


def test_verify_says_what_is_wrong(done, tiny, tmp_path):
    assert verify_run(done.path).result == "verified"
    interrupt(tiny(epochs=6), tmp_path / "part", 2)
    assert verify_run(tmp_path / "part").result == "not finished"
    flip(done.path / "model.params")
    check = verify_run(done.path)
    assert check.result == "wrong" and not check.ok and "model.params is damaged" in check.why
    result = CliRunner().invoke(main, ["runs", "verify", "--runs", str(tmp_path)])
    assert result.exit_code == 1 and "1 of 2 runs are not what they were" in result.output
    flip(done.path / "model.params")
    forget_digests(done.path)
    assert verify_run(done.path).result == "not verifiable"
    result = CliRunner().invoke(main, ["runs", "verify", str(done.path), "--json"])
    assert result.exit_code == 0 and json.loads(result.stdout)[0]["result"] == "not verifiable"


def test_verify_counts_many_runs_and_lists_those_that_are_not_verified(
    done, tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("slsgd_mx.cli.runs.MANY", 1)
    interrupt(tiny(epochs=6), tmp_path / "part", 2)
    said = CliRunner().invoke(main, ["runs", "verify", "--runs", str(tmp_path)]).output
    listed, counted, total = said.splitlines()
    assert listed.startswith(f"not finished: {tmp_path / 'part'}: its rows")
    assert counted == "verified: 1 runs"
    assert {*total.split(", ")} == {"1 verified", "1 not finished"}


def test_verify_takes_part_of_a_name(done, tmp_path):
    call = ["runs", "verify", "--runs", str(tmp_path), "--json"]
    result = CliRunner().invoke(main, [*call, "ru"])
    assert result.exit_code == 0 and json.loads(result.stdout)[0]["path"] == str(done.path)
    result = CliRunner().invoke(main, [*call, "nothing"])
    assert result.exit_code == 2 and "'nothing' is no run folder" in result.stderr


def close_again(folder):
    """Store the digests of the files as they are now."""
    manifest = json.loads((folder / "manifest.json").read_text())
    closing = close(folder, read_metrics(folder)[-1], None)
    (folder / "DONE").write_text(closing.to_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "finished": closing.to_dict()}))


def test_a_changed_configuration_is_noticed(done):
    """Otherwise the numbers of one experiment would be taken for those of another."""
    changed = replace(done.config, gamma=2 * done.config.gamma)
    (done.path / "config.json").write_text(changed.to_json())
    check = verify_run(done.path)
    assert check.result == "wrong" and "config.json is damaged: it was changed" in check.why
    with pytest.raises(RunError, match=r"config\.json is damaged: it was changed"):
        train(changed, done.path)
    assert load_run(done.path).status == "damaged"


def test_a_run_closed_without_its_configuration_says_so(done):
    for name in ("DONE", "manifest.json"):
        text = (done.path / name).read_text()
        (done.path / name).write_text(re.sub(r'config [0-9a-f]*\n|"config": "[^"]*",', "", text))
    check = verify_run(done.path)
    assert (check.result, check.why) == ("verified", "it stored no digest of its configuration")


def test_a_lost_manifest_is_noticed_and_the_data_stay_known(done):
    (done.path / "manifest.json").unlink()
    check = verify_run(done.path)
    assert check.result == "wrong" and check.why.endswith("manifest.json is missing")
    known = RunFolder(done.path, done.config)
    with pytest.raises(RunError, match="computed on other data .*another folder with --out"):
        known.check_data("0" * 64)


def test_a_lost_closing_record_is_mentioned(done):
    (done.path / "DONE").unlink()
    check = verify_run(done.path)
    assert check.result == "verified" and "DONE is missing or damaged" in check.why
    assert load_run(done.path).status == "done"


def test_a_lost_configuration_is_noticed_in_a_folder_of_runs(done, tmp_path):
    (done.path / "config.json").unlink()
    result = CliRunner().invoke(main, ["runs", "verify", "--runs", str(tmp_path)])
    assert result.exit_code == 1 and "run holds no run" in result.output.replace("\n", "")


@pytest.mark.parametrize("name", ["metrics.csv", "pushes.csv"])
def test_changed_numbers_are_not_shown(done, tmp_path, name):
    """Neither in tables and pictures nor to Python."""
    harm = change_a_number if name == "metrics.csv" else flip
    harm(done.path / name)
    run = load_run(done.path)
    assert (run.status, run.columns) == ("damaged", {}) and f"{name} is damaged" in run.why
    listed = CliRunner().invoke(main, ["runs", "--runs", str(tmp_path)])
    assert listed.exit_code == 0 and "damaged" in listed.output
    shown = CliRunner().invoke(main, ["runs", "show", str(done.path)])
    assert "its numbers are not shown" in shown.output
    shutil.copytree(done.path, tmp_path / "copy")
    compared = CliRunner().invoke(main, ["runs", "compare", str(done.path), str(tmp_path / "copy")])
    assert compared.exit_code == 1 and f"{name} is damaged" in compared.output


def test_a_run_of_a_plugin_is_verified_without_the_plugin(done):
    config = json.loads((done.path / "config.json").read_text())
    config.update(attack="nowhere", q=1, sources=[["mine.py", "0" * 64]])
    (done.path / "config.json").write_text(json.dumps(config))
    close_again(done.path)
    assert verify_run(done.path).result == "verified"
    flip(done.path / "model.params")
    check = verify_run(done.path)
    assert check.result == "wrong" and "model.params is damaged" in check.why
    config["sources"] = []  # the same configuration, of no plug-in, was damaged
    (done.path / "config.json").write_text(json.dumps(config))
    assert "'nowhere' is unknown" in verify_run(done.path).why


# ---- files that could do harm --------------------------------------------------------------


@pytest.mark.parametrize("name", [".lock", "config.json.tmp", "metrics.csv.tmp", "DONE.tmp"])
def test_links_are_not_followed(tiny, tmp_path, name):
    target, config = tmp_path / "precious", tiny(epochs=2)
    target.write_text("mine")
    interrupt(config, tmp_path / "run", 1)
    path = tmp_path / "run" / name
    if path.exists():
        path.unlink()
    path.symlink_to(target)
    try:
        train(config, tmp_path / "run")
    except RunError as error:
        assert name == ".lock" and "cannot write" in str(error)
    assert target.read_text() == "mine"


def test_files_of_a_user_are_not_deleted(tiny, tmp_path):
    config = tiny(epochs=2)
    interrupt(config, tmp_path / "run", 1)
    (tmp_path / "run" / "notes.tmp").write_text("mine")
    train(config, tmp_path / "run")
    assert (tmp_path / "run" / "notes.tmp").read_text() == "mine"


@pytest.mark.parametrize("name", ["config.json", "metrics.csv", "DONE", "manifest.json", ".lock"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_pipes_and_folders_in_place_of_files_are_errors(done, name, make):
    (done.path / name).unlink()
    make(done.path / name)
    try:
        train(done.config, done.path)
        assert name in ("DONE", "manifest.json", ".lock")  # not needed for a finished run
    except RunError as error:
        assert len(str(error).splitlines()) == 1


@pytest.mark.parametrize("every", [1, 10**9])
def test_nobody_counts_to_the_last_epoch_of_a_hostile_run(tiny, tmp_path, every):
    config = tiny(epochs=10**9, eval_every=every)
    with RunFolder(tmp_path / "run", config) as folder:
        folder.resume()
        folder.append({name: 1 for name in folder.columns})
        save_arrays(folder.path / "model.params", VALUES)
        closing = close(folder.path, folder.rows()[-1], "")
        (folder.path / "DONE").write_text(closing.to_text())
    check = verify_run(tmp_path / "run")
    assert check.result == "wrong" and "metrics.csv" in check.why


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", ["config.json", "metrics.csv", "manifest.json", ".lock"])
def test_pipes_and_folders_in_an_unfinished_run_are_errors(tiny, tmp_path, name, make):
    config = tiny(epochs=4)
    interrupt(config, tmp_path / "run", 2)
    (tmp_path / "run" / name).unlink()
    make(tmp_path / "run" / name)
    with pytest.raises(RunError) as error:
        train(config, tmp_path / "run")
    assert len(str(error.value).splitlines()) == 1
    if name == ".lock":
        assert load_run(tmp_path / "run").status == "interrupted"


STRANGE = ["[" * 100_000, "9" * 400, '{"sessions": 3}', "null", "[1]", '{"sessions": [[]]}']
STRANGE += ['{"sessions": {}}', '{"sessions": ""}']


@pytest.mark.parametrize("text", STRANGE)
def test_a_strange_manifest_is_shown_as_damage(tiny, tmp_path, text):
    keep(tmp_path / "runs" / "mine", tiny(), 3)
    interrupt(tiny(seed=1), tmp_path / "runs" / "half", 2)
    for name in ("mine", "half"):
        (tmp_path / "runs" / name / "manifest.json").write_text(text)
        run = load_run(tmp_path / "runs" / name)
        assert run.status == "damaged" and "manifest.json is damaged" in run.why
        shown = call("runs show", name, "--runs", tmp_path / "runs")
        assert "manifest.json is damaged" in " ".join(shown.output.split())
    pytest.importorskip("plotly")
    page = tmp_path / "report.html"
    assert call("report --runs", tmp_path / "runs", "--html", page).exit_code == 0
    assert page.read_text().count("manifest.json is damaged") == 2


@pytest.mark.parametrize("text", STRANGE[:4])
@pytest.mark.parametrize("name", ["config.json", "manifest.json", "DONE"])
def test_strange_json_is_an_error_of_one_sentence(tiny, tmp_path, name, text):
    config = tiny(epochs=4)
    interrupt(config, tmp_path / "run", 2)
    (tmp_path / "run" / name).write_text(text)
    with pytest.raises(RunError) as error:
        train(config, tmp_path / "run")
    assert len(str(error.value).splitlines()) == 1
    check = verify_run(tmp_path / "run")
    assert check.result == "wrong" and len(check.why.splitlines()) == 1


def rename_after_its_digest(path, epoch):
    return path.rename(path.with_name(f"epoch-{epoch:06d}.{digest(path)}.params"))


NOTES = np.frombuffer(json.dumps({"epoch": 2}).encode(), np.uint8)


@pytest.mark.parametrize(
    "values, epoch",
    [
        (VALUES, 2),  # no notes
        ({**VALUES, "notes": np.frombuffer(b"[", np.uint8)}, 2),
        ({**VALUES, "notes": np.frombuffer(b"[3]", np.uint8)}, 2),
        ({**VALUES, "notes": NOTES}, 3),  # another epoch than the name says
        ({**VALUES, "notes": np.frombuffer(b'{"epoch": "2"}', np.uint8)}, 2),
        ({**VALUES, "notes": NOTES}, 2),  # parameters of another model
    ],
)
def test_checkpoints_with_a_valid_digest_and_wrong_contents(tiny, tmp_path, values, epoch):
    config = tiny(epochs=4, eval_every=4)
    interrupt(config, tmp_path / "run", 2)
    folder = tmp_path / "run" / "checkpoint"
    for path in checkpoints.list_checkpoints(folder):
        path.unlink()
    save_arrays(folder / "new", values)
    rename_after_its_digest(folder / "new", epoch)
    with pytest.raises(RunError) as error:
        train(config, tmp_path / "run")
    assert str(folder) in str(error.value)


def test_a_checkpoint_after_the_end_is_refused_at_once(tiny, tmp_path):
    config = tiny(epochs=4)
    interrupt(config, tmp_path / "run", 2)
    folder = tmp_path / "run" / "checkpoint"
    notes = np.frombuffer(json.dumps({"epoch": 30_000_000}).encode(), np.uint8)
    save_arrays(folder / "new", {**VALUES, "notes": notes})
    rename_after_its_digest(folder / "new", 30_000_000)
    with pytest.raises(RunError, match="after epoch 30000000, but the run ends at T=4"):
        train(config, tmp_path / "run")


def test_a_changed_record_of_pushes_is_noticed_on_resuming(tmp_path, tiny):
    config, folder = tiny(epochs=4), tmp_path / "run"
    interrupt(config, folder, 2)
    pushes = folder / "pushes.csv"
    kept = pushes.read_text()
    header, first, *rest = kept.splitlines(keepends=True)
    changed = first[:-1].rsplit(",", 1)[0] + "," + " ".join(["0.5"] * config.k) + "\n"
    pushes.write_text(header + changed + "".join(rest))
    with pytest.raises(RunError, match="pushes.csv is damaged.*up to epoch 2"):
        train(config, folder)
    pushes.write_text(header + first)  # a row is missing
    with pytest.raises(RunError, match="pushes.csv is damaged.*up to epoch 2"):
        train(config, folder)
    pushes.write_text(kept)
    train(config, folder)
    assert numbers(folder) == numbers(train(config, tmp_path / "whole").folder)


def test_a_run_goes_on_without_its_record_of_pushes_if_that_is_removed(tmp_path, tiny, capsys):
    config, folder = tiny(epochs=4), tmp_path / "run"
    interrupt(config, folder, 2)
    (folder / "pushes.csv").unlink()
    train(config, folder)
    said = capsys.readouterr().err
    assert "pushes.csv is missing: the run goes on without the record of who pushed" in said
    assert "up to epoch 2" in said
    assert [row.epoch for row in read_pushes(folder)] == [3, 4]
