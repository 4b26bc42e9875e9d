"""The natural payload of an uncompressed array: the shortest one that its structure allows."""

import numpy as np

from fedsim.ports import DENSE, Array, Structure
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Dense, Encodable, LowRank, Scalar, Sign, Sparse

_LARGEST_ERROR = 1 / 8
"""The largest relative error |rounded - v|/|v| of a format, for values within its range."""


def natural(values: Array, structure: Structure, form: ValueFormat) -> Encodable:
    """Return an array's payload without compression.

    Args:
        values: shape (d,), or () for a number.
        structure: of the array; the result is the payload of this structure, or Dense if that is
            not longer.
        form: the format of a value.
    """
    if not values.ndim:
        return Scalar.of(float(values), form)
    dense = Dense.of(values, form)
    if structure is DENSE or not np.isfinite(values).all():
        return dense
    if structure.kind == "sparse":
        other: Encodable = Sparse.of(values, form)
    elif structure.kind == "sign":
        if not _of_one_magnitude(values):
            return dense
        scale = float(np.float32(np.abs(values[:1]).sum()))
        other = Sign(scale, (values < 0).astype(np.uint8))
    else:
        other = _factor(values, structure.rows, form)
    return other if other.bits < dense.bits else dense


def shorter(values: Array, structure: Structure, form: ValueFormat, bits: int) -> Encodable | None:
    """Return the natural payload if it takes fewer than `bits` bits, else None.

    Also None if much of the array is beyond the range of the format, so that the payload would not
    be exact up to rounding.
    """
    if structure is DENSE and Dense.length(values, form) >= bits:
        return None
    payload = natural(values, structure, form)
    if payload.bits >= bits:
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        error, whole = euclidean(payload.values - values), euclidean(values)
    return payload if error <= _LARGEST_ERROR * whole else None


def euclidean(vector: Array) -> float:
    """Return |v|_2, scaled so that squares neither overflow nor underflow."""
    largest = float(np.abs(vector).max(initial=0.0))
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.linalg.norm(vector / largest))


def _of_one_magnitude(values: Array) -> bool:
    magnitudes = np.abs(values)
    return bool((magnitudes == magnitudes[:1]).all())


def _factor(values: Array, rows: int, form: ValueFormat) -> LowRank:
    """Return the factors of a matrix (rows, n), singular values at the level of rounding dropped.

    Both factors are scaled by the roots of the singular values, so that neither exceeds the range
    of a format that the product fits.
    """
    matrix = values.reshape(rows, -1)
    left, singular, right = np.linalg.svd(matrix, full_matrices=False)
    least = max(matrix.shape) * np.finfo(np.float64).eps * singular.max(initial=0.0)
    rank = int(np.count_nonzero(singular > least))
    roots = np.sqrt(singular[:rank])
    return LowRank.of(left[:, :rank] * roots, right[:rank].T * roots, values.size, form)
