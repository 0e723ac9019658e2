"""``poison`` and the engine of colluding attacks: what they refuse, blocks, attacks of your own."""

import numpy as np
import pytest

from slsgd_mx import aggregate, poison, register_rule, train
from slsgd_mx.attacks import ATTACKS, Facts, find_attack, register_attack
from slsgd_mx.attacks.engine import (
    attack_block,
    block_products,
    coefficients_of,
    find_obstacle,
    pushes_from,
)
from slsgd_mx.errors import ConfigError
from slsgd_mx.registry import number
from slsgd_mx.rules.pipeline import blocks, find_rule

COLLUDING = [name for name, attack in ATTACKS.items() if attack.colludes]

# ---------------------------------------------------------------------------- what poison refuses


@pytest.mark.parametrize(
    "arguments, message",
    [
        (dict(attack="alie:z=auto", q=2), "alie:z=auto needs z > 0, and z=auto gives 0 for k=10"),
        (dict(attack="ipm", q=1), "attack ipm acts on updates x_i - x_{t-1}: give previous="),
        (dict(attack="ipm-optimal", q=1), "give previous="),
        (dict(attack="sign-flip", q=1), "sign-flip needs own=: what each of the q attackers"),
        (dict(attack="negation", q=1), "negation needs own=:"),
        (dict(attack="worst-case", q=1), "worst-case needs target="),
        (dict(attack="label-flip", q=1), "label-flip does not compute pushes"),
        (dict(attack="silent", q=1), "silent does not compute pushes"),
        (dict(attack="alie", q=0), "q=0 is out of range: needs 1 <= q"),
        (dict(attack="alie:z=none", q=1), "alie:z=none is not a number: needs a number or auto"),
        (dict(attack="mimic:of=last", q=1), "needs first or farthest"),
        (dict(attack="alie-optimal:evaluations=1", q=1), "a whole number from 2 to 1000"),
        (dict(attack="alie-optimal", q=1, rule="krum", b=4), "krum needs 2b + 2 < k"),
        (dict(attack="alie-optimal", q=1, rule="clip+mean"), "give previous="),
        (dict(attack="alie", q=1, rule="magic"), "rule='magic' is unknown"),
        (
            dict(attack="worst-case", q=1, rule="krum", target=np.zeros(3)),
            "needs a rule that treats each coordinate by itself, not krum",
        ),
        (
            dict(attack="sign-flip", q=2, own=np.zeros((1, 3)), previous=np.zeros(3)),
            "own has 1 models of shape (3,): needs 2 of shape (3,)",
        ),
    ],
)
def test_poison_says_what_is_missing_or_illegal(arguments, message):
    with pytest.raises(ConfigError) as error:
        poison(np.ones((8, 3)), **arguments)
    assert message in str(error.value)


@pytest.mark.parametrize("name", COLLUDING)
def test_attacks_say_how_many_honest_pushes_they_need(name):
    least = ATTACKS[name].honest
    given_ = dict(q=2, previous=np.zeros(3), own=np.ones((2, 3)), target=np.zeros(3))
    honest = np.random.default_rng(0).standard_normal((least, 3)).astype(np.float32)
    assert poison(honest, name, **given_).shape == (2, 3)
    if least:
        spoilt = np.concatenate([honest[:-1], np.full((1, 3), np.nan)])
        with pytest.raises(ConfigError, match=f"needs at least {least} finite honest pushes, got"):
            poison(spoilt, name, **given_)


@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if attack.model])
def test_attacks_on_a_workers_own_push_need_no_honest_pushes(name):
    own = np.ones((2, 3), np.float32)
    alone, among = (poison(honest, name, q=2, own=own) for honest in ([], np.ones((8, 3))))
    assert alone.shape == among.shape == (2, 3)
    assert name == "negation" or alone.tobytes() == among.tobytes()  # its factor is (k-q)/q


def test_legality_depends_on_the_numbers_of_the_epoch_and_the_rule():
    def why_not(attack, k, q, rule="mean"):
        return find_obstacle(find_attack(attack), k, q, 2, rule)

    why = "attack alie:z=auto needs z > 0, and z=auto gives 0 for k=10, q=2"
    assert why_not("alie:z=auto", 10, 2) == why
    assert why_not("alie:z=auto", 10, 4) is None and why_not("alie:z=auto", 10, 0) is None
    why = "attack min-max needs k - q >= 2 honest pushes, and k=3, q=2 leaves 1"
    assert why_not("min-max", 3, 2) == why
    assert why_not("min-max", 3, 1) is None and why_not("min-max", 3, 0) is None
    assert why_not("negation", 3, 3) is None and why_not("sign-flip", 3, 3) is None
    why = "attack worst-case needs a rule that treats each coordinate by itself, not krum"
    assert why_not("worst-case", 10, 2, "krum") == why_not("worst-case", 10, 0, "krum") == why
    assert all(why_not(name, 10, 2) is None for name in ATTACKS)


