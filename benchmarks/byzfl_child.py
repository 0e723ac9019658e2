"""Time ByzFL's rules; run by the Python of an environment that has it: K D B."""

import json
import sys
import time

import byzfl
import numpy as np
import torch


def cpu_seconds(call, repeats=2):
    """The least CPU time of a call."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best


def main(k, d, b):
    """Print the times of krum, multi-krum and nnm as JSON."""
    array = np.random.default_rng(0).standard_normal((k, d), np.float32)
    rules = {"krum": byzfl.Krum(b), "multi-krum": byzfl.MultiKrum(b), "nnm": byzfl.NNM(b)}
    kinds = {"NumPy arrays": array, "tensors": torch.from_numpy(array)}
    found = {}
    for name, rule in rules.items():
        found[name] = {
            kind: cpu_seconds(lambda rule=rule, given=given: rule(given), 1 + (name != "nnm"))
            for kind, given in kinds.items()
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
