"""The largest eigenvalue of a sum of Gram matrices: what smoothness constants are made of."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import vstack

from fedsim.ports import Array
from fedsim.problems.features import Features, Sparse, dense, product, transposed_product

_DENSE = 2000
"""Up to this side an eigenvalue is taken of the matrix itself, beyond it by Lanczos."""


def largest_eigenvalue(weights: Sequence[float], blocks: Sequence[Features]) -> float:
    """Return the largest eigenvalue of sum_m c_m A_m^T A_m, to rounding.

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
        # The non-zero eigenvalues of B^T B are those of B B^T, and this one is smaller.
        stacked = _stacked([np.sqrt(c) * A for c, A in zip(weights, blocks, strict=True)])
        gram = dense(stacked @ stacked.T)
    return max(float(np.linalg.eigvalsh(gram)[-1]), 0.0)


def _stacked(blocks: Sequence[Features]) -> Features:
    if isinstance(blocks[0], np.ndarray):
        return np.vstack(blocks)
    rows: Sequence[Sparse] = blocks
    return vstack(rows, format="csr")


def _by_lanczos(weights: Sequence[float], blocks: Sequence[Features]) -> float:
    from scipy.sparse.linalg import LinearOperator, eigsh  # noqa: PLC0415 - takes 0.1 s

    features = blocks[0].shape[1]

    def apply(v: Array) -> Array:
        total = np.zeros(features)
        for c, A in zip(weights, blocks, strict=True):
            total += c * transposed_product(A, product(A, v))
        return total

    operator = LinearOperator((features, features), matvec=apply, dtype=np.float64)
    # A start drawn from a fixed seed makes the answer a function of the data alone.
    start = np.random.default_rng(0).standard_normal((features,))
    values, _ = eigsh(operator, k=1, which="LA", v0=start)
    return float(values[0])
