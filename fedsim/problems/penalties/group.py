"""The group penalty: Euclidean norms of groups of entries, which become zero together."""

from math import prod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.errors import DataError
from fedsim.ports import SPARSE, Array, Structure
from fedsim.problems.penalties.base import Shape
from fedsim.problems.penalties.norms import Norm
from fedsim.problems.projections import l1_ball


class GroupL2(Norm):
    """h = weight sum_g c_g |w_g|_2 with c_g = sqrt(|g|), |g| the entries of group g.

    The groups are the rows of a matrix model (a feature's weights for all classes), or
    consecutive entries of the flat model, `size` of them; the last group has what is left.
    """

    source: ClassVar[str] = "Yuan, Lin, J. R. Stat. Soc. B 2006"
    ball: ClassVar[str] = "group-ball"

    kind: Literal["group-l2"] = "group-l2"
    size: int | None = Field(
        default=None,
        ge=1,
        description="entries of a group, consecutive in the flat model; a row of the matrix "
        "when not given",
    )

    def check(self, shape: Shape) -> None:
        """See to it that there are groups.

        Raises:
            DataError: the model is no matrix, and no size is given.
        """
        if self.size is None and len(shape) != 2:
            raise DataError(
                "penalty.size",
                f"the loss's model is a vector of {prod(shape)} entries, which has no rows to "
                "be groups; give the number of entries of a group",
            )

    def norm(self, W: Array) -> float:
        """Return sum_g sqrt(|g|) |W_g|_2."""
        lengths = self._lengths(W)
        return float(np.sqrt(lengths) @ _norms(W, lengths))

    def prox(self, W: Array, step: float) -> Array:
        """Return W with each group's norm lowered by step x weight x sqrt(|g|), or zero."""
        lengths = self._lengths(W)
        norms = _norms(W, lengths)
        kept = np.maximum(norms - step * self.weight * np.sqrt(lengths), 0.0)
        return _with_norms(W, lengths, norms, kept)

    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point of {sum_g sqrt(|g|) |W_g|_2 <= radius}."""
        lengths = self._lengths(W)
        norms = _norms(W, lengths)
        return _with_norms(W, lengths, norms, l1_ball(norms, radius, np.sqrt(lengths)))

    def residual(self, W: Array, G: Array) -> float:
        """Return the distance of -G from the subdifferential at W, group by group."""
        lengths = self._lengths(W)
        norms, weights = _norms(W, lengths), self.weight * np.sqrt(lengths)
        slopes = np.divide(weights, norms, out=np.zeros_like(norms), where=norms > 0)
        distances = _norms(G + W * np.repeat(slopes, lengths).reshape(W.shape), lengths)
        excess = np.maximum(distances - weights, 0.0)
        return float(np.linalg.norm(np.where(norms > 0, distances, excess)))

    def structure(self, shape: Shape) -> Structure:  # noqa: ARG002
        """Return that many groups are zero."""
        return SPARSE

    def operations(self, shape: Shape) -> float:
        """Return 3 an entry: squares and their sums, and a multiplication."""
        return 3.0 * prod(shape)

    def _lengths(self, W: Array) -> NDArray[np.intp]:
        """Return the numbers of entries of the groups."""
        size = self.size or W.shape[-1]
        lengths = np.full(-(-W.size // size), size)
        lengths[-1] = W.size - size * (len(lengths) - 1)
        return lengths


def _norms(W: Array, lengths: NDArray[np.intp]) -> Array:
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.sqrt(np.add.reduceat(np.square(W).ravel(), starts)))


def _with_norms(W: Array, lengths: NDArray[np.intp], norms: Array, new: Array) -> Array:
    """Return W with its groups' norms changed; a group of zeros stays."""
    factors = np.divide(new, norms, out=np.zeros_like(norms), where=norms != 0)
    return np.asarray(W * np.repeat(factors, lengths).reshape(W.shape))
