"""The language model's text: its partition, attacks on it, and texts that are too short."""

from dataclasses import fields

import numpy as np
import pytest

from slsgd_mx.config import RunConfig
from slsgd_mx.core.algorithm import local_sgd
from slsgd_mx.data.synthetic_text import synthetic_text
from slsgd_mx.data.text import batchify_text, deal_batches
from slsgd_mx.errors import ConfigError
from slsgd_mx.randomness import stream
from slsgd_mx.tasks.build import build_task
from slsgd_mx.tasks.lstm.sizes import Lstm

BATCH, BPTT, TYPES = 3, 4, 24  # of the tiny configurations

pytestmark = pytest.mark.parametrize("tiny", ["lstm"], indirect=True)


@pytest.fixture(scope="module")
def task(tiny, tiny_task):
    return tiny_task(tiny())


def trained_on(task, monkeypatch, config, device, poisoned):
    """Inputs and targets on which a worker trains in epoch 1, as integers."""
    batches, loss = [], task.loss
    with monkeypatch.context() as patch:
        patch.setattr(task, "loss", lambda *batch: batches.append(batch) or loss(*batch))
        local_sgd(1, device, config, task, poisoned)
    return tuple(np.stack([b[i].asnumpy() for b in batches]).astype(int) for i in (1, 2))


def test_permuted_targets_are_the_devices_own_in_another_order(tiny, task, monkeypatch):
    config, seen = tiny(q=1), set()
    assert (config.attack, config.attacker_start) == ("label-permute", "fresh")
    for device in (0, 4):
        data, target = trained_on(task, monkeypatch, config, device, poisoned=False)
        for ours, dealt in zip((data, target), task.devices[device]):
            np.testing.assert_array_equal(ours, dealt)
        same, permuted = trained_on(task, monkeypatch, config, device, poisoned=True)
        np.testing.assert_array_equal(same, data)
        assert sorted(permuted.ravel()) == sorted(target.ravel())
        assert (permuted != target).mean() > 0.5
        # across batches too
        assert [sorted(p.ravel()) for p in permuted] != [sorted(t.ravel()) for t in target]
        order = np.lexsort((np.arange(target.size), target.ravel()))
        seen.add(permuted.ravel()[order].tobytes())
    assert len(seen) == 2


def test_shifted_targets_are_a_thousand_lower_and_not_below_zero(tiny, monkeypatch):
    config = tiny(q=1, attack="label-shift", vocab_size=3000, device_batches=20, width=1)
    task = build_task(config)
    data, target = trained_on(task, monkeypatch, config, 0, poisoned=False)
    same, shifted = trained_on(task, monkeypatch, config, 0, poisoned=True)
    np.testing.assert_array_equal(same, data)
    np.testing.assert_array_equal(shifted, np.maximum(target - 1000, 0))
    assert len(set(shifted.ravel())) > 3 and config.attack_scale == 1000


def test_partitions(tiny, tiny_task, task):
    consecutive = tiny_task(tiny(partition="consecutive"))
    text = synthetic_text(8 * 3 * BATCH * BPTT + BATCH, 1, TYPES)
    batches = batchify_text(text.train, BATCH, BPTT)
    for partitioned, rng in ((consecutive, None), (task, stream(0, "partition"))):
        for ours, dealt in zip(partitioned.devices, deal_batches(batches, 8, 3, rng)):
            np.testing.assert_array_equal(ours, dealt)
        np.testing.assert_array_equal(partitioned.loss_set, [part[:4] for part in batches])
    one, other = (
        [pair.tobytes() for device in dealt.devices for pair in np.stack(device, axis=1)]
        for dealt in (consecutive, task)
    )
    assert one != other and sorted(one) == sorted(other)
    other_seed = tiny_task(tiny(seed=1))
    assert any(not np.array_equal(*pair) for pair in zip(other_seed.devices, task.devices))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """WikiText-2's three files with 160, 65 and 80 tokens of 13 types."""
    path = tmp_path_factory.mktemp("wikitext")
    for part, lines in (("train", 16), ("valid", 6), ("test", 8)):
        rows = [" ".join(f"w{(i * j) % 11}" for j in range(1, 10)) for i in range(1, lines + 1)]
        tail = "w1 w2 w3 w4\n" if part == "valid" else ""
        (path / f"wiki.{part}.tokens").write_text("\n".join(rows) + "\n" + tail)
    return path


