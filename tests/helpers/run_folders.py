"""Run folders: made of given numbers, interrupted or damaged; what has to repeat in them."""

import json

import numpy as np
import pytest

from slsgd_mx.errors import DivergedError
from slsgd_mx.runs.folder import TIME_COLUMNS, RunFolder
from slsgd_mx.runs.trainer import train

VALUES = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "v": np.float32([-0.0, 1e-45])}


def made_up_row(store, epoch):
    return {**dict.fromkeys(store.columns, 0.5), "epoch": epoch, "refused_devices": ""}


def keep(folder, config, *epochs, diverged=False):
    """A run folder with checkpoints of these epochs, its numbers made up; done after the last."""
    with RunFolder(folder, config) as store:
        store.resume()
        for t in range(config.eval_every, max(epochs, default=0) + 1, config.eval_every):
            store.append(made_up_row(store, t))
        for epoch in epochs:
            store.save_checkpoint(epoch, VALUES, {})
        if config.epochs in epochs:
            store.finish(VALUES)
        if diverged:
            with pytest.raises(DivergedError):
                store.mark_diverged(epochs[-1])
    return folder


def store_run(home, config, losses, diverged=False):
    """A finished run folder with a row for each of the losses."""
    with RunFolder(home / config.slug, config) as store:
        store.resume()
        for number, loss in enumerate(losses, start=1):
            epoch = config.eval_every * number
            metrics = dict.fromkeys(config.sizes.metrics, float(loss))
            store.append({**made_up_row(store, epoch), "alpha": config.alpha_at(epoch), **metrics})
        last = json.dumps(store.rows()[-1]) + "\n"
        (store.path / ("DIVERGED" if diverged else "DONE")).write_text(last)


def interrupt(config, folder, epoch, **options):
    """Train until Ctrl-C after this epoch."""

    def listener(progress):
        if progress.epoch == epoch:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(config, folder, listener=listener, **options)


def cut(path):
    path.write_bytes(path.read_bytes()[:-7])


def flip(path):
    """Change one bit in the middle of a file."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut_lines(path, count):
    """Keep that many lines of a file; a negative number counts from the end."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:count]))


def leftovers(folder):
    return [path.name for path in folder.rglob("*.tmp")]


def numbers(folder):
    """What has to repeat: the final model, and the metrics with their time columns cut off."""
    lines = (folder / "metrics.csv").read_text().splitlines()
    model = folder / "model.params"
    return (
        [line.rsplit(",", len(TIME_COLUMNS))[0] for line in lines],
        model.read_bytes() if model.exists() else None,
    )


def bits(values):
    """Arrays by name, as bytes, to be compared exactly."""
    return {name: value.tobytes() for name, value in values.items()}
