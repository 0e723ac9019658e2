"""Sizes that go together: the publication, a laptop's working day, a few seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict

from .config import Cifar, RunConfig
from .errors import ConfigError


def _cifar_paper() -> RunConfig:
    """As published: 100 devices x 500 images, the released network, 800 epochs."""
    return RunConfig(task=Cifar())


def _cifar_laptop() -> RunConfig:
    """Real data and the real network; fewer images, fewer epochs."""
    sizes = Cifar(train_images=20_000, test_images=2_000, loss_images=2_000)
    return RunConfig(task=sizes, epochs=40, alpha_decay_epoch=20, eval_every=2)


def _cifar_smoke() -> RunConfig:
    """Embedded synthetic data, a narrow network, seconds."""
    sizes = Cifar(data="synthetic", train_images=2_000, test_images=500, loss_images=500, width=8)
    return RunConfig(
        task=sizes, n=20, k=10, batch_size=20, epochs=30, alpha_decay_epoch=15, eval_every=1
    )


PRESETS: Dict[str, Dict[str, Callable[[], RunConfig]]] = {
    "cifar": {"paper": _cifar_paper, "laptop": _cifar_laptop, "smoke": _cifar_smoke},
}


def preset(task: str, name: str, **changes: object) -> RunConfig:
    """The configuration of a preset, with changes by the names of ``RunConfig`` and its task.

    >>> from slsgd_mx import preset
    >>> config = preset("cifar", "smoke", b=2, q=2, partition="unbalanced")
    >>> (config.n, config.b, config.task.partition)
    (20, 2, 'unbalanced')
    """
    if name not in PRESETS[task]:
        raise ConfigError(f"preset={name!r} is unknown: choose one of {', '.join(PRESETS[task])}")
    base = PRESETS[task][name]()
    inner = {key: changes.pop(key) for key in list(changes) if hasattr(base.task, key)}
    return replace(base, task=replace(base.task, **inner), **changes)
