"""Small arenas whose runs are stored, not trained."""

import pytest

from helpers.run_folders import store_run
from slsgd_mx.arena.grid import CLEAN, Arena
from slsgd_mx.runs.folder import RunFolder

ACCURACY = {
    ("mean", CLEAN): 0.9,
    ("mean", "negation"): 0.1,
    ("mean", "gaussian"): 0.5,
    ("median", CLEAN): 0.8,
    ("median", "negation"): 0.7,
    ("median", "gaussian"): 0.6,
}


def small(**changes):
    values = dict(rules=("mean", "median"), attacks=("negation", "gaussian"))
    return Arena("smoke", **{**values, **changes})


def as_dicts(table):
    columns, rows = table
    return [dict(zip(columns, row)) for row in rows]


def store(arena, home, values=ACCURACY):
    """Store all runs of an arena; seeds differ by 0.02."""
    for setting in arena.settings:
        for cell in arena.cells(setting):
            for run in cell.runs:
                value = values.get((cell.rule, cell.attack))
                if value is not None:
                    final = value + 0.02 * (run.seed - arena.seed)
                    points = run.epochs // run.eval_every
                    store_run(home, run, [final] * points)


def diverge(arena, home, epoch):
    """Let the model of the first run under negation stop being finite."""
    cell = next(c for c in arena.cells(arena.settings[0]) if c.attack == "negation")
    folder = RunFolder(home / cell.runs[0].slug, cell.runs[0])
    (folder.path / "DONE").unlink()
    with pytest.raises(Exception, match="stopped being finite"):
        folder.mark_diverged(epoch)
