"""Every picture of the theory, and the numbers that go with it; no MXNet."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.figures.plot import Curve, Panel, band, draw
from slsgd_mx.theory import cases, summary
from slsgd_mx.theory.adversary import largest_ratio
from slsgd_mx.theory.bounds import printed_lemma, rate, sharp_lemma
from slsgd_mx.theory.tables import Find, Table, find_all, finder, write_table

ERROR = r"$F(x_t) - F(x_*)$"
FLOOR = "Mean error, last half of epochs"
TITLES = {  # of the pictures, by name
    "thm1-bound": "Theorem 1: the error and its bound",
    "thm1-rate": "Theorem 1's rate where nothing makes a floor",
    "thm1-alpha": "Theorem 1: alpha trades rate for error",
    "thm1-steps": "Theorem 1: local steps trade error for rate",
    "thm1-schedule": "The remark on vanishing alpha",
    "thm2-attacks": "Theorem 2: the error under attack stays bounded",
    "thm2-sweeps": "Theorem 2: the error as q, b and k vary",
    "thm2-lemma": "Lemma: the trimmed mean is near the honest mean",
    "prop1": "Proposition 1: without trimming the error follows c",
}
MEASURED, FITTED, EXPLICIT = "measured", "bound, fitted floor", "bound, floor of the proof"


class Picture(NamedTuple):
    """One file: its panels, title and small print."""

    panels: List[Panel]
    title: str
    note: str
    columns: int = 2


def limits(curves: Sequence[Curve]) -> Tuple[float, float]:
    """Limits on a log scale that show all points, down to 13 decades below the top.

    A range of less than two decades is widened to whole ones, so that its ticks have labels.
    """
    heights = np.concatenate([band(curve).ravel() for curve in curves])
    heights = np.log10(heights[np.isfinite(heights) & (heights > 0)])
    high = heights.max()
    low = max(heights.min(), high - 13)
    if high - low < 2:
        return 10 ** np.floor(low - 0.02), 10 ** np.ceil(high + 0.02)
    margin = 0.05 * (high - low)
    return 10 ** (low - margin), 10 ** (high + margin)


def log_panel(title: str, curves: Sequence[Curve], ylabel: str = ERROR, **more) -> Panel:
    return Panel(title, ylabel, curves, yscale="log", ylim=limits(curves), **more)


def over_epochs(table: Table, label: str, **more) -> Curve:
    return Curve(label, table["epoch"][0], table["error"], **more)


def against_bounds(table: Table, seen: Optional[Table] = None) -> List[Curve]:
    """The measured error, and the theorem with a fitted floor and with the floor of the proof.

    The floor of the proof uses V_1 and V_2 of the same table, or of another (``seen``).
    """
    epochs = table["epoch"][0]
    return [
        over_epochs(table, MEASURED, style=0),
        Curve(FITTED, epochs, summary.fitted_bound(table), style=1),
        Curve(EXPLICIT, epochs, summary.explicit_bound(table, seen), style=2),
    ]


def over_values(label: str, tables: Dict[float, Table], value: Callable, **more) -> Curve:
    """A value for each seed, over the quantity that varies between tables."""
    return Curve(label, list(tables), np.array([value(t) for t in tables.values()]).T, **more)


def bound_picture(find: Find) -> Picture:
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
    return Picture(panels, TITLES["thm1-bound"], note, 3)


def rate_picture(find: Find) -> Picture:
    panels = []
    for case in cases.rate_cases().values():
        table = find(case)
        left = summary.remaining(case.config) * table.first
        curves = [over_epochs(table, MEASURED)]
        curves.append(Curve("rate alone, no floor", table["epoch"][0], left))
        panels.append(log_panel(f"{case.title}: {_sizes(table)}", curves))
    note = "Whole data for a batch, equal devices, alpha=1: nothing but the rate is left to see."
    return Picture(panels, TITLES["thm1-rate"], note, 3)


def _sizes(table: Table) -> str:
    config = table.case.config
    low, high = summary.step_bounds(config)
    return f"L={summary.objective_of(config).L:.2g}, gamma={config.gamma:g}, H={low} to {high}"


WORLD_STYLES = {"noise": 5, "drift": 6}  # beside up to five curves over epochs


def alpha_picture(find: Find) -> Picture:
    bias = find_all(find, cases.bias_cases())
    alone = over_values("Drift alone (k=n, no noise, H=16)", bias, lambda t: t.floors, style=4)
    note = "n=40, k=10, gamma=0.1, 2 to 6 local steps; drift alone: n=k=10."
    title = TITLES["thm1-alpha"]
    return _trade_off(find, cases.alpha_cases(), r"$\alpha$", title, note, [alone])


def steps_picture(find: Find) -> Picture:
    note = "n=40, k=10, gamma=0.1, alpha=1; every device takes H local steps."
    title = TITLES["thm1-steps"]
    return _trade_off(find, cases.step_cases(), "H", title, note, xscale="log")


def _trade_off(
    find: Find,
    worlds: Mapping[str, Mapping[float, cases.Case]],
    symbol: str,
    title: str,
    note: str,
    more_floors: Sequence[Curve] = (),
    xscale: str = "linear",
) -> Picture:
    """Errors over epochs for both worlds; then floors, and epochs to a tenth, over the symbol."""
    panels, floors, epochs = [], [], []
    for world, line in worlds.items():
        tables = find_all(find, line)
        name = cases.WORLDS[world][1]
        curves = [over_epochs(table, f"{symbol}={value:g}") for value, table in tables.items()]
        panels.append(log_panel(name, curves))
        look = {"style": WORLD_STYLES[world]}
        floors.append(over_values(name, tables, lambda t: t.floors, **look))
        epochs.append(over_values(name, tables, lambda t: summary.epochs_to(t, 0.1), **look))
    configs = [table.case.config for table in tables.values()]
    rates = [rate(c.alpha, c.gamma, summary.step_bounds(c)[0]) for c in configs]
    predicted = [float(np.log(0.1) / np.log(factor)) for factor in rates]
    epochs.append(Curve("by Theorem 1's rate", list(tables), predicted, style=7))
    floors += more_floors
    where = {"xlabel": symbol, "xscale": xscale}
    panels.append(log_panel("Error that stays", floors, FLOOR, **where))
    panels.append(log_panel("Time it takes", epochs, "Epochs to 1/10 of error", **where))
    return Picture(panels, title, note)


def schedule_picture(find: Find) -> Picture:
    found = find_all(find, cases.schedule_cases())
    epochs = found["exact"]["epoch"][0]
    limit = summary.square_limit(found["exact"])
    stall = [
        over_epochs(found["exact"], r"$\alpha_t=1/t^2$, no noise"),
        Curve(r"limit of $\alpha_t=1/t^2$, predicted", epochs, np.full(len(epochs), limit)),
        over_epochs(found["noise"], r"$\alpha_t=1/t^2$, noise"),
        over_epochs(found["constant"], r"$\alpha=1$, noise"),
    ]
    tables = find_all(find, cases.horizon_cases())
    factor = [float(summary.remaining(t.case.config)[-1]) for t in tables.values()]
    label, share = r"measured, $\alpha=1/T^2$", lambda t: t["error"][:, -1] / t.first
    left = [
        over_values(label, tables, share, style=4),
        Curve("Theorem 1's factor", list(tables), factor, style=5),
    ]
    title, look = r"$\alpha = 1/T^2$: ever less is learned", {"xscale": "log", "ylim": (0.0, 1.05)}
    panels = [
        log_panel(r"$\alpha_t = 1/t^2$: stops short of $x_*$", stall),
        Panel(title, "Share of first error left", left, xlabel="T", **look),
    ]
    return Picture(panels, TITLES["thm1-schedule"], "n=40, k=10, gamma=0.1, H=4.")


DRAWN = ("none", "trimmed", "negation-1e6", "gaussian-1e6", "away")


def attacks_picture(find: Find) -> Picture:
    found = find_all(find, cases.attack_cases())
    drawn = [found[name] for name in DRAWN]
    own = [over_epochs(t, t.case.title, style=3 + i) for i, t in enumerate(drawn)]
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
    return Picture(panels, TITLES["thm2-attacks"], note)


def _bounded(title: str, find: Find, table: Table) -> Panel:
    return log_panel(title, against_bounds(table, find(cases.unattacked(table.case))))


SWEPT = dict(q=f"k=10, b={cases.Q_AT_B}", b=f"k=10, q={cases.B_AT_Q}", k=f"b=q={cases.K_AT}")


def sweep_tables(find: Find) -> Dict[str, Dict[str, Dict[int, Table]]]:
    """By population, by symbol, by value."""
    return {
        name: {symbol: find_all(find, line) for symbol, line in cases.sweep_cases(name).items()}
        for name in cases.POPULATIONS
    }


def sweeps_picture(find: Find) -> Picture:
    found = sweep_tables(find)
    panels = []
    for symbol, fixed in SWEPT.items():
        curves = [
            over_values(cases.POPULATIONS[name], sweeps[symbol], lambda t: t.floors)
            for name, sweeps in found.items()
        ]
        tables = found["symmetric"][symbol]
        least = next(iter(tables.values()))
        betas = np.array([summary.weight_of(table.case.config) for table in tables.values()])
        scaled = betas / betas[0] * float(least.floors.mean())
        curves.append(Curve(r"$\beta$, scaled to the symmetric's first", list(tables), scaled))
        start = np.full(len(tables), least.first)
        curves.append(Curve(r"first error, $F(x_0) - F(x_*)$", list(tables), start))
        panels.append(log_panel(f"Over {symbol} ({fixed})", curves, FLOOR, xlabel=symbol))
    curves = []
    for number, symbol in enumerate(SWEPT):
        tables = found["symmetric"][symbol].values()
        products = [summary.weight_of(t.case.config) * float(t["v2_pushed"].max()) for t in tables]
        ordered = dict(sorted(zip(products, tables), key=lambda pair: pair[0]))
        curves.append(over_values(f"over {symbol}", ordered, lambda t: t.floors, style=4 + number))
    title = r"Against $\beta V_2$ (symmetric)"
    panels.append(log_panel(title, curves, FLOOR, xlabel=r"$\beta V_2$"))
    note = (
        "n=40, alpha=1, gamma=0.1, 2 to 6 local steps; the worst attack found. V_2 is that of the "
        "attacked run, pushes included."
    )
    return Picture(panels, TITLES["thm2-sweeps"], note)


PRINTED, SHARP = "printed constant", "sharp constant b/(k-b-q)"
DRAWS = "largest of 20,000 adversarial draws"
DEVIATION = r"$|Trmean_b - mean|^2$"
RATIO = DEVIATION + " by variance"


def lemma_picture(find: Find) -> Picture:
    sweeps = sweep_tables(find)
    panels = []
    for symbol, fixed in SWEPT.items():
        tables = sweeps["symmetric"][symbol]
        sizes = [(t.case.config.k, t.case.config.b, t.case.config.q) for t in tables.values()]
        x = list(tables)
        curves = [  # the sharp constant is drawn last: its dashes cover the line of the draws
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
    return Picture(panels, TITLES["thm2-lemma"], note)


def _deviation(table: Table) -> Panel:
    """How far the worst attack moves the aggregate in each epoch, beside the lemma's limits."""
    config, epochs = table.case.config, table["epoch"][0, 1:]
    variance = table["variance"][:, 1:]
    sizes = (config.k, config.b, config.q)
    curves = [
        Curve(PRINTED, epochs, printed_lemma(*sizes) * variance, style=2),
        Curve(SHARP, epochs, sharp_lemma(*sizes) * variance, style=5),
        Curve("worst attack, epoch by epoch", epochs, table["deviation"][:, 1:], style=7),
    ]
    return log_panel("At work (k=10, b=q=2)", curves, DEVIATION)


