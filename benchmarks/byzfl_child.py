"""Time ByzFL's rules; run by the Python of an environment that has it: K D B RULE..."""

import json
import sys
import time
from unittest.mock import MagicMock

import numpy as np
import torch

# ByzFL imports it for experiments, which are not run here; some builds do not fit PyTorch's.
sys.modules["torchvision"] = MagicMock()
import byzfl  # noqa: E402


def cpu_seconds(call, repeats=2):
    """The least CPU time of a call."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


RULES = {
    "krum": byzfl.Krum,
    "multi-krum": byzfl.MultiKrum,
    "nnm": byzfl.NNM,
    "trimmed-mean": byzfl.TrMean,
}
SLOW = [("NumPy arrays", "nnm"), ("tensors", "trimmed-mean")]


def main(k, d, b, names):
    """Print the times of the named rules as JSON, without two that are far slower."""
    array = np.random.default_rng(0).standard_normal((k, d), np.float32)
    kinds = {"NumPy arrays": array, "tensors": torch.from_numpy(array)}
    found = {}
    for name in names:
        rule = RULES[name](b)
        found[name] = {
            kind: cpu_seconds(lambda rule=rule, given=given: rule(given), 1 if name == "nnm" else 2)
            for kind, given in kinds.items()
            if (kind, name) not in SLOW
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4:])
