"""The language model: equal to GluonNLP's, its metrics, its local SGD."""

from math import exp, log

import numpy as np
import pytest

from slsgd_mx.data.synthetic_text import synthetic_text
from slsgd_mx.data.text import batchify_text
from slsgd_mx.system.mxnet import import_gluonnlp, mx
from slsgd_mx.tasks.lstm.network import language_model
from slsgd_mx.tasks.lstm.task import CLIP

BATCH, BPTT, TYPES = 3, 4, 24  # of the tiny configurations

pytestmark = pytest.mark.parametrize("tiny", ["lstm"], indirect=True)


@pytest.fixture(scope="module")
def task(tiny, tiny_task):
    return tiny_task(tiny())


@pytest.fixture
def x(task):
    """Values much larger than initial ones, so that the hidden state matters."""
    rng = np.random.default_rng(0)
    return {key: 0.5 * rng.standard_normal(v.shape, np.float32) for key, v in task.values.items()}


@pytest.fixture(autouse=True)
def loaded(task, x):
    load(task, x)


def load(task, values):
    mx.nd.waitall()
    for key, value in values.items():
        task.values[key][:] = mx.nd.array(value)


def model_of(task):
    return {key: value.asnumpy() for key, value in task.values.items()}


def reference(task):
    """GluonNLP's network with the task's values."""
    net = language_model(TYPES, width=8)
    net.initialize()
    places = net._collect_params_with_prefix()
    for key, value in task.values.items():
        places[key].set_data(value)
    return net


def text_batches(task, device):
    """A device's (data, target) pairs as NDArrays."""
    return [tuple(map(mx.nd.array, pair)) for pair in zip(*task.devices[device])]


def reference_losses(net, pairs):
    """Cross entropy of each batch with the hidden state carried, by GluonNLP's forward pass."""
    entropy, state, losses = mx.gluon.loss.SoftmaxCrossEntropyLoss(), None, []
    for data, target in pairs:
        logits, state = net(data, state or net.begin_state(batch_size=BATCH))
        losses.append(entropy(logits.reshape((-1, TYPES)), target.reshape((-1,))).mean())
    return [float(loss.asscalar()) for loss in losses], state


def test_parameters_are_those_of_gluonnlps_standard_lstm_lm_200(tiny):
    nlp = import_gluonnlp()
    vocab = nlp.Vocab({f"w{i}": 1 for i in range(46)})  # and four special ones
    theirs, _ = nlp.model.standard_lstm_lm_200(vocab=vocab, pretrained=False)
    ours = language_model(len(vocab))
    shapes = []
    for net in (theirs, ours):
        net.initialize()
        net(mx.nd.zeros((1, 1)), net.begin_state(batch_size=1))
        shapes.append(sorted(p.shape for p in net.collect_params().values()))
    assert len(vocab) == 50 and shapes[0] == shapes[1]
    assert [type(ours), ours._dropout] == [type(theirs), theirs._dropout]
    assert repr(ours.encoder) == repr(theirs.encoder)
    assert repr(ours.embedding) == repr(theirs.embedding)
    count = sum(int(np.prod(shape)) for shape in shapes[1])
    assert count == parameter_count(types=50, width=200)
    assert parameter_count(types=33_278, width=200) == 7_332_078


def parameter_count(types, width):
    """Embedding and decoder share a matrix; an LSTM layer has four gates, two biases each."""
    return types * width + types + 2 * 4 * (2 * width * width + 2 * width)


def test_values_contain_every_parameter_and_tied_weights_once(task):
    net = reference(task)
    assert len(task.values) == len(net.collect_params().keys()) == 10
    assert sum(v.size for v in task.values.values()) == parameter_count(TYPES, 8)
    assert sorted(v.shape for v in task.values.values()).count((TYPES, 8)) == 1
    assert net.embedding[0].weight is net.decoder[0].weight and all(task.moving_average.values())


def test_tied_weights_are_trained_by_both_uses(task, x):
    """Only the decoder changes rows of types that are in no batch; both change the others."""
    task.train(0, 1, 1.0, seed=1)
    moved = np.abs(model_of(task)["embedding.0.weight"] - x["embedding.0.weight"]).max(axis=1)
    assert np.all(moved > 0)


def test_the_objective_is_gluonnlps_forward_pass_and_cross_entropy(task):
    net, pairs = reference(task), text_batches(task, 2)
    state = task.fresh_state
    assert [part.shape for part in state] == [(2, BATCH, 8)] * 2
    assert not any(part.asnumpy().any() for part in state)
    for count, (data, target) in enumerate(pairs, start=1):
        losses, their_state = reference_losses(net, pairs[:count])
        for block in (task.objective, task.scorer):
            loss, *after = block(data, target, *state)
            assert loss.shape == (1,) and len(after) == len(their_state) == 2
            np.testing.assert_allclose(loss.asnumpy(), losses[-1], rtol=1e-5)
            for ours, theirs in zip(after, their_state):
                np.testing.assert_allclose(ours.asnumpy(), theirs.asnumpy(), rtol=1e-5, atol=1e-6)
        state = after


def test_dropout_in_training_is_gluonnlps_too(task):
    """The same draws in the same places: embedding, between layers, before the decoder."""
    net, pairs = reference(task), text_batches(task, 2)[:1]
    for seed in (1, 2):
        mx.random.seed(seed)
        with mx.autograd.record():
            losses, _ = reference_losses(net, pairs)
        mx.random.seed(seed)
        with mx.autograd.record():
            loss = task.objective(*pairs[0], *task.fresh_state)[0]
        np.testing.assert_allclose(loss.asnumpy(), losses, rtol=1e-5)


