"""The pictures of the theory: which curves in which panels; no MXNet."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..plot import Curve, Panel, band, draw
from . import cases, summary
from .bounds import beta, inverse_square_limit, printed_lemma, sharp_lemma
from .cases import Case
from .lemma import adversarial_draws, ratios
from .tables import Table, read_table, write_csv

ERROR = r"$F(x_t) - F(x_*)$"
FLOOR = "Mean error, last half of epochs"
MEASURED, FITTED, EXPLICIT = "measured", "bound, fitted floor", "bound, floor of the proof"
Find = Callable[[Case], Table]


class Picture(NamedTuple):
    """One file: its panels, title and small print."""

    panels: List[Panel]
    title: str
    note: str
    columns: int = 2


def limits(curves: Sequence[Curve]) -> Tuple[float, float]:
    """Limits on a log scale that leave nothing out, down to eight decades below the top."""
    heights = np.concatenate([band(curve).ravel() for curve in curves])
    heights = heights[np.isfinite(heights) & (heights > 0)]
    low, high = max(heights.min(), heights.max() * 1e-13), heights.max()
    return low / (high / low) ** 0.05 / 1.1, high * (high / low) ** 0.05 * 1.1


def log_panel(title: str, curves: Sequence[Curve], ylabel: str = ERROR, **more) -> Panel:
    return Panel(title, ylabel, curves, yscale="log", ylim=limits(curves), **more)


def over_epochs(table: Table, label: str) -> Curve:
    return Curve(label, table["epoch"][0], table["error"])


def against_bounds(table: Table) -> List[Curve]:
    epochs = table["epoch"][0]
    return [
        over_epochs(table, MEASURED),
        Curve(FITTED, epochs, summary.fitted_bound(table)),
        Curve(EXPLICIT, epochs, summary.explicit_bound(table)),
    ]


def over_values(label: str, tables: Dict[float, Table], value: Callable, **more) -> Curve:
    """A value of each seed, over what was varied."""
    return Curve(label, list(tables), np.array([value(t) for t in tables.values()]).T, **more)


# ---- Theorem 1 -----------------------------------------------------------------------------------


def draw_bound(find: Find) -> Picture:
    panels = []
    for case in cases.problem_cases().values():
        table = find(case)
        report = summary.assumptions(table)
        title = f"{case.title}\nL={report.L:.2g}, mu={report.mu_F:.2g}, gamma={report.gamma:g}"
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
        panels.append(log_panel(case.title, curves))
    note = "Whole data for a batch, equal devices, alpha=1: nothing but the rate is left to see."
    return Picture(panels, "Theorem 1's rate where nothing makes a floor", note, 3)


def draw_alpha(find: Find) -> Picture:
    return _sweep(
        {
            world: {value: find(case) for value, case in line.items()}
            for world, line in cases.alpha_cases().items()
        },
        r"$\alpha$",
        "Theorem 1: alpha trades rate for error",
        "n=40, k=10, gamma=0.1, 2 to 6 local steps.",
    )


def draw_steps(find: Find) -> Picture:
    return _sweep(
        {
            world: {value: find(case) for value, case in line.items()}
            for world, line in cases.step_cases().items()
        },
        "H",
        "Theorem 1: local steps trade error for rate",
        "n=40, k=10, gamma=0.1, alpha=1; every device takes H local steps.",
        xscale="log",
    )


def _sweep(
    worlds: Dict[str, Dict[float, Table]], symbol: str, title: str, note: str, xscale="linear"
) -> Picture:
    """Errors over epochs for both worlds; floors, and epochs to a tenth, over what varies."""
    panels, floors, epochs = [], [], []
    first = len(next(iter(worlds.values())))
    for number, (world, tables) in enumerate(worlds.items()):
        name = cases.WORLDS[world][1]
        curves = [over_epochs(table, f"{symbol}={value:g}") for value, table in tables.items()]
        panels.append(log_panel(name, curves))
        look = {"style": first + number}
        floors.append(over_values(name, tables, lambda t: t.floors, **look))
        epochs.append(over_values(name, tables, lambda t: summary.epochs_to(t, 0.1), **look))
    panels.append(log_panel("Error that stays", floors, FLOOR, xlabel=symbol, xscale=xscale))
    panels.append(
        log_panel("Time it takes", epochs, "Epochs to 1/10 of error", xlabel=symbol, xscale=xscale)
    )
    return Picture(panels, title, note)


def draw_schedule(find: Find) -> Picture:
    found = {name: find(case) for name, case in cases.schedule_cases().items()}
    epochs = found["exact"]["epoch"][0]
    limit = square_limit(found["exact"])
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
            r"$\alpha = 1/T^2$: nothing is learned",
            "Share of first error left",
            left,
            xlabel="T",
            xscale="log",
            ylim=(0.0, 1.05),
        ),
    ]
    note = "n=40, k=10, gamma=0.1, H=4."
    return Picture(panels, "The remark on vanishing alpha", note)


def square_limit(table: Table) -> float:
    """Where alpha_t = 1/t^2 ends on a quadratic without noise: each coordinate on its own."""
    objective = summary.objective_of(table.case.config)
    steps = table.case.config.local_steps[0]
    left = [
        inverse_square_limit((1.0 - table.case.config.gamma * curvature) ** steps)
        for curvature in objective.total
    ]
    x = objective.x_star + np.array(left) * (objective.x_0 - objective.x_star)
    return objective.error(x)


# ---- Theorem 2 -----------------------------------------------------------------------------------


def draw_attacks(find: Find) -> Picture:
    found = {name: find(case) for name, case in cases.attack_cases().items()}
    own = {name: t for name, t in found.items() if not name.startswith("away-")}
    panels = [log_panel("Every attack", [over_epochs(t, t.case.title) for t in own.values()])]
    spread = [Curve(t.case.title, t["epoch"][0], t["v2_pushed"]) for t in own.values()]
    panels.append(log_panel("Distance visited", spread, r"$V_2$ up to epoch $t$"))
    for name in ("away", "away-least-squares", "away-logistic", "away-waves"):
        table = found[name]
        title = "Quadratic, worst attack" if name == "away" else f"{table.case.title}, worst attack"
        curves = against_bounds(table)
        shifted = [Curve(c.label, c.x, c.y, style=len(own) + i) for i, c in enumerate(curves)]
        panels.append(log_panel(title, shifted))
    note = "n=40, k=10, b=q=2, alpha=1, 2 to 6 local steps; bound: Theorem 2."
    return Picture(panels, "Theorem 2: the error under attack stays bounded", note)


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


def beta_of(case: Case) -> float:
    return beta(case.config.n, case.config.k, case.config.b, case.config.q)


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
        panels.append(log_panel(f"Over {symbol} ({fixed})", curves, FLOOR, xlabel=symbol))
    curves = []
    for number, symbol in enumerate(SWEPT):
        by_beta = {beta_of(t.case): t for t in found["symmetric"][symbol].values()}
        ordered = dict(sorted(by_beta.items()))
        curves.append(over_values(f"over {symbol}", ordered, lambda t: t.floors, style=3 + number))
    panels.append(
        log_panel(r"Against $\beta$ (symmetric)", curves, FLOOR, xlabel=r"$\beta$", xscale="log")
    )
    note = "n=40, alpha=1, gamma=0.1, 2 to 6 local steps; the worst attack found."
    return Picture(panels, r"Theorem 2: the error as q, b and k vary", note)


def largest_ratio(k: int, b: int, q: int, draws: int = 20_000) -> float:
    """The largest deviation by variance over adversarial draws."""
    rng = np.random.default_rng([k, b, q])
    return float(ratios(*adversarial_draws(k, b, q, draws, rng), b).max())


def draw_lemma(find: Find) -> Picture:
    sweeps = {name: sweep_tables(find, name) for name in cases.POPULATIONS}
    panels = []
    for symbol, fixed in SWEPT.items():
        tables = sweeps["symmetric"][symbol]
        sizes = [(t.case.config.k, t.case.config.b, t.case.config.q) for t in tables.values()]
        x = list(tables)
        curves = [
            Curve("printed constant", x, [printed_lemma(*size) for size in sizes]),
            Curve("sharp constant b/(k-b-q)", x, [sharp_lemma(*size) for size in sizes]),
            Curve("largest of 20,000 adversarial draws", x, [largest_ratio(*s) for s in sizes]),
        ]
        for name, label in cases.POPULATIONS.items():
            line = sweeps[name][symbol]
            curves.append(over_values(f"in the runs, {label.lower()}", line, run_ratios))
        panels.append(log_panel(f"Over {symbol} ({fixed})", curves, "", xlabel=symbol))
    note = "In the runs: the worst attack found, each seed's largest over epochs."
    title = r"Lemma: $|Trmean_b$ - honest mean$|^2$ by the honest variance"
    return Picture(panels, title, note, 3)


def run_ratios(table: Table) -> np.ndarray:
    """Per seed, the largest deviation by variance over epochs."""
    return (table["deviation"][:, 1:] / table["variance"][:, 1:]).max(axis=1)


# ---- Proposition 1 -------------------------------------------------------------------------------


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
    loss = [objective.error(np.full(size.task.dimension, far)) for far in dragged]
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


PICTURES: Dict[str, Dict[str, Callable[[Find], Picture]]] = {
    "thm1": {
        "thm1-bound": draw_bound,
        "thm1-rate": draw_rate,
        "thm1-alpha": draw_alpha,
        "thm1-steps": draw_steps,
        "thm1-schedule": draw_schedule,
    },
    "thm2": {
        "thm2-attacks": draw_attacks,
        "thm2-sweeps": draw_sweeps,
        "thm2-lemma": draw_lemma,
    },
    "prop1": {"prop1": draw_negation},
}


def draw_part(part: str, folder: Path, out: Path, seeds: Optional[int] = None) -> List[Path]:
    """Draw the pictures of thm1, thm2 or prop1, each with its numbers; return the PNGs."""
    seen: Dict[str, Table] = {}

    def find(case: Case) -> Table:
        if case.name not in seen:
            seen[case.name] = read_table(folder, case, seeds)
        return seen[case.name]

    made = []
    for name, make in PICTURES[part].items():
        picture = make(find)
        paths = [out / f"{name}.png", out / f"{name}.svg"]
        draw(picture.panels, paths, picture.title, picture.note, picture.columns)
        write_csv(out / f"{name}.csv", ("panel", "curve", "x", "mean", "low", "high"),
                  numbers(picture))  # fmt: skip
        made.append(paths[0])
    return made


def numbers(picture: Picture) -> List[Tuple]:
    """What a picture shows, a row a point."""
    return [
        (panel.title.replace("\n", ", "), curve.label, float(x), float(mean), float(low), float(up))
        for panel in picture.panels
        for curve in panel.curves
        for x, low, mean, up in zip(curve.x, *band(curve))
    ]
