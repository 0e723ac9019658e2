"""Sizes of a problem whose constants are known."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Tuple

from slsgd_mx.validation import require, require_name, require_whole
from slsgd_mx.workloads import Sizes

# The legal names; objectives.py implements them.
OBJECTIVE_NAMES = ("quadratic", "waves", "least-squares", "logistic")
POPULATION_NAMES = ("symmetric", "skewed")


@dataclass(frozen=True)
class Problem(Sizes):
    """A small problem whose constants are known, to compare runs with the theorems.

    For quadratics ``mu`` and ``L`` bound the curvatures that are drawn; the samples of the other
    objectives are scaled to ``L``.  The constants of a problem are computed from its data
    (``slsgd_mx.tasks.problems.objectives``), never taken from here.
    """

    task: ClassVar[str] = "problem"
    default_attack: ClassVar[str] = "negation"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "error", "distance")
    panels: ClassVar[Tuple[str, ...]] = ("error", "distance")
    unit: ClassVar[str] = "samples"
    data: ClassVar[str] = "synthetic"
    has_network: ClassVar[bool] = False
    has_target: ClassVar[bool] = True

    objective: str = "quadratic"
    population: str = "symmetric"  # distribution of the devices' optima around the common one
    dimension: int = 10
    samples: int = 20  # on each device
    heterogeneity: float = 1.0  # standard deviation of the devices' optima on each coordinate
    curvature: float = 0.0  # relative difference of the curvatures between devices
    noise: float = 1.0  # standard deviation of samples around their device's optimum
    mu: float = 1.0
    L: float = 4.0
    waves: float = 0.5  # amplitude of the cosines of "waves"
    radius: float = 5.0  # distance of x_0 from x_*
    instance: int = 0  # seed of the data; the seed of the run does not change the problem

    def validate(self, n: int) -> None:
        require_name("objective", self.objective, OBJECTIVE_NAMES)
        require_name("population", self.population, POPULATION_NAMES)
        require_whole(self, dimension=1, samples=1)
        require_whole(self, most=math.inf, instance=0)
        for name in ("heterogeneity", "noise", "mu", "waves", "radius"):
            value = getattr(self, name)
            require(0 <= value <= 1e6, name, value, f"0 <= {name} <= 1e6")
        require(0 <= self.curvature < 1, "curvature", self.curvature, "0 <= curvature < 1")
        require(0 < self.L <= 1e6, "L", self.L, "0 < L <= 1e6")
        require(self.mu <= self.L, "mu", self.mu, f"0 <= mu <= L={self.L}")

    def within(self, n: int, **changes: Any) -> Problem:
        return dataclasses.replace(self, **changes)

    def steps_per_pass(self, n: int, batch_size: int) -> float:
        """Local iterations of one pass."""
        return float(max(1, self.samples // batch_size))

    @property
    def partition(self) -> str:
        return self.population

    @property
    def amount(self) -> str:
        """The amount of data, in words."""
        return f"{self.samples} samples a device"

    @property
    def evaluated(self) -> int:
        """Number of samples in one evaluation, on each device."""
        return self.samples

    @property
    def cost_key(self) -> Tuple:
        return (self.task, self.objective, self.dimension)

    def sample(self, images: int) -> Problem:
        """Return the same sizes: a problem is small enough to measure its speed."""
        return self

    @property
    def slug(self) -> str:
        return f"{self.objective}-{self.population}"
