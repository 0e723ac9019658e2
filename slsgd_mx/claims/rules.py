"""The checks of C1 to C9, on runs of the figures; ``CLAIMS`` states each rule in words."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Callable, Dict, List, Sequence, Tuple

from slsgd_mx.claims import measures
from slsgd_mx.claims.checks import AT_LEAST, AT_MOST, HOLDS, OPEN, Check, Limit, first_few
from slsgd_mx.claims.evidence import Evidence, Value, compare_runs
from slsgd_mx.config import RunConfig
from slsgd_mx.figures.declarations import FIGURES, Changes
from slsgd_mx.figures.variants import Line, loss_to_reach

Judge = Callable[[Evidence], List[Check]]

PROGRESS, NATS = 0.05, 0.02  # margins of one repeat
TINY_GAP = Limit(AT_LEAST, 0.9, PROGRESS)
FAILURE = Limit(AT_MOST, 0.5, PROGRESS)
TOLERATED = Limit(AT_LEAST, 0.5, PROGRESS)
SLOWER = Limit(AT_LEAST, 0.0, NATS)
LEARNING = Limit(AT_MOST, measures.GUESSING, NATS)


def slsgd_unattacked(changes: Changes) -> bool:
    return not changes.get("q") and (changes["alpha"], changes["b"]) != (1, 0)


def untrimmed(changes: Changes) -> bool:
    return changes.get("q", 0) > 0 and changes["b"] == 0


def trimmed(changes: Changes) -> bool:
    return 0 < changes.get("q", 0) <= changes["b"]


def describe(line: Line) -> str:
    """A curve in words; its alpha is the legend's, even if alpha never decays within T."""
    config = line.runs[0]
    kind = "LSTM" if config.sizes.task == "lstm" else config.sizes.partition
    attack = f", q={config.q}" if config.q else ""
    return f"{kind}, gamma={config.gamma:g}, alpha={line.changes['alpha']:g}, b={config.b}{attack}"


def against_ideal(
    evidence: Evidence,
    figures: Sequence[str],
    pick: Callable[[Changes], bool],
    limit: Limit,
    value: Value = measures.progress,
    name: str = "progress",
) -> List[Check]:
    """A check for each picked curve, seed by seed against FedAvg without attack."""
    return [
        compare_runs(
            evidence,
            f"{describe(line)}: {name}",
            limit,
            [(run, measures.ideal_of(run)) for run in line.runs],
            value,
        )
        for line in evidence.lines(*figures)
        if pick(line.changes)
    ]


def judge_no_attack(evidence: Evidence) -> List[Check]:
    """C1; the slow-down is reported, not judged."""
    checks = against_ideal(evidence, ["fig1"], slsgd_unattacked, TINY_GAP)
    slow = against_ideal(evidence, ["fig1"], slsgd_unattacked, SLOWER, measures.slow_down)
    said = ["" if s.estimate is None else f"slow-down {s.estimate:+.4f} (not judged)" for s in slow]
    notes = ["; ".join(filter(None, [c.note, text])) for c, text in zip(checks, said)]
    return [replace(check, note=note) for check, note in zip(checks, notes)]


def judge_unbalanced(evidence: Evidence) -> List[Check]:
    """C2."""
    lines = evidence.lines("fig2")
    checks = [
        compare_runs(
            evidence,
            f"{describe(line)}: slow-down by the partition",
            SLOWER,
            [
                (run, replace(run, sizes=replace(run.sizes, partition="balanced")))
                for run in line.runs
            ],
            measures.slow_down,
        )
        for line in lines
    ]
    decayed = [run for line in lines if line.changes["alpha"] != 1 for run in line.runs]
    pairs = [(run, replace(run, alpha=1.0)) for run in decayed]
    limit = Limit(AT_MOST, 0.0, 0.0, least=4)
    what = "unbalanced, every gamma and b: log of roughness, alpha=0.8 by alpha=1"
    return [*checks, compare_runs(evidence, what, limit, pairs, measures.smoothing)]


def judge_failure(evidence: Evidence) -> List[Check]:
    """C3."""
    return against_ideal(evidence, ["fig3", "fig4"], untrimmed, FAILURE)


def judge_tolerance(evidence: Evidence) -> List[Check]:
    """C4."""
    figures = ["fig3", "fig4"]
    slow = against_ideal(
        evidence, figures, trimmed, SLOWER, measures.slow_down_by_attack, "slow-down"
    )
    return against_ideal(evidence, figures, trimmed, TOLERATED) + slow


