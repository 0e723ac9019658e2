"""Colluding attacks and rules that compare models, on several servers and in one process."""

import math

import numpy as np
import pytest
from helpers.servers import Cluster, normal

from slsgd_mx import ModelServer
from slsgd_mx.attacks import ATTACKS, Attack
from slsgd_mx.core.server import Server
from slsgd_mx.parameter_server.commands import Collude, Commit, Multiply, Weigh
from slsgd_mx.parameter_server.protocol import HEADER, HELLO, PRODUCTS, finite_slots, products_size
from slsgd_mx.registry import number
from slsgd_mx.rules import PRE_AGGREGATIONS, RULES, PreAggregation, Rule
from slsgd_mx.system.mxnet import mx

K, SIZE = 6, 1000


class Remote(Server):
    """The commands of the coordinator, sent to shard servers in this process."""

    def __init__(self, x, servers, **settings):
        self.many = Cluster(x, servers, k=K, **settings)
        super().__init__(self.many.setup.settings)
        self.many.start()
        self.memory = {}
        for host in self.many.hosts:
            blocks = len(host.server.shard.blocks)
            size = products_size(self.settings, blocks)
            self.memory[host] = np.zeros(size, np.float32)
            host.send(PRODUCTS, self.memory[host].copy(), self.memory[host], 0, HELLO)

    def start(self, epoch): ...

    def begin(self, t): ...

    def _destination(self, slot): ...

    def update(self, alpha, poisoned=()):
        return self._conclude(1, alpha, poisoned)

    def _finite_slots(self):
        return finite_slots([host.status for host in self.many.hosts])

    def _ask(self, command):
        self.many.command(command)
        for host, memory in self.memory.items():
            count = int(memory[1])
            numbers = memory[HEADER:].view(np.float64)
            yield from numbers[: len(host.server.shard.blocks) * count].reshape(-1, count)

    def _multiply(self, command):
        for numbers in self._ask(command):
            n = math.isqrt(numbers.size)
            yield numbers.reshape(n, n)

    def _kept(self, slots, matrix):
        return self._ask(Weigh(1, slots, None if matrix is None else matrix.tolist()))

    def _products(self, plot):
        return self._multiply(Multiply(plot.t, plot.honest, plot.poisoned))

    def _grams(self, slots):
        return self._multiply(Multiply(1, slots))

    def _collude(self, plot, combination):
        listed = None if combination is None else combination.tolist()
        self.many.command(Collude(plot.t, plot.honest, plot.poisoned, listed))
        return {slot: self._finite_slots()[slot] for slot in plot.poisoned}

    def _apply(self, t, update, matrix, alpha):
        listed = None if matrix is None else matrix.tolist()
        self.many.command(Commit(t, alpha, update.accepted, update.refused, update.applied, listed))


def nearest(gram, context):
    """The push whose squared distances to all others have the least sum."""
    distances = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    return np.eye(context.k)[np.argmin(np.where(np.isnan(distances), 1e9, distances).sum(axis=1))]


