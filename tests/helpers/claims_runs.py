"""Made-up runs for tests of claims: typical ones, on which all claims hold, and variations."""

import json
from pathlib import Path

from slsgd_mx import claims
from slsgd_mx.claims import CLAIMS
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Variant, runs_of
from slsgd_mx.runs.folder import RunFolder
from slsgd_mx.system.files import to_csv

# T=16, an evaluation every 2 epochs, alpha decays at 8 (LSTM: 12); T=8 in Figures 5 and 6
ONE = Variant("smoke", {"epochs": 16, "eval_every": 2}, repeats=1, loss=2.0)
BALANCED, UNBALANCED = dict(partition="balanced"), dict(partition="unbalanced")
FIGURES_OF = {
    **dict(C1="1", C2="1 2", C3="3 4", C4="3 4", C5="3 4", C6="5", C7="6"),
    **dict(C8="1 2 3 4 11 12", C9="11 12"),
}


def typical(c):
    """Numbers on which every claim holds; constants or functions of the epoch."""
    lost = 1.0 if c.q and not c.b else 0.25 if c.q else 0.02 if c.b else 0.0
    rough = 0.01 if c.alpha == 1 else 0.005
    if c.alpha_schedule == "constant" or c.epochs == 8:  # Figures 5 and 6
        when = 8 - 4 * (c.b == 4) - 4 * (c.alpha < 0.7) if c.q else 8 / 2 ** (c.passes - 1)
        return dict(train_loss=lambda t: 1.0 if t >= when else 2.5)
    return dict(
        train_loss=1.5 + lost / 2 + 0.1 * (c.sizes.partition == "unbalanced"),
        test_accuracy=lambda t: at(1 - lost) + rough * (-1) ** (t // 2) * (t > 8),
        test_loss=lambda t: 6.0 if t == 2 else 6 - 2 * (1 - lost),
    )


def at(progress):
    """The accuracy of a run with this progress, where the ideal has 0.6."""
    return 0.1 + 0.5 * progress


def rows_of(config, until=None, **numbers):
    due = range(config.eval_every, (until or config.epochs) + 1, config.eval_every)
    columns = dict.fromkeys(RunFolder(Path(), config).columns, 0.5)
    values = {name: numbers.get(name, value) for name, value in columns.items()}

    def row(t):
        return {n: repr(float(v(t) if callable(v) else v)) for n, v in values.items()}

    return [{**row(t), "epoch": str(t)} for t in due]


def write(home, config, state="done", sessions=({"after_epoch": 0},), until=None, **numbers):
    """A run folder as the trainer writes it."""
    folder = home / config.slug
    folder.mkdir(parents=True)
    rows = rows_of(config, until, **numbers)
    (folder / "config.json").write_text(config.to_json())
    (folder / "metrics.csv").write_text(to_csv(list(rows[0]), [row.values() for row in rows]))
    if sessions is not None:
        (folder / "manifest.json").write_text(json.dumps({"sessions": list(sessions)}))
    end = "DIVERGED" if state == "diverged" else "DONE"
    (folder / end).write_text(json.dumps(rows[-1]) + "\n")


def make(home, claim, size=ONE, change=lambda config: {}):
    """The runs a claim needs, typical except for what ``change`` returns."""
    runs = [run for n in FIGURES_OF[claim].split() for run in runs_of(FIGURES[f"fig{n}"], size)]
    for config in dict.fromkeys(runs):
        numbers = {**typical(config), **(change(config) or {})}
        if numbers.get("state") != "missing":
            write(home, config, **numbers)


def judge(home, claim, size=ONE):
    return claims.decide(claim, CLAIMS[claim].judge(claims.Evidence(home, size)))


def judged(home, claim, change=lambda config: {}, size=ONE):
    make(home, claim, size, change)
    return judge(home, claim, size)


def only(who, **numbers):
    """Change the runs whose attributes have the values of ``who``, as in dict(b=2, q=0)."""

    def change(config):
        own = {"partition": config.sizes.partition, **vars(config)}
        return numbers if all(own[name] == value for name, value in who.items()) else {}

    return change


def find(verdict, start, end=""):
    """The check whose name starts and ends so."""
    names = [check.what for check in verdict.checks]
    (name,) = [name for name in names if name.startswith(start) and name.endswith(end)]
    return verdict.checks[names.index(name)]
