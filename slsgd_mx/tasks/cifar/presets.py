"""The CNN's presets."""

from __future__ import annotations

from typing import Dict

from slsgd_mx.config import RunConfig
from slsgd_mx.tasks.cifar.sizes import Cifar

PRESETS: Dict[str, RunConfig] = {
    # As published: 100 devices x 500 images, the released network, 800 epochs.
    "paper": RunConfig(sizes=Cifar()),
    # Real data and the real network; fewer images, fewer epochs.
    "laptop": RunConfig(
        sizes=Cifar(train_images=20_000, test_images=2_000, loss_images=1_000),
        epochs=32,
        alpha_decay_epoch=16,
        eval_every=2,
    ),
    # Embedded synthetic data and a narrow network: seconds.  Width and batch size were chosen,
    # after trying others, so that the model learns within 40 epochs; it shows how the method
    # works, not how well it does on real data.
    "smoke": RunConfig(
        sizes=Cifar(
            data="synthetic", train_images=2_000, test_images=500, loss_images=500, width=16
        ),
        n=20,
        batch_size=10,
        epochs=40,
        alpha_decay_epoch=20,
        eval_every=2,
    ),
}
