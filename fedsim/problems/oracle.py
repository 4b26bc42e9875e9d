"""The port `Oracle` of one client: what is asked of its loss, as priced work."""

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array, Work
from fedsim.problems.curvature import strong_convexity, strong_convexity_operations
from fedsim.problems.features import Sparse
from fedsim.problems.local import LocalLoss
from fedsim.problems.restricted import newton, newton_operations, restricted


class LossOracle:
    """A client's loss as priced work.

    A gradient costs what the loss says of the rows that it passes over; a value, half of that.

    Args:
        loss: of the client.
        forming: operations that made the loss what it is, which the first work pays for.
    """

    __slots__ = ("_forming", "_gradient", "_loss", "_operations", "_samples")

    def __init__(self, loss: LocalLoss, forming: float = 0.0) -> None:
        self._loss = loss
        self._forming = forming
        self._gradient = loss.gradient
        self._operations = loss.gradient_operations
        self._samples = float(loss.rows)

    @property
    def rows(self) -> int:
        """The number of samples, n_m."""
        return self._loss.rows

    def gradient(self, w: Array) -> Work:
        """Describe the evaluation of the full (sub)gradient at `w`, shape (d,)."""
        return self._priced(Work(self._gradient, (w,), self._operations, self._samples))

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Work:
        """Describe a stochastic gradient at `w`, its samples drawn without replacement."""
        drawn = self._drawn(batch, rng)
        if drawn is None:
            return self.gradient(w)
        operations = len(drawn) / self.rows * self._operations
        kernel = self._loss.minibatch_gradient
        return self._priced(Work(kernel, (w, drawn), operations, float(len(drawn))))

    def minibatch_change(
        self, w: Array, old: Array, batch: int | None, rng: np.random.Generator
    ) -> Work:
        """Describe a stochastic gradient at `w` less that of the same samples at `old`."""
        drawn, rows = self._drawn(batch, rng), self.rows
        count = rows if drawn is None else len(drawn)
        operations = 2 * count / rows * self._operations
        arguments = (self._loss, w, old, drawn)
        return self._priced(Work(_change, arguments, operations, 2.0 * count))

    def strong_convexity(self) -> Work:
        """Describe the evaluation of a mu for which f_m is mu-strongly convex, shape ()."""
        operations = strong_convexity_operations(self._loss)
        return self._priced(Work(_strong_convexity, (self._loss,), operations))

    def value(self, w: Array) -> Work:
        """Describe the evaluation of f_m at `w`, shape ()."""
        return self._priced(Work(_value, (self._loss, w), self._operations / 2, self._samples))

    def constraint(self, w: Array) -> Work:
        """Describe the evaluation of g_m at `w`, shape ()."""
        half = self._operations / 2
        return self._priced(Work(_constraint, (self._loss, w), half, self._samples))

    def constraint_gradient(self, w: Array) -> Work:
        """Describe the evaluation of the gradient of g_m at `w`, shape (d,)."""
        kernel = self._loss.constraint_gradient
        return self._priced(Work(kernel, (w,), self._operations, self._samples))

    def newton(self, w: Array) -> Work:
        """Describe a full Newton step from `w`, shape (d,)."""
        operations = newton_operations(self._loss)
        return self._priced(Work(newton, (self._loss, w), operations, self._samples))

    def restricted(self, basis: NDArray[np.generic] | Sparse) -> "LossOracle":
        """Return f_m as a function of the coefficients of a basis."""
        part = restricted(self._loss, basis)
        return LossOracle(part, part.forming_operations)

    def _drawn(self, batch: int | None, rng: np.random.Generator) -> NDArray[np.intp] | None:
        """Return the numbers of samples that are drawn; None for all of them."""
        if batch is None or batch >= self.rows:
            return None
        return rng.choice(self.rows, batch, replace=False, shuffle=False)

    def _priced(self, work: Work) -> Work:
        """Return work that pays for what has not been paid for yet."""
        if not self._forming:
            return work
        forming, self._forming = self._forming, 0.0
        return work.plus(forming)


def _value(loss: LocalLoss, w: Array) -> Array:
    return np.array(loss.value(w))


def _change(loss: LocalLoss, w: Array, old: Array, drawn: NDArray[np.intp] | None) -> Array:
    if drawn is None:
        return loss.gradient(w) - loss.gradient(old)
    return loss.minibatch_gradient(w, drawn) - loss.minibatch_gradient(old, drawn)


def _strong_convexity(loss: LocalLoss) -> Array:
    return np.array(strong_convexity(loss))


def _constraint(loss: LocalLoss, w: Array) -> Array:
    return np.array(loss.constraint(w))
