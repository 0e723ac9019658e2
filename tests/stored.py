"""Run folders made of given numbers, for tests that read runs and compute none."""

import json

from slsgd_mx.store import RunStore


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
        values.update({metric: float(loss) for metric in config.task.metrics})
        store.append(values)
    if diverged:
        (folder / "DIVERGED").write_text("it diverged")
    else:
        (folder / "DONE").write_text(json.dumps(store.rows()[-1]) + "\n")
