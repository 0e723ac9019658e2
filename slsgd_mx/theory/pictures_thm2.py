"""The pictures of Theorem 2, of the lemma inside it, and of Proposition 1; no MXNet."""

from __future__ import annotations

from typing import Dict

import numpy as np

from slsgd_mx.figures.plot import Curve, Panel
from slsgd_mx.theory import cases, summary
from slsgd_mx.theory.bounds import printed_lemma, sharp_lemma
from slsgd_mx.theory.lemma import largest_ratio
from slsgd_mx.theory.panels import (
    FLOOR,
    Picture,
    against_bounds,
    log_panel,
    over_epochs,
    over_values,
)
from slsgd_mx.theory.proof import beta_of
from slsgd_mx.theory.tables import Find, Table

DRAWN = ("none", "trimmed", "negation-1e6", "gaussian-1e6", "away")


def draw_attacks(find: Find) -> Picture:
    found = {name: find(case) for name, case in cases.attack_cases().items()}
    own = [
        over_epochs(found[name], found[name].case.title, style=3 + i)
        for i, name in enumerate(DRAWN)
    ]
    panels = [log_panel("Quadratic, every attack", own)]
    for name in ("away", "away-least-squares", "away-logistic", "away-waves"):
        title = "Quadratic" if name == "away" else found[name].case.title.split(" (")[0]
        panels.append(_bounded(f"{title}, worst attack", find, found[name]))
    panels.append(_bounded("Logistic, label flip (the paper's)", find, found["flip"]))
    note = (
        "n=40, k=10, b=q=2, alpha=1, 2 to 6 local steps; bound: Theorem 2, the proof's with V_1 "
        "and V_2 of the same problem without attack. Not drawn: c=1e2, "
        "which looks like c=1e6; +infinity, whose line is that of negation (both push every "
        "coordinate beyond the honest ones); NaN, which is +infinity to the trimmed mean."
    )
    return Picture(panels, "Theorem 2: the error under attack stays bounded", note)


def _bounded(title: str, find: Find, table: Table) -> Panel:
    return log_panel(title, against_bounds(table, find(cases.unattacked(table.case))))


SWEPT = {
    "q": f"k=10, b={cases.Q_AT_B}",
    "b": f"k=10, q={cases.B_AT_Q}",
    "k": f"b=q={cases.K_AT}",
}


def sweep_tables(find: Find, population: str) -> Dict[str, Dict[int, Table]]:
    return {
        symbol: {value: find(case) for value, case in line.items()}
        for symbol, line in cases.sweep_cases(population).items()
    }


def draw_sweeps(find: Find) -> Picture:
    found = {name: sweep_tables(find, name) for name in cases.POPULATIONS}
    panels = []
    for symbol, fixed in SWEPT.items():
        curves = [
            over_values(cases.POPULATIONS[name], sweeps[symbol], lambda t: t.floors)
            for name, sweeps in found.items()
        ]
        tables = found["symmetric"][symbol]
        betas = np.array([beta_of(table.case) for table in tables.values()])
        scaled = betas / betas[0] * float(next(iter(tables.values())).floors.mean())
        curves.append(Curve(r"$\beta$, scaled to the symmetric's first", list(tables), scaled))
        start = np.full(len(tables), next(iter(tables.values())).first)
        curves.append(Curve(r"first error, $F(x_0) - F(x_*)$", list(tables), start))
        panels.append(log_panel(f"Over {symbol} ({fixed})", curves, FLOOR, xlabel=symbol))
    curves = []
    for number, symbol in enumerate(SWEPT):
        tables = found["symmetric"][symbol].values()
        by_sum = {beta_of(t.case) * float(t["v2_pushed"].max()): t for t in tables}
        ordered = dict(sorted(by_sum.items()))
        curves.append(over_values(f"over {symbol}", ordered, lambda t: t.floors, style=4 + number))
    title, place = r"Against $\beta V_2$ (symmetric)", {"xlabel": r"$\beta V_2$"}
    panels.append(log_panel(title, curves, FLOOR, **place))
    note = (
        "n=40, alpha=1, gamma=0.1, 2 to 6 local steps; the worst attack found. V_2 is that of the "
        "attacked run, pushes included."
    )
    return Picture(panels, r"Theorem 2: the error as q, b and k vary", note)


