"""The workloads of this package, and their sizes by the names of the tasks."""

from __future__ import annotations

from typing import Dict, Type

from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.images.sizes import PRESETS, Images
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.tasks.problems.sizes import Problem
from slsgd_mx.workloads import WORKLOADS, Sizes, Workload

# Those of the paper and its theorems; WORKLOADS has all, including those of plug-ins.
SIZES: Dict[str, Type[Sizes]] = {sizes.task: sizes for sizes in (Cifar, Lstm, Problem)}

WORKLOADS.update(
    cifar=Workload(Cifar, "slsgd_mx.tasks.cifar.task:CifarTask", "the paper's CNN on CIFAR-10"),
    lstm=Workload(Lstm, "slsgd_mx.tasks.lstm.task:LstmTask", "the paper's LSTM on WikiText-2"),
    images=Workload(
        Images, "slsgd_mx.tasks.images.task:build_images", "your images and labels", PRESETS
    ),
    problem=Workload(
        Problem, "slsgd_mx.tasks.problems.task:ProblemTask", "a problem of the theorems"
    ),
)
