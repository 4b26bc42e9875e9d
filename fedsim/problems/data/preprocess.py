"""Preprocessing: steps that a scenario applies to features, in the order of its list.

A step is fitted on the features of all clients together. The fitted values, such as means, are
kept, so that other rows can be transformed in the same way. Sparse features stay sparse: a step
that would fill in their zeros is refused.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, NoReturn

import numpy as np
from pydantic import Field
from scipy.sparse import csr_array, diags_array, hstack

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.samples import Features, Sparse, canonical, scaled_rows, wide


class First(Spec):
    """Keep only the first columns."""

    first: int = Field(ge=1, description="how many columns to keep, counted from the left")


class Divide(Spec):
    """Divide every number by the same divisor."""

    divide: float = Field(gt=0, description="the divisor, such as 255 for pixels of a byte")


Step = Literal["standardise", "unit-range", "max-abs", "unit-rows", "intercept"] | First | Divide
"""standardise: each column to mean 0 and variance 1; unit-range: each column to [0, 1]; max-abs:
each column to a largest magnitude of 1; unit-rows: each row to Euclidean norm 1; intercept: a
last column of ones.

The first two map a constant column to zeros, and a column or row of zeros remains zero. Sparse
features cannot be standardised, and can be mapped to the unit range only if the minimum of every
column is 0.
"""

Transform = Callable[[Features], Features]
"""A fitted transformation of any rows."""


def fit(X: Features, steps: Sequence[Step]) -> tuple[Features, Transform]:
    """Return the features after all steps, and the function that transforms other rows alike.

    Raises:
        DataError: more columns are to be kept than exist, or sparse features would not stay sparse.
    """
    transform = fit_transform(X, steps)
    return transform(X), transform


def fit_transform(X: Features, steps: Sequence[Step]) -> Transform:
    """Return the function that applies steps, fitted on the rows `X`, to any rows, in float64.

    It transforms each row by itself, so rows may be transformed in blocks. During fitting, rows are
    transformed only as far as a later step needs for its own fit.

    Raises:
        DataError: as for `fit`.
    """
    transforms: list[Transform] = []
    seen, reached = X, 0
    for step in steps:
        if isinstance(step, First):
            # A single row shows the number of columns after the steps so far.
            columns = _treat(transforms[reached:], seen[:1]).shape[1]
            transforms.append(_first(step.first, columns))
        elif isinstance(step, Divide):
            transforms.append(_division(step.divide))
        else:
            # Only these steps need the rows as the steps before have left them.
            if step in LEARNING:
                seen, reached = _treat(transforms[reached:], seen), len(transforms)
            transforms.append(_STEPS[step](seen))
    return partial(_treat, tuple(transforms))


def preprocess(X: Features, steps: Sequence[Step]) -> Features:
    """Return the features after all steps, C-contiguous or sparse; errors as for `fit`."""
    return fit(X, steps)[0]


def _treat(transforms: Sequence[Transform], X: Features) -> Features:
    X = wide(X)
    for transform in transforms:
        X = transform(X)
    return np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X


def _first(k: int, columns: int) -> Transform:
    if k > columns:
        raise DataError(
            "data.preprocess", f"the first {k} features are requested; the data has {columns}"
        )
    return lambda X: X[:, :k]


def _division(divisor: float) -> Transform:
    def apply(X: Features) -> Features:
        if isinstance(X, np.ndarray):
            return np.asarray(X / divisor)
        return csr_array((X.data / divisor, X.indices, X.indptr), shape=X.shape)

    return apply


def _standardise(X: Features) -> Transform:
    if not isinstance(X, np.ndarray):
        _refuse("standardise would move the zeros of sparse features")
    # A constant column is recognised by its range: its deviation may not be 0, as the mean is
    # rounded.
    constant = np.ptp(X, axis=0) == 0
    return _affine(X.mean(axis=0), np.where(constant, 0.0, X.std(axis=0)))


def _unit_range(X: Features) -> Transform:
    if isinstance(X, np.ndarray):
        return _affine(X.min(axis=0), np.ptp(X, axis=0))
    least = X.min(axis=0).toarray().ravel()
    if least.any():
        column = np.flatnonzero(least)[0]
        _refuse(
            "unit-range would move the zeros of sparse features where a column's minimum is "
            f"not 0, as in column {column + 1} with {least[column]:g}"
        )
    return _scaling(X.max(axis=0).toarray().ravel())


def _max_abs(X: Features) -> Transform:
    if isinstance(X, np.ndarray):
        return _scaling(np.abs(X).max(axis=0))
    return _scaling(abs(X).max(axis=0).toarray().ravel())


def _refuse(what: str) -> NoReturn:
    raise DataError(
        "data.preprocess",
        f"{what}; max-abs, unit-rows, first, divide and intercept keep them, and kind libsvm "
        "reads the file as a dense array with `layout: dense`",
    )


def _affine(origin: Array, unit: Array) -> Transform:
    """Return the map to (X - origin)/unit; columns whose unit is 0 become zeros."""

    def apply(X: Features) -> Features:
        if not isinstance(X, np.ndarray):
            X = X.toarray()
        out = np.zeros(X.shape)
        return np.asarray(np.divide(X - origin, unit, out=out, where=unit > 0))

    return apply


def _scaling(unit: Array) -> Transform:
    """Return the map to X/unit; columns whose unit is 0 become zeros."""
    factors = np.divide(1.0, unit, out=np.zeros_like(unit), where=unit > 0)

    def apply(X: Features) -> Features:
        if isinstance(X, np.ndarray):
            return np.asarray(np.divide(X, unit, out=np.zeros(X.shape), where=unit > 0))
        # A factor of 0 would leave stored zeros.
        return canonical(csr_array(X @ diags_array(factors)))

    return apply


def _unit_rows(X: Features) -> Transform:  # noqa: ARG001 - it learns nothing
    def apply(X: Features) -> Features:
        if isinstance(X, np.ndarray):
            norms = np.linalg.norm(X, axis=1, keepdims=True)
            return np.asarray(np.divide(X, norms, out=np.zeros_like(X), where=norms > 0))
        norms = np.sqrt(X.power(2).sum(axis=1))
        return scaled_rows(X, np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0))

    return apply


def _intercept(X: Features) -> Transform:  # noqa: ARG001 - it learns nothing
    def apply(X: Features) -> Features:
        ones = np.ones((X.shape[0], 1))
        if isinstance(X, np.ndarray):
            return np.hstack([X, ones])
        stacked: Sparse = hstack([X, csr_array(ones)], format="csr")
        return stacked

    return apply


_STEPS: dict[str, Callable[[Features], Transform]] = {
    "standardise": _standardise,
    "unit-range": _unit_range,
    "max-abs": _max_abs,
    "unit-rows": _unit_rows,
    "intercept": _intercept,
}

LEARNING = {"standardise", "unit-range", "max-abs"}
"""The steps whose result depends on the rows that they are fitted on."""
