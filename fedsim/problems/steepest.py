"""The largest smoothness constant of all clients, without computing that of each."""

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.problems.dealt import Dealt
from fedsim.problems.losses import LeastSquares, Logistic, Softmax
from fedsim.problems.problem import Problem

_AT_ONCE = 2**18
"""So many numbers of samples and of their Gram matrices are looked at together."""


def largest_smoothness(problem: Problem) -> float:
    """Return L_max, the largest smoothness constant of a client's loss.

    A bound on each client's constant, from its Gram matrix, says which are worth computing.

    Raises:
        DataError: the loss has none, for not being convex.
    """
    bounds = _bounds(problem)
    if bounds is None:
        return float(problem.client_smoothness.max())
    largest = -np.inf
    for client in np.argsort(-bounds, kind="stable").tolist():
        if bounds[client] < largest:
            break
        largest = max(largest, problem.losses[client].smoothness)
    return float(largest)


def _bounds(problem: Problem) -> Array | None:
    """Return upper bounds on the L_m, shape (M,); None where none is known, or none is finite."""
    samples, loss = problem.samples, problem.loss
    # Their majorants are a number times X^T X, whose sign of a row does not matter.
    if not isinstance(samples, Dealt) or not isinstance(loss, LeastSquares | Logistic | Softmax):
        return None
    bounds = np.empty(len(samples))
    for rows in np.unique(samples.rows).tolist():
        whose = np.flatnonzero(samples.rows == rows)
        factor = problem.losses[int(whose[0])].majorant[0]
        bounds[whose] = factor * _norms(samples, whose, rows) * (1 + 1e-9) + loss.l2
    return bounds if np.isfinite(bounds).all() else None


def _norms(samples: Dealt, whose: NDArray[np.intp], rows: int) -> Array:
    """Return bounds on |X_m^T X_m| of clients that have so many rows each.

    With G the smaller of X X^T and X^T X, the largest eigenvalue is at most |G^2|_F^(1/2), which
    is the fourth root of the sum of its eigenvalues' fourth powers.
    """
    d, norms = samples.features, np.empty(len(whose))
    step = max(_AT_ONCE // (rows * d + min(rows, d) ** 2), 1)
    for at in range(0, len(whose), step):
        X = samples.stacked(samples.X, whose[at : at + step], rows).astype(np.float64, copy=False)
        gram = X @ X.transpose(0, 2, 1) if rows < d else X.transpose(0, 2, 1) @ X
        square = gram @ gram
        norms[at : at + step] = np.sqrt(np.sqrt(np.einsum("mij,mij->m", square, square)))
    return norms