@pytest.mark.parametrize(
    "given_, canonical",
    [
        ("alie:z=1.50", "alie"),
        ("alie:z=auto", "alie:z=auto"),
        ("mimic:of=first", "mimic"),
        ("model-replacement:factor=5.0", "model-replacement:factor=5"),
        ("ipm-optimal:evaluations=20", "ipm-optimal"),
    ],
)
def test_canonical_names(given_, canonical):
    assert find_attack(given_).text == canonical == find_attack(canonical).text


# ---------------------------------------------------------------------------- the engine


def facts_of(choice, k=9, q=2, b=2):
    return Facts(1, k, q, b, "trimmed-mean", choice.parameters, np.random.default_rng(0))


@pytest.mark.parametrize("name", ["mimic:of=farthest", "min-max", "min-sum"])
def test_block_by_block_gives_the_bits_of_poison(name):
    """As the servers compute it: products by block, coefficients once, pushes by any part."""
    rng, d = np.random.default_rng(4), 3000
    honest = rng.standard_normal((7, d)).astype(np.float32)
    previous, choice = rng.standard_normal(d).astype(np.float32), find_attack(name)
    gram = sum(
        block_products([h[p] for h in honest], [], previous[p])
        for p in (slice(*block) for block in blocks(d))
    )
    found = coefficients_of(choice, facts_of(choice), gram, honest=7)
    halves = [
        pushes_from(found, [h[p] for h in honest], [], previous[p])
        for p in (slice(0, 1001), slice(1001, d))
    ]
    expected = poison(honest, name, q=2, previous=previous, b=2)
    assert np.concatenate(halves, axis=1).tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["alie", "ipm", "sign-flip", "model-replacement", "worst-case"])
def test_coordinate_wise_attacks_do_not_depend_on_the_blocks(name):
    rng, d = np.random.default_rng(5), 3000
    honest, own = rng.standard_normal((2, 7, d)).astype(np.float32)
    previous, target = rng.standard_normal((2, d)).astype(np.float32)
    choice = find_attack(name)
    more = {"own": list(own[:2]), "target": target}
    more = {key: value for key, value in more.items() if key in choice.entry.needs}
    whole = attack_block(choice, facts_of(choice), list(honest), previous, **more)
    expected = poison(honest, name, q=2, previous=previous, b=2, own=own[:2], target=target, seed=3)
    assert whole.tobytes() == expected.tobytes()


def test_products_are_those_of_updates_and_sigma():
    rng = np.random.default_rng(6)
    honest, own = rng.standard_normal((5, 40)), rng.standard_normal((2, 40))
    previous = rng.standard_normal(40)
    mu, sigma = honest.mean(axis=0), honest.std(axis=0, ddof=1)
    rows = np.concatenate([honest - previous, own - previous, [mu - previous, sigma]])
    np.testing.assert_allclose(block_products(honest, own, previous), rows @ rows.T, atol=1e-12)
    coefficients = rng.standard_normal((3, 9))
    pushed = pushes_from(coefficients, honest, own, previous)
    np.testing.assert_allclose(pushed, previous + coefficients @ rows, rtol=1e-5, atol=1e-5)


def test_honest_pushes_that_are_not_finite_are_left_out():
    honest = np.random.default_rng(7).standard_normal((5, 3)).astype(np.float32)
    spoilt = np.insert(honest, 0, np.inf, axis=0)
    for name in ("alie", "mimic", "min-max"):
        clean, other = (poison(part, name, q=2) for part in (honest, spoilt))
        assert clean.tobytes() == other.tobytes()