def shuffled_pairs(gram, context):
    order = context.rng.permutation(context.k)
    matrix = np.zeros((context.k // 2, context.k))
    for row, pair in zip(matrix, order.reshape(-1, 2)):
        row[pair] = 0.5
    return matrix


def jitter(rows, context, out):
    out[:] = np.mean(rows, axis=0) + context.rng.standard_normal(out.size) * context.parameters["s"]


def opposite(seen):
    noise = seen.rng.standard_normal(seen.mu.size)
    named = np.zeros(seen.mu.size)
    named[seen.places.get("v", slice(0, 0))] = seen.q
    return 2 * seen.previous - seen.mu + seen.sigma * noise + named


def from_start(seen):
    return [x + 3 * (x - w) + seen.target for x, w in zip(seen.own, seen.start)]


def far_along(products, facts):
    spread = max(products.square(a - products.mu) for a in products.honest)
    g = np.sqrt(spread / products.square(products.sigma)) * facts.parameters["g"]
    return [products.mu - g * products.sigma, products.honest[-1]]


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    rules = {
        "nearest": Rule("nearest", mix=nearest),
        "jitter": Rule("noise", jitter, random=True, parameters={"s": number(0.5)}),
        "pairwise-median": Rule("median of pairs", RULES["median"].aggregate, mix=shuffled_pairs),
    }
    attacks = {
        "opposite": Attack("per coordinate", collude=opposite, honest=2),
        "from-start": Attack("own", collude=from_start, needs=("own", "start", "target")),
        "far-along": Attack("block-sum", combine=far_along, parameters={"g": number(1.0)}),
    }
    for name, rule in rules.items():
        monkeypatch.setitem(RULES, name, rule)
    for name, attack in attacks.items():
        monkeypatch.setitem(ATTACKS, name, attack)
    pairs = PreAggregation("pairs", shuffled_pairs, rows=lambda k, parameters: k // 2)
    monkeypatch.setitem(PRE_AGGREGATIONS, "pairs", pairs)


def both(servers, poisoned=(1, 4), alpha=0.7, bad=(), **settings):
    """The models and updates of one process and of several servers after the same pushes."""
    x = normal(SIZE, seed=99)
    local = ModelServer(K, **{"b": 1, **settings})
    local.init("w", mx.nd.array(x[:900]))
    local.init("v", mx.nd.array(x[900:]), moving_average=False)
    places = [("w", 0, 900), ("v", 900, SIZE)] if "attack" in settings else []
    remote = Remote(x, servers, **{"b": 1, **settings}, replaced=[(900, SIZE)], places=places)
    pushes = {slot: normal(SIZE, seed=slot) for slot in range(K)}
    if local.settings.extra:
        pushes.update({K + slot: normal(SIZE, seed=50 + slot) for slot in poisoned})
        pushes[2 * K] = normal(SIZE, seed=77)
    for slot in bad:
        pushes[slot][3] = np.nan
    for slot, push in pushes.items():
        local.push("w", mx.nd.array(push[:900]), slot)
        local.push("v", mx.nd.array(push[900:]), slot)
        remote.many.push(slot, push)
    updates = local.update(alpha, poisoned), remote.update(alpha, poisoned)
    assert [host.log for host in remote.many.hosts] == [[]] * servers
    values = local.values()
    return np.concatenate([values["w"], values["v"]]), remote.many.model, updates


MIXING = ["nearest", "jitter", "jitter:s=2", "pairwise-median", "pairs+nearest", "pairs+median"]


OURS = list(RULES)
OURS += ["nnm+krum", "bucketing+geometric-median", "arc+trimmed-mean", "clip+median"]
TOGETHER = [name for name, attack in ATTACKS.items() if attack.colludes and not attack.whole]


@pytest.mark.parametrize("rule", OURS)
@pytest.mark.parametrize("attack", [None, "min-max"])
def test_every_rule_gives_the_same_bytes_on_one_and_two_servers(rule, attack):
    check_servers(rule, attack, (1, 2))


@pytest.mark.parametrize("attack", TOGETHER)
def test_every_colluding_attack_gives_the_same_bytes_on_one_and_two_servers(attack):
    check_servers("trimmed-mean", "alie:z=1" if attack == "alie" else attack, (1, 2))


@pytest.mark.parametrize("rule", [*MIXING, "trimmed-mean"])
@pytest.mark.parametrize("attack", [None, "opposite", "from-start", "far-along:g=2"])
def test_any_number_of_servers_gives_the_bytes_of_one_process(rule, attack):
    check_servers(rule, attack, (1, 2, 5))


def check_servers(rule, attack, numbers):
    """The same bytes in one process and on these numbers of servers, and not those before."""
    settings = dict(rule=rule, seed=3, **({"attack": attack} if attack else {}))
    settings["b"] = 0 if rule == "bulyan" else 1  # for b=1 it needs k=7
    models = []
    for servers in numbers:
        ours, theirs, updates = both(servers, **settings)
        assert ours.tobytes() == theirs.tobytes()
        assert updates[0] == updates[1] and updates[0].applied
        assert updates[0].shares == updates[1].shares
        models.append(ours.tobytes())
    assert len(set(models)) == 1
    assert models[0] != normal(SIZE, seed=99).tobytes()


@pytest.mark.parametrize("attack", ["opposite", "from-start", "far-along"])
def test_an_attack_changes_the_result(attack):
    attacked = both(1, attack=attack, rule="mean")[0]
    assert attacked.tobytes() != both(1, rule="mean")[0].tobytes()


def test_an_attack_does_not_see_pushes_that_are_not_finite():
    ours, theirs, (update, _) = both(2, attack="opposite", rule="mean", bad=(0,))
    assert ours.tobytes() == theirs.tobytes() and np.isfinite(ours).all()
    assert update.refused == (0,) and update.accepted == (1, 2, 3, 4, 5)


def test_without_enough_honest_pushes_the_attackers_push_what_they_trained():
    poisoned = (0, 1, 2, 3, 4)
    attacked = both(1, poisoned=poisoned, attack="opposite", rule="mean")[0]
    assert attacked.tobytes() == both(1, rule="mean")[0].tobytes()


def test_a_push_that_is_not_finite_is_left_out_of_mixing():
    kept = both(2, rule="nearest", nonfinite="keep", bad=(0,))
    assert kept[0].tobytes() == kept[1].tobytes() and np.isfinite(kept[0]).all()


def test_weights_that_copy_a_push_copy_its_bytes():
    ours = both(1, rule="nearest", alpha=1.0)[0]
    assert ours.tobytes() in [normal(SIZE, seed=slot).tobytes() for slot in range(K)]
