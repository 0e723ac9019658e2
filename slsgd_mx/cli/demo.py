"""The front door: the paper's point in one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import click

from slsgd_mx.cli.options import DATA_DIR

# what the three curves are called, and what they change in the preset
CURVES = {
    "FedAvg, no attack": {},
    "FedAvg, label-flip attack": {"q": 2},
    "SLSGD ($b=2$), label-flip attack": {"q": 2, "b": 2},
}


@click.command()
@click.option(
    "--preset",
    type=click.Choice(["smoke", "laptop", "paper"]),
    default="smoke",
    show_default=True,
    help="smoke: embedded data, a minute. laptop: CIFAR-10, a quarter of an hour on 2 cores.",
)
@DATA_DIR
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the runs and the picture. Default: runs/demo, runs/demo-laptop, ...",
)
@click.option("--epochs", type=int, default=None, help="T. Default: the preset's.")
def demo(preset: str, data_dir: Optional[Path], out: Optional[Path], epochs: Optional[int]) -> None:
    """Compare FedAvg and SLSGD under a label-flip attack (about a minute, no download)."""
    from slsgd_mx.cli.options import given
    from slsgd_mx.presets import preset as make_config
    from slsgd_mx.system.threads import set_threads, suitable_threads

    set_threads(suitable_threads(preset))
    from slsgd_mx.cli.running import run_one, summarize
    from slsgd_mx.figures.curves import data_note, metric_panels, write_curves
    from slsgd_mx.figures.plot import draw

    out = out or Path("runs") / ("demo" if preset == "smoke" else f"demo-{preset}")
    lines, said = [], []
    for number, (label, changes) in enumerate(CURVES.items(), start=1):
        config = make_config("cifar", preset, **changes, **given(epochs=epochs))
        plain = label.replace("$", "")
        click.echo(f"{number}/{len(CURVES)} {plain}", err=True)
        result = run_one(config, out / config.slug, data_dir)
        if result.diverged:
            click.echo(f"{plain}: {result.diverged}", err=True)
        lines.append((label, [result.rows]))
        said.append(f"{plain + ':':33} {summarize(config, result.rows[-1])}")
    kind = "synthetic data" if config.sizes.data == "synthetic" else config.sizes.data
    title = f"Label flipping, {config.q} of {config.k} workers an epoch poisoned ({kind})"
    picture = out / f"demo-{config.sizes.data}.png"
    draw(metric_panels(config, lines), picture, title, data_note(config))
    write_curves(picture.with_suffix(".csv"), config, lines)
    click.echo("\n".join(said))
    click.echo(f"picture: {picture}  (numbers: {picture.with_suffix('.csv').name})")
