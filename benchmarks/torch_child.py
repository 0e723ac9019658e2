"""Time PyTorch's training of the paper's CNN; run by a Python that has it.

THREADS STEPS BATCH PRECISION, which is float32 or bfloat16 (autocast).
"""

import json
import sys
import time

import torch
from torch import nn


def cnn(classes=10, width=64):
    """The network of ``slsgd_mx/tasks/cifar/network.py``, for 24 x 24 images."""
    layers, channels = [], 3
    for out in (width, 2 * width):
        for _ in range(2):
            layers += [nn.Conv2d(channels, out, 3, padding=1), nn.ReLU(), nn.BatchNorm2d(out)]
            channels = out
        layers += [nn.MaxPool2d(2), nn.Dropout(0.25)]
    layers += [nn.Flatten(), nn.Linear(2 * width * 36, 8 * width), nn.ReLU(), nn.Dropout(0.25)]
    return nn.Sequential(*layers, nn.Linear(8 * width, classes))


def main(threads, steps, batch, precision):
    """Print the images per second of the fastest of three rounds as JSON."""
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    net = cnn().to(memory_format=torch.channels_last)
    loss, sgd = nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1)
    images = torch.randn(batch, 3, 24, 24).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(10, (batch,))
    best = float("inf")
    for _ in range(4):  # the first round is slower
        began = time.perf_counter()
        for _ in range(steps):
            sgd.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
                cost = loss(net(images), labels)
            cost.backward()
            sgd.step()
        best = min(best, time.perf_counter() - began)
    print(json.dumps({"images_per_second": steps * batch / best}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), sys.argv[4])
