"""The first command to try: the paper's main point in one picture."""

from __future__ import annotations

from pathlib import Path

import click

from slsgd_mx.cli.options import FOLDER, given, pick, pick_formerly_out, with_options
from slsgd_mx.cli.output import json_option, print_json, run_document, say, warn_if_unread

# the label of each curve, and what it changes in the preset
CURVES = {
    "FedAvg, no attack": {},
    "FedAvg, label-flip attack": {"q": 2},
    "SLSGD ($b=2$), label-flip attack": {"q": 2, "b": 2},
}


@click.command()
@with_options(
    pick(
        "preset",
        default="smoke",
        help="smoke: embedded synthetic data, a minute. laptop: CIFAR-10, a quarter of an hour on "
        "2 cores. paper: as published, days.",
    ),
    "epochs",
    "data_dir",
    pick_formerly_out(
        "runs",
        type=FOLDER,
        default=None,
        help="Folder for the runs and the picture. Default: runs/demo, runs/demo-laptop, ...",
    ),
    json_option,
)
def demo(preset: str, epochs: int | None, data_dir: Path | None, runs: Path | None) -> None:
    """Compare FedAvg and SLSGD under attack, in a minute.

    Trains FedAvg without attack, FedAvg with 2 of 10 workers poisoned in every epoch (their labels
    are flipped), and SLSGD, which trims 2 values at each end, under the same attack.
    """
    from slsgd_mx.presets import preset as make_config
    from slsgd_mx.system.threads import set_threads, suitable_threads

    set_threads(suitable_threads(preset))
    from slsgd_mx.cli.running import run_one, summarize
    from slsgd_mx.figures.build import metric_panels, write_curves
    from slsgd_mx.figures.captions import data_name, data_note
    from slsgd_mx.figures.plot import draw
    from slsgd_mx.runs.index import RunIndex
    from slsgd_mx.runs.records import load_run

    runs = runs or Path("runs") / ("demo" if preset == "smoke" else f"demo-{preset}")
    configs = [make_config("cifar", preset, **c, **given(epochs=epochs)) for c in CURVES.values()]
    warn_if_unread(data_dir, configs)
    lines, results, documents = {}, [], []
    for number, (label, config) in enumerate(zip(CURVES, configs), start=1):
        plain = label.replace("$", "")
        click.echo(f"{number}/{len(CURVES)} {plain}", err=True)
        result = run_one(config, RunIndex(runs).folder(config), data_dir)
        if result.diverged:
            click.echo(f"{plain}: {result.diverged}", err=True)
        lines[label] = [result.rows]
        documents.append({"curve": plain, **run_document(load_run(result.folder))})
        results.append(f"{plain + ':':33} {summarize(config, result.rows[-1])}")
    title = f"Label flipping, {config.q} of {config.k} workers an epoch poisoned"
    picture = runs / f"demo-{config.sizes.data}.png"
    panels = metric_panels(config, lines)
    draw(panels, picture, f"{title} ({data_name(config)})", data_note(config))
    write_curves(picture.with_suffix(".csv"), config, lines)
    numbers = picture.with_suffix(".csv")
    print_json({"runs": documents, "picture": picture, "numbers": numbers})
    say("\n".join(results))
    say(f"picture: {picture}  (numbers: {numbers.name})")
