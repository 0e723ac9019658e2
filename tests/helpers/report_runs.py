"""Runs for tests of the report: tiny smoke runs of an arena and of Figure 3, really trained."""

from slsgd_mx.arena.grid import Arena
from slsgd_mx.figures.declarations import FIGURES
from slsgd_mx.figures.variants import Variant, runs_of
from slsgd_mx.runs.trainer import train

CHANGES = dict(epochs=2, eval_every=1, n=10, train_images=100, test_images=20, loss_images=20)
CHANGES.update(width=2, batch_size=10, warm_up=False)
EVIL = "<img src=x onerror=window.broken=1><script>window.broken=1</script>"


def arena():
    """Two rules and one attack."""
    return Arena(
        "smoke", ("median", "trimmed-mean"), ("sign-flip",), qs=(1,), bs=(1,), changes=CHANGES
    )


def variant():
    """A smoke variant of the figures that is small enough to be trained in seconds."""
    return Variant("smoke", CHANGES, repeats=2)


def train_arena(home):
    for config in arena().runs():
        train(config, home / config.slug)


def train_figure(home, name="fig3"):
    """The runs with q=2 and without attack; those with q=4 stay missing."""
    for config in runs_of(FIGURES[name], variant()):
        if config.q < 4:
            train(config, home / config.slug)
