"""The pictures of Theorem 1 and its remark; no MXNet."""

from __future__ import annotations

from typing import Dict, Sequence

import numpy as np

from slsgd_mx.figures.plot import Curve, Panel
from slsgd_mx.theory import cases, summary
from slsgd_mx.theory.bounds import rate
from slsgd_mx.theory.panels import (
    FLOOR,
    MEASURED,
    Picture,
    against_bounds,
    log_panel,
    over_epochs,
    over_values,
)
from slsgd_mx.theory.tables import Find, Table


def draw_bound(find: Find) -> Picture:
    panels = []
    for case in cases.problem_cases().values():
        table = find(case)
        report = summary.assumptions(table)
        name = case.title.split(" (")[0]
        title = f"{name}: L={report.L:.2g}, mu={report.mu_F:.2g}, gamma={report.gamma:g}"
        panels.append(log_panel(title, against_bounds(table)))
    note = (
        "n=40, k=10, alpha=0.5, 2 to 6 local steps. Bound: Theorem 1; fitted: the least floor "
        "under which it holds; of the proof: every constant its O() hides worked out."
    )
    return Picture(panels, "Theorem 1: the error and its bound", note, 3)


def draw_rate(find: Find) -> Picture:
    panels = []
    for case in cases.rate_cases().values():
        table = find(case)
        left = summary.remaining(case.config) * table.first
        curves = [over_epochs(table, MEASURED)]
        curves.append(Curve("rate alone, no floor", table["epoch"][0], left))
        panels.append(log_panel(f"{case.title}: {_sizes(table)}", curves))
    note = "Whole data for a batch, equal devices, alpha=1: nothing but the rate is left to see."
    return Picture(panels, "Theorem 1's rate where nothing makes a floor", note, 3)


def _sizes(table: Table) -> str:
    config = table.case.config
    low, high = summary.step_bounds(config)
    return f"L={summary.objective_of(config).L:.2g}, gamma={config.gamma:g}, H={low} to {high}"


WORLD_STYLES = {"noise": 5, "drift": 6}  # beside up to five curves over epochs


def draw_alpha(find: Find) -> Picture:
    worlds = found_worlds(find, cases.alpha_cases())
    bias = {alpha: find(case) for alpha, case in cases.bias_cases().items()}
    alone = over_values("Drift alone (k=n, no noise, H=16)", bias, lambda t: t.floors, style=4)
    note = "n=40, k=10, gamma=0.1, 2 to 6 local steps; drift alone: n=k=10."
    return _sweep(worlds, r"$\alpha$", "Theorem 1: alpha trades rate for error", note, [alone])


def draw_steps(find: Find) -> Picture:
    worlds = found_worlds(find, cases.step_cases())
    note = "n=40, k=10, gamma=0.1, alpha=1; every device takes H local steps."
    title = "Theorem 1: local steps trade error for rate"
    return _sweep(worlds, "H", title, note, xscale="log")


def found_worlds(find: Find, worlds: Dict[str, Dict]) -> Dict[str, Dict[float, Table]]:
    return {
        world: {value: find(case) for value, case in line.items()} for world, line in worlds.items()
    }


def _sweep(
    worlds: Dict[str, Dict[float, Table]],
    symbol: str,
    title: str,
    note: str,
    more_floors: Sequence[Curve] = (),
    xscale: str = "linear",
) -> Picture:
    """Errors over epochs for both worlds; floors, and epochs to a tenth, over what varies."""
    panels, floors, epochs = [], [], []
    for world, tables in worlds.items():
        name = cases.WORLDS[world][1]
        curves = [over_epochs(table, f"{symbol}={value:g}") for value, table in tables.items()]
        panels.append(log_panel(name, curves))
        look = {"style": WORLD_STYLES[world]}
        floors.append(over_values(name, tables, lambda t: t.floors, **look))
        epochs.append(over_values(name, tables, lambda t: summary.epochs_to(t, 0.1), **look))
    predicted = [tenth_by_rate(table) for table in tables.values()]
    epochs.append(Curve("by Theorem 1's rate", list(tables), predicted, style=7))
    floors += more_floors
    where = {"xlabel": symbol, "xscale": xscale}
    panels.append(log_panel("Error that stays", floors, FLOOR, **where))
    panels.append(log_panel("Time it takes", epochs, "Epochs to 1/10 of error", **where))
    return Picture(panels, title, note)


def tenth_by_rate(table: Table) -> float:
    """Epochs after which Theorem 1's factor is a tenth."""
    config = table.case.config
    return float(
        np.log(0.1) / np.log(rate(config.alpha, config.gamma, summary.step_bounds(config)[0]))
    )


def draw_schedule(find: Find) -> Picture:
    found = {name: find(case) for name, case in cases.schedule_cases().items()}
    epochs = found["exact"]["epoch"][0]
    limit = summary.square_limit(found["exact"])
    stall = [
        over_epochs(found["exact"], r"$\alpha_t=1/t^2$, no noise"),
        Curve(r"limit of $\alpha_t=1/t^2$, predicted", epochs, np.full(len(epochs), limit)),
        over_epochs(found["noise"], r"$\alpha_t=1/t^2$, noise"),
        over_epochs(found["constant"], r"$\alpha=1$, noise"),
    ]
    tables = {T: find(case) for T, case in cases.horizon_cases().items()}
    factor = [float(summary.remaining(t.case.config)[-1]) for t in tables.values()]
    left = [
        over_values(
            r"measured, $\alpha=1/T^2$", tables, lambda t: t["error"][:, -1] / t.first, style=4
        ),
        Curve("Theorem 1's factor", list(tables), factor, style=5),
    ]
    panels = [
        log_panel(r"$\alpha_t = 1/t^2$: stops short of $x_*$", stall),
        Panel(
            r"$\alpha = 1/T^2$: ever less is learned",
            "Share of first error left",
            left,
            xlabel="T",
            xscale="log",
            ylim=(0.0, 1.05),
        ),
    ]
    note = "n=40, k=10, gamma=0.1, H=4."
    return Picture(panels, "The remark on vanishing alpha", note)
