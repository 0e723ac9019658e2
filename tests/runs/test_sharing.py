"""Runs shared in one archive: what arrives proves itself, what does not belong there is refused."""

import gzip
import io
import json
import os
import shutil
import tarfile

import pytest
from click.testing import CliRunner
from helpers.run_folders import flip, interrupt, keep, numbers

from slsgd_mx.cli import main
from slsgd_mx.errors import RunError
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.runs.records import load_runs
from slsgd_mx.runs.sharing import OF_A_RUN, find_tables, pack_runs, unpack_runs
from slsgd_mx.runs.status import read_outcome
from slsgd_mx.runs.trainer import train
from slsgd_mx.runs.verify import verify_run
from slsgd_mx.sweeps.plan import make_plan

pytestmark = pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest


@pytest.fixture
def home(tiny, tmp_path):
    """Two finished runs and an interrupted one."""
    home = tmp_path / "runs"
    for seed in (0, 1):
        config = tiny(epochs=4, eval_every=2, seed=seed)
        train(config, home / config.slug)
    interrupt(tiny(epochs=4, seed=2), home / "interrupted", 2)
    return home


@pytest.fixture
def archive(home, tmp_path):
    pack_runs([run.path for run in load_runs(home)], home, tmp_path / "a.tar.gz")
    return tmp_path / "a.tar.gz"


def call(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def tar_of(path, members):
    """An archive with these members: name -> content, or a TarInfo for something else."""
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members:
            if isinstance(content, tarfile.TarInfo):
                tar.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    return path


def members_of(path):
    with tarfile.open(path) as tar:
        return [(member.name, tar.extractfile(member).read()) for member in tar]


def everything_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_shared_runs_have_the_rows_and_pushes_of_the_original(home, archive, tmp_path, tiny):
    unpacked = unpack_runs(archive, tmp_path / "theirs")
    assert [path.name for path in unpacked.new] == sorted(
        tiny(epochs=4, eval_every=2, seed=seed).slug for seed in (0, 1)
    )
    for path in unpacked.new:
        mine, theirs = numbers(home / path.name), numbers(path)
        assert mine[0] == theirs[0] and mine[2] == theirs[2] and theirs[1] is None
        assert verify_run(path).result == "verified" and "without its model" in verify_run(path).why
    assert unpack_runs(archive, tmp_path / "theirs").known == unpacked.new


def test_equal_runs_give_equal_archives(home, archive, tmp_path):
    os.utime(home / "interrupted" / "config.json", (0, 0))
    pack_runs([run.path for run in load_runs(home)], home, tmp_path / "b.tar.gz")
    assert (tmp_path / "b.tar.gz").read_bytes() == archive.read_bytes()
    assert str(tmp_path).encode() not in gzip.decompress(archive.read_bytes())


def test_long_names_of_folders_are_shortened_but_keep_the_identity(tmp_path, tiny):
    """An archive of the plainest kind holds folders of 155 bytes; rules and attacks make more."""
    home, config = tmp_path / "runs", tiny(epochs=2)
    folder = home / f"{180 * 'x'}-{config.identity}"
    train(config, folder)
    pack_runs([folder], home, tmp_path / "a.tar.gz")
    (path,) = unpack_runs(tmp_path / "a.tar.gz", tmp_path / "theirs").new
    assert len(path.name) == 155 and path.name.endswith(f"-{config.identity}")
    assert read_outcome(path, config).state == "done" and numbers(path)[0] == numbers(folder)[0]
    other = home / f"{190 * 'x'}-{config.identity}"
    shutil.copytree(folder, other)
    with pytest.raises(RunError, match="nothing is packed, because two runs would be called x"):
        pack_runs([folder, other], home, tmp_path / "b.tar.gz")


def test_the_message_of_a_diverged_run_names_no_folder(tmp_path, tiny, monkeypatch):
    keep(tmp_path / "some where" / "runs" / "bad", tiny(epochs=3), 1, diverged=True)
    monkeypatch.chdir(tmp_path / "some where")
    assert call("runs", "pack", "--out", "a.tar.gz").exit_code == 0
    (message,) = [text for name, text in members_of("a.tar.gz") if name == "bad/DIVERGED"]
    assert b"in epoch 1; the rows up to there are in metrics.csv. Trim more" in message


@pytest.mark.parametrize("temporary, name", [("tmp", 'a"b.tar.gz'), ("jürgen", "a.tar.gz")])
def test_json_names_the_archive_and_not_its_copy(archive, tmp_path, monkeypatch, temporary, name):
    (tmp_path / temporary).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / temporary))
    archive.rename(name)
    document = json.loads(call("runs", "--json", "--runs", name).stdout)
    assert document["runs_folder"] == name and len(document["runs"]) == 2
    assert all(run["folder"].startswith(f"{name}/") for run in document["runs"])


