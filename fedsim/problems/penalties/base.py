"""Base class of penalties: a convex function h of the model, with its prox."""

from abc import abstractmethod
from typing import ClassVar, Self

from pydantic import Field

from fedsim.core.blocks.registry import kinds_where
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError
from fedsim.core.ports import DENSE, Array, Structure
from fedsim.problems.penalties.bounded import Bounded

Shape = tuple[int, ...]
"""The shape that a flat model represents: (d,), or (m, n) for a matrix, row by row."""


class Penalty(Spec):
    """The term h of the composite objective f + h, once for all clients together.

    Models and results have the loss's shape, (d,) or (m, n).
    """

    source: ClassVar[str]
    """Human-readable source of the penalty."""

    ball: ClassVar[str] = ""
    """The name of the norm's ball if h is a multiple of a norm; otherwise empty."""

    kind: str

    def check(self, shape: Shape) -> None:
        """Check that models of this shape can have the penalty.

        Raises:
            DataError: they cannot.
        """

    def with_weight(self, weight: float) -> Self:
        """Return the same penalty with another weight."""
        return self

    @abstractmethod
    def value(self, W: Array) -> float:
        """Return h(W)."""

    @abstractmethod
    def prox(self, W: Array, step: float) -> Array:
        """Return argmin_V step h(V) + |V - W|^2/2, for step >= 0, as a new array."""

    @abstractmethod
    def residual(self, W: Array, G: Array) -> float:
        """Return the distance between -G and the subdifferential of h at W.

        If G is the gradient of a smooth f at W, this is the norm of the smallest subgradient of f +
        h, and zero exactly at its minimisers.
        """

    @abstractmethod
    def operations(self, shape: Shape) -> float:
        """Return the floating-point operations of one prox."""

    def structure(self, shape: Shape) -> Structure:
        """Return the known structure of a prox, which models of proximal methods have."""
        return DENSE

    @property
    def strong_convexity(self) -> float:
        """The largest mu for which h - mu/2 |.|^2 is convex."""
        return 0.0

    def norm(self, W: Array) -> float:
        """Return the norm that h is `weight` times.

        Raises:
            DataError: h is not a multiple of a norm.
        """
        raise self._no_norm()

    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point whose norm is at most `radius`, as a new array.

        Raises:
            DataError: h is not a multiple of a norm.
            ValueError: the radius is not positive.
        """
        raise self._no_norm()

    def prox_in_ball(self, W: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return argmin_V step h(V) + |V - W|^2/2 under |V - centre| <= radius in its norm.

        Raises:
            DataError: h is not a multiple of a norm.
            ValueError: the radius is not positive.
        """
        raise self._no_norm()

    def _no_norm(self) -> DataError:
        others = kinds_where(Penalty, lambda penalty: bool(penalty.ball))
        return DataError(
            "penalty",
            f"the penalty {self.kind} is no multiple of a norm, so it has no ball to project "
            f"on; {join_names(others, 'and')} have one",
        )


class Weighted(Penalty):
    """A penalty that is a weight times a term."""

    weight: float = Field(ge=0, description="the multiplier of the term")

    def with_weight(self, weight: float) -> Self:
        """Return the same penalty with another weight, at least 0."""
        return self.model_copy(update={"weight": weight})
