"""Run folders: made of given numbers, interrupted or damaged; what has to repeat in them."""

import json

import numpy as np
import pytest

from slsgd_mx.errors import DivergedError
from slsgd_mx.runs import checkpoints
from slsgd_mx.runs.folder import TIME_COLUMNS, RunFolder
from slsgd_mx.runs.trainer import train

VALUES = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "v": np.float32([-0.0, 1e-45])}


def made_up_row(run_folder, epoch):
    return {**dict.fromkeys(run_folder.columns, 0.5), "epoch": epoch, "refused_devices": ""}


def keep(folder, config, *epochs, diverged=False):
    """A run folder with checkpoints of these epochs, its numbers made up; done after the last."""
    with RunFolder(folder, config) as run_folder:
        run_folder.resume()
        for t in range(config.eval_every, max(epochs, default=0) + 1, config.eval_every):
            run_folder.append(made_up_row(run_folder, t))
        for epoch in epochs:
            run_folder.save_checkpoint(epoch, VALUES, {})
        if config.epochs in epochs:
            run_folder.finish(VALUES)
        if diverged:
            with pytest.raises(DivergedError):
                run_folder.mark_diverged(epochs[-1])
    return folder


def store_run(home, config, losses, diverged=False):
    """A finished run folder with a row for each of the losses."""
    with RunFolder(home / config.slug, config) as run_folder:
        run_folder.resume()
        for number, loss in enumerate(losses, start=1):
            epoch = config.eval_every * number
            metrics = dict.fromkeys(config.sizes.metrics, float(loss))
            run_folder.append(
                {**made_up_row(run_folder, epoch), "alpha": config.alpha_at(epoch), **metrics}
            )
        last = json.dumps(run_folder.rows()[-1]) + "\n"
        (run_folder.path / ("DIVERGED" if diverged else "DONE")).write_text(last)


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


def forget_digests(folder):
    """Make a run folder look as version 0.1.0 would have written it: no digest of its rows."""
    done, manifest = folder / "DONE", folder / "manifest.json"
    if done.exists():
        row, *digests = done.read_text().splitlines()
        kept = [row, *(line for line in digests if line.startswith("model "))]
        done.write_text("\n".join(kept) + "\n")
    if manifest.exists():
        content = json.loads(manifest.read_text())
        content.pop("finished", None)
        manifest.write_text(json.dumps(content))
    for path in checkpoints.list_checkpoints(folder / "checkpoint")[:1]:
        epoch, values, notes = checkpoints.load_newest(folder / "checkpoint")
        notes.pop("digests")
        path.unlink()
        checkpoints.save_checkpoint(folder / "checkpoint", epoch, values, notes)
    return folder


def leftovers(folder):
    return [path.name for path in folder.rglob("*.tmp")]


def numbers(folder):
    """What has to repeat: final model, pushes, and the metrics with their time columns cut off."""
    lines = (folder / "metrics.csv").read_text().splitlines()
    others = [folder / "model.params", folder / "pushes.csv"]
    return (
        [line.rsplit(",", len(TIME_COLUMNS))[0] for line in lines],
        *[path.read_bytes() if path.exists() else None for path in others],
    )


def bits(values):
    """Arrays by name, as bytes, to be compared exactly."""
    return {name: value.tobytes() for name, value in values.items()}
