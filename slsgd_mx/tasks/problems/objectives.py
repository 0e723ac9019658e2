"""Objectives whose constants are known: quadratics, least squares, logistic, waves.

Each of n devices holds m samples z; ``F^i`` is the mean of ``f(x; z)`` over them and ``F`` the mean
of ``F^i`` over devices.  These sums are finite, so L, mu, x_* and F(x_*) are computed from the data
in float64, without MXNet.  To add an objective, write a subclass of `Objective`, register it in
``OBJECTIVES`` and add its name to ``sizes.OBJECTIVE_NAMES``.

============= ============================================================== ====================
name          f(x; z)                                                        mu
============= ============================================================== ====================
quadratic     sum_j l_ij (x_j - z_j)^2 / 2                                   min l_ij (0 allowed)
waves         the same + sum_j a (1 - cos(2 (x_j - x_*j)))                   min l_ij - 4a (< 0)
least-squares (<u, x> - y)^2 / 2, z = (u, y)                                 0 (F may have more)
logistic      log(1 + exp(-(2y-1) <u, x>)), z = (u, y), no regularisation    0
============= ============================================================== ====================
"""

from __future__ import annotations

import abc
from functools import lru_cache
from typing import Callable, Dict, Type

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.randomness import stream
from slsgd_mx.tasks.problems.sizes import Problem

Array = np.ndarray
OMEGA = 2.0  # frequency of the cosines of "waves"


def symmetric(n: int, d: int, rng: np.random.Generator) -> Array:
    """Draw normal offsets (n, d) with mean 0 and variance 1 on each coordinate."""
    return _standardised(rng.standard_normal((n, d)))


