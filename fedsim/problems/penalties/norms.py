"""Penalties: norms with their projections and prox in the ball, and sums over the entries."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from scipy.linalg import svd

from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.ports import SPARSE, Array, Structure
from fedsim.problems.losses.base import matrix_losses
from fedsim.problems.penalties.base import Penalty, Shape, Weighted
from fedsim.problems.penalties.bounded import Bounded, l1_bounded, solve_bounded
from fedsim.problems.projections import l1_ball, nuclear_ball, on_singular_values, soft_threshold


class Norm(Weighted):
    """h = weight times a norm."""

    def value(self, W: Array) -> float:
        """Return weight x norm."""
        return self.weight * self.norm(W)

    @abstractmethod
    def norm(self, W: Array) -> float:
        """Return the norm of W; h is `weight` times this norm."""

    @abstractmethod
    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point of the ball, as a new array; errors as in `Penalty`."""

    def prox_in_ball(self, W: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return argmin_V step h(V) + |V - W|^2/2 under |V - centre| <= radius in the norm.

        If the prox is in the ball it is the solution. Around zero, or if h has no weight, its
        projection is the solution. NaNs are passed on.
        """
        free = self.prox(W, step)
        if not (np.isfinite(free).all() and self.norm(free - centre) > radius):
            return Bounded(free, 2)
        # In these two cases the projection of the free prox is the solution.
        if not centre.any() or not step * self.weight:
            return Bounded(centre + self.project(free - centre, radius), 2)
        return self.on_the_ball(W, step, centre, radius)

    def on_the_ball(self, W: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return the same if the bound is active, around a centre other than zero."""
        solution = solve_bounded(
            lambda V, scale: self.prox(V, scale * step),
            lambda V: self.project(V, radius),
            W,
            centre,
        )
        return Bounded(solution.point, solution.evaluations + 2)


# The group penalty: Euclidean norms of groups of entries, which become zero together.


class GroupL2(Norm):
    """h = weight sum_g c_g |w_g|_2 with c_g = sqrt(|g|), where |g| is the size of group g.

    The groups are the rows of a matrix model (a feature's weights for all classes), or `size`
    consecutive entries of the flat model each; the last group may be smaller.
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
        """Check that groups are defined.

        Raises:
            DataError: the model is not a matrix, and no size is given.
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
        """Return W with each group's norm reduced by step x weight x sqrt(|g|), or zero."""
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
        """Return the distance between -G and the subdifferential at W, from that of each group."""
        lengths = self._lengths(W)
        norms, weights = _norms(W, lengths), self.weight * np.sqrt(lengths)
        slopes = np.divide(weights, norms, out=np.zeros_like(norms), where=norms > 0)
        distances = _norms(G + W * np.repeat(slopes, lengths).reshape(W.shape), lengths)
        # At a group of zeros, the subdifferential is a ball of radius `weights`.
        excess = np.maximum(distances - weights, 0.0)
        return float(np.linalg.norm(np.where(norms > 0, distances, excess)))

    def structure(self, shape: Shape) -> Structure:
        """Return the structure: many groups are zero."""
        return SPARSE

    def operations(self, shape: Shape) -> float:
        """Return 3 per entry: squares and their sums, and a multiplication."""
        return 3.0 * prod(shape)

    def _lengths(self, W: Array) -> NDArray[np.intp]:
        """Return the number of entries in each group."""
        size = self.size or W.shape[-1]
        lengths = np.full(-(-W.size // size), size)
        # The last group may be shorter than the others.
        lengths[-1] = W.size - size * (len(lengths) - 1)
        return lengths


def _norms(W: Array, lengths: NDArray[np.intp]) -> Array:
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.sqrt(np.add.reduceat(np.square(W).ravel(), starts)))


def _with_norms(W: Array, lengths: NDArray[np.intp], norms: Array, new: Array) -> Array:
    """Return W with other norms of its groups; a group of zeros stays zero."""
    factors = np.divide(new, norms, out=np.zeros_like(norms), where=norms != 0)
    return np.asarray(W * np.repeat(factors, lengths).reshape(W.shape))


# The nuclear norm: the sum of singular values, for matrix models of low rank.


class Nuclear(Norm):
    """h = weight |W|_*, the sum of the singular values of a matrix model."""

    source: ClassVar[str] = "Fazel, 2002; prox: Cai, Candes, Shen, SIAM J. Optim. 2010"
    ball: ClassVar[str] = "nuclear-ball"

    kind: Literal["nuclear"] = "nuclear"

    def check(self, shape: Shape) -> None:
        """Check that models are matrices.

        Raises:
            DataError: the model is not a matrix.
        """
        if len(shape) != 2:
            raise DataError(
                "penalty",
                f"the loss's model is a vector of {prod(shape)} entries; the penalty {self.kind} "
                f"takes a matrix, as the losses {join_names(matrix_losses(), 'and')} have",
            )

    def norm(self, W: Array) -> float:
        """Return the sum of the singular values; NaN if an entry is not finite."""
        if not np.isfinite(W).all():
            return float("nan")
        return float(svd(W, compute_uv=False).sum())

    def prox(self, W: Array, step: float) -> Array:
        """Return W with its singular values soft-thresholded at step x weight."""
        return on_singular_values(W, lambda s: soft_threshold(s, step * self.weight))

    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point of the nuclear ball."""
        return nuclear_ball(W, radius)

    def residual(self, W: Array, G: Array) -> float:
        """Return the distance between -G and weight {U V^T + Z: U^T Z = 0, Z V = 0, |Z|_2 <= 1}.

        U and V are the singular vectors of W for non-zero singular values. Singular values at the
        level of rounding count as zero.
        """
        if not (np.isfinite(W).all() and np.isfinite(G).all()):
            return float("nan")
        U, s, Vt = svd(W, full_matrices=False)
        kept = s > max(W.shape) * np.finfo(np.float64).eps * s[0]
        U, Vt = U[:, kept], Vt[kept]
        left = G - U @ (U.T @ G)
        # Only outside of the row and column spaces of W is Z free.
        outside = left - (left @ Vt.T) @ Vt
        inside = G - outside + self.weight * (U @ Vt)
        excess = np.maximum(svd(outside, compute_uv=False) - self.weight, 0.0)
        return float(np.hypot(np.linalg.norm(inside), np.linalg.norm(excess)))

    def structure(self, shape: Shape) -> Structure:
        """Return the structure: the rank is low."""
        return Structure("low-rank", shape[0])

    def operations(self, shape: Shape) -> float:
        """Return 16 m n k + 8 k^3 with k = min(m, n).

        14 m n k + 8 k^3 is the cost of the thin singular value decomposition (Golub, Van Loan,
        Matrix Computations, 2013, section 8.6), and 2 m n k that of the product of its factors.
        """
        m, n = shape
        k = min(m, n)
        return 16.0 * m * n * k + 8.0 * k**3


# A penalty on flat models.


@dataclass(frozen=True, slots=True)
class Regulariser:
    """A penalty h on models as vectors of shape (d,).

    Attributes:
        penalty: the penalty, before scaling.
        shape: the shape that the model represents, (d,) or (m, n) row by row.
        scale: the multiplier of the penalty.

    Raises:
        DataError: models of this shape cannot have this penalty.
    """

    penalty: Penalty
    shape: Shape
    scale: float = 1.0

    def __post_init__(self) -> None:
        self.penalty.check(self.shape)

    def with_weight(self, weight: float) -> "Regulariser":
        """Return the same with another weight of the penalty."""
        return replace(self, penalty=self.penalty.with_weight(weight))

    def value(self, w: Array) -> float:
        """Return h(w)."""
        return self.scale * self.penalty.value(w.reshape(self.shape))

    def prox(self, w: Array, step: float) -> Array:
        """Return argmin_v step h(v) + |v - w|^2/2, shape (d,), as a new array."""
        return self.penalty.prox(w.reshape(self.shape), self.scale * step).ravel()

    def residual(self, w: Array, gradient: Array) -> float:
        """Return the distance between -gradient and the subdifferential of h at `w`.

        With the gradient of a smooth f it is the norm of the smallest subgradient of f + h.
        """
        G = gradient.reshape(self.shape) / self.scale
        return self.scale * self.penalty.residual(w.reshape(self.shape), G)

    def norm(self, w: Array) -> float:
        """Return the norm that h is a multiple of.

        Raises:
            DataError: h is not a multiple of a norm.
        """
        return self.penalty.norm(w.reshape(self.shape))

    def project(self, w: Array, radius: float) -> Array:
        """Return the nearest point whose norm is at most `radius`, shape (d,).

        Raises:
            DataError: h is not a multiple of a norm.
            ValueError: the radius is not positive.
        """
        return self.penalty.project(w.reshape(self.shape), radius).ravel()

    def prox_in_ball(self, w: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return argmin_v step h(v) + |v - w|^2/2 under |v - centre| <= radius, shape (d,).

        Raises:
            DataError: h is not a multiple of a norm.
            ValueError: the radius is not positive.
        """
        W, C = w.reshape(self.shape), centre.reshape(self.shape)
        bounded = self.penalty.prox_in_ball(W, self.scale * step, C, radius)
        return Bounded(bounded.point.ravel(), bounded.evaluations)

    @property
    def structure(self) -> Structure:
        """The known structure of a prox."""
        return self.penalty.structure(self.shape)

    @property
    def operations(self) -> float:
        """The floating-point operations of one prox."""
        return self.penalty.operations(self.shape)


class NoPenalty(Penalty):
    """h = 0."""

    source: ClassVar[str] = ""

    kind: Literal["none"] = "none"

    def value(self, W: Array) -> float:
        """Return 0."""
        return 0.0

    def prox(self, W: Array, step: float) -> Array:
        """Return W."""
        return W.copy()

    def residual(self, W: Array, G: Array) -> float:
        """Return |G|."""
        return float(np.linalg.norm(G))

    def operations(self, shape: Shape) -> float:
        """Return 0."""
        return 0.0


class L1(Norm):
    """h = weight |w|_1, the sum of the magnitudes of all entries."""

    source: ClassVar[str] = "Tibshirani, J. R. Stat. Soc. B 1996; prox: Donoho, 1995"
    ball: ClassVar[str] = "l1-ball"

    kind: Literal["l1"] = "l1"

    def prox(self, W: Array, step: float) -> Array:
        """Return W soft-thresholded at step x weight."""
        return soft_threshold(W, step * self.weight)

    def residual(self, W: Array, G: Array) -> float:
        """Return the distance between -G and weight x sign(W), where sign(0) stands for [-1, 1]."""
        return _l1_residual(W, G, self.weight)

    def structure(self, shape: Shape) -> Structure:
        """Return the structure: many entries are zero."""
        return SPARSE

    def operations(self, shape: Shape) -> float:
        """Return 3 per entry: two comparisons and a subtraction."""
        return 3.0 * prod(shape)

    def norm(self, W: Array) -> float:
        """Return |W|_1."""
        return float(np.abs(W).sum())

    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point of the l1 ball."""
        return l1_ball(W, radius)

    def on_the_ball(self, W: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return the prox if the bound is active: in closed form, at the cost of a sort."""
        return Bounded(l1_bounded(W, step * self.weight, centre, radius), 2)


class L2(Weighted):
    """h = weight/2 |w|^2."""

    source: ClassVar[str] = "Hoerl, Kennard, Technometrics 1970"

    kind: Literal["l2"] = "l2"

    def value(self, W: Array) -> float:
        """Return weight/2 |W|^2."""
        return 0.5 * self.weight * float(np.square(W).sum())

    def prox(self, W: Array, step: float) -> Array:
        """Return W/(1 + step x weight)."""
        return W / (1.0 + step * self.weight)

    def residual(self, W: Array, G: Array) -> float:
        """Return |G + weight W|."""
        return float(np.linalg.norm(G + self.weight * W))

    def operations(self, shape: Shape) -> float:
        """Return 1 per entry."""
        return float(prod(shape))

    @property
    def strong_convexity(self) -> float:
        """The weight."""
        return self.weight


class ElasticNet(Weighted):
    """h = weight (ratio |w|_1 + (1 - ratio)/2 |w|^2)."""

    source: ClassVar[str] = "Zou, Hastie, J. R. Stat. Soc. B 2005"

    kind: Literal["elastic-net"] = "elastic-net"
    ratio: float = Field(
        default=0.5, ge=0, le=1, description="the share of |w|_1; the rest is |w|^2/2"
    )

    @property
    def l1(self) -> float:
        """The weight of |w|_1."""
        return self.weight * self.ratio

    @property
    def strong_convexity(self) -> float:
        """The weight of |w|^2/2."""
        return self.weight * (1.0 - self.ratio)

    def value(self, W: Array) -> float:
        """Return h(W)."""
        squares = float(np.square(W).sum())
        return self.l1 * float(np.abs(W).sum()) + 0.5 * self.strong_convexity * squares

    def prox(self, W: Array, step: float) -> Array:
        """Return W soft-thresholded, then shrunk."""
        return soft_threshold(W, step * self.l1) / (1.0 + step * self.strong_convexity)

    def residual(self, W: Array, G: Array) -> float:
        """Return the distance between -G and the subdifferential at W."""
        return _l1_residual(W, G + self.strong_convexity * W, self.l1)

    def structure(self, shape: Shape) -> Structure:
        """Return the structure: many entries are zero."""
        return SPARSE

    def operations(self, shape: Shape) -> float:
        """Return 4 per entry: soft thresholding and a division."""
        return 4.0 * prod(shape)


def _l1_residual(W: Array, G: Array, weight: float) -> float:
    least = np.where(W == 0, soft_threshold(G, weight), G + weight * np.sign(W))
    return float(np.linalg.norm(least))
