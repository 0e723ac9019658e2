"""Variants of figures: the names of their folders, and what they refuse or leave out."""

import pytest

from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Variant, groups, loss_to_reach, runs_of


def test_everything_that_changes_a_picture_changes_the_name_of_its_folder():
    variants = [
        Variant("laptop", {}),
        Variant("laptop", {"b": 2}),
        Variant("laptop", {}, repeats=1),
        Variant("laptop", {}, seed=1),
        Variant("laptop", {}, loss=1.5),
        Variant("laptop", {}, at=(0.6, 1.0)),
        Variant("laptop", {}, released=True),
        Variant("smoke", {}),
    ]
    assert [variant.folder for variant in variants] == [
        "laptop",
        "laptop-b-2",
        "laptop-repeats-1",
        "laptop-seed-1",
        "laptop-loss-1.5",
        "laptop-alphas-0.6-1",
        "laptop-released",
        "smoke",
    ]
    assert Variant("laptop", {}, repeats=3).folder == "laptop"  # the preset's own repeats


def test_long_names_of_folders_are_cut_and_stay_different():
    changes = {f"option_{i}": "x" * 20 for i in range(5)}
    names = {Variant("smoke", {**changes, "option_9": last}).folder for last in "ab"}
    assert len(names) == 2 and max(map(len, names)) <= 100


def test_the_name_of_a_folder_has_no_separators():
    assert Variant("smoke", {"data": "../my arrays.npz"}).folder == "smoke-data-..-my-arrays.npz"


def test_a_rule_without_b_has_one_curve_for_each_alpha():
    lines = groups(FIGURES["fig3"], Variant("smoke", {"rule": "median"}))["$q=2$"]
    labels = [line.label for line in lines]
    assert len(set(labels)) == len(labels) and not any("$b=" in label for label in labels)


def test_sizes_that_only_another_task_has_are_left_out():
    variant = Variant("smoke", {"bptt": 5, "train_images": 1000})
    assert {run.sizes.bptt for run in runs_of(FIGURES["fig11"], variant)} == {5}
    assert {run.sizes.train_images for run in runs_of(FIGURES["fig1"], variant)} == {1000}


def test_the_loss_that_another_task_has_to_reach_must_be_given():
    with pytest.raises(ConfigError, match="which training loss is task 'images' to reach"):
        loss_to_reach(FIGURES["fig6"], Variant("smoke", {}, task="images"))
    given = Variant("smoke", {}, task="images", loss=0.5)
    assert loss_to_reach(FIGURES["fig6"], given) == 0.5


def test_no_poisoned_devices_are_refused():
    said = "poisoned_devices=0 is out of range: needs poisoned_devices >= 1"
    with pytest.raises(ConfigError, match=said):
        Variant("smoke", {}, poisoned_devices=0)
