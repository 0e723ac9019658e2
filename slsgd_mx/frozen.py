"""The defaults of the fields of a configuration, frozen: stored runs depend on them."""

from __future__ import annotations

from typing import Any, Dict

# What a field means where a stored configuration lacks it.  A field that is added later comes in
# here with the value that gives the numbers of the versions before; no entry ever changes.
FROZEN: Dict[str, Any] = dict(
    n=100, k=10, b=0, q=0, gamma=0.1, alpha=1.0, alpha_schedule="step", alpha_decay_epoch=400,
    epochs=800, passes=1, local_steps=None, batch_size=50, rule="trimmed-mean", attack=None,
    attacker_start=None, attack_scale=None, boost=1.0, drop_rate=0.0, nonfinite="reject",
    selection="independent", warm_up=True, seed=0, partition_seed=None, eval_every=10,
    deadline=None, poisoned_devices=None, precision="float32", sources=(),
)  # fmt: skip
FROZEN_SIZES: Dict[str, Dict[str, Any]] = {
    "cifar": dict(
        data="cifar10", partition="balanced", train_images=50_000, test_images=10_000,
        loss_images=50_000, width=64,
    ),
    "lstm": dict(
        data="wikitext2", partition="shuffled", vocab_size=33_278, bptt=35, device_batches=32,
        loss_batches=3_200, test_batches=350, width=200,
    ),
    "problem": dict(
        objective="quadratic", population="symmetric", dimension=10, samples=20, heterogeneity=1.0,
        curvature=0.0, noise=1.0, mu=1.0, L=4.0, waves=0.5, radius=5.0, instance=0,
    ),
    "images": dict(partition="balanced", structure=""),
}  # fmt: skip

# Fields that a folder's name shows where they are not at their frozen default.
SHOWN: Dict[str, str] = dict(
    alpha_schedule="{}", alpha_decay_epoch="decay{}", eval_every="every{}", batch_size="batch{}",
    passes="passes{}", local_steps="H{0[0]}to{0[1]}", n="n{}", k="k{}",
    boost="boost{:g}", partition_seed="partition{}", selection="{}", warm_up="cold",
    nonfinite="{}-nonfinite", drop_rate="drop{:g}", deadline="deadline{:g}", precision="{}",
)  # fmt: skip


def changed(values: Dict[str, Any], defaults: Dict[str, Any]) -> Dict[str, Any]:
    """The values that are not at their default.

    >>> changed({"b": 2, "q": 0, "momentum": 0.9}, {"b": 0, "q": 0})
    {'b': 2, 'momentum': 0.9}
    """
    return {name: v for name, v in values.items() if name not in defaults or v != defaults[name]}
