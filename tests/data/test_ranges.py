"""Every number given to a data function is checked (for the check itself: test_validation.py)."""

import numpy as np
import pytest

from slsgd_mx.data.cifar10 import load_cifar10
from slsgd_mx.data.synthetic import synthetic_images
from slsgd_mx.data.synthetic_text import synthetic_text
from slsgd_mx.data.text import batchify_text, deal_batches
from slsgd_mx.data.wikitext2 import load_wikitext2
from slsgd_mx.errors import ConfigError
from tests.helpers.data_files import cifar_files, text_files, write_folder

IDS = np.arange(100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """15 training and 6 test images of CIFAR-10, and a text of 8 types."""
    return write_folder(tmp_path_factory.mktemp("data"), {**cifar_files(), **text_files()})


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f: load_cifar10(f, train_images=0), "needs 1 <= train_images <= 15"),
        (lambda f: load_cifar10(f, train_images=16), "needs 1 <= train_images <= 15"),
        (lambda f: load_cifar10(f, test_images=7), "needs 1 <= test_images <= 6"),
        (lambda f: load_wikitext2(f, 2), "vocab_size=2 .* needs 3 <= vocab_size <= 8"),
        (lambda f: load_wikitext2(f, 9), "vocab_size=9 .* choose 3 to 8"),
        (lambda f: synthetic_images(0, 10), "needs 1 <= train_images <= 100000"),
        (lambda f: synthetic_images(10, 100_001), "needs 1 <= test_images <= 100000"),
        (lambda f: synthetic_images(10, 10, seed=-1), "seed=-1 is out of range: needs 0 <= seed"),
        (lambda f: synthetic_text(0, 10, 50), "needs 1 <= train_tokens <= 10000000"),
        (lambda f: synthetic_text(10, 10_000_001, 50), "needs 1 <= test_tokens <= 10000000"),
        (lambda f: synthetic_text(10, 10, 19), "needs 20 <= vocab_size <= 100000"),
        (lambda f: synthetic_text(10, 10, 50, seed=-1), "seed=-1 is out of range: needs 0 <= seed"),
        (lambda f: batchify_text(IDS, 20, 5), r"100 tokens are too few .* = 120"),
        (lambda f: batchify_text(IDS, 0, 5), "needs 1 <= batch_size <= 100"),
        (lambda f: batchify_text(IDS, 101, 5), "needs 1 <= batch_size <= 100"),
        (lambda f: batchify_text(IDS, 2, 0), "needs 1 <= bptt <= 100"),
        (lambda f: deal_batches(batchify_text(IDS, 2, 5), 5, 2), "10 is out of range: .* <= 9"),
        (lambda f: deal_batches(batchify_text(IDS, 2, 5), 0, 1), "needs 1 <= n"),
    ],
)
def test_value_out_of_range(folder, call, message):
    with pytest.raises(ConfigError, match=message):
        call(folder)
