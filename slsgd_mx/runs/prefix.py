"""Runs that are equal up to the epoch where alpha decays share a prefix, which is a run itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Optional

from slsgd_mx.config import RunConfig
from slsgd_mx.errors import RunError


def prefix_of(config: RunConfig) -> Optional[RunConfig]:
    """The run of the epochs before alpha decays, which runs with other alphas share.

    None if alpha does not decay within the run, or not in an epoch that is evaluated.

    >>> prefix_of(RunConfig(alpha=0.8, epochs=800, alpha_decay_epoch=400)) == RunConfig(epochs=400)
    True
    """
    epochs = config.alpha_decay_epoch
    if config.alpha_schedule != "step" or not 0 < epochs < config.epochs:
        return None
    if epochs % config.eval_every:
        return None
    return replace(config, epochs=epochs, alpha=1.0)


def check_prefix(prefix: RunConfig, config: RunConfig) -> None:
    """Raise a RunError unless a run of ``config`` starts with a run of ``prefix``."""
    ours, theirs = _all_but_alpha(config), _all_but_alpha(prefix)
    differ = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if any(prefix.alpha_at(t) != config.alpha_at(t) for t in range(1, prefix.epochs + 1)):
        differ.append("alpha before the prefix ends")
    if differ:
        raise RunError(f"a run cannot continue one with different {', '.join(differ)}")
    if prefix.epochs >= config.epochs or prefix.epochs % config.eval_every:
        raise RunError(
            f"a run cannot continue from epoch {prefix.epochs}: it needs a multiple of "
            f"eval_every={config.eval_every} below T={config.epochs}"
        )


def _all_but_alpha(config: RunConfig) -> Dict[str, Any]:
    values = config.to_dict()
    for name in ("epochs", "alpha", "alpha_schedule", "alpha_decay_epoch"):
        del values[name]
    return values
