"""A client's loss plus a quadratic around a point, f_m + pull/2 |. - anchor|^2, as priced work.

Proximal steps and ADMM minimise this function. An evaluation costs that of f_m plus 3 d operations.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve

from fedsim.core.ports import Array, Work
from fedsim.problems.client_loss import LocalLoss


class Minimisable(Protocol):
    """The evaluations of a loss that a solver needs, as in `fedsim.core.ports.Oracle`."""

    def value(self, w: Array) -> Work:
        """Describe the evaluation of the loss at `w`, shape ()."""
        ...

    def gradient(self, w: Array) -> Work:
        """Describe the evaluation of the gradient at `w`, shape (d,)."""
        ...

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Work:
        """Describe a stochastic gradient at `w`, shape (d,)."""
        ...

    def minibatch_change(
        self, w: Array, old: Array, batch: int | None, rng: np.random.Generator
    ) -> Work:
        """Describe a stochastic gradient at `w` minus that at `old`, same samples, shape (d,)."""
        ...

    def newton(self, w: Array) -> Work:
        """Describe a full Newton step from `w`, shape (d,)."""
        ...

    def strong_convexity(self) -> Work:
        """Describe the evaluation of a known constant of strong convexity, shape ()."""
        ...


class ProximalLoss:
    """A loss plus a quadratic around a point.

    Args:
        loss: f_m, on a client.
        anchor: the point, shape (d,).
        pull: the weight of the quadratic, positive.
    """

    __slots__ = ("_anchor", "_loss", "_pull")

    def __init__(self, loss: Minimisable, anchor: Array, pull: float) -> None:
        self._loss = loss
        self._anchor = anchor
        self._pull = pull

    def value(self, w: Array) -> Work:
        """Describe the evaluation of the sum at `w`, shape ()."""
        away = w - self._anchor
        return self._with(self._loss.value(w), self._pull / 2 * away @ away)

    def gradient(self, w: Array) -> Work:
        """Describe the evaluation of the sum's gradient at `w`, shape (d,)."""
        return self._with(self._loss.gradient(w), self._pull * (w - self._anchor))

    def minibatch(self, w: Array, batch: int | None, rng: np.random.Generator) -> Work:
        """Describe a stochastic gradient of f_m at `w`, plus the quadratic's, shape (d,)."""
        work = self._loss.minibatch(w, batch, rng)
        return self._with(work, self._pull * (w - self._anchor))

    def minibatch_change(
        self, w: Array, old: Array, batch: int | None, rng: np.random.Generator
    ) -> Work:
        """Describe a stochastic gradient at `w` minus that at `old`, same samples, shape (d,)."""
        work = self._loss.minibatch_change(w, old, batch, rng)
        return self._with(work, self._pull * (w - old))

    def newton(self, w: Array) -> Work:
        """Describe a full Newton step from `w`, shape (d,).

        For the squared loss, it gives the minimiser.
        """
        step = self._loss.newton(w)
        arguments = w, self._anchor, self._pull
        return step._replace(kernel=newton, arguments=arguments).plus(3.0 * w.size)

    def strong_convexity(self) -> Work:
        """Describe the evaluation of a known constant of strong convexity, shape ()."""
        return self._with(self._loss.strong_convexity(), self._pull)

    def _with(self, work: Work, added: Any) -> Work:
        """Return the work with a value or array added to its result."""
        whole = work._replace(kernel=plus, arguments=(added, work.kernel, *work.arguments))
        return whole.plus(3.0 * self._anchor.size)


def plus(
    loss: LocalLoss,
    added: Any,
    kernel: Callable[..., Array],
    *arguments: Any,
) -> Array:
    """Return the result of a kernel on a loss, plus `added`."""
    return np.asarray(kernel(loss, *arguments) + added)


def newton(loss: LocalLoss, w: Array, anchor: Array, pull: float) -> Array:
    """Return the model after a full Newton step from `w` on f_m + pull/2 |. - anchor|^2, (d,).

    Raises:
        DataError: the loss does not provide its Hessian.
    """
    hessian = loss.hessian(w) + pull * np.eye(w.size)
    gradient = loss.gradient(w) + pull * (w - anchor)
    return w - np.asarray(solve(hessian, gradient, assume_a="sym"), dtype=np.float64)