@pytest.mark.parametrize("damage", [lambda done: done.unlink(), lambda done: done.write_text("?")])
def test_a_finished_run_whose_closing_record_is_lost_is_packed_with_it(home, tmp_path, damage):
    """Its copy in manifest.json proves the run."""
    folder = next(run.path for run in load_runs(home) if run.status == "done")
    before = (folder / "DONE").read_text()
    damage(folder / "DONE")
    packed = pack_runs([folder], home, tmp_path / "a.tar.gz")
    assert (packed.runs, packed.unfinished) == ([folder], [])
    unpacked = unpack_runs(tmp_path / "a.tar.gz", tmp_path / "theirs")
    (path,) = unpacked.new
    assert (path / "DONE").read_text() == before and (path / "model.left-out").exists()
    (path / "DONE").unlink()
    again = unpack_runs(tmp_path / "a.tar.gz", tmp_path / "theirs")
    assert (again.known, again.unfinished) == ([path], [])


def test_models_are_packed_on_request(home, tmp_path):
    folders = [run.path for run in load_runs(home) if run.status == "done"]
    pack_runs(folders, home, tmp_path / "a.tar.gz", models=True)
    for path in unpack_runs(tmp_path / "a.tar.gz", tmp_path / "theirs").new:
        assert numbers(path) == numbers(home / path.name)
        assert verify_run(path).why == ""


def test_a_shared_run_without_its_model_is_done_but_no_prefix(home, archive, tmp_path, tiny):
    unpack_runs(archive, tmp_path / "theirs")
    config = tiny(epochs=4, eval_every=2)
    folder = tmp_path / "theirs" / config.slug
    assert read_outcome(folder, config).state == "done"
    assert train(config, folder).resumed_from == 4
    with pytest.raises(RunError, match="shared without its model"):
        RunFolder(folder, config).model()
    (folder / "model.left-out").unlink()
    with pytest.raises(RunError, match=r"model\.params is missing"):
        RunFolder(folder, config).finished()


def test_a_plan_computes_a_run_whose_prefix_was_shared_without_its_model(tmp_path, tiny):
    late = tiny(epochs=4, alpha=0.5, alpha_decay_epoch=2)
    (step, _) = make_plan({"one": [late]}, tmp_path / "runs").steps
    train(step.config, tmp_path / "runs" / step.config.slug)
    (known, after) = make_plan({"one": [late]}, tmp_path / "runs").steps
    assert after.prefix is known and after.left == 2
    pack_runs([known.folder], tmp_path / "runs", tmp_path / "a.tar.gz")
    unpack_runs(tmp_path / "a.tar.gz", tmp_path / "theirs")
    (alone,) = make_plan({"one": [late]}, tmp_path / "theirs").steps
    assert alone.prefix is None and alone.left == 4


