"""Results survive upgrades: old folders, old names, other columns; other data are noticed."""

import dataclasses
import json
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from helpers.run_folders import forget_digests, interrupt, keep, numbers

import slsgd_mx.config
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import DataError, DivergedError, RunError
from slsgd_mx.frozen import FROZEN, FROZEN_SIZES
from slsgd_mx.parameter_server.launcher import launch
from slsgd_mx.parameter_server.roles import _coordinate
from slsgd_mx.runs import trainer
from slsgd_mx.runs.folder import COST_COLUMNS, RunFolder
from slsgd_mx.runs.index import RunIndex
from slsgd_mx.runs.stored_config import read_config
from slsgd_mx.runs.trainer import train
from slsgd_mx.sweeps.plan import carry_out, make_plan
from slsgd_mx.sweeps.pool import Pool
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.images.sizes import Images
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.tasks.problems.sizes import Problem
from slsgd_mx.tasks.sizes import SIZES

WRITTEN = Path(__file__).parent / "written_by_0.1.0"


@pytest.fixture
def home(tmp_path):
    """A folder of runs with the one that version 0.1.0 wrote."""
    return Path(shutil.copytree(WRITTEN, tmp_path / "runs"))


@pytest.fixture
def old_config(tiny):
    return tiny(b=1, q=1, epochs=4, alpha=0.5, alpha_decay_epoch=2)


# ---- folders of earlier versions -----------------------------------------------------------


def test_a_run_of_0_1_0_is_found_by_its_content(home, old_config):
    for name in ("broken", "empty"):  # they hold no configuration, and are ignored
        (home / name).mkdir()
    (home / "broken" / "config.json").write_text("{")
    folder = RunIndex(home).folder(old_config)
    assert folder.name.endswith("dbd66ec37625") and folder.name != old_config.slug
    other = dataclasses.replace(old_config, seed=1)
    assert RunIndex(home).folder(other) == home / other.slug  # where it will be


def test_a_run_of_0_1_0_is_returned_and_not_computed(home, old_config, monkeypatch):
    monkeypatch.setattr(trainer, "build_task", None)  # calling it would fail
    folder = RunIndex(home).folder(old_config)
    before = numbers(folder)
    result = train(old_config, folder)
    assert [row["epoch"] for row in result.rows] == ["1", "2", "3", "4"]
    assert result.resumed_from == 4 and numbers(folder) == before
    assert len(RunFolder(folder, old_config).model()) == 28


def test_a_finished_folder_is_preferred_among_equal_ones(home, old_config):
    (old,) = home.iterdir()
    shutil.copytree(old, home / "another-name")
    (old / "DONE").unlink()
    assert RunIndex(home).folder(old_config) == home / "another-name"


def test_repeats_of_0_1_0_are_found(home, old_config):
    (old,) = home.iterdir()
    (home / "old-name-repeats").mkdir()
    old.rename(home / "old-name-repeats" / "seed0")
    assert RunIndex(home).folder(old_config) == home / "old-name-repeats" / "seed0"
    other = dataclasses.replace(old_config, seed=1)
    assert RunIndex(home).folder(other, home / "new") == home / "new"


def as_0_1_0(folder):
    """Rewrite a folder the way 0.1.0 would have written it."""
    values = json.loads((folder / "config.json").read_text())
    values["task"] = {"kind": values.pop("task"), **values.pop("sizes")}
    for later in ("deadline", "boost", "partition_seed"):
        del values[later]
    (folder / "config.json").write_text(json.dumps(values, sort_keys=True, indent=1) + "\n")


@pytest.mark.parametrize("tiny", SIZES, indirect=True)
def test_an_unfinished_run_of_0_1_0_resumes(tiny, tmp_path):
    config = tiny(epochs=4, eval_every=2)
    interrupt(config, tmp_path / "run", 3)
    as_0_1_0(tmp_path / "run")
    assert read_config(tmp_path / "run") == config
    resumed = train(config, tmp_path / "run")
    assert resumed.resumed_from == 3
    assert numbers(resumed.folder) == numbers(train(config, tmp_path / "whole").folder)


# ---- columns -------------------------------------------------------------------------------


def test_missing_columns_are_left_empty(tiny, tmp_path):
    config = tiny(epochs=4)
    interrupt(config, tmp_path / "run", 2)
    metrics = forget_digests(tmp_path / "run") / "metrics.csv"
    lines = metrics.read_text().splitlines()
    metrics.write_text("".join(line.rsplit(",", len(COST_COLUMNS))[0] + "\n" for line in lines))
    resumed = train(config, tmp_path / "run")
    assert numbers(resumed.folder) == numbers(train(config, tmp_path / "whole").folder)
    assert [row["bytes_sent"] for row in resumed.rows] == ["", "", "0", "0"]
    assert RunFolder(tmp_path / "run", config).finished()


