"""Gradients and gradient steps of many clients at once, each at its own model.

As for values (see `client_losses`), a client's result is bit-identical to that of its own loss. The
linear algebra kernels are called for each client as before, with the same sizes. Everything else is
computed entry by entry.
"""

from collections.abc import Callable
from math import ceil

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.losses import (
    LinearLoss,
    Logistic,
    Loss,
    Rows,
    Squared,
    TraceRegression,
    linear,
)

LEAST = 2
"""The least number of rows, and of features; with fewer, another kernel computes the product."""


def _residuals(rows: Rows, models: Array) -> Array:
    residuals = _products(rows.X, models)
    residuals -= rows.t
    return residuals


def _sigmoids(rows: Rows, models: Array) -> Array:
    u = _products(rows.X, models)
    slopes = room(u.shape, u.dtype)
    # Up to this argument exp cannot overflow. The other clients take the kernel of their own loss.
    moderate = u.max(axis=-1) <= linear.STEEP
    p = np.exp(u[moderate])
    slopes[moderate] = p / (p + 1.0)
    reaches = np.asarray(rows.reach)
    for place in np.flatnonzero(~moderate).tolist():
        block = Rows(rows.X[place], rows.t[place], rows.factor, float(reaches[place]))
        slopes[place] = linear.slopes(linear.forward(block, models[place]))
    return slopes


_SLOPES: dict[type[Loss], Callable[[Rows, Array], Array]] = {
    Squared: _residuals,
    TraceRegression: _residuals,
    Logistic: _sigmoids,
}
"""Functions returning the derivatives phi' of stacked rows, shape (k, n), at models, shape (k, d).

Subclasses may compute anything, so exact classes are looked up, not instances.
"""


def stackable(loss: Loss) -> bool:
    """Return whether gradients of a loss are computed for many clients at once."""
    return type(loss) in _SLOPES


def gradients(loss: LinearLoss, rows: Rows, models: Array) -> Array:
    """Return a (sub)gradient of each client's loss, shape (k, d); see `LocalLoss.gradient`.

    Args:
        loss: the loss that all clients share.
        rows: the rows of the clients, stacked: features of shape (k, n, d).
        models: the model of each client, shape (k, d).
    """
    at = room(models.shape, rows.X.dtype)
    at[...] = models
    products = _products(rows.X.swapaxes(-1, -2), _SLOPES[type(loss)](rows, at))
    if rows.factor != 1.0:
        products *= rows.factor
    if loss.l2:
        products += loss.l2 * at
    if loss.l1:
        products += loss.l1 * np.sign(at)
    return products.astype(np.float64, copy=False)


def steps(
    loss: LinearLoss, rows: Rows, start: Array, eta: float, count: int, pull: float | None
) -> Array:
    """Return the models after `count` full gradient steps, shape (k, d); see `sgd_steps`.

    Args:
        loss: the loss that all clients share.
        rows: the rows of the clients, stacked.
        start: the models before the steps, shape (k, d).
        eta: the step size.
        count: the number of steps.
        pull: mu, for steps on f_m + mu/2 |. - w|^2; None for 0.
    """
    v = start
    for _ in range(count):
        g = gradients(loss, rows, v)
        v = v - eta * (g if pull is None else g + pull * (v - start))
    return v


def squares(vectors: Array) -> Array:
    """Return |v|^2 of each row of an array (k, d), shape (k,), with the same bits as `v.dot(v)`."""
    rows = room(vectors.shape, vectors.dtype)
    rows[...] = vectors
    return np.asarray(np.vecdot(rows, rows))


def _products(X: Array, vectors: Array) -> Array:
    """Return the product of each matrix (m, n) with its vector (n,), shape (k, m)."""
    gradients = room((len(X), X.shape[-2]), X.dtype)
    np.matmul(X, vectors[..., None], out=gradients[..., None])
    return gradients


def room(shape: tuple[int, ...], kind: np.dtype[np.floating]) -> Array:
    """Return an array (k, n), uninitialised, whose rows are aligned like separate arrays."""
    # The address of a product determines the order in which OpenBLAS's oldest kernels sum it. A
    # separate array begins at a multiple of 16 bytes, so each client's vectors must do so here,
    # too.
    clients, count = shape
    return np.empty((clients, 4 * ceil(count / 4)), kind)[:, :count]
