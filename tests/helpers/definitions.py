"""Aggregation rules as RULES of the papers define them: slow, on float64 vectors, one at a time.

Nothing here uses Gram matrices, weights or the package; ``x`` is (k, d), ``b`` the bad pushes.
Pushes that are not finite are infinitely far from every other; NaN ranks as +infinity.
"""

from itertools import combinations

import numpy as np


def finite(x):
    return [i for i in range(len(x)) if np.isfinite(x[i]).all()]


def squared_distance(x, i, j):
    if not (np.isfinite(x[i]).all() and np.isfinite(x[j]).all()):
        return np.inf
    return float(((x[i] - x[j]) ** 2).sum())


def distance(x, i, j):
    return float(np.sqrt(squared_distance(x, i, j)))


def by_coordinate(f):
    def rule(x, b, **parameters):
        columns = [sorted(np.inf if np.isnan(v) else v for v in column) for column in x.T]
        return np.array([f(column, b) for column in columns])

    return rule


def nearest_mean(values, centre, m):
    """The mean of the m values nearest to the centre; of equally near ones, the smaller."""
    return float(np.mean(sorted(values, key=lambda v: (abs(v - centre), v))[:m]))


def trimmed(values, b):
    return float(np.mean(values[b : len(values) - b]))


def median_of(values):
    k = len(values)
    return (values[(k - 1) // 2] + values[k // 2]) / 2


trimmed_mean = by_coordinate(trimmed)
median = by_coordinate(lambda values, b: median_of(values))
mean_around_median = by_coordinate(
    lambda values, b: nearest_mean(values, median_of(values), len(values) - b)
)
phocas = by_coordinate(lambda values, b: nearest_mean(values, trimmed(values, b), len(values) - b))


def geometric_median(x, b, nu=1e-6, iterations=100, tolerance=1e-6):
    x = x[finite(x)]
    z = x.mean(axis=0)
    for _ in range(iterations):
        far = np.maximum(nu, np.sqrt(((x - z) ** 2).sum(axis=1)))
        after = sum(row / r for row, r in zip(x, far)) / sum(1 / r for r in far)
        gradient = np.linalg.norm(sum((row - z) / r for row, r in zip(x, far)) / len(x))
        z = after
        if gradient < tolerance:
            break
    return z


def krum_score(x, i, among, neighbours):
    squares = sorted(squared_distance(x, i, j) for j in among if j != i)
    return sum(squares[:neighbours])


def krum_order(x, b):
    k = len(x)
    scores = {i: krum_score(x, i, range(k), k - b - 2) for i in finite(x)}
    return sorted(scores, key=lambda i: (scores[i], i))


def krum(x, b):
    return x[krum_order(x, b)[0]]


def multi_krum(x, b, m=None):
    return x[krum_order(x, b)[: m or len(x) - b]].mean(axis=0)


def bulyan(x, b):
    remaining, picks = list(range(len(x))), []
    for _ in range(len(x) - 2 * b):
        r = len(remaining)
        neighbours = min(max(1, r - b - 2), r - 1)
        scores = {i: krum_score(x, i, remaining, neighbours) for i in remaining if i in finite(x)}
        picks.append(min(scores, key=lambda i: (scores[i], i)))
        remaining.remove(picks[-1])
    keep = len(picks) - 2 * b
    columns = [sorted(column) for column in x[picks].T]
    return np.array([nearest_mean(column, median_of(column), keep) for column in columns])


def diameter(x, subset):
    return max((distance(x, i, j) for i in subset for j in subset if i < j), default=0.0)


def largest_variance(x, subset):
    rows = x[list(subset)]
    if not np.isfinite(rows).all():
        return np.inf
    return float(np.linalg.norm(rows - rows.mean(axis=0), 2) ** 2 / len(rows))  # singular value


def best_subset(x, b, measure):
    """The first subset of least measure, up to rounding."""
    subsets = list(combinations(range(len(x)), len(x) - b))
    measures = [measure(x, subset) for subset in subsets]
    return next(s for s, m in zip(subsets, measures) if m <= (1 + 1e-9) * min(measures))


def mda(x, b):
    return x[list(best_subset(x, b, diameter))].mean(axis=0)


def smea(x, b):
    return x[list(best_subset(x, b, largest_variance))].mean(axis=0)


def caf(x, b):
    k, c = len(x), np.array([float(np.isfinite(row).all()) for row in x])
    x = np.where(c[:, None] > 0, x, 0.0)
    best = (np.inf, None)
    while True:
        mean = (c[:, None] * x).sum(axis=0) / c.sum()
        away = (x - mean) * (c[:, None] > 0)
        scaled = np.sqrt(c / c.sum())[:, None] * away
        _, values, vectors = np.linalg.svd(scaled, full_matrices=False)
        if values[0] ** 2 < best[0]:
            best = (values[0] ** 2, mean)
        if values[0] == 0.0:
            return best[1]
        tau = np.where(c > 0, (away @ vectors[0]) ** 2, 0.0)
        c = c * np.where(tau > (1 - 1e-9) * tau.max(), 0.0, 1 - tau / tau.max())  # equal pushes
        if c.sum() <= k - 2 * b:
            return best[1]


def centered_clipping(x, b, previous, tau=10.0, iterations=1):
    v = previous.astype(np.float64)
    for _ in range(iterations):
        steps = np.zeros_like(v)
        for i in finite(x):
            far = np.linalg.norm(x[i] - v)
            steps += (x[i] - v) * (min(1.0, tau / far) if far > 0 else 1.0)
        v = v + steps / len(x)
    return v


def nnm(x, b):
    rows = []
    for i in range(len(x)):
        order = sorted(range(len(x)), key=lambda j, i=i: (distance(x, i, j) * (j != i), j != i, j))
        kept = [j for j in order[: len(x) - b] if j in finite(x)]
        rows.append(x[kept if i in finite(x) else finite(x)].mean(axis=0))
    return np.array(rows)


def clip(x, b, previous, c=2.0):
    rows = []
    for row in x - previous:
        norm = np.linalg.norm(row)
        rows.append(row * min(1.0, c / norm) if 0 < norm < np.inf else np.zeros_like(row))
    return previous + np.array(rows)


def arc(x, b, previous):
    norms = [np.linalg.norm(r) if np.isfinite(r).all() else np.inf for r in x - previous]
    cut = (2 * b * (len(x) - b)) // len(x)
    return clip(x, b, previous, sorted(norms, reverse=True)[cut])