def test_columns_of_a_later_version_are_kept(tiny, tmp_path):
    config = tiny(epochs=3)
    interrupt(config, tmp_path / "run", 2)
    metrics = forget_digests(tmp_path / "run") / "metrics.csv"
    first, *rows = metrics.read_text().splitlines()
    metrics.write_text("\n".join([first + ",mood", *(row + ",good" for row in rows)]) + "\n")
    for _ in range(2):  # computed, then read
        assert [r["mood"] for r in train(config, tmp_path / "run").rows] == ["good", "good", ""]


@pytest.mark.parametrize("change", [lambda cells: cells[:-4], lambda cells: [*cells, "new"]])
def test_a_finished_run_with_other_columns_is_finished(tiny, tmp_path, change):
    config = tiny(epochs=2)
    metrics = forget_digests(keep(tmp_path / "run", config, 2)) / "metrics.csv"
    lines = [change(line.split(",")) for line in metrics.read_text().splitlines()]
    metrics.write_text("".join(",".join(cells) + "\n" for cells in lines))
    assert RunFolder(tmp_path / "run", config).finished()
    for text in ("", "[]", "{", '{"epoch": "1"}'):
        (tmp_path / "run" / "DONE").write_text(text)
        with pytest.raises(RunError, match="damaged"):
            RunFolder(tmp_path / "run", config).finished()


@pytest.mark.parametrize("column", ["epoch", "train_loss"])
def test_a_needed_column_that_is_missing_is_damage(tiny, tmp_path, column):
    config = tiny(epochs=2)
    metrics = keep(tmp_path / "run", config, 2) / "metrics.csv"
    metrics.write_text(metrics.read_text().replace(column, "renamed", 1))
    with pytest.raises(RunError, match=r"metrics\.csv is damaged"):
        RunFolder(tmp_path / "run", config).finished()


# ---- identity ------------------------------------------------------------------------------


def test_every_field_has_a_frozen_default():
    assert {f.name for f in dataclasses.fields(RunConfig)} == {"sizes", *FROZEN}
    for task, sizes in SIZES.items():
        assert {f.name for f in dataclasses.fields(sizes)} == set(FROZEN_SIZES[task])


@pytest.mark.parametrize(
    "values, identity",
    [
        ({}, "984cd25bda46"),
        (dict(b=2, alpha=0.8), "4d63be46f0b2"),
        (dict(q=2, b=2, seed=3), "0df8a9226507"),
    ],
)
def test_identities_stay_as_they_are(values, identity):
    assert RunConfig(**values).identity == identity


@pytest.mark.parametrize(
    "sizes, identity",
    [
        (
            Lstm(
                data="wikitext2", partition="shuffled", vocab_size=33_278, bptt=35,
                device_batches=32, loss_batches=3_200, test_batches=350, width=200,
            ),
            "d813f3e12a38",
        ),
        (
            Problem(
                objective="quadratic", population="symmetric", dimension=10, samples=20,
                heterogeneity=1.0, curvature=0.0, noise=1.0, mu=1.0, L=4.0, waves=0.5, radius=5.0,
                instance=0,
            ),
            "b739225ef67e",
        ),
        (Images(partition="balanced", structure=""), "3e18e1ef63cb"),
    ],
)  # fmt: skip
def test_identities_of_all_sizes_stay_as_they_are(sizes, identity):
    assert RunConfig(sizes=sizes).identity == identity


def test_a_new_field_at_its_frozen_default_leaves_identities_alone(monkeypatch):
    before = RunConfig(b=2).identity
    asdict = dataclasses.asdict
    newer = lambda config: {**asdict(config), "momentum": 0.0}  # noqa: E731
    monkeypatch.setattr(slsgd_mx.config.dataclasses, "asdict", newer)
    assert RunConfig(b=2).identity != before
    monkeypatch.setitem(FROZEN, "momentum", 0.0)
    assert RunConfig(b=2).identity == before


def test_names_show_what_was_varied():
    varied = dict(passes=3, alpha=0.8, alpha_schedule="constant", n=50, q=2)
    slug = RunConfig(**varied, attacker_start="pulled").slug
    for word in ("passes3", "alpha0.8", "constant", "n50", "q2", "pulled", "T800", "seed0"):
        assert f"-{word}-" in slug
    assert "-H2to7-" in RunConfig(local_steps=(2, 7)).slug
    assert "-scale3-" in RunConfig(q=1, attack="gaussian", attack_scale=3).slug
    assert "-deadline2.5-" in RunConfig(deadline=2.5).slug


# ---- names of 0.1.0 ------------------------------------------------------------------------


