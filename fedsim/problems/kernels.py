"""The evaluations of a client's loss, as pure functions of the loss and their arguments.

An evaluator recognises these functions (kernels) by identity. So it can compute the work of many
clients with the same kernel as one product, or by compiled code.
"""

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.client_loss import LocalLoss
from fedsim.problems.optimizers import Training
from fedsim.problems.restricted import newton as newton_step
from fedsim.problems.restricted import strong_convexity as known_strong_convexity
from fedsim.problems.samples import Drawn, Minibatches


def value(loss: LocalLoss, w: Array) -> Array:
    """Return f_m(w), shape ()."""
    return np.array(loss.value(w))


def root_mean_square(loss: LocalLoss, w: Array) -> Array:
    """Return the root mean square of the rows' losses at `w`, shape ()."""
    return np.array(loss.root_mean_square(w))


def gradient(loss: LocalLoss, w: Array) -> Array:
    """Return a (sub)gradient of f_m at `w`, shape (d,)."""
    return loss.gradient(w)


def minibatch_gradient(loss: LocalLoss, w: Array, drawn: Drawn) -> Array:
    """Return the stochastic gradient of the drawn samples at `w`, shape (d,)."""
    return loss.gradient(w) if drawn is None else loss.minibatch_gradient(w, drawn)


def minibatch_change(loss: LocalLoss, w: Array, old: Array, drawn: Drawn) -> Array:
    """Return a stochastic gradient at `w` minus that at `old`, on the same samples, shape (d,)."""
    return minibatch_gradient(loss, w, drawn) - minibatch_gradient(loss, old, drawn)


def sgd_steps(
    loss: LocalLoss, w: Array, eta: float, drawn: Minibatches, pull: float | None
) -> Array:
    """Return the model after stochastic gradient steps from `w`, shape (d,)."""
    return loss.sgd_steps(w, eta, drawn, pull)


def sgd_change(
    loss: LocalLoss, w: Array, eta: float, drawn: Minibatches, pull: float | None
) -> Array:
    """Return the model after stochastic gradient steps from `w`, minus `w`, shape (d,)."""
    return loss.sgd_change(w, eta, drawn, pull)


def optimizer_steps(loss: LocalLoss, w: Array, drawn: Minibatches, training: Training) -> Array:
    """Return the result of an optimizer's steps from `w`; see `Training.result`."""
    return loss.optimizer_steps(w, drawn, training)


STEPS = {sgd_steps: 2, sgd_change: 2, optimizer_steps: 1}
"""The kernels of steps of one kind, with the index of the minibatches among a work's arguments."""


def alternating_steps(
    loss: LocalLoss, w: Array, drawn: Minibatches, first: Training, then: Training
) -> Array:
    """Return the model after the steps of one training and then of another, from `w`, (d,)."""
    count = len(first.rates)
    middle = loss.optimizer_steps(w, drawn[:count], first)
    return loss.optimizer_steps(middle, drawn[count:], then)


def mixed_steps(
    loss: LocalLoss, both: Array, eta: float, alpha: float, drawn: Minibatches
) -> Array:
    """Return w and v, (2 d,), after steps on f_m(w) and, in v, on f_m(alpha v + (1 - alpha) w).

    Args:
        loss: f_m.
        both: the initial w and v, concatenated, shape (2 d,).
        eta: the step size.
        alpha: the share of v.
        drawn: the minibatch of each step, for both; None for all rows.
    """
    w, v = np.split(both, 2)
    for some in drawn:
        mixed = alpha * v + (1 - alpha) * w
        v = v + (loss.sgd_steps(mixed, eta * alpha, [some], None) - mixed)
        w = loss.sgd_steps(w, eta, [some], None)
    return np.concatenate([w, v])


def adaptive_mixed_steps(
    loss: LocalLoss, both: Array, eta: float, alpha: float, rate: float, drawn: Minibatches
) -> Array:
    """Return w, v and alpha, shape (2 d + 1,), after steps of `mixed_steps` that also adapt alpha.

    Args:
        loss: f_m.
        both: the initial w and v, concatenated, shape (2 d,).
        eta: the step size of w and v.
        alpha: the initial share of v.
        rate: the step size of alpha, which is clipped to [0, 1].
        drawn: the minibatch of each step, for all three; None for all rows.
    """
    w, v = np.split(both, 2)
    every = np.arange(loss.rows) if loss.noisy else None
    for some in drawn:
        rows = every if some is None else some
        g = minibatch_gradient(loss, alpha * v + (1 - alpha) * w, rows)
        slope = float((v - w) @ g)
        v = v - eta * alpha * g
        w = loss.sgd_steps(w, eta, [some], None)
        alpha = min(max(alpha - rate * slope, 0.0), 1.0)
    return np.concatenate([w, v, [alpha]])


def strong_convexity(loss: LocalLoss) -> Array:
    """Return a lower bound of the strong convexity mu of f_m, shape ()."""
    return np.array(known_strong_convexity(loss))


def constraint(loss: LocalLoss, w: Array) -> Array:
    """Return g_m(w), shape ()."""
    return np.array(loss.constraint(w))


def constraint_gradient(loss: LocalLoss, w: Array) -> Array:
    """Return the gradient of g_m at `w`, shape (d,)."""
    return loss.constraint_gradient(w)


def newton(loss: LocalLoss, w: Array) -> Array:
    """Return the model after a full Newton step from `w`, shape (d,)."""
    return newton_step(loss, w)
