"""The front door: the paper's point in one picture, from embedded data."""

from __future__ import annotations

from pathlib import Path

import click

# what the three curves are called, and what they change in the smoke preset
CURVES = {
    "FedAvg, no attack": {},
    "FedAvg, label-flip attack": {"q": 4},
    "SLSGD ($b=4$), label-flip attack": {"q": 4, "b": 4},
}


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Folder of the runs and the picture.",
)
@click.option("--epochs", type=int, default=None, help="T. Default: the smoke preset's.")
def demo(out: Path, epochs: int) -> None:
    """Compare FedAvg and SLSGD under a label-flip attack (about a minute, no download)."""
    from ..presets import preset
    from ..threads import set_threads, thread_count
    from .options import given

    set_threads(thread_count())
    from ..curves import data_note, metric_panels
    from ..plot import draw
    from .running import run_one, summarize

    lines, said = [], []
    for number, (label, changes) in enumerate(CURVES.items(), start=1):
        config = preset("cifar", "smoke", **changes, **given(epochs=epochs))
        plain = label.replace("$", "")
        click.echo(f"{number}/{len(CURVES)} {plain}", err=True)
        result = run_one(config, out / f"{number}-{config.identity}", None)
        lines.append((label, [result.rows]))
        said.append(f"{plain + ':':36} {summarize(config, result.rows[-1])}")
    title = "Label flipping: 4 of the 10 workers of every epoch are poisoned"
    picture = draw(metric_panels(config, lines), out / "demo.png", title, data_note(config))[0]
    click.echo("\n".join(said))
    click.echo(f"picture: {picture}")