def test_attacks_of_your_own(monkeypatch):
    monkeypatch.setattr(ATTACKS, "sources", dict(ATTACKS.sources))
    for name in ("opposite", "wide", "nowhere"):
        monkeypatch.setitem(ATTACKS, name, None)
        del ATTACKS[name]  # and once more after the test

    @register_attack("opposite", uses_previous=True)
    def opposite(seen):
        "Push the honest mean, reflected at x_{t-1}."
        return 2 * seen.previous - seen.mu

    @register_attack("wide")
    def wide(seen):
        return np.zeros(7)

    @register_attack("nowhere", kind="block-sum")
    def nowhere(seen, facts):
        return np.nan * seen.mu

    pushed = poison(np.ones((3, 2)), "opposite", q=2, previous=np.zeros(2))
    assert pushed.tolist() == [[-1, -1], [-1, -1]]
    assert ATTACKS["opposite"].summary == "Push the honest mean, reflected at x_{t-1}."
    with pytest.raises(ConfigError, match=r"shape \(7,\): needs \(2, 1\) or \(1,\)"):
        poison(np.ones((3, 2)), "wide", q=2)
    with pytest.raises(ConfigError, match="needs finite numbers"):
        poison(np.ones((3, 2)), "nowhere", q=2)


def test_poison_returns_what_it_was_given():
    from slsgd_mx.system.mxnet import mx

    honest = np.random.default_rng(8).standard_normal((4, 2, 3)).astype(np.float32)
    array = poison(honest, "min-max", q=2)
    assert isinstance(array, np.ndarray) and array.shape == (2, 2, 3)
    pushed = poison(mx.nd.array(honest), "min-max", q=2)
    assert isinstance(pushed, mx.nd.NDArray) and pushed.asnumpy().tobytes() == array.tobytes()
    one, two = (poison(honest, "gaussian", q=2, own=honest[:2], seed=seed) for seed in (0, 1))
    assert one.tobytes() != two.tobytes()
    assert one[0].tobytes() != (one[1] - honest[1] + honest[0]).tobytes()


def test_attacks_and_rules_of_users_cannot_change_the_memory_of_a_server(fresh_plugins):
    @register_attack("change-honest")
    def change_honest(seen):
        seen.honest[0][:] = 0

    @register_attack("change-model")
    def change_model(seen):
        seen.previous[:] = 0

    @register_rule("change-pushes", uses_b=False)
    def change_pushes(pushes, context):
        pushes[0][:] = 0

    def change_kept(pushes, context):
        pushes[0][:] = 0

    @register_rule("change-kept", uses_b=False, kept=change_kept)
    def take_first(pushes, context):
        return pushes[0]

    x, previous = np.ones((3, 2), np.float32), np.ones(2, np.float32)
    for name in ("change-honest", "change-model"):
        with pytest.raises(ValueError, match="read-only"):
            poison(x, name, q=1, previous=previous)
    with pytest.raises(ValueError, match="read-only"):
        aggregate(x, "change-pushes")
    with pytest.raises(ValueError, match="read-only"):
        find_rule("change-kept").kept(list(x), previous, 0)
    assert (x == 1).all() and (previous == 1).all()


@pytest.mark.parametrize("tiny", ["problem"], indirect=True)
@pytest.mark.parametrize("name", [name for name in COLLUDING if name != "backdoor"])  # of images
def test_a_longer_run_under_a_colluding_attack_begins_as_a_shorter_one(name, tiny, tmp_path):
    """The attack cannot see later epochs, or how many there will be."""
    text = "alie:z=1" if name == "alie" else name
    rows = []
    for epochs in (2, 3):
        config = tiny(epochs=epochs, q=1, b=1, attack=text)
        run = train(config, tmp_path / str(epochs))
        rows.append([[row[name] for name in config.metrics] for row in run.rows])
    assert len(rows[1]) == 3 and rows[0] == rows[1][:2] and rows[1][1] != rows[1][2]


def test_poison_boosts_what_was_trained():
    given_ = dict(q=1, previous=np.zeros(2), own=np.array([[1.0, 3.0]]))
    start = np.array([[1.0, 2.0]])
    boosted = poison(np.zeros((3, 2)), "backdoor:boost=5", start=start, **given_)
    assert boosted.tolist() == [[1.0, 7.0]]
    with pytest.raises(ConfigError, match="backdoor:boost=5 needs start=: what each of the q"):
        poison(np.zeros((3, 2)), "backdoor:boost=5", **given_)


def test_poison_leaves_a_boost_of_its_own_to_an_attack_of_a_user(fresh_plugins):
    @register_attack("mine", needs=("own",), honest=0, parameters={"boost": number(2.0)})
    def mine(seen):
        return seen.parameters["boost"] * seen.own[0]

    pushed = poison(np.zeros((3, 2)), "mine", q=1, own=np.array([[1.0, 3.0]]))
    assert pushed.tolist() == [[2.0, 6.0]]
