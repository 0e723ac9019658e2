"""Run folders: made of given numbers, and what has to repeat in computed ones."""

import json

from slsgd_mx.runs.folder import TIME_COLUMNS, RunStore


def store_run(home, config, losses, diverged=False):
    """A run folder as it would be, a row for each of the losses."""
    folder = home / config.slug
    folder.mkdir(parents=True)
    store = RunStore(folder, config)
    (folder / "config.json").write_text(config.to_json())
    (folder / "metrics.csv").write_text(",".join(store.columns) + "\n")
    for number, loss in enumerate(losses, start=1):
        epoch = config.eval_every * number
        values = dict.fromkeys(store.columns, 0)
        values.update(epoch=epoch, alpha=config.alpha_at(epoch), refused_devices="")
        values.update({metric: float(loss) for metric in config.sizes.metrics})
        store.append(values)
    if diverged:
        (folder / "DIVERGED").write_text("it diverged")
    else:
        (folder / "DONE").write_text(json.dumps(store.rows()[-1]) + "\n")


def numbers(folder):
    """What has to repeat: the final model, and the metrics with their time columns cut off."""
    lines = (folder / "metrics.csv").read_text().splitlines()
    model = folder / "model.params"
    return (
        [line.rsplit(",", len(TIME_COLUMNS))[0] for line in lines],
        model.read_bytes() if model.exists() else None,
    )