def judge_limit_of_trimming(evidence: Evidence) -> List[Check]:
    """C5."""
    values: Dict[str, Tuple[Limit, Value]] = {
        "final training loss": (LEARNING, measures.final_loss),
        "share that diverged": (Limit(AT_MOST, 0.0, 0.0, exact=True), lambda run: run.diverged),
    }
    return [
        compare_runs(
            evidence, f"{describe(line)}: {name}", limit, [(run,) for run in line.runs], value
        )
        for line in evidence.lines("fig3", "fig4")
        if (line.changes.get("q"), line.changes["b"]) == (4, 4)
        for name, (limit, value) in values.items()
    ]


def of_seed(line: Line, seed: int) -> List[RunConfig]:
    """The runs of one seed, by ascending alpha."""
    return sorted((run for run in line.runs if run.seed == seed), key=lambda run: run.alpha)


def compare_epochs(
    evidence: Evidence, figure: str, what: str, halves: Callable[[int], Sequence[RunConfig]]
) -> Check:
    """Check that the second half of a seed's runs reaches the loss before the first."""
    samples = [tuple(halves(seed)) for seed in evidence.variant.seeds]
    config = samples[0][0]
    value = partial(measures.epochs_saved, loss_to_reach(FIGURES[figure], evidence.variant))
    single = max(config.eval_every, config.epochs / 6)  # the margin of one repeat
    limit = Limit(AT_LEAST, config.eval_every / 10, single)
    return compare_runs(evidence, what, limit, samples, value)


def judge_b_and_alpha(evidence: Evidence) -> List[Check]:
    """C6."""
    lines = {line.changes["b"]: line for line in evidence.lines("fig5")}
    alphas = evidence.variant.alphas

    def by_b(seed: int) -> List[RunConfig]:
        return of_seed(lines[2], seed) + of_seed(lines[4], seed)

    def by_alpha(seed: int) -> List[RunConfig]:
        runs = [of_seed(line, seed) for line in lines.values()]
        return [each[-1] for each in runs] + [each[0] for each in runs]

    what = f"every b: epochs saved by alpha={min(alphas):g} over alpha={max(alphas):g}"
    return [
        compare_epochs(evidence, "fig5", "every alpha: epochs saved by b=4 over b=2", by_b),
        compare_epochs(evidence, "fig5", what, by_alpha),
    ]


def judge_passes(evidence: Evidence) -> List[Check]:
    """C7."""
    lines = {line.changes["passes"]: line for line in evidence.lines("fig6")}
    return [
        compare_epochs(
            evidence,
            "fig6",
            f"every alpha: epochs saved by pass={passes} over pass=1",
            lambda seed, more=lines[passes]: of_seed(lines[1], seed) + of_seed(more, seed),
        )
        for passes in (2, 3)
    ]


def judge_equal_prefixes(evidence: Evidence) -> List[Check]:
    """C8; pairs computed from one shared prefix are equal by construction and prove nothing."""
    lines = evidence.lines("fig1", "fig2", "fig3", "fig4", "fig11", "fig12")
    alike: Dict[RunConfig, List[RunConfig]] = {}
    for config in dict.fromkeys(run for line in lines for run in line.runs):
        alike.setdefault(replace(config, alpha=1.0), []).append(config)
    pairs = [pair for configs in alike.values() for pair in combinations(configs, 2)]
    limit = Limit(AT_MOST, 0.0, 0.0, exact=True)
    check = compare_runs(
        evidence, "share of pairs that differ up to the decay", limit, pairs, measures.difference
    )
    runs = [tuple(map(evidence.run, pair)) for pair in pairs]
    found = [(pair, measures.difference(*pair)) for pair in runs if all(run.over for run in pair)]
    differ = [f"{a.config.slug} and {b.config.slug}" for (a, b), result in found if result]
    apart = sum(measures.computed_separately(*pair) for pair, result in found if result is not None)
    notes = [f"{check.repeats} pairs compared, {apart} of them computed apart"]
    if differ:
        notes.append(f"{len(differ)} differ: {first_few(differ)}")
    elif check.repeats and not apart:
        known = "no pair is known to be computed separately; pairs from one prefix prove nothing"
        notes.append(f"{known}: fig11 --no-share --runs OTHER, then claims --runs OTHER, decides")
    verdict = OPEN if check.verdict == HOLDS and not apart else check.verdict
    return [replace(check, verdict=verdict, note="; ".join(filter(None, [check.note, *notes])))]


def judge_text(evidence: Evidence) -> List[Check]:
    """C9."""
    return [
        *against_ideal(evidence, ["fig11"], slsgd_unattacked, TINY_GAP),
        *against_ideal(evidence, ["fig12"], untrimmed, FAILURE),
        *against_ideal(evidence, ["fig12"], trimmed, TOLERATED),
    ]