def test_a_damaged_run_is_not_packed(home, tmp_path):
    folders = [run.path for run in load_runs(home)]
    flip(folders[-1] / "metrics.csv")
    with pytest.raises(RunError, match=r"nothing is packed.*metrics\.csv is damaged"):
        pack_runs(folders, home, tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_an_altered_run_is_not_unpacked(archive, tmp_path):
    members = [
        (name, content.replace(b"0", b"1") if name.endswith("metrics.csv") else content)
        for name, content in members_of(archive)
    ]
    tar_of(tmp_path / "b.tar.gz", members)
    with pytest.raises(RunError, match=r"is not unpacked: .*metrics\.csv is damaged"):
        unpack_runs(tmp_path / "b.tar.gz", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def link(kind, name="run/config.json", target="/etc/passwd"):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return name, info


HOSTILE = {
    "a path above": ("../config.json", b"{}"),
    "a path above, inside": ("run/../../config.json", b"{}"),
    "an absolute path": ("/tmp/run/config.json", b"{}"),
    "a hidden folder": (".ssh/config.json", b"{}"),
    "another file": ("run/setup.py", b"import os"),
    "a name that is empty": ("", b"{}"),
    "a name that is a point": ("./", b"{}"),
    "another file at the top": ("config.json", b"{}"),
    "a name with a line break": ("ru\nn/config.json", b"{}"),
    "a symbolic link": link(tarfile.SYMTYPE),
    "a hard link": link(tarfile.LNKTYPE),
    "a device": link(tarfile.CHRTYPE),
    "a pipe": link(tarfile.FIFOTYPE),
    "a run with the name of a file": ("DONE/config.json", b"{}"),
    "a file as a folder": ("run/DONE/config.json", b"{}"),
    "a run with the name of the tables": ("theory/config.json", b"{}"),
    "too many folders": ("1/2/3/4/5/6/7/8/config.json", b"{}"),
    "a long name": link(tarfile.GNUTYPE_LONGNAME, "././@LongLink"),
}


@pytest.mark.parametrize("member", HOSTILE.values(), ids=HOSTILE)
def test_members_that_do_not_belong_there_are_refused(archive, tmp_path, member):
    tar_of(tmp_path / "b.tar.gz", [*members_of(archive), member])
    before = everything_below(tmp_path)
    with pytest.raises(RunError, match="which slsgd-mx runs pack does not write: nothing is"):
        unpack_runs(tmp_path / "b.tar.gz", tmp_path / "theirs")
    assert everything_below(tmp_path) == before


def test_a_decompression_bomb_is_refused_before_it_fills_the_disk(tmp_path, tiny):
    tar_of(tmp_path / "b.tar.gz", [("run/metrics.csv", bytes(200 << 20))])
    with pytest.raises(RunError, match="unpacks to more than"):
        unpack_runs(tmp_path / "b.tar.gz", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("content", [b"", b"not an archive", b"\x1f\x8b\x08\0\0\0\0\0\0\xff"])
def test_what_is_no_archive_is_refused(tmp_path, content, tiny):
    (tmp_path / "b.tar.gz").write_bytes(content)
    said = call("runs", "unpack", tmp_path / "b.tar.gz", "--runs", tmp_path / "theirs")
    assert said.exit_code == 1 and "is damaged, or not an archive of runs" in said.output


def test_a_truncated_archive_leaves_nothing(archive, tmp_path):
    archive.write_bytes(archive.read_bytes()[:-200])
    with pytest.raises(RunError, match="is damaged, or not an archive"):
        unpack_runs(archive, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_a_folder_with_another_run_is_not_overwritten(archive, tmp_path):
    names = {name.split("/")[0] for name, _ in members_of(archive)}
    other = tmp_path / "theirs" / sorted(names)[-1]
    other.mkdir(parents=True)
    (other / "config.json").write_text("mine")
    with pytest.raises(RunError, match="exists and holds something else"):
        unpack_runs(archive, tmp_path / "theirs")
    assert everything_below(tmp_path / "theirs") == [other.name, f"{other.name}/config.json"]


def test_a_file_in_place_of_a_folder_leaves_nothing_unpacked(archive, tmp_path):
    inner = [(f"x/{name}", content) for name, content in members_of(archive)]
    tar_of(tmp_path / "b.tar.gz", [*members_of(archive), *inner])
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "x").write_text("a file")
    before = everything_below(tmp_path)
    with pytest.raises(RunError, match="x is a file, and a folder is needed: nothing is unpacked"):
        unpack_runs(tmp_path / "b.tar.gz", tmp_path / "theirs")
    assert everything_below(tmp_path) == before


def test_a_run_inside_another_run_is_refused(archive, tmp_path):
    members = members_of(archive)
    name = members[0][0].split("/")[0]
    tar_of(tmp_path / "b.tar.gz", [*members, (f"{name}/inner/config.json", b"{}")])
    with pytest.raises(RunError, match="inner without a configuration"):
        unpack_runs(tmp_path / "b.tar.gz", tmp_path / "theirs")


def test_claims_and_tables_of_the_theory_travel_along(home, tmp_path):
    (home / "theory").mkdir()
    (home / "theory" / "case.csv").write_text("seed\n")
    (tmp_path / "figures").mkdir()
    with pytest.raises(RunError, match=r"claims\.json is missing: slsgd-mx claims --figures"):
        find_tables(home, tmp_path / "figures")
    for name in ("claims.json", "claims.md"):
        (tmp_path / "figures" / name).write_text(name)
    words = ("--runs", home, "--figures", tmp_path / "figures", "--out", tmp_path / "a.tar.gz")
    assert call("runs", "pack", *words).exit_code == 0
    theirs = tmp_path / "theirs"
    assert call("runs", "unpack", tmp_path / "a.tar.gz", "--runs", theirs).exit_code == 0
    assert (theirs / "theory" / "case.csv").read_text() == "seed\n"
    assert (theirs / "claims.md").read_text() == "claims.md"
    (theirs / "claims.md").write_text("my own")
    again = call("runs", "unpack", tmp_path / "a.tar.gz", "--runs", theirs)
    assert again.exit_code == 1 and "claims.md exists and holds something else" in again.output


def test_commands_read_an_archive_in_place_of_a_folder(home, archive):
    listed = json.loads(call("runs", "--runs", archive, "--json").stdout)
    assert len(listed["runs"]) == 2 and {run["status"] for run in listed["runs"]} == {"done"}
    verified = call("runs", "verify", "--runs", archive)
    assert verified.exit_code == 0 and verified.output.count("verified: ") == 2
    figure = call("fig3", "--preset", "smoke", "--runs", archive, "--figures", home / "figures")
    assert figure.exit_code == 1 and "Nothing is computed" in figure.output


def test_an_archive_that_does_not_exist_is_no_new_folder(home):
    missing = call("fig3", "--preset", "smoke", "--runs", home / "none.tar.gz")
    assert missing.exit_code == 2 and "none.tar.gz' does not exist" in missing.output
    assert not (home / "none.tar.gz").exists()


def test_what_pack_prints_counts_the_runs(home, tmp_path):
    said = call("runs", "pack", "--runs", home, "--out", tmp_path / "a.tar.gz")
    assert said.output.startswith("2 runs without models; 1 unfinished left out: ")
    few = call("runs", "pack", "--runs", home, "--where", "seed=1", "--out", tmp_path / "b.tar.gz")
    assert few.output.startswith("1 run without models: ")
    wrong = call("runs", "pack", "--runs", home, "--out", tmp_path / "b.zip")
    assert wrong.exit_code == 2 and ".tar.gz" in wrong.output
    none = call("runs", "pack", "--runs", home, "--where", "seed=2", "--out", tmp_path / "c.tar.gz")
    assert none.exit_code == 1 and "none of the 1 runs is finished" in none.output


@pytest.mark.parametrize("name", ["theory", "a\nb", "1/2/3/4/5/6/7/8"])
def test_a_run_that_an_archive_cannot_hold_is_not_packed(tmp_path, tiny, name):
    train(tiny(epochs=1), tmp_path / "runs" / name)
    folders = [run.path for run in load_runs(tmp_path / "runs")]
    with pytest.raises(RunError, match="an archive cannot hold .* rename the folder"):
        pack_runs(folders, tmp_path / "runs", tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_no_archive_is_packed_that_would_not_be_unpacked(home, tmp_path, monkeypatch):
    def pack(most):
        monkeypatch.setattr("slsgd_mx.runs.sharing.MOST_MEMBERS", most)
        pack_runs([run.path for run in load_runs(home)], home, tmp_path / "a.tar.gz")

    with pytest.raises(RunError, match="2 runs are 12 files, and an archive may hold 11: "):
        pack(11)
    assert not (tmp_path / "a.tar.gz").exists()
    pack(12)
    assert len(unpack_runs(tmp_path / "a.tar.gz", tmp_path / "there").new) == 2


def test_a_run_is_packed_from_inside_its_folder(tmp_path, tiny, monkeypatch):
    train(tiny(epochs=1), tmp_path / "mine")
    monkeypatch.chdir(tmp_path / "mine")
    assert call("runs", "pack", "--runs", ".", "--out", "../a.tar.gz").exit_code == 0
    unpacked = unpack_runs(tmp_path / "a.tar.gz", tmp_path / "theirs")
    assert unpacked.new == [tmp_path / "theirs" / "mine"]


def test_a_local_run_that_is_not_finished_is_named(home, archive, tmp_path, tiny):
    config = tiny(epochs=4, eval_every=2)
    interrupt(config, tmp_path / "theirs" / config.slug, 2)
    said = call("runs", "unpack", archive, "--runs", tmp_path / "theirs")
    assert said.output.startswith("1 new run, 1 already there: ")
    assert f"{config.slug} is there and not finished: move it away" in said.output


def test_what_is_printed_names_the_archive_and_not_its_copy(archive):
    claims = ["claims", "--preset", "smoke"]
    for words in (["runs"], ["runs", "--json"], ["runs", "verify"], claims):
        said = call(*words, "--runs", archive).output
        assert str(archive) in said and "slsgd-mx-" not in said
    assert f"first slsgd-mx runs unpack {archive} --runs DIR" in said  # nothing is computed there
    archive.write_bytes(archive.read_bytes()[:-200])
    said = call("runs", "--runs", archive)
    assert said.exit_code == 1 and "slsgd-mx-" not in said.output


def test_an_archive_without_runs_leaves_no_folder(tmp_path, tiny):
    (tmp_path / "a.tar.gz").write_bytes(gzip.compress(bytes(1024)))
    with pytest.raises(RunError, match="holds no run: nothing is unpacked"):
        unpack_runs(tmp_path / "a.tar.gz", tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()


def test_every_file_of_a_finished_run_is_known_to_the_archive(home):
    done = next(run.path for run in load_runs(home) if run.status == "done")
    ours = {path.name for path in done.iterdir()} - {".lock", "checkpoint"}
    assert ours <= set(OF_A_RUN)
