"""A rule as a function of arrays, for users."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from slsgd_mx.errors import ConfigError
from slsgd_mx.rules.pipeline import find_rule


def aggregate(
    models: Sequence[Any],
    rule: str = "trimmed-mean",
    b: int = 0,
    previous: Optional[Any] = None,
    seed: int = 0,
) -> Any:
    """Return the aggregate of k models by a rule, as the server computes it in float32.

    Parameters
    ----------
    models : sequence of k arrays
        Equally shaped NDArrays or NumPy arrays, or one array with leading axis k.
    rule : str
        ``NAME:key=value,...``, with pre-aggregations before it: ``"nnm+krum"``.
    b : int
        The number of bad models that the rule is prepared for.
    previous : array, optional
        The global model x_{t-1}, needed by rules that act on updates x_i - x_{t-1}.
    seed : int
        Of the random groups of ``bucketing``.

    Returns
    -------
    NDArray or numpy.ndarray
        x'_t (line 14): an NDArray if the models are NDArrays.

    Raises
    ------
    ConfigError
        If the rule cannot aggregate k models with this b, or ``previous`` is missing.

    Examples
    --------
    >>> from slsgd_mx import aggregate
    >>> aggregate([np.array([1.0]), np.array([2.0]), np.array([9.0])], rule="median")
    array([2.], dtype=float32)
    """
    models = list(models)
    pipeline = find_rule(rule)
    pipeline.check(len(models), b)
    rows, shape = flat_rows(models)
    base = base_of(previous, shape, rule, pipeline)
    if not base.size:
        return like(models[0], np.zeros(shape, np.float32))
    if previous is None and pipeline.mixes and any(np.isfinite(row).all() for row in rows):
        middle = find_rule("median").combine(rows, base, 0)  # near the models, less is rounded
        base = middle if np.isfinite(middle).all() else base
    return like(models[0], pipeline.combine(rows, base, b, seed).reshape(shape))


def flat_rows(models: Sequence[Any]) -> Tuple[List[np.ndarray], Tuple[int, ...]]:
    """Models of one shape as float32 rows (d,), and that shape."""
    arrays = [as_array(model) for model in models]
    shapes = sorted({array.shape for array in arrays})
    if len(shapes) > 1:
        raise ConfigError(f"models must have one shape, got {len(shapes)}: {shapes}")
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite
        rows = [np.ascontiguousarray(array, np.float32).reshape(-1) for array in arrays]
    return rows, shapes[0] if shapes else ()


def base_of(previous: Optional[Any], shape: Tuple[int, ...], name: str, user: Any) -> np.ndarray:
    """x_{t-1} as a row; zeros if there is none and its user does not depend on it."""
    if previous is None:
        if user.uses_previous:
            raise ConfigError(f"{name} acts on updates x_i - x_{{t-1}}: give previous=x_{{t-1}}")
        return np.zeros(int(np.prod(shape)), np.float32)
    (row,), given = flat_rows([previous])
    if given != shape:
        raise ConfigError(f"previous has shape {given}: the models have shape {shape}")
    return row


def as_array(model: Any) -> np.ndarray:
    """A view of an NDArray, or a NumPy array of what was given."""
    if hasattr(model, "wait_to_read"):
        from slsgd_mx.system.arrays import as_numpy

        return as_numpy(model)
    return np.asarray(model)


def like(model: Any, array: np.ndarray) -> Any:
    """``array`` as an NDArray if ``model`` is one."""
    if hasattr(model, "wait_to_read"):
        from slsgd_mx.system.arrays import as_ndarray

        return as_ndarray(array)
    return array
