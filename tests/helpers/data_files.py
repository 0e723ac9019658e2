"""Small data sets in the official formats of CIFAR-10 and WikiText-2."""

import pickle
from pathlib import Path

import numpy as np

STEMS = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]
IMAGES = (4, 3, 5, 1, 2, 6)  # in each file; all different, so that order and lengths matter
BIN, PY = "cifar-10-batches-bin", "cifar-10-batches-py"

TEXTS = {
    "wiki.train.tokens": " \n = Ä b = \n \n b a a <unk> c c d \n",
    "wiki.valid.tokens": " a new b \n",
    "wiki.test.tokens": " d other \n \n",
}


def cifar_batches():
    """Yield (stem, pixels, labels) of the six batches."""
    rng = np.random.default_rng(7)
    for stem, size in zip(STEMS, IMAGES):
        pixels = rng.integers(0, 256, (size, 3072), dtype=np.uint8)
        yield stem, pixels, rng.integers(0, 10, size)


def cifar_files(layout=BIN, protocol=2):
    """The six batch files in one of the two layouts: name -> bytes."""
    files = {}
    for stem, pixels, labels in cifar_batches():
        if layout == BIN:
            records = (bytes([y]) + x.tobytes() for x, y in zip(pixels, labels))
            files[stem + ".bin"] = b"".join(records)
        else:
            content = {
                b"batch_label": stem.encode(),
                b"labels": [int(y) for y in labels],
                b"data": pixels,
                b"filenames": [f"image_{i}.png".encode() for i in range(len(labels))],
            }
            files[stem] = pickle.dumps(content, protocol=protocol)
    return files


def text_files(**changed):
    """The three text files: name -> bytes; ``train=...`` replaces one, None omits it."""
    files = {name: text.encode() for name, text in TEXTS.items()}
    files.update({f"wiki.{part}.tokens": raw for part, raw in changed.items()})
    return {name: raw for name, raw in files.items() if raw is not None}


def write_folder(folder: Path, files) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
    return folder
