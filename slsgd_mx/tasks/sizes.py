"""The sizes of every workload, by the name of its task."""

from __future__ import annotations

from typing import Dict, Type, Union

from slsgd_mx.tasks.cifar.sizes import Cifar
from slsgd_mx.tasks.lstm.sizes import Lstm
from slsgd_mx.tasks.problems.sizes import Problem

Sizes = Union[Cifar, Lstm, Problem]

SIZES: Dict[str, Type] = {sizes.task: sizes for sizes in (Cifar, Lstm, Problem)}
