"""What penalties have in common that are multiples of a norm: a ball, and a prox in it."""

from abc import abstractmethod

import numpy as np

from fedsim.ports import Array
from fedsim.problems.penalties.base import Weighted
from fedsim.problems.penalties.bounded import Bounded, bounded


class Norm(Weighted):
    """h = weight times a norm."""

    def value(self, W: Array) -> float:
        """Return weight x norm."""
        return self.weight * self.norm(W)

    @abstractmethod
    def norm(self, W: Array) -> float:
        """Return the norm of W, of which h is `weight` times."""

    @abstractmethod
    def project(self, W: Array, radius: float) -> Array:
        """Return the nearest point of the ball, as an array of its own; errors as declared."""

    def prox_in_ball(self, W: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return argmin_V step h(V) + |V - W|^2/2 under |V - centre| <= radius in the norm.

        A prox that is in the ball is it; so is, around zero or where h has no weight, its
        projection. What is not a number stays so.
        """
        free = self.prox(W, step)
        if not (np.isfinite(free).all() and self.norm(free - centre) > radius):
            return Bounded(free, 2)
        if not centre.any() or not step * self.weight:
            return Bounded(centre + self.project(free - centre, radius), 2)
        return self.on_the_ball(W, step, centre, radius)

    def on_the_ball(self, W: Array, step: float, centre: Array, radius: float) -> Bounded:
        """Return the same where the bound is met, around another centre than zero."""
        found = bounded(
            lambda V, scale: self.prox(V, scale * step),
            lambda V: self.project(V, radius),
            W,
            centre,
        )
        return Bounded(found.point, found.evaluations + 2)
