"""The paper's language model on text, real or synthetic, as a task."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence

import numpy as np

from slsgd_mx.config import RunConfig
from slsgd_mx.core.task import Poison
from slsgd_mx.data.load import load_text
from slsgd_mx.data.text import Batches, batchify_text, deal_batches
from slsgd_mx.errors import ConfigError
from slsgd_mx.randomness import stream
from slsgd_mx.system.mxnet import mx
from slsgd_mx.tasks.gluon import GluonTask
from slsgd_mx.tasks.lstm.network import language_model
from slsgd_mx.validation import require

CLIP = 0.25  # largest global norm of the gradient, as in the released code


class LstmTask(GluonTask):
    """Batches of text partitioned among n devices, GluonNLP's LSTM, perplexity."""

    def __init__(self, config: RunConfig, data_dir: Optional[Path] = None) -> None:
        sizes = config.sizes
        self.units_per_step = config.batch_size * sizes.bptt
        self._load(config, data_dir)
        net = language_model(self.classes, sizes.width)
        net.initialize(mx.init.Xavier())
        super().__init__(net)
        self.objective, self.scorer = _Objective(net), _Objective(net)
        for block in (self.objective, self.scorer):
            block.hybridize(static_alloc=True, static_shape=True)
        self.fresh_state = net.begin_state(batch_size=config.batch_size)
        self.state: List[mx.nd.NDArray] = self.fresh_state
        self.gradients = [p.grad() for p in self.parameters.values()]

    def _load(self, config: RunConfig, data_dir: Optional[Path]) -> None:
        """Cut the text into batches for the devices, the training loss and the test loss."""
        sizes, batch = config.sizes, config.batch_size
        total = config.n * sizes.device_batches
        tokens = [steps * self.units_per_step + batch for steps in (total, sizes.test_batches)]
        text = load_text(sizes.data, data_dir, sizes.vocab_size, *tokens)
        self.data_digest, self.classes = text.digest, text.vocab_size
        # The validation text is used for training too, but no batch spans both texts.
        own, validation = np.split(text.train, [text.train_tokens])
        texts = [own] + [validation] * (len(validation) > self.units_per_step + batch)
        parts = [batchify_text(ids, batch, sizes.bptt) for ids in texts]
        train = tuple(np.concatenate(arrays) for arrays in zip(*parts))
        test = batchify_text(text.test, batch, sizes.bptt)
        if total > len(train[0]):
            raise ConfigError(
                f"the text is too short: n * device_batches = {total} batches are needed, and it "
                f"has {len(train[0])}; lower --device-batches or --n"
            )
        train = tuple(array[:total] for array in train)  # the batches on the devices
        legal = f"1 <= test_batches <= {len(test[0])}"
        require(sizes.test_batches <= len(test[0]), "test_batches", sizes.test_batches, legal)
        self.loss_set = tuple(array[: sizes.loss_batches] for array in train)
        self.test_set = tuple(array[: sizes.test_batches] for array in test)
        rng = stream(config.data_seed, "partition") if sizes.partition == "shuffled" else None
        self.devices = deal_batches(train, config.n, sizes.device_batches, rng)

    def steps_per_pass(self, device: int) -> int:
        return len(self.devices[device][0])

    def batches(
        self, device: int, rng: np.random.Generator, poison: Optional[Poison]
    ) -> Iterator[tuple]:
        """Yield a device's batches endlessly in the order of its text, each with its position."""
        data, target = self.devices[device]
        if poison is not None:
            target = poison(target.reshape(-1)).reshape(target.shape)
        while True:
            for place, batch in enumerate(zip(data, target)):
                yield (place, *(mx.nd.array(ids, dtype=np.float32) for ids in batch))

    def loss(self, place: int, data: mx.nd.NDArray, target: mx.nd.NDArray) -> mx.nd.NDArray:
        """Return the mean cross entropy; every pass begins with a fresh hidden state."""
        state = self.fresh_state if place == 0 else [part.detach() for part in self.state]
        loss, *self.state = self.objective(data, target, *state)
        return loss

    def step(self) -> None:
        mx.gluon.utils.clip_global_norm(self.gradients, CLIP, check_isfinite=False)
        self.optimizer.step(1)

    def score_sizes(self, parts: int) -> List[int]:
        sizes = [len(batches[0]) for batches in (self.loss_set, self.test_set)]
        return [sum(sizes[part::parts]) for part in range(parts)]

    def score(self, part: int, parts: int) -> np.ndarray:
        """Return the cross entropy of each batch; a text is one part, as its state is carried."""
        texts = (self.loss_set, self.test_set)[part::parts]
        return np.concatenate([np.empty(0, np.float32), *map(self._score, texts)])

    def metrics(self, scores: Sequence[np.ndarray]) -> Dict[str, float]:
        if len(scores) == 1:
            scores = np.split(scores[0], [len(self.loss_set[0])])
        train_loss, test_loss = (float(part.mean(dtype=np.float64)) for part in scores[:2])
        with np.errstate(over="ignore"):
            perplexity = float(np.exp(np.float64(test_loss)))
        return {"train_loss": train_loss, "test_loss": test_loss, "test_perplexity": perplexity}

    def _score(self, batches: Batches) -> np.ndarray:
        """Return the cross entropy of each batch of a text, the hidden state carried over."""
        losses, state = [], self.fresh_state
        for batch in zip(*batches):
            loss, *state = self.scorer(
                *(mx.nd.array(ids, dtype=np.float32) for ids in batch), *state
            )
            losses.append(loss)
        return mx.nd.concat(*losses, dim=0).asnumpy()


class _Objective(mx.gluon.HybridBlock):
    """Tokens, next tokens and a state -> mean cross entropy and the next state, as one graph.

    The forward pass of GluonNLP's ``StandardRNN``, rebuilt from its layers because the original
    cannot be hybridized.  The loss reads the logits (bptt, batch, types) without reshaping them.
    """

    def __init__(self, net: mx.gluon.Block) -> None:
        super().__init__()
        self.embedding, self.encoder, self.decoder = net.embedding, net.encoder, net.decoder
        self.dropout = net._dropout

    def hybrid_forward(self, F, data, target, *state):
        encoded, state = self.encoder(self.embedding(data), list(state))
        logits = self.decoder(F.Dropout(encoded, p=self.dropout, axes=(0,)))
        losses = -F.pick(F.log_softmax(logits, axis=-1), target, axis=-1)  # (bptt, batch)
        return (F.mean(losses, axis=(0, 1)), *state)
