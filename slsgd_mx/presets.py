"""Sizes that go together: the publication, a laptop's working day, a few seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Callable, Dict, Mapping, Tuple

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import ConfigError
from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.lstm.sizes import Lstm


def _cifar_paper() -> RunConfig:
    """As published: 100 devices x 500 images, the released network, 800 epochs."""
    return RunConfig(sizes=Cifar())


def _cifar_laptop() -> RunConfig:
    """Real data and the real network; fewer images, fewer epochs."""
    sizes = Cifar(train_images=20_000, test_images=2_000, loss_images=1_000)
    return RunConfig(sizes=sizes, epochs=32, alpha_decay_epoch=16, eval_every=2)


def _cifar_smoke() -> RunConfig:
    """Embedded synthetic data, a narrow network, seconds.

    Width and batch size were chosen, after trying others, so that the model learns within 40
    epochs; it shows how the method works, not how well it does on real data.
    """
    sizes = Cifar(data="synthetic", train_images=2_000, test_images=500, loss_images=500, width=16)
    return RunConfig(
        sizes=sizes, n=20, batch_size=10, epochs=40, alpha_decay_epoch=20, eval_every=2
    )


def _lstm_paper() -> RunConfig:
    """As published: 100 devices, gamma 20, alpha decays at epoch 600; run to 800."""
    return RunConfig(
        sizes=Lstm(), gamma=20, batch_size=20, epochs=800, alpha_decay_epoch=600, eval_every=20
    )


def _lstm_laptop() -> RunConfig:
    """Real text and the real network; fewer types, less text, fewer epochs."""
    sizes = Lstm(vocab_size=5_000, device_batches=8, loss_batches=50, test_batches=50)
    return RunConfig(
        sizes=sizes, gamma=20, batch_size=20, epochs=32, alpha_decay_epoch=24, eval_every=2
    )


def _lstm_smoke() -> RunConfig:
    """Embedded synthetic text, a narrow network, seconds.

    Sizes and gamma were chosen, after trying others, so that the model gets past the words'
    frequencies within 40 epochs; at the paper's gamma=20 it stayed there.
    """
    sizes = Lstm(
        data="synthetic",
        vocab_size=100,
        bptt=10,
        device_batches=20,
        loss_batches=20,
        test_batches=20,
        width=32,
    )
    return RunConfig(
        sizes=sizes, n=20, gamma=10, batch_size=10, epochs=40, alpha_decay_epoch=30, eval_every=2
    )


PRESETS: Dict[str, Dict[str, Callable[[], RunConfig]]] = {
    "cifar": {"paper": _cifar_paper, "laptop": _cifar_laptop, "smoke": _cifar_smoke},
    "lstm": {"paper": _lstm_paper, "laptop": _lstm_laptop, "smoke": _lstm_smoke},
}


@dataclass(frozen=True)
class Scale:
    """What figures add to a preset: repeats, and what Figures 5 and 6 vary and have to reach."""

    repeats: int
    alphas: Tuple[float, ...]  # on the x-axis of Figures 5 and 6
    attacked_loss: float  # the training loss of Figure 5
    passes_loss: float  # the training loss of Figure 6
    reach_until_decay: bool  # Figures 5 and 6 end where alpha decays in the others, or at T
    changes: Mapping[str, Any] = field(default_factory=dict)  # in the preset itself


# The losses of laptop are what alpha=1 reaches after about two thirds of the epochs (b=2 in Figure
# 5, pass=1 in Figure 6), settled before any other alpha was run; those of smoke are round numbers.
SCALES: Dict[str, Scale] = {
    "paper": Scale(10, (0.2, 0.4, 0.6, 0.8, 1.0), 0.5, 0.003, False),
    "laptop": Scale(3, (0.6, 0.8, 1.0), 2.0, 1.7, True),
    "smoke": Scale(1, (0.6, 0.8, 1.0), 2.1, 2.0, True, {"epochs": 8}),
}


def preset(task: str, name: str, **changes: object) -> RunConfig:
    """The configuration of a preset, with changes by the names of ``RunConfig`` and its task.

    >>> from slsgd_mx import preset
    >>> config = preset("cifar", "smoke", b=2, q=2, partition="unbalanced")
    >>> (config.n, config.b, config.sizes.partition)
    (20, 2, 'unbalanced')
    """
    if task not in PRESETS:
        raise ConfigError(f"task={task!r} is unknown: choose one of {', '.join(PRESETS)}")
    if name not in PRESETS[task]:
        raise ConfigError(f"preset={name!r} is unknown: choose one of {', '.join(PRESETS[task])}")
    base = PRESETS[task][name]()
    names = {field.name for field in fields(base.sizes)}
    inner = {key: changes.pop(key) for key in list(changes) if key in names}
    n = changes.get("n", base.n)
    try:
        sizes = base.sizes.within(n=n if isinstance(n, int) else base.n, **inner)
        return replace(base, sizes=sizes, **changes)
    except TypeError as error:  # a name that is none, or a text for a number
        raise ConfigError(f"not a change of a configuration: {error}") from error