def negation_picture(find: Find) -> Picture:
    errors, distances = [], []
    for name, line in cases.negation_cases().items():
        tables = find_all(find, line)
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
    errors.append(Curve(label, scales, loss))
    distances.append(Curve(label, scales, away))
    over_c = {"xlabel": "c", "xscale": "log"}
    panels = [
        log_panel("Error", errors, r"$F(x_T) - F(x_*)$", **over_c),
        log_panel("Distance", distances, r"$|x_T - x_*|$", **over_c),
    ]
    note = "n=40, k=10, q=2 push -((k-q)/q) x + c; equal devices, T=10."
    return Picture(panels, TITLES["prop1"], note)


PICTURES: Dict[str, Dict[str, Callable[[Find], Picture]]] = {
    "thm1": {
        "thm1-bound": bound_picture,
        "thm1-rate": rate_picture,
        "thm1-alpha": alpha_picture,
        "thm1-steps": steps_picture,
        "thm1-schedule": schedule_picture,
    },
    "thm2": {
        "thm2-attacks": attacks_picture,
        "thm2-sweeps": sweeps_picture,
        "thm2-lemma": lemma_picture,
    },
    "prop1": {"prop1": negation_picture},
}


def draw_part(part: str, folder: Path, out: Path, seeds: Optional[int] = None) -> List[Path]:
    """Draw the pictures of thm1, thm2 or prop1, each with its numbers; return the PNGs."""
    find, made = finder(folder, seeds), []
    for name, make in PICTURES[part].items():
        picture = make(find)
        paths = [out / f"{name}.png", out / f"{name}.svg"]
        draw(picture.panels, paths, picture.title, picture.note, picture.columns)
        write_table(out / f"{name}.csv", ("panel", "curve", "x", "mean", "low", "high"),
                  numbers(picture))  # fmt: skip
        made.append(paths[0])
    return made


def numbers(picture: Picture) -> List[Tuple]:
    """A picture's numbers, one row per point."""
    return [
        (panel.title.replace("\n", ", "), curve.label, float(x), float(mean), float(low), float(up))
        for panel in picture.panels
        for curve in panel.curves
        for x, low, mean, up in zip(curve.x, *band(curve))
    ]
