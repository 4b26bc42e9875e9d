"""Clipping of vectors, and a clip that follows a quantile of their norms."""

from math import exp

import numpy as np

from fedsim.core.ports import Array
from fedsim.protocol.privacy.blocks import AdaptiveClip


def clipped(vector: Array, bound: float, norms: Array | None = None) -> Array:
    """Return x min(1, C/|x|), whose L2 norm is at most C; the vector itself if it is no longer.

    Args:
        vector: x, shape () or (d,); or a vector per row, shape (n, d), with the same bits as if it
            were clipped by itself.
        bound: C.
        norms: what `norms_of` returns for the vector, if the caller has it already.

    >>> clipped(np.array([3.0, 4.0]), 1.0).tolist()
    [0.6000000000000001, 0.8]
    """
    norms = norms_of(vector) if norms is None else norms
    if not (norms > bound).any():
        return vector
    with np.errstate(divide="ignore"):
        factors = np.where(norms > bound, bound / norms, 1.0)
    return (np.atleast_1d(vector) * factors[..., None]).reshape(vector.shape)


def norms_of(vector: Array) -> Array:
    """Return the L2 norm of a vector, shape (), or of each row of several, shape (n,)."""
    # Unlike a sum along an axis, this is the dot product of each row, as in the norm of one vector.
    rows = np.atleast_1d(vector)  # a number has a norm, too
    return np.asarray(np.sqrt(np.vecdot(rows, rows)))


def next_clip(spec: AdaptiveClip, clip: float, share: float) -> float:
    """Return the clip of the next round: C exp(-rate (b - quantile)).

    Args:
        spec: the settings.
        clip: C.
        share: b, the noised share of the replies whose norm is at most C.
    """
    return clip * exp(-spec.rate * (share - spec.quantile))
