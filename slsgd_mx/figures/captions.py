"""The words of a figure: legends, titles and the small print under it; no MXNet."""

from __future__ import annotations

from collections import Counter
from typing import Mapping, Sequence

from slsgd_mx.attacks import find_attack
from slsgd_mx.config import RunConfig
from slsgd_mx.figures.declarations import legend
from slsgd_mx.figures.panels import seeds_in_words
from slsgd_mx.rules.pipeline import find_rule
from slsgd_mx.runs.status import ENDED, Outcome
from slsgd_mx.workloads import OWN

SYNTHETIC = " (synthetic data)"  # in titles


def label_of(config: RunConfig) -> str:
    r"""The legend of one run.

    >>> label_of(RunConfig(b=2, rule="krum"))
    'SLSGD, $\\gamma=0.1$, $\\alpha=1$, krum, $b=2$'
    """
    b = config.b if find_rule(config.rule).uses_b else None
    return legend(config.alpha, b, config.gamma, config.rule)


def threat(config: RunConfig) -> str:
    """The attack in words.

    >>> threat(RunConfig(q=2, attacker_start="pulled", boost=5))
    'label-flip, pulled start, boosted 5 times'
    """
    if not config.attacked:
        return "no attack"
    usual = find_attack(config.attack).entry
    words = [config.attack]
    if usual.poisons_data:
        words.append(f"{config.attacker_start} start")
    words += [f"scale {config.attack_scale:g}"] * (config.attack_scale != usual.scale)
    words += [f"boosted {config.boost:g} times"] * (config.boost != 1)
    return ", ".join(words)


def attackers(config: RunConfig) -> str:
    """How many are poisoned, in words."""
    if config.poisoned_devices is not None:
        return f"{config.poisoned_devices} poisoned devices"
    return f"q={config.q}" if config.q else ""


def data_name(config: RunConfig) -> str:
    """The data in a title; empty for a workload that does not name them."""
    return {"synthetic": "synthetic data", OWN: ""}.get(config.sizes.data, config.sizes.data)


def precision_in_words(config: RunConfig) -> str:
    """A precision other than float32 as a part of a title.

    >>> precision_in_words(RunConfig(precision="bfloat16")), precision_in_words(RunConfig())
    (' (bfloat16)', '')
    """
    return f" ({config.precision})" if config.precision != "float32" else ""


def data_note(config: RunConfig) -> str:
    """The small print under a picture: which data it shows, if they have a name."""
    if config.sizes.data == "synthetic":
        return "Synthetic data: an embedded, made-up stand-in."
    return f"Data: {config.sizes.data}." if config.sizes.data != OWN else ""


def plain(label: str) -> str:
    r"""A label as a cell of a CSV.

    >>> plain(r"SLSGD, $\gamma=0.1$, $b=2$")
    'SLSGD; gamma=0.1; b=2'
    """
    return label.replace("$", "").replace("\\", "").replace(",", ";")


def note_on(outcomes: Mapping[RunConfig, Outcome], where: Sequence[str]) -> str:
    """Which data, how large the runs are, how many are missing or not finished."""
    runs = list(outcomes)
    config, which = runs[0], seeds_in_words([run.seed for run in runs])
    epochs = max(run.epochs for run in runs)
    sizes = f"n={config.n}, k={config.k}, T={epochs}, {config.sizes.amount}"
    counts = Counter(
        "not finished" if outcome.rows else "missing"
        for outcome in outcomes.values()
        if outcome.state not in ENDED
    )
    lacks = "".join(f" {n} of {len(runs)} runs are {what}." for what, n in sorted(counts.items()))
    threats = dict.fromkeys(threat(run) for run in runs if run.attacked)
    rules = dict.fromkeys(run.rule for run in runs)
    said = [f" Attack: {'; '.join(threats)}."] if threats else []
    many = dict.fromkeys(run.poisoned_devices for run in runs if run.poisoned_devices)
    said += [f" {count} of {config.n} devices are poisoned." for count in many]
    said += [f" Rule: {', '.join(rules)}."]
    said += [f" Only curves with {', '.join(where)}."] if where else []
    return f"{data_note(config)} {sizes}; {which}.{''.join(said)}{lacks}".strip()
