"""A fixed number of poisoned devices: how many of them each epoch selects is recorded."""

import pytest
from helpers.run_folders import interrupt, numbers

from slsgd_mx.core.algorithm import select_devices, select_poisoned
from slsgd_mx.runs.pushes import read_pushes
from slsgd_mx.runs.records import load_run
from slsgd_mx.runs.trainer import train

pytestmark = pytest.mark.parametrize("tiny", ["problem"], indirect=True)  # the quickest


def test_the_number_poisoned_in_every_epoch_is_recorded(tiny, tmp_path):
    config = tiny(poisoned_devices=3, b=1, epochs=5, eval_every=2)
    train(config, tmp_path / "whole")
    expected = [tuple(select_poisoned(config, t)) for t in range(1, 6)]
    assert len(set(map(len, expected))) > 1  # q_t varies
    assert [row.poisoned for row in read_pushes(tmp_path / "whole")] == expected
    interrupt(config, tmp_path / "part", 3)
    train(config, tmp_path / "part")
    assert numbers(tmp_path / "part") == numbers(tmp_path / "whole")
    assert load_run(tmp_path / "whole").metrics == config.sizes.metrics


def test_the_same_devices_are_poisoned_whenever_they_are_selected(tiny):
    config = tiny(poisoned_devices=3)
    bad, honest = set(), set()
    for t in range(1, 40):
        selected = select_devices(config, t)
        slots = select_poisoned(config, t)
        bad |= set(selected[slots])
        honest |= set(selected) - set(selected[slots])
    assert len(bad) == 3 and len(honest) == config.n - 3 and not bad & honest
