"""Problems whose constants are known: which one, and how large."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Tuple

from slsgd_mx.validation import require, require_name, require_whole


@dataclass(frozen=True)
class Problem:
    """A small problem whose constants are known, to see the theorems at work.

    ``mu`` and ``L`` bound the curvatures that are drawn for a quadratic; ``L`` is what the samples
    of the other objectives are scaled to.  What a problem really has is computed from its data
    (``slsgd_mx.tasks.problems.objectives``), never taken from here.
    """

    task: ClassVar[str] = "problem"
    default_attack: ClassVar[str] = "negation"
    metrics: ClassVar[Tuple[str, ...]] = ("train_loss", "error", "distance")
    panels: ClassVar[Tuple[str, ...]] = ("error", "distance")
    unit: ClassVar[str] = "samples"
    data: ClassVar[str] = "synthetic"

    objective: str = "quadratic"
    population: str = "symmetric"  # how the devices' own optima lie around the common one
    dimension: int = 10
    samples: int = 20  # of each device
    heterogeneity: float = 1.0  # standard deviation of the devices' optima, a coordinate
    curvature: float = 0.0  # share by which curvature differs between devices (quadratics)
    noise: float = 1.0  # standard deviation of samples around their device's optimum
    mu: float = 1.0
    L: float = 4.0
    waves: float = 0.5  # height of the cosines of "waves"
    radius: float = 5.0  # distance of x_0 from x_*
    instance: int = 0  # seed of the data; a run's own seed leaves the problem as it is

    def validate(self, n: int) -> None:
        from slsgd_mx.tasks.problems.objectives import OBJECTIVES, POPULATIONS

        require_name("objective", self.objective, tuple(OBJECTIVES))
        require_name("population", self.population, tuple(POPULATIONS))
        require_whole(self, dimension=1, samples=1, instance=0)
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
        """How much data there is."""
        return f"{self.samples} samples a device"

    @property
    def evaluated(self) -> int:
        """Samples of one evaluation, on each device."""
        return self.samples

    @property
    def network(self) -> Tuple:
        return (self.task, self.objective, self.dimension)

    def sample(self, images: int) -> Problem:
        """The same: it is small already."""
        return self

    @property
    def slug(self) -> str:
        return f"{self.objective}-{self.population}"
