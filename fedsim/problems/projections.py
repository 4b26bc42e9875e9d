"""Projections onto the constraint sets of models, and soft thresholding.

Each function is pure and returns a new array. NaNs are passed on, so that divergence is detected.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import svd
from scipy.sparse import vstack

from fedsim.core.ports import Array
from fedsim.problems.samples import Features, Sparse, dense, product, transposed_product

Indices = NDArray[np.intp]
"""Positions in a vector, ascending."""


def largest(w: Array, count: int) -> Indices:
    """Return the indices of the min(count, d) largest magnitudes of `w`, shape (d,), ascending.

    Among equal magnitudes, also among zeros, the lowest indices are taken. NaN counts as the
    largest.

    Raises:
        ValueError: the count is negative.

    >>> largest(np.array([1.0, -3.0, 3.0, -1.0]), 3)
    array([0, 1, 2])
    """
    _check_count(count)
    if count == 0 or count >= w.size:
        return np.arange(min(count, w.size))
    magnitudes = np.abs(w)
    # NaN has to survive, so that divergence is detected.
    magnitudes[np.isnan(magnitudes)] = np.inf
    least = np.partition(magnitudes, w.size - count)[w.size - count]
    above = magnitudes > least
    # Of the entries that equal the smallest one kept, only the first ones fit.
    above[np.flatnonzero(magnitudes == least)[: count - np.count_nonzero(above)]] = True
    return np.flatnonzero(above)


def hard_threshold(w: Array, count: int) -> Array:
    """Return H_count(w): `w`, shape (d,), with all but its `count` largest magnitudes set to zero.

    It is a nearest point with at most `count` nonzero entries. Among equal magnitudes, the entries
    with the lowest indices are kept.

    Raises:
        ValueError: the count is negative.

    >>> hard_threshold(np.array([1.0, -3.0, 2.0]), 2)
    array([ 0., -3.,  2.])
    """
    kept = largest(w, count)
    thresholded = np.zeros_like(w)
    thresholded[kept] = w[kept]
    return thresholded


def hard_threshold_columns(W: Array, count: int) -> Array:
    """Return `W`, shape (d, C), with each column thresholded separately.

    Raises:
        ValueError: the count is negative.
    """
    thresholded = np.zeros_like(W)
    for column, source in zip(thresholded.T, W.T, strict=True):
        kept = largest(source, count)
        column[kept] = source[kept]
    return thresholded


def soft_threshold(w: Array, t: float | Array) -> Array:
    """Return sign(w) max(|w| - t, 0) entry by entry, the prox of t |.|_1, for t >= 0.

    >>> soft_threshold(np.array([1.0, -3.0, 0.5]), 0.75)
    array([ 0.25, -2.25,  0.  ])
    """
    return np.asarray(w - np.clip(w, -t, t))


def l1_ball(w: Array, radius: float, weights: Array | None = None) -> Array:
    """Return the nearest point of {sum_j c_j |w_j| <= radius}, in the shape of `w`.

    A threshold, found by sorting, is subtracted from the magnitudes: O(d log d). Source: Duchi,
    Shalev-Shwartz, Singer, Chandra, ICML 2008, figure 1.

    Args:
        w: any shape.
        radius: the radius of the ball.
        weights: the c_j > 0 in the shape of `w`; ones by default.

    Raises:
        ValueError: the radius is not positive.

    >>> l1_ball(np.array([3.0, -1.0, 0.5]), 2.0)
    array([2., 0., 0.])
    """
    _check_radius(radius)
    c = np.ones_like(w) if weights is None else weights
    magnitudes = np.abs(w)
    if not float((c * magnitudes).sum()) > radius:
        return w.copy()
    # As the threshold falls, entries become nonzero in descending order of |w|/c.
    ratios = (magnitudes / c).ravel()
    order = np.argsort(-ratios, kind="stable")
    sums = np.cumsum((c * magnitudes).ravel()[order])
    thresholds = (sums - radius) / np.cumsum(np.square(c).ravel()[order])
    # The right threshold is the last one below its ratio. The first always is, except for rounding,
    # for which `initial` stands in.
    last = int(np.flatnonzero(ratios[order] > thresholds).max(initial=0))
    return soft_threshold(w, max(float(thresholds[last]), 0.0) * c)


def on_singular_values(W: Array, change: Callable[[Array], Array]) -> Array:
    """Return `W`, shape (m, n), with its singular values replaced by a function of them.

    If an entry of `W` is not finite, there are no singular values, and all entries become NaN.

    Args:
        W: the matrix.
        change: returns the new singular values for the old ones, descending.
    """
    if not np.isfinite(W).all():
        return np.full_like(W, np.nan)
    U, s, Vt = svd(W, full_matrices=False)
    changed = change(s)
    kept = changed != 0
    return np.asarray((U[:, kept] * changed[kept]) @ Vt[kept])


def nuclear_ball(W: Array, radius: float) -> Array:
    """Return the nearest matrix, shape (m, n), whose singular values sum to at most `radius`.

    Raises:
        ValueError: the radius is not positive.
    """
    _check_radius(radius)
    return on_singular_values(W, lambda s: l1_ball(s, radius))


def rank(W: Array, count: int) -> Array:
    """Return the nearest matrix, shape (m, n), of rank at most `count`.

    Source: Eckart, Young, Psychometrika 1936.

    Raises:
        ValueError: the count is negative.
    """
    _check_count(count)
    if count >= min(W.shape):
        return W.copy()
    return on_singular_values(W, lambda s: np.where(np.arange(len(s)) < count, s, 0.0))


def _check_count(count: int) -> None:
    if count < 0:
        raise ValueError(f"a number of entries to keep is 0 or more; got {count}")


def _check_radius(radius: float) -> None:
    if not radius > 0:
        raise ValueError(f"the radius of a ball is above 0; got {radius:g}")


# The largest eigenvalue of a sum of Gram matrices, for smoothness constants.

_DENSE = 2000
"""The largest side of a matrix whose eigenvalue is computed directly; beyond it, by Lanczos."""


def largest_eigenvalue(weights: Sequence[float], blocks: Sequence[Features]) -> float:
    """Return the largest eigenvalue of sum_m c_m A_m^T A_m, accurate up to rounding.

    Args:
        weights: the c_m >= 0, M of them.
        blocks: the A_m, shapes (n_m, d), dense or compressed sparse rows.
    """
    rows, features = sum(A.shape[0] for A in blocks), blocks[0].shape[1]
    if min(rows, features) > _DENSE:
        return _by_lanczos(weights, blocks)
    if features <= rows:
        gram = np.zeros((features, features))
        for c, A in zip(weights, blocks, strict=True):
            gram += c * dense(A.T @ A)
    else:
        # The nonzero eigenvalues of B^T B are those of B B^T, which is smaller here.
        stacked = _stack([np.sqrt(c) * A for c, A in zip(weights, blocks, strict=True)])
        gram = dense(stacked @ stacked.T)
    return max(float(np.linalg.eigvalsh(gram)[-1]), 0.0)


def _stack(blocks: Sequence[Features]) -> Features:
    if isinstance(blocks[0], np.ndarray):
        return np.vstack(blocks)
    rows: Sequence[Sparse] = blocks
    return vstack(rows, format="csr")


def _by_lanczos(weights: Sequence[float], blocks: Sequence[Features]) -> float:
    from scipy.sparse.linalg import LinearOperator, eigsh  # takes 0.1 s

    features = blocks[0].shape[1]

    def apply(v: Array) -> Array:
        total = np.zeros(features)
        for c, A in zip(weights, blocks, strict=True):
            total += c * transposed_product(A, product(A, v))
        return total

    operator = LinearOperator((features, features), matvec=apply, dtype=np.float64)
    # The starting vector comes from a fixed seed, so the result depends on the data only.
    start = np.random.default_rng(0).standard_normal((features,))
    values, _ = eigsh(operator, k=1, which="LA", v0=start)
    return float(values[0])