PRINTED, SHARP = "printed constant", "sharp constant b/(k-b-q)"
DRAWS = "largest of 20,000 adversarial draws"
DEVIATION = r"$|Trmean_b - mean|^2$"
RATIO = DEVIATION + " by variance"


def draw_lemma(find: Find) -> Picture:
    sweeps = {name: sweep_tables(find, name) for name in cases.POPULATIONS}
    panels = []
    for symbol, fixed in SWEPT.items():
        tables = sweeps["symmetric"][symbol]
        sizes = [(t.case.config.k, t.case.config.b, t.case.config.q) for t in tables.values()]
        x = list(tables)
        curves = [  # the dashes of the sharp constant lie upon the line of the draws
            Curve(PRINTED, x, [printed_lemma(*size) for size in sizes], style=2),
            Curve(DRAWS, x, [largest_ratio(*size) for size in sizes], style=0),
            Curve(SHARP, x, [sharp_lemma(*size) for size in sizes], style=5),
        ]
        for name, label in cases.POPULATIONS.items():
            line = sweeps[name][symbol]
            look = {"style": 3 if name == "symmetric" else 4}
            label = f"in the runs, {label.lower()}"
            curves.append(over_values(label, line, summary.run_ratios, **look))
        panels.append(log_panel(f"Over {symbol} ({fixed})", curves, RATIO, xlabel=symbol))
    panels.append(_deviation(find(cases.attack_cases()["away"])))
    note = (
        "In the runs: the worst attack found, each seed's largest over epochs. The last panel: the "
        "quadratic with heterogeneity 1, both constants times the honest variance of the epoch."
    )
    return Picture(panels, "Lemma: the trimmed mean is near the honest mean", note)


def _deviation(table: Table) -> Panel:
    """The lemma at work: how far the worst attack moves the aggregate, epoch by epoch."""
    config, epochs = table.case.config, table["epoch"][0, 1:]
    variance = table["variance"][:, 1:]
    sizes = (config.k, config.b, config.q)
    curves = [
        Curve(PRINTED, epochs, printed_lemma(*sizes) * variance, style=2),
        Curve(SHARP, epochs, sharp_lemma(*sizes) * variance, style=5),
        Curve("worst attack, epoch by epoch", epochs, table["deviation"][:, 1:], style=7),
    ]
    return log_panel("At work (k=10, b=q=2)", curves, DEVIATION)


def draw_negation(find: Find) -> Picture:
    errors, distances = [], []
    for name, line in cases.negation_cases().items():
        tables = {c: find(case) for c, case in line.items()}
        label = cases.DEFENCES[name][0]
        errors.append(over_values(label, tables, lambda t: t["error"][:, -1]))
        distances.append(over_values(label, tables, lambda t: np.sqrt(t["distance2"][:, -1])))
    scales = np.array(cases.SCALES)
    size = next(iter(cases.negation_cases()["plain"].values())).config
    dragged = size.q / size.k * scales
    objective = summary.objective_of(size)
    loss = [objective.error(np.full(size.sizes.dimension, far)) for far in dragged]
    away = [np.linalg.norm(far - objective.x_star) for far in dragged]
    label = "at (q/k) c on every coordinate"
    panels = [
        log_panel("Error", [*errors, Curve(label, scales, loss)], r"$F(x_T) - F(x_*)$",
                  xlabel="c", xscale="log"),
        log_panel("Distance", [*distances, Curve(label, scales, away)], r"$|x_T - x_*|$",
                  xlabel="c", xscale="log"),
    ]  # fmt: skip
    note = "n=40, k=10, q=2 push -((k-q)/q) x + c; equal devices, T=10."
    return Picture(panels, "Proposition 1: without trimming the error follows c", note)
