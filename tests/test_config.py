"""RunConfig: what is refused and in which words, what is warned about, identity."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slsgd_mx.attacks import ATTACKS
from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.presets import preset
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.tasks.problems.sizes import Problem

FITTING = [name for name in ATTACKS if name != "worst-case"]  # the CNN has no target


def refused(message, **values):
    with pytest.raises(ConfigError) as error:
        RunConfig(**values)
    assert message in str(error.value)
    assert error.value.exit_code == 2


def sizes(**changes):
    return dict(sizes=Cifar(**changes))


@pytest.mark.parametrize(
    "values, message",
    [
        (dict(n=0), "n=0 is out of range: needs n >= 1"),
        (dict(k=0), "k=0 is out of range: needs k >= 1"),
        (dict(k=101), "k=101 is out of range: needs 1 <= k <= n=100"),
        (dict(b=-1), "b=-1 is out of range: needs b >= 0"),
        (dict(b=5), "b=5 is out of range for k=10: trimmed mean needs 0 <= b <= 4"),
        (dict(q=-1), "q=-1 is out of range: needs q >= 0"),
        (dict(q=11), "q=11 is out of range: needs 0 <= q <= k=10"),
        (dict(gamma=0), "gamma=0.0 is out of range: needs 0 < gamma <= 3.4e+38"),
        (dict(gamma=float("inf")), "gamma=inf is out of range"),
        (dict(gamma=float("nan")), "gamma=nan is out of range"),
        (dict(alpha=0), "alpha=0.0 is out of range: needs 0 < alpha <= 1"),
        (dict(alpha=1.01), "alpha=1.01 is out of range: needs 0 < alpha <= 1"),
        (dict(alpha=float("nan")), "alpha=nan is out of range"),
        (dict(alpha_schedule="cosine"), "'cosine' is unknown: choose one of step, constant"),
        (dict(alpha_decay_epoch=-1), "alpha_decay_epoch=-1 is out of range: needs alpha_decay"),
        (dict(epochs=0), "epochs=0 is out of range: needs epochs >= 1"),
        (dict(passes=0), "passes=0 is out of range: needs passes >= 1"),
        (dict(local_steps=(0, 3)), "local_steps=0:3 is out of range: needs 1 <= MIN <= MAX"),
        (dict(local_steps=(4, 3)), "local_steps=4:3 is out of range: needs 1 <= MIN <= MAX"),
        (dict(local_steps=(1, 2), passes=2), "passes=2 is out of range: needs passes=1"),
        (dict(batch_size=0), "batch_size=0 is out of range: needs batch_size >= 1"),
        (dict(rule="best"), "rule='best' is unknown: choose one of trimmed-mean, mean, median"),
        (dict(poisoned_devices=101), "poisoned_devices=101 is out of range: needs 0 <= poisoned"),
        (dict(poisoned_devices=9, q=2), "q=2 is out of range: needs q=0 where poisoned_devices"),
        (dict(q=1, attack="magic"), "attack='magic' is unknown: choose one of label-flip"),
        (dict(q=1, attacker_start="late"), "'late' is unknown: choose one of fresh, pulled"),
        (dict(q=1, attack_scale=float("inf")), "attack_scale=inf is out of range"),
        (dict(q=1, boost=0), "boost=0.0 is out of range: needs 0 < boost <= 3.4e+38"),
        (dict(q=1, attack="nan", boost=2), "boost=2.0 is out of range: needs boost=1 with 'nan'"),
        (
            dict(k=3, q=2, attack="alie"),
            "attack alie needs k - q >= 2 honest pushes, and k=3, q=2 leaves 1",
        ),
        (dict(q=10, attack="ipm"), "ipm needs k - q >= 1 honest pushes, and k=10, q=10 leaves 0"),
        (dict(q=2, attack="alie:z=auto"), "alie:z=auto needs z > 0, and z=auto gives 0 for k=10"),
        *(
            (
                dict(sizes=Problem(), rule="krum", b=2, attack="worst-case", **poisoned),
                "worst-case needs a rule that treats each coordinate by itself, not krum",
            )
            for poisoned in (dict(q=2), dict(poisoned_devices=9))
        ),
        (dict(drop_rate=-0.1), "drop_rate=-0.1 is out of range: needs 0 <= drop_rate < 1"),
        (dict(drop_rate=1), "drop_rate=1.0 is out of range: needs 0 <= drop_rate < 1"),
        (dict(nonfinite="maybe"), "'maybe' is unknown: choose one of reject, keep"),
        (dict(selection="first"), "'first' is unknown: choose one of independent, permutation"),
        (dict(selection="permutation", k=7), "k=7 is out of range: needs a divisor of n=100"),
        (dict(seed=-1), "seed=-1 is out of range: needs seed >= 0"),
        (dict(partition_seed=-1), "partition_seed=-1 is out of range: needs partition_seed >= 0"),
        (dict(eval_every=0), "eval_every=0 is out of range: needs eval_every >= 1"),
        (dict(warm_up={}), "warm_up={} is out of range: needs True or False"),
        (dict(warm_up=1), "warm_up=1 is out of range: needs True or False"),
        (dict(n=50_001), "n=50001 is out of range: needs n <= train_images=50000"),
        (sizes(data="mnist"), "data='mnist' is unknown: choose one of cifar10, synthetic"),
        (sizes(partition="fair"), "'fair' is unknown: choose one of balanced, unbalanced"),
        (sizes(train_images=0), "train_images=0 is out of range: needs train_images >= 1"),
        (sizes(test_images=0), "test_images=0 is out of range: needs test_images >= 1"),
        (sizes(loss_images=0), "loss_images=0 is out of range: needs loss_images >= 1"),
        (sizes(loss_images=50_001), "needs 1 <= loss_images <= train_images=50000"),
        (
            dict(epochs=10**9 + 1),
            "epochs=1000000001 is out of range: needs 1 <= epochs <= 1000000000",
        ),
        (dict(passes=10**30), "needs 1 <= passes <= 1000000000"),
        (dict(local_steps=(1, 10**30)), "needs 1 <= MIN <= MAX <= 1000000000"),
        (sizes(width=1931), "width=1931 is out of range: needs 1 <= width <= 1930"),
        (dict(sizes=Lstm(width=16_385)), "needs 1 <= width <= 16384"),
        (dict(sizes=Lstm(vocab_size=10**6, width=3000)), "needs 1 <= width <= 2147"),
        (sizes(width=0), "width=0 is out of range: needs 1 <= width <= 1930"),
    ],
)
def test_out_of_range_is_refused_with_value_and_range(values, message):
    refused(message, **values)


@pytest.mark.parametrize("epochs", range(1, 8))
@pytest.mark.parametrize("every", range(1, 10))
def test_evaluations_are_the_epochs_that_are_evaluated(epochs, every):
    config = RunConfig(epochs=epochs, eval_every=every)
    for until in range(epochs + 1):
        expected = [t for t in range(1, until + 1) if config.is_evaluated(t)]
        for most in range(epochs + 2):
            assert config.evaluations(until, most) == expected[:most]


WHOLE = ["n", "k", "b", "q", "epochs", "passes", "batch_size", "seed", "eval_every"]


@pytest.mark.parametrize("name", [*WHOLE, "alpha_decay_epoch"])
@pytest.mark.parametrize("value", [1.5, 2.0, True, "3", None])
def test_counts_must_be_whole_numbers(name, value):
    refused(f"{name}={value!r} must be a whole number", **{name: value})


@pytest.mark.parametrize("value", [(1, 2, 3), (4,), 5, (1.5, 2.5), ("1", "2")])
def test_local_steps_of_a_wrong_form(value):
    refused("local_steps", local_steps=value)


@pytest.mark.parametrize("name", ["gamma", "alpha", "drop_rate", "attack_scale"])
def test_words_for_numbers(name):
    refused(name, **{"q": 1, name: "much"})


def test_numpy_numbers_equal_plain_ones():
    plain = RunConfig(
        Cifar(train_images=1000, loss_images=10), b=2, q=2, gamma=0.1, alpha=0.8, seed=3,
        local_steps=(2, 5), warm_up=False, attack_scale=0.3, deadline=1.5,
    )  # fmt: skip
    sizes = Cifar(train_images=np.int32(1000), loss_images=np.uint16(10))
    numpy = RunConfig(
        sizes, b=np.int64(2), q=np.array(2), gamma=np.float32(0.1), alpha=np.float64(0.8),
        seed=np.uint8(3), local_steps=np.array([2, 5]), warm_up=np.bool_(False),
        attack_scale=np.float16(0.3), deadline=np.float32(1.5),
    )  # fmt: skip
    assert numpy == plain and hash(numpy) == hash(plain)
    assert (numpy.identity, numpy.to_json()) == (plain.identity, plain.to_json())
    refused("b=2.0 must be a whole number", b=np.float64(2))
    refused("b=5 is out of range for k=10", b=np.int64(5))


# ---- what is warned about ------------------------------------------------------------------


def test_warnings():
    assert RunConfig().warnings() == []
    assert RunConfig(q=2, b=2).warnings() == []
    (trim,) = RunConfig(q=2, b=1).warnings()
    assert "b=1 < q=2" in trim
    few, many = RunConfig(q=5, b=4).warnings()
    assert "b=4 < q=5" in few and "2q=10 >= k=10" in many
    assert RunConfig(q=2, rule="median").warnings() == []  # the median has no b
    (other,) = RunConfig(q=2, b=1, rule="krum").warnings()
    assert other == "b=1 < q=2: krum cannot remove every poisoned push"
    (never,) = RunConfig(alpha=0.8, epochs=400).warnings()
    assert "alpha=0.8 takes effect after epoch 400" in never and "T=400" in never
    assert RunConfig(alpha=0.8, epochs=401).warnings() == []
    assert RunConfig(alpha=0.8, epochs=5, alpha_schedule="constant").warnings() == []


@pytest.mark.parametrize(
    "changes, said",
    [
        (dict(q=2, b=4), "k-q=8 pushes, and trimming with b=4 needs at least 9: the"),
        (dict(q=1, b=4), None),
        (dict(k=7, q=2, b=2), None),
        (dict(k=7, q=2, b=2, rule="krum"), "k-q=5 pushes, and krum with b=2 needs at least 7"),
        (dict(q=2, rule="median"), None),
        (dict(poisoned_devices=10, b=4), None),  # one of the ten, on average
        (dict(poisoned_devices=25, b=4), "on average 7.5 of k=10 pushes, and trimming "),
    ],
)
@pytest.mark.parametrize("attack", ["nan", "silent"])
def test_an_attack_that_leaves_too_few_pushes_is_warned_about(attack, changes, said):
    warned = RunConfig(attack=attack, **changes).warnings()
    assert warned == [] if said is None else f"{attack} leaves {said}" in warned[-1]


@st.composite
def configs(draw):
    k, attack = draw(st.integers(1, 12)), draw(st.sampled_from([None, *FITTING]))
    honest = ATTACKS[attack].least_honest if attack else 0
    return RunConfig(
        sizes=Cifar(
            data=draw(st.sampled_from(["cifar10", "synthetic"])),
            partition=draw(st.sampled_from(["balanced", "unbalanced"])),
            width=draw(st.integers(1, 64)),
        ),
        n=k * draw(st.integers(1, 9)),
        k=k,
        b=draw(st.integers(0, (k - 1) // 2)),
        q=draw(st.integers(0, max(0, k - honest))),
        gamma=draw(st.floats(1e-9, 10)),
        alpha=draw(st.floats(1e-9, 1)),
        alpha_schedule=draw(st.sampled_from(["step", "constant", "inverse-square"])),
        local_steps=draw(st.sampled_from([None, (1, 1), (2, 7)])),
        attack=attack,
        attack_scale=draw(st.one_of(st.none(), st.floats(-1e9, 1e9))),
        attacker_start=draw(st.sampled_from([None, "fresh", "pulled"])),
        drop_rate=draw(st.floats(0, 0.99)),
        selection=draw(st.sampled_from(["independent", "permutation"])),
        warm_up=draw(st.booleans()),
        seed=draw(st.integers(0, 2**40)),
    )


@given(configs())
def test_json_round_trip(config):
    again = RunConfig.from_json(config.to_json())
    assert again == config
    assert again.to_json() == config.to_json()
    assert again.identity == config.identity and again.slug == config.slug


@given(configs(), configs())
def test_equal_configurations_are_those_of_equal_identity(one, other):
    assert (one == other) == (one.identity == other.identity)


CHANGES = dict(
    n=120, k=12, b=1, q=1, gamma=0.05, alpha=0.8, alpha_schedule="constant", alpha_decay_epoch=3,
    epochs=801, passes=2, local_steps=(2, 5), batch_size=51, rule="median", drop_rate=0.1,
    nonfinite="keep", selection="permutation", warm_up=False, seed=1, eval_every=9,
    sizes=Cifar(width=63), deadline=2.5, partition_seed=1, poisoned_devices=3,
    precision="bfloat16",
)  # fmt: skip


@pytest.mark.parametrize("value", [0, -1.5, float("nan"), float("inf")])
def test_illegal_deadlines(value):
    refused(f"deadline={value:g} is out of range: needs a finite number of", deadline=value)


def test_every_field_is_part_of_the_identity():
    names = {field.name for field in dataclasses.fields(RunConfig)}
    assert set(CHANGES) == names - {"attack", "attacker_start", "attack_scale", "boost", "sources"}
    identities = {RunConfig(**{name: value}).identity for name, value in CHANGES.items()}
    attacked = [{}, dict(attack="gaussian"), dict(attacker_start="pulled")]
    attacked += [dict(attack_scale=2.0), dict(boost=2.0)]
    identities |= {RunConfig(q=2, **change).identity for change in attacked}
    identities.add(RunConfig().identity)
    assert len(identities) == len(CHANGES) + len(attacked) + 1


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "3", '{"task": 1}', '{"task": {"kind": "magic"}}', "{broken"]
)
def test_text_that_is_not_a_configuration(text):
    with pytest.raises(ConfigError, match="not a configuration of a run"):
        RunConfig.from_json(text)


def test_unknown_or_illegal_fields_in_json():
    values = RunConfig().to_dict()
    for change, said in (({"zeta": 1}, "zeta"), ({"b": 7}, "0 <= b <= 4")):
        with pytest.raises(ConfigError, match=said):
            RunConfig.from_json(json.dumps({**values, **change}))


def test_a_configuration_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().b = 3


def test_the_tasks_own_attack_is_written_out():
    config = RunConfig(q=2)
    own = (config.attack, config.attacker_start, config.attack_scale)
    assert own == ("label-flip", "fresh", 1.0)
    assert config == RunConfig(q=2, attack="label-flip", attacker_start="fresh", attack_scale=1)


@pytest.mark.parametrize("name", FITTING)
def test_an_attacks_own_choices_give_way(name):
    config = RunConfig(q=1, attack=name)
    assert config.attacker_start == ATTACKS[name].start
    other = RunConfig(q=1, attack=name, attacker_start="fresh", attack_scale=7)
    assert (other.attacker_start, other.attack_scale) == ("fresh", 7.0)


def test_without_poisoned_workers_the_attack_is_no_part_of_the_run():
    assert RunConfig(q=0, attack="nan", attack_scale=3) == RunConfig()


def test_the_paper_is_the_default_and_fedavg_and_local_sgd_are_special_cases():
    assert preset("cifar", "paper") == RunConfig()
    fedavg = RunConfig(epochs=3)
    assert (fedavg.b, [fedavg.alpha_at(t) for t in (1, 2, 3)]) == (0, [1.0] * 3)
    local_sgd = RunConfig(local_steps=[5, 5])
    assert local_sgd.local_steps == (5, 5) and local_sgd.alpha == 1.0