def test_moved_modules_are_imported_with_a_warning():
    with pytest.warns(DeprecationWarning, match="is now slsgd_mx.parameter_server.launcher"):
        from slsgd_mx.dist.launcher import launch
    from slsgd_mx.parameter_server import launcher

    assert launch is launcher.launch and launcher.__spec__.name == launcher.__name__
    for name in ("slsgd_mx.dist", "slsgd_mx.dist.launcher"):
        sys.modules.pop(name)


def test_task_is_an_old_name_of_sizes(tiny):
    sizes = tiny().sizes
    with pytest.warns(DeprecationWarning, match="is now sizes="):
        config = RunConfig(task=sizes, n=8, k=4)
    with pytest.warns(DeprecationWarning, match="is now RunConfig.sizes"):
        assert config.task == sizes


# ---- a finished run and the requested data -------------------------------------------------


def write_cifar10(folder, seed):
    """Twelve random images in each of the six files of the binary layout."""
    rng, folder = np.random.default_rng(seed), folder / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
        records = rng.integers(0, 256, (12, 3073), np.uint8)
        records[:, 0] = np.arange(12) % 10
        records.tofile(folder / f"{name}.bin")


@pytest.fixture
def computed(tiny, tmp_path, monkeypatch):
    """A finished run on real data in tmp_path/ours; other data are in tmp_path/theirs."""
    monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path / "home"))
    for seed, name in enumerate(("ours", "theirs")):
        write_cifar10(tmp_path / name, seed)
    config = tiny(data="cifar10", train_images=60, test_images=12, loss_images=60, n=6, epochs=2)
    return config, train(config, tmp_path / "run", data_dir=tmp_path / "ours").folder


@pytest.mark.parametrize("run", [train, launch])
def test_a_finished_run_is_not_returned_for_other_data(computed, tmp_path, run):
    config, folder = computed
    with pytest.raises(RunError, match="was computed on other data") as error:
        run(config, folder, data_dir=tmp_path / "theirs")
    assert "--data-dir" in str(error.value)
    with pytest.raises(DataError, match="CIFAR-10 not found"):
        run(config, folder, data_dir=tmp_path / "nowhere")
    assert run(config, folder, data_dir=tmp_path / "ours").resumed_from == 2
    assert run(config, folder).resumed_from == 2  # without any data


def test_a_diverged_run_is_not_returned_for_other_data(computed, tmp_path):
    config, folder = computed
    (folder / "DONE").rename(folder / "DIVERGED")
    with pytest.raises(RunError, match="was computed on other data"):
        train(config, folder, data_dir=tmp_path / "theirs")
    with pytest.raises(DivergedError):
        train(config, folder, data_dir=tmp_path / "ours")


def test_worker_0_does_not_return_a_finished_run_for_other_data(computed, tmp_path):
    (config, path), server = computed, Mock()
    folder = RunFolder(path, config)
    tasks = [build_task(config, tmp_path / place) for place in ("ours", "theirs")]
    assert _coordinate(config, tasks[0], server, folder, None, None).resumed_from == 2
    with pytest.raises(RunError, match="was computed on other data"):
        _coordinate(config, tasks[1], server, folder, None, None)
    assert server.end.call_count == 2  # the other processes exit in both cases


def test_a_sweep_does_not_use_runs_on_other_data(computed, tmp_path):
    config, _ = computed
    plan = make_plan({"figure": [config]}, tmp_path)
    with Pool(1, 1) as pool:
        assert carry_out(plan, pool, tmp_path / "ours") == {}
        for place, why in (("theirs", "was computed on other data"), ("nowhere", "not found")):
            (result,) = carry_out(plan, pool, tmp_path / place).values()
            assert result.status == "failed" and why in result.why


def test_the_digest_of_unchanged_files_is_remembered(computed, tmp_path, monkeypatch):
    config, folder = computed
    assert train(config, folder, data_dir=tmp_path / "ours").resumed_from == 2
    monkeypatch.setattr("slsgd_mx.data.digests.load_cifar10", None)  # calling it would fail
    assert train(config, folder, data_dir=tmp_path / "ours").resumed_from == 2
    monkeypatch.undo()
    monkeypatch.setenv("SLSGD_MX_DATA", str(tmp_path / "home"))
    changed = tmp_path / "ours" / "cifar-10-batches-bin" / "test_batch.bin"
    changed.write_bytes(b"\x09" + changed.read_bytes()[1:])  # another label
    with pytest.raises(RunError, match="was computed on other data"):
        train(config, folder, data_dir=tmp_path / "ours")


@pytest.mark.parametrize("text", ["", "[]", '{"a": 1', "[" * 100_000])
def test_a_damaged_memory_of_digests_is_ignored(computed, tmp_path, text):
    config, folder = computed
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "digests.json").write_text(text)
    assert train(config, folder, data_dir=tmp_path / "ours").resumed_from == 2
