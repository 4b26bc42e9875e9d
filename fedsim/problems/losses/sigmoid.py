"""The function log(1 + exp(u)) row by row, and its derivative the sigmoid, to full accuracy."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.problems.features import Features, product
from fedsim.problems.losses.rows import Rows, State

STEEP = 40.0
"""Up to this u, exp(u) and a product of `_BLOCK` factors 1 + exp(u) stay below 1e278."""

_BLOCK = 16
"""So many factors 1 + exp(u) are multiplied before a logarithm is taken of them."""


def forward(rows: Rows, w: Array) -> State:
    """Compute p, q and h of u = A w, so that the sigmoid is p/q and log(1 + exp(u)) = h + log q.

    Where every u is moderate p = exp(u), q = 1 + p and h = 0 (left empty). Otherwise
    h = max(u, 0), p = exp(u - h) and q = p + exp(-h), of which nothing can overflow.
    """
    u = product(rows.X, w)
    if rows.reach**2 * w.dot(w) <= STEEP**2 or u[u.argmax()] <= STEEP:
        p = np.exp(u, out=u)
        return p, p + 1.0, u[:0]
    hinge = np.maximum(u, 0.0)
    p = np.exp(u - hinge)
    return p, p + np.exp(-hinge), hinge


def total(state: State) -> float:
    """Return the sum of log(1 + exp(u))."""
    _, q, hinge = state
    sum_of_logarithms = float(logarithms(q))
    return sum_of_logarithms + float(hinge.sum()) if hinge.size else sum_of_logarithms


def logarithms(q: Array) -> Array:
    """Return the sum of log q over the last axis, by one logarithm for `_BLOCK` rows.

    The factors lie in [1, 2], or below 1 + exp(STEEP), so no product overflows; each
    is rounded once, as in log(1 + e).
    """
    products = np.multiply.reduceat(q, _starts(q.shape[-1]), axis=-1, dtype=np.float64)
    own: Array = np.add.reduce(np.log(products), axis=-1)
    return own


def each(state: State) -> Array:
    """Return log(1 + exp(u)) of each row, shape (n,)."""
    _, q, hinge = state
    own: Array = np.log(q)
    return own + hinge if hinge.size else own


def slopes(state: State) -> Array:
    """Return the sigmoid of u, shape (n,)."""
    p, q, _ = state
    return p / q


def curvatures(state: State) -> Array:
    """Return sigmoid(u) sigmoid(-u), shape (n,)."""
    p, q, hinge = state
    other = np.exp(-hinge) if hinge.size else 1.0
    return p * other / (q * q)


def decided(X: Features, w: Array, classes: Array) -> Array:
    """Return the second class where x.w > 0, the first elsewhere, shape (n,)."""
    chosen: Array = classes[(product(X, w) > 0).astype(np.intp)]
    return chosen


@lru_cache(maxsize=64)
def _starts(rows: int) -> NDArray[np.intp]:
    """Return where each block of so many rows begins."""
    return np.arange(0, rows, _BLOCK)
