"""A penalty on flat models."""

from dataclasses import dataclass

from fedsim.ports import Array, Structure
from fedsim.problems.penalties.base import Penalty, Shape
from fedsim.problems.penalties.bounded import Bounded


@dataclass(frozen=True, slots=True)
class Regulariser:
    """A penalty h on models as vectors of shape (d,).

    Attributes:
        penalty: h.
        shape: how the loss reads the model, (d,) or (m, n) row by row.

    Raises:
        DataError: models of this shape cannot be penalised so.
    """

    penalty: Penalty
    shape: Shape

    def __post_init__(self) -> None:
        self.penalty.check(self.shape)

    def weighted(self, weight: float) -> "Regulariser":
        """Return the same with another weight of the penalty."""
        return Regulariser(self.penalty.weighted(weight), self.shape)

    def value(self, w: Array) -> float:
        """Return h(w)."""
        return self.penalty.value(w.reshape(self.shape))

    def prox(self, w: Array, step: float) -> Array:
        """Return argmin_v step h(v) + |v - w|^2/2, shape (d,), as an array of its own."""
        return self.penalty.prox(w.reshape(self.shape), step).ravel()

    def residual(self, w: Array, gradient: Array) -> float:
        """Return the distance of -gradient from the subdifferential of h at `w`.

        With the gradient of a smooth f it is the norm of the least subgradient of f + h.
        """
        return self.penalty.residual(w.reshape(self.shape), gradient.reshape(self.shape))

    def norm(self, w: Array) -> float:
        """Return the norm that h is a multiple of.

        Raises:
            DataError: h is no multiple of a norm.
        """
        return self.penalty.norm(w.reshape(self.shape))

    def project(self, w: Array, radius: float) -> Array:
        """Return the nearest point whose norm is at most `radius`, shape (d,).

        Raises:
            DataError: h is no multiple of a norm.
            ValueError: the radius is not positive.
        """
        return self.penalty.project(w.reshape(self.shape), radius).ravel()

    def prox_in_ball(self, w: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return argmin_v step h(v) + |v - w|^2/2 under |v - centre| <= radius, shape (d,).

        Raises:
            DataError: h is no multiple of a norm.
            ValueError: the radius is not positive.
        """
        W, C = w.reshape(self.shape), centre.reshape(self.shape)
        found = self.penalty.prox_in_ball(W, step, C, radius)
        return Bounded(found.point.ravel(), found.evaluations)

    @property
    def structure(self) -> Structure:
        """What is known of a prox."""
        return self.penalty.structure(self.shape)

    @property
    def operations(self) -> float:
        """The floating-point operations of one prox."""
        return self.penalty.operations(self.shape)