def test_dropout_is_on_in_training_and_off_in_scoring(task):
    data, target = text_batches(task, 0)[0]
    plain = task.objective(data, target, *task.fresh_state)[0].asscalar()
    mx.random.seed(3)
    drawn = set()
    for _ in range(4):
        with mx.autograd.record():
            drawn.add(float(task.objective(data, target, *task.fresh_state)[0].asscalar()))
    assert len(drawn) == 4 and plain not in drawn
    assert task.evaluate() == task.evaluate()


def test_a_uniform_model_has_the_perplexity_of_the_vocabulary(task, x):
    load(task, {key: 0 * value for key, value in x.items()})
    metrics = task.evaluate()
    assert tuple(metrics) == ("train_loss", "test_loss", "test_perplexity")
    assert metrics["test_perplexity"] == pytest.approx(TYPES, rel=1e-5)  # float32
    assert metrics["train_loss"] == pytest.approx(log(TYPES), rel=1e-6)


def test_metrics_are_the_mean_over_the_text_with_the_state_carried(task):
    metrics = task.evaluate()
    text = synthetic_text(8 * 3 * BATCH * BPTT + BATCH, 3 * BATCH * BPTT + BATCH, TYPES)
    for name, ids, count in (("train_loss", text.train, 4), ("test_loss", text.test, 3)):
        pairs = list(zip(*map(mx.nd.array, batchify_text(ids, BATCH, BPTT))))[:count]
        assert len(pairs) == count
        losses, _ = reference_losses(reference(task), pairs)
        assert metrics[name] == pytest.approx(np.mean(losses), rel=1e-5)
    assert metrics["test_perplexity"] == pytest.approx(exp(metrics["test_loss"]), rel=1e-14)


def test_a_perplexity_too_large_is_infinite_without_a_warning(task, x, recwarn):
    load(task, {key: 3e4 * np.sign(value) for key, value in x.items()})
    metrics = task.evaluate()
    assert metrics["test_perplexity"] == float("inf") and metrics["test_loss"] > 710
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]


def first_gradient(task, device, seed):
    """Gradient of the first local step with the dropout of ``seed``."""
    mx.random.seed(seed)
    data, target = text_batches(task, device)[0]
    with mx.autograd.record():
        loss = task.objective(data, target, *task.fresh_state)[0]
    loss.backward()
    return {key: p.grad().asnumpy().astype(np.float64) for key, p in task.parameters.items()}


def global_norm(arrays):
    return np.sqrt(sum(np.square(array).sum() for array in arrays.values()))


@pytest.mark.parametrize("clip", [0.25, 1e9])
def test_a_local_step_is_sgd_with_the_global_norm_of_the_gradient_clipped(
    task, x, monkeypatch, clip
):
    assert CLIP == 0.25
    monkeypatch.setattr("slsgd_mx.tasks.lstm.task.CLIP", clip)
    gradient = first_gradient(task, 1, seed=7)
    norm = global_norm(gradient)
    assert norm > 0.4  # so that it is clipped
    load(task, x)
    task.train(1, 1, 0.5, seed=7)
    assert task.units_per_step == BATCH * BPTT
    step = {key: (x[key].astype(np.float64) - y) / 0.5 for key, y in model_of(task).items()}
    assert global_norm(step) == pytest.approx(min(norm, clip), rel=1e-3)
    for key in step:
        expected = gradient[key] * min(1, clip / norm)
        np.testing.assert_allclose(step[key], expected, rtol=1e-3, atol=1e-5)


def losses_of_two_passes(task, monkeypatch, changed=None):
    """Losses of six steps with gamma = 0, after changing one batch of the device's text."""
    data, target = (array.copy() for array in task.devices[0])
    if changed is not None:
        data[changed] = (data[changed] + 5) % TYPES
    losses, loss = [], task.loss
    with monkeypatch.context() as patch:
        patch.setattr(task, "devices", [(data, target)])
        patch.setattr(task, "loss", lambda *batch: losses.append(loss(*batch)) or losses[-1])
        task.train(0, 6, 0.0, seed=2)
    return np.array([float(value.asscalar()) for value in losses])


@pytest.mark.parametrize(
    "changed, differ", [(0, {0, 1, 2, 3, 4, 5}), (1, {1, 2, 4, 5}), (2, {2, 5})]
)
def test_the_hidden_state_is_carried_through_one_pass(task, monkeypatch, changed, differ):
    plain = losses_of_two_passes(task, monkeypatch)
    other = losses_of_two_passes(task, monkeypatch, changed)
    assert set(np.flatnonzero(plain != other)) == differ


def test_a_worker_starts_with_a_fresh_state(task, x, monkeypatch):
    """The state does not depend on the previous worker."""
    plain = losses_of_two_passes(task, monkeypatch)
    task.train(5, 2, 1.0, seed=8)
    load(task, x)
    assert losses_of_two_passes(task, monkeypatch).tolist() == plain.tolist()


def test_no_gradient_flows_through_earlier_batches(task, x):
    """The gradient of the second step treats its initial state as a constant."""
    pairs, state = text_batches(task, 3)[:2], task.fresh_state
    mx.random.seed(4)
    for data, target in pairs:
        with mx.autograd.record():
            loss, *after = task.objective(data, target, *state)
        loss.backward()
        state = [mx.nd.array(part.asnumpy()) for part in after]
    expected = {key: p.grad().asnumpy() for key, p in task.parameters.items()}
    scale = min(1, CLIP / global_norm(expected))
    task.train(3, 2, 0.0, seed=4)
    for gradient, g in zip(task.gradients, expected.values()):
        np.testing.assert_allclose(gradient.asnumpy(), scale * g, rtol=1e-4, atol=1e-7)
    load(task, x)
    task.train(3, 30, 1.0, seed=4)
    assert all(np.isfinite(value).all() for value in model_of(task).values())
