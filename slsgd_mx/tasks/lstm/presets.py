"""The language model's presets."""

from __future__ import annotations

from typing import Dict

from slsgd_mx.config import RunConfig
from slsgd_mx.tasks.lstm.sizes import Lstm

TWENTY_BATCHES = dict(device_batches=20, loss_batches=20, test_batches=20)
PRESETS: Dict[str, RunConfig] = {
    # As published: 100 devices, gamma 20, alpha decays at epoch 600; run to 800.
    "paper": RunConfig(
        sizes=Lstm(), gamma=20, batch_size=20, epochs=800, alpha_decay_epoch=600, eval_every=20
    ),
    # Real text and the real network; a smaller vocabulary, less text, fewer epochs.
    "laptop": RunConfig(
        sizes=Lstm(vocab_size=5_000, device_batches=8, loss_batches=50, test_batches=50),
        gamma=20,
        batch_size=20,
        epochs=32,
        alpha_decay_epoch=24,
        eval_every=2,
    ),
    # Embedded synthetic text and a narrow network: seconds.  Sizes and gamma were chosen, after
    # trying others, so that the model learns more than the words' frequencies within 40 epochs;
    # with the paper's gamma=20 it does not.
    "smoke": RunConfig(
        sizes=Lstm("synthetic", vocab_size=100, bptt=10, width=32, **TWENTY_BATCHES),
        n=20,
        gamma=10,
        batch_size=10,
        epochs=40,
        alpha_decay_epoch=30,
        eval_every=2,
    ),
}
