"""Preprocessing: steps that a scenario applies to features, in the order it names them.

A step sees the features of all clients together.
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from fedsim.errors import DataError
from fedsim.ports import Array
from fedsim.spec import Spec


class First(Spec):
    """Keep the first columns only."""

    first: int = Field(ge=1, description="how many columns to keep, counted from the left")


Step = Literal["standardise", "unit-range", "unit-rows", "intercept"] | First
"""standardise: each column to mean 0 and variance 1; unit-range: each column to [0, 1];
unit-rows: each row to Euclidean norm 1; intercept: a last column of ones.

A constant column becomes zeros under the first two, and a row of zeros stays one."""


def preprocess(X: Array, steps: Sequence[Step]) -> Array:
    """Return the features after all steps, C-contiguous.

    Raises:
        DataError: more columns are to be kept than there are.
    """
    for step in steps:
        X = _first(X, step.first) if isinstance(step, First) else _STEPS[step](X)
    return np.ascontiguousarray(X)


def _first(X: Array, k: int) -> Array:
    if k > X.shape[1]:
        raise DataError(
            "data.preprocess", f"the first {k} features are asked for; there are {X.shape[1]}"
        )
    return X[:, :k]


def _standardise(X: Array) -> Array:
    # The spread decides what is constant: a mean is rounded, so a deviation may not be 0.
    constant = np.ptp(X, axis=0) == 0
    centred = X - X.mean(axis=0)
    return np.asarray(np.divide(centred, X.std(axis=0), out=np.zeros_like(X), where=~constant))


def _unit_range(X: Array) -> Array:
    least, spread = X.min(axis=0), np.ptp(X, axis=0)
    return np.asarray(np.divide(X - least, spread, out=np.zeros_like(X), where=spread > 0))


def _unit_rows(X: Array) -> Array:
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    return np.asarray(np.divide(X, norms, out=np.zeros_like(X), where=norms > 0))


def _intercept(X: Array) -> Array:
    return np.hstack([X, np.ones((len(X), 1))])


_STEPS: dict[str, Callable[[Array], Array]] = {
    "standardise": _standardise,
    "unit-range": _unit_range,
    "unit-rows": _unit_rows,
    "intercept": _intercept,
}
