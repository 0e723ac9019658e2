"""The paper's claims about its figures and theorems, each with the rule it is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from slsgd_mx.claims import rules, theory
from slsgd_mx.claims.checks import Verdict, decide
from slsgd_mx.claims.evidence import Evidence
from slsgd_mx.errors import ConfigError
from slsgd_mx.figures.variants import Variant


@dataclass(frozen=True)
class Claim:
    """What the paper claims, where, and the rule by which it is judged."""

    id: str
    text: str
    where: str
    rule: str
    judge: rules.Judge


CLAIMS: Dict[str, Claim] = {
    claim.id: claim
    for claim in (
        Claim(
            "C1",
            "balanced, no attack: insensitive to alpha and b, the gap is tiny",
            "Fig. 1",
            "progress of every curve, against FedAvg at its gamma, at least 0.9 "
            "(one repeat: +- 0.05)",
            rules.judge_no_attack,
        ),
        Claim(
            "C2",
            "unbalanced converges slower than balanced; alpha=0.8 lowers the variance",
            "Fig. 2",
            "slow-down of every curve, unbalanced less balanced, at least 0 (one repeat: +- 0.02); "
            "mean over gamma, b and seeds of log(roughness at alpha=0.8 / at alpha=1) at most 0 "
            "(4 values or more), roughness being the mean |change of test accuracy| between "
            "neighbouring evaluations after the decay",
            rules.judge_unbalanced,
        ),
        Claim(
            "C3",
            "under label flipping b=0 fails catastrophically",
            "Fig. 3, 4",
            "progress of alpha=1, b=0 at most 0.5 (one repeat: +- 0.05)",
            rules.judge_failure,
        ),
        Claim(
            "C4",
            "with b >= q it tolerates the attack, converging slower than without attack",
            "Fig. 3, 4",
            "of every curve with b >= q: progress at least 0.5 (one repeat: +- 0.05), slow-down "
            "against the ideal at least 0 (one repeat: +- 0.02)",
            rules.judge_tolerance,
        ),
        Claim(
            "C5",
            "q=4 of k=10: b=4 still prevents divergence",
            "Fig. 3, 4",
            "final training loss at q=4, b=4 at most ln(10), that of guessing (one repeat: "
            "+- 0.02), and no run diverged",
            rules.judge_limit_of_trimming,
        ),
        Claim(
            "C6",
            "larger b and smaller alpha reach the loss in fewer epochs under attack",
            "Fig. 5",
            "epochs to the loss, mean over alpha of b=2 less b=4, and mean over b of the largest "
            "alpha less the smallest: each at least a tenth of eval_every (one repeat: +- T/6, at "
            "least eval_every). A "
            "run that never reaches the loss counts as T + eval_every; a seed in which more than "
            "half of the pairs never reach it says nothing",
            rules.judge_b_and_alpha,
        ),
        Claim(
            "C7",
            "more local passes reach the loss in fewer epochs",
            "Fig. 6",
            "epochs to the loss, mean over alpha of pass=1 less pass=2, and of pass=1 less pass=3: "
            "each at least a tenth of eval_every (one repeat: as in C6); runs that never reach the "
            "loss count as in C6",
            rules.judge_passes,
        ),
        Claim(
            "C8",
            "before the decay, runs with equal gamma and b are equal",
            "Fig. 1-4, 11, 12",
            "metrics up to the decay, of runs equal but for alpha, equal as text in all pairs, at "
            "least one of them computed apart and not from a shared prefix",
            rules.judge_equal_prefixes,
        ),
        Claim(
            "C9",
            "the LSTM behaves as the CNN does",
            "Fig. 11-13",
            "progress at least 0.9 without attack, at most 0.5 under attack with b=0, at least 0.5 "
            "with b >= q (one repeat: +- 0.05)",
            rules.judge_text,
        ),
        Claim(
            "C10",
            "Theorem 1's rate bounds the decay on a smooth convex problem; alpha trades rate for "
            "error",
            "Theorem 1",
            "on every problem, the mean error over seeds above the bound, its floor with the "
            "constants of the proof, in a share 0 of the epochs (V_2 is of the same run, so where "
            "L/2 V_2 is below the bound this could not fail, and is counted apart); where nothing "
            "makes a floor (no "
            "noise, equal devices, alpha=1), each seed's largest log10 of the error by rate^t "
            "[F(x_0) - F(x_*)] at most 0.01, for mu=1, for mu=0.01 and for logistic regression; "
            "alpha=0.2 by alpha=1, seed by seed: log10 of the floor (the mean error of the last "
            "half of the epochs) at most 0, log10 of the epochs to a tenth of the first error at "
            "least 0, with noise only and with heterogeneous devices",
            theory.judge_rate,
        ),
        Claim(
            "C11",
            "with b >= q, k > 2b the error under attack is bounded; it grows with q and b and "
            "shrinks with k",
            "Theorem 2",
            "under every attack (k=10, b=q=2), and at every q, b and k below, the mean error over "
            "seeds above the bound, its floor with the constants of the proof and V_1 and V_2 of "
            "the same problem and k without attack (b=q=0), in a share 0 of the epochs; negation "
            "and "
            "gaussian with c=1e6 by c=1e2: log10 of the floor at most 0.1; under the worst attack "
            "found, log10 of the floor, seed by seed, of q=4 by q=0 (b=4) and of b=4 by b=1 (q=1) "
            "at least 0, of k=20 by k=5 (b=q=2) at most 0, for a symmetric and for a skewed "
            "population of devices",
            theory.judge_trimming,
        ),
        Claim(
            "C12",
            "with b=0 and alpha=1 the error is unbounded",
            "Proposition 1",
            "scaled negation, c from 1e1 to 1e6, k=10, q=2: the slope of log10 of the last error "
            "over log10 of c, seed by seed, at least 1 with b=0 and alpha=1, at most 0.05 with b=q",
            theory.judge_negation,
        ),
    )
}

THEORY = ("C10", "C11", "C12")  # judged on the tables of ``slsgd-mx theory``


def judge_all(
    home: Path,
    variant: Variant,
    figures: Optional[Path] = None,
    names: Optional[Sequence[str]] = None,
) -> List[Verdict]:
    """The verdicts on all or some claims, on the runs in ``home`` and, where they lack, tables."""
    if not variant.compares_b:
        raise ConfigError(
            f"rule={variant.changes['rule']!r} has no b, and the claims compare values of b: "
            "choose a rule that uses it, such as trimmed-mean"
        )
    evidence = Evidence(Path(home), variant, figures)
    return [decide(name, CLAIMS[name].judge(evidence)) for name in names or CLAIMS]


def judge_theory(home: Path, seeds: int) -> List[Verdict]:
    """The verdicts of C10 to C12, on that many seeds of the tables in ``home/theory``."""
    unused = Variant("smoke", {})  # no run of a preset is looked at
    evidence = Evidence(Path(home), unused, seeds=seeds)
    return [decide(name, CLAIMS[name].judge(evidence)) for name in THEORY]