REAL = dict(data="wikitext2", vocab_size=13, partition="consecutive", n=4, device_batches=4)


def test_the_validation_text_is_appended_and_no_batch_spans_both_texts(tiny, folder):
    """(160 // 3 - 1) // 4 = 13 batches of training text, then (65 // 3 - 1) // 4 = 5."""
    task = build_task(tiny(**{**REAL, "n": 6, "device_batches": 3}), folder)
    assert task.classes == 13 and len(task.test_set[0]) == 3
    data, target = (np.concatenate(parts) for parts in zip(*task.devices))
    assert len(data) == 18
    for batch in (*range(1, 13), *range(14, 18)):
        np.testing.assert_array_equal(data[batch][0], target[batch - 1][-1])
    assert np.any(data[13][0] != target[12][-1])


@pytest.mark.parametrize("partition", ["shuffled", "consecutive"])
def test_the_training_loss_is_measured_on_text_of_the_devices(tiny, folder, partition):
    """The devices hold 16 of the 18 batches; the others are not used."""
    task = build_task(tiny(**{**REAL, "partition": partition, "loss_batches": 16}), folder)
    held, measured = (
        sorted(pair.tobytes() for device in sets for pair in np.stack(device, axis=1))
        for sets in (task.devices, [task.loss_set])
    )
    assert held == measured and len(held) == 16


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            dict(n=5),
            "the text is too short: n * device_batches = 20 batches are needed, and it has 18",
        ),
        (dict(n=4, device_batches=5), "too short: n * device_batches = 20 batches are needed"),
        (dict(test_batches=7), "test_batches=7 is out of range: needs 1 <= test_batches <= 6"),
        (dict(bptt=60), "tokens are too few for batch_size=3 and bptt=60: needs at least"),
        (dict(vocab_size=14), "vocab_size=14 is out of range: the training text has 13 types"),
    ],
)
def test_too_short_a_text_is_refused_with_the_legal_range(tiny, folder, changes, message):
    with pytest.raises(ConfigError) as error:
        build_task(tiny(**{**REAL, **changes}), folder)
    assert message in str(error.value)


@pytest.mark.parametrize(
    "sizes, message",
    [
        (dict(data="cifar10"), "data='cifar10' is unknown: choose one of wikitext2, synthetic"),
        (dict(partition="balanced"), "'balanced' is unknown: choose one of shuffled, consecutive"),
        (dict(vocab_size=2), "vocab_size=2 is out of range: needs vocab_size >= 3"),
        (dict(vocab_size=19), "vocab_size=19 is out of range: needs 20 <= vocab_size <= 100000"),
        (dict(width=1.5), "width=1.5 must be a whole number"),
        (dict(width=0), "width=0 is out of range: needs 1 <= width <= 16384"),
        *(
            ({name: 0}, f"{name}=0 is out of range: needs {name} >= 1")
            for name in ("bptt", "device_batches", "loss_batches", "test_batches")
        ),
        (dict(loss_batches=25), "needs 1 <= loss_batches <= n * device_batches = 24"),
    ],
)
def test_sizes_out_of_range(tiny, sizes, message):
    with pytest.raises(ConfigError) as error:
        tiny(**sizes)
    assert message in str(error.value)


def test_identity_and_json_of_a_language_model(tiny):
    config = tiny(q=1)
    assert RunConfig.from_json(config.to_json()) == config
    changes = dict(
        data="wikitext2", partition="consecutive", vocab_size=25, bptt=5, device_batches=4,
        loss_batches=5, test_batches=4, width=9,
    )  # fmt: skip
    assert set(changes) == {field.name for field in fields(Lstm)}
    identities = {tiny(q=1, **{name: value}).identity for name, value in changes.items()}
    assert len(identities | {config.identity}) == len(changes) + 1
    assert config.slug.startswith(
        "lstm-synthetic-v24-3batches-T3-gamma5-alpha1-b0-label-permute-q1-"
    )