def skewed(n: int, d: int, rng: np.random.Generator) -> Array:
    """Draw offsets (n, d) of which, on each coordinate, a random fifth lie far out on one side.

    >>> sorted(set(skewed(10, 3, np.random.default_rng(0)).ravel().round(6).tolist()))
    [-2.0, 0.5]
    """
    far = np.arange(n) < max(1, n // 5)
    return _standardised(np.stack([-1.0 * rng.permutation(far) for _ in range(d)], axis=1))


def _standardised(u: Array) -> Array:
    spread = u.std(axis=0)
    return (u - u.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


POPULATIONS: Dict[str, Callable[[int, int, np.random.Generator], Array]] = {
    "symmetric": symmetric,
    "skewed": skewed,
}


class Objective(abc.ABC):
    """The objective F and its parts on n devices; x_0 is the start and ``least`` is F(x_*)."""

    L: float  # L and mu are the constants of Assumption 2, for every sample z
    mu: float
    mu_F: float  # the lower bound mu for F alone, which the proof uses; at least mu
    x_star: Array  # (d,), a global minimum of F, the nearest to x_0 if there are several
    inputs: Array  # (n, m, d), the samples
    labels: Array  # (n, m); quadratics do not use them
    gradient_is_bounded = False  # on all of R^d, as Assumption 3 requires

    def __init__(self, sizes: Problem, n: int) -> None:
        self.sizes, self.n = sizes, n
        self.build(self._rng("data"))
        signs = np.sign(self._rng("start").random(sizes.dimension) - 0.5)
        start = self.x_star + sizes.radius * signs / np.sqrt(sizes.dimension)
        self.x_0 = start.astype(np.float32).astype(np.float64)  # as the server stores it
        self.settle()
        self.least = self.value(self.x_star)

    @abc.abstractmethod
    def build(self, rng: np.random.Generator) -> None:
        """Draw the samples; compute L, mu, mu_F and x_*."""

    def settle(self) -> None:  # noqa: B027  (most objectives have one minimum)
        """Choose among several minima once x_0 is known."""

    @abc.abstractmethod
    def value(self, x: Array) -> float:
        """Return F(x)."""

    @abc.abstractmethod
    def gradient(self, x: Array, device: int, inputs: Array, labels: Array) -> Array:
        """Return the gradient (d,) of the mean of f(x; z) over some samples of a device."""

    def sample_gradients(self, x: Array) -> Array:
        """Return the gradient of f(x; z) for every sample, (n, m, d)."""
        gradients = [
            self.gradient(x, i, self.inputs[i, s : s + 1], self.labels[i, s : s + 1])
            for i, s in np.ndindex(self.labels.shape)
        ]
        return np.reshape(gradients, self.inputs.shape)

    def full_gradient(self, x: Array) -> Array:
        """Return the gradient of F at x, (d,)."""
        parts = [self.gradient(x, i, self.inputs[i], self.labels[i]) for i in range(self.n)]
        return np.mean(parts, axis=0)

    def error(self, x: Array) -> float:
        """Return F(x) - F(x_*)."""
        return self.value(x) - self.least

    def _rng(self, purpose: str) -> np.random.Generator:
        return stream(self.sizes.instance, f"problem-{purpose}")

    def _optima(self, rng: np.random.Generator) -> Array:
        """Draw the optimum of each device, (n, d)."""
        sizes = self.sizes
        common = rng.standard_normal(sizes.dimension)
        offsets = POPULATIONS[sizes.population](self.n, sizes.dimension, rng)
        return common + sizes.heterogeneity * offsets


class Quadratic(Objective):
    """``f(x; z) = sum_j l_ij (x_j - z_j)^2 / 2``, separable; with mu=0 some l_ij are 0."""

    def build(self, rng: np.random.Generator) -> None:
        sizes, shape = self.sizes, (self.n, self.sizes.dimension)
        optima = self._optima(rng)
        scatter = rng.standard_normal((self.n, sizes.samples, sizes.dimension))
        # Centred, so that a device's optimum is the mean of its samples.
        scatter -= scatter.mean(axis=1, keepdims=True)
        self.inputs = optima[:, None, :] + sizes.noise * scatter
        self.labels = np.zeros(self.inputs.shape[:2])
        self.curvatures = spectrum(sizes) * (1.0 - sizes.curvature * rng.random(shape))  # (n, d)
        self.total = self.curvatures.mean(axis=0)
        weights = np.where(self.total > 0, self.total, 1.0)
        means = self.inputs.mean(axis=1)  # (n, d)
        flat = self.total <= 0
        self.x_star = np.where(flat, 0.0, (self.curvatures * means).mean(axis=0) / weights)
        self.L, self.mu = float(self.curvatures.max()), float(self.curvatures.min())
        self.mu_F = float(self.total.min())
        second = (self.curvatures[:, None, :] * (self.inputs - self.x_star) ** 2).sum(axis=2)
        self.constant = 0.5 * float(second.mean())

    def settle(self) -> None:
        """Let x_* agree with x_0 on the coordinates on which F does not depend."""
        self.x_star = np.where(self.total > 0, self.x_star, self.x_0)

    def value(self, x: Array) -> float:
        return self.constant + 0.5 * float(self.total @ (x - self.x_star) ** 2)

    def gradient(self, x: Array, device: int, inputs: Array, labels: Array) -> Array:
        return self.curvatures[device] * (x - inputs.mean(axis=0))


class Waves(Quadratic):
    """The quadratic plus ``sum_j a (1 - cos(2 (x_j - x_*j)))``: not convex, with the same minimum.

    For a > 1.15 or so (if the curvature of the quadratic is 1) there are other, local minima.
    """

    def build(self, rng: np.random.Generator) -> None:
        super().build(rng)
        bend = self.sizes.waves * OMEGA**2
        self.L, self.mu, self.mu_F = self.L + bend, self.mu - bend, self.mu_F - bend

    def settle(self) -> None:
        if (self.total <= 0).any():
            raise ConfigError(f"mu={self.sizes.mu} is out of range: waves need mu > 0")

    def value(self, x: Array) -> float:
        ripple = 1.0 - np.cos(OMEGA * (x - self.x_star))
        return super().value(x) + self.sizes.waves * float(ripple.sum())

    def gradient(self, x: Array, device: int, inputs: Array, labels: Array) -> Array:
        slope = self.sizes.waves * OMEGA * np.sin(OMEGA * (x - self.x_star))
        return super().gradient(x, device, inputs, labels) + slope


class LeastSquares(Objective):
    """``f(x; u, y) = (<u, x> - y)^2 / 2``; the longest u has the squared length L."""

    def build(self, rng: np.random.Generator) -> None:
        sizes = self.sizes
        optima = self._optima(rng)
        self.inputs = scaled_inputs(self.n, sizes, np.sqrt(sizes.L), rng)
        noise = sizes.noise * rng.standard_normal(self.inputs.shape[:2])
        self.labels = np.einsum("imd,id->im", self.inputs, optima) + noise
        u, y = self.inputs.reshape(-1, sizes.dimension), self.labels.ravel()
        self.x_star = np.linalg.lstsq(u, y, rcond=None)[0]
        self.L = float((u**2).sum(axis=1).max())
        self.mu = float((u**2).min()) if sizes.dimension == 1 else 0.0
        self.mu_F = float(np.linalg.eigvalsh(u.T @ u / len(u))[0])

    def settle(self) -> None:
        """With fewer samples than dimensions, choose the minimum that is nearest to x_0."""
        u, y = self.inputs.reshape(-1, self.sizes.dimension), self.labels.ravel()
        if len(u) < self.sizes.dimension:
            self.x_star = self.x_0 + np.linalg.lstsq(u, y - u @ self.x_0, rcond=None)[0]

    def value(self, x: Array) -> float:
        return 0.5 * float(np.mean((self.inputs @ x - self.labels) ** 2))

    def gradient(self, x: Array, device: int, inputs: Array, labels: Array) -> Array:
        return (inputs @ x - labels) @ inputs / len(labels)


class Logistic(Objective):
    """``f(x; u, y) = log(1 + exp(-(2y-1) <u, x>))``; the longest u has the squared length 4L."""

    gradient_is_bounded = True

    def build(self, rng: np.random.Generator) -> None:
        sizes = self.sizes
        optima = self._optima(rng)
        self.inputs = scaled_inputs(self.n, sizes, 2.0 * np.sqrt(sizes.L), rng)
        scores = np.einsum("imd,id->im", self.inputs, optima)
        wrong = 1.0 / (1.0 + np.exp(scores / max(sizes.noise, 1e-9)))
        self.labels = (rng.random(scores.shape) >= wrong).astype(np.float64)
        u = self.inputs.reshape(-1, sizes.dimension)
        self.L, self.mu, self.mu_F = float((u**2).sum(axis=1).max()) / 4, 0.0, 0.0
        self.x_star = self._minimise(u, self.labels.ravel())

    def _minimise(self, u: Array, y: Array) -> Array:
        """Return x_* by Newton's method; a step that increases F is halved."""
        x = np.zeros(u.shape[1])
        for _ in range(200):
            p = _sigmoid(u @ x)
            slope = (p - y) @ u / len(y)
            if np.abs(slope).max() < 1e-13:
                break
            hessian = (u * (p * (1 - p))[:, None]).T @ u / len(y)
            step = np.linalg.lstsq(hessian, slope, rcond=None)[0]
            size = 1.0
            while self.value(x - size * step) > self.value(x) and size > 1e-8:
                size /= 2
            x = x - size * step
        separated = ((2.0 * y - 1.0) * (u @ x)).min() > 0
        if np.abs(slope).max() < 1e-9 and not separated:
            return x
        raise ConfigError(
            f"instance={self.sizes.instance} has no minimum: its classes can be separated; "
            "choose another instance, more samples or more noise"
        )

    def value(self, x: Array) -> float:
        return float(np.mean(np.logaddexp(0.0, (1.0 - 2.0 * self.labels) * (self.inputs @ x))))

    def gradient(self, x: Array, device: int, inputs: Array, labels: Array) -> Array:
        return (_sigmoid(inputs @ x) - labels) @ inputs / len(labels)


def _sigmoid(t: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * t))


def spectrum(sizes: Problem) -> Array:
    """Return curvatures (d,) from mu to L, evenly spaced on a log scale (linear if mu = 0)."""
    if sizes.mu > 0:
        return np.geomspace(sizes.mu, sizes.L, sizes.dimension)
    return np.linspace(0.0, sizes.L, sizes.dimension)


def scaled_inputs(n: int, sizes: Problem, longest: float, rng: np.random.Generator) -> Array:
    """Draw normal inputs (n, m, d), stretched differently on each device, at most so long."""
    raw = rng.standard_normal((n, sizes.samples, sizes.dimension))
    stretch = np.exp(sizes.curvature * rng.standard_normal((n, 1, sizes.dimension)))
    raw = raw * stretch
    return raw * (longest / np.sqrt((raw**2).sum(axis=2).max()))


OBJECTIVES: Dict[str, Type[Objective]] = {
    "quadratic": Quadratic,
    "waves": Waves,
    "least-squares": LeastSquares,
    "logistic": Logistic,
}


@lru_cache(maxsize=16)
def build_objective(sizes: Problem, n: int) -> Objective:
    """Return the objective of these sizes on n devices; it is never changed, so it is cached."""
    return OBJECTIVES[sizes.objective](sizes, n)
