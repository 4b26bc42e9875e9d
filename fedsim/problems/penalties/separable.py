"""Penalties that are sums over the entries of the model: l1, l2, elastic net, and none."""

# ruff: noqa: ARG002 - a penalty may need fewer arguments than its base class passes

from math import prod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.ports import SPARSE, Array, Structure
from fedsim.problems.penalties.base import Penalty, Shape, Weighted
from fedsim.problems.penalties.bounded import Bounded, l1_bounded
from fedsim.problems.penalties.norms import Norm
from fedsim.problems.projections import l1_ball, soft_threshold


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
        """Return the distance of -G from weight x sign(W), with [-1, 1] for sign(0)."""
        return _l1_residual(W, G, self.weight)

    def structure(self, shape: Shape) -> Structure:
        """Return the structure: many entries are zero."""
        return SPARSE

    def operations(self, shape: Shape) -> float:
        """Return 3 an entry: two comparisons and a subtraction."""
        return 3.0 * prod(shape)

    def norm(self, W: Array) -> float:
        """Return |W|_1."""
        return float(np.abs(W).sum())

    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point of the l1 ball."""
        return l1_ball(W, radius)

    def on_the_ball(self, W: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return the prox where the bound is active: in closed form, at the price of a sort."""
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
        """Return 1 an entry."""
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
        """Return the distance of -G from the subdifferential at W."""
        return _l1_residual(W, G + self.strong_convexity * W, self.l1)

    def structure(self, shape: Shape) -> Structure:
        """Return the structure: many entries are zero."""
        return SPARSE

    def operations(self, shape: Shape) -> float:
        """Return 4 an entry: soft thresholding and a division."""
        return 4.0 * prod(shape)


def _l1_residual(W: Array, G: Array, weight: float) -> float:
    least = np.where(W == 0, soft_threshold(G, weight), G + weight * np.sign(W))
    return float(np.linalg.norm(least))
