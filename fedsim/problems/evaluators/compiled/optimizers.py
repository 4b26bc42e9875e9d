"""Steps of optimizers: the elementwise rules of `fedsim.problems.rules`.

A step is one loop over the coordinates of the model, for dense and sparse rows alike, as momentum
moves all coordinates. All rules are one formula with constants from `settings`: a loop without
branches is vectorised, and compiled once.
"""

import math

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import part
from fedsim.problems.evaluators.compiled.rows import MomentBuffers, StepRule
from fedsim.problems.evaluators.compiled.settings import Settings
from fedsim.problems.optimizers import ROUNDING


@part
def advance(
    V: Array, start: Array, G: Array, moments: MomentBuffers, rule: StepRule, s: int
) -> None:
    """Take step `s` of a piece, counted from 0; other arguments as for `rows.move`.

    The moments are updated.
    """
    settings, eta, t = rule.optimizer, rule.rates[s], float(rule.taken + s + 1)
    H, M, S = moments.H, moments.M, moments.S
    clipping = _whole_gradient(V, start, G, H, rule)
    # Decoupled decay (Loshchilov, Hutter, ICLR 2019) takes the step size before its correction for
    # bias.
    decay = 1 - eta * settings.decoupled
    # Bias corrections of Adam; without them beta is 0, and both factors are 1.
    rate = eta / (1 - math.pow(settings.bias1, t))
    root = 1 / math.sqrt(1 - math.pow(settings.bias2, t))
    for k in range(len(V)):
        # Coupled decay is added after clipping, as in PyTorch; decoupled decay shrinks V itself.
        d = H[k] * clipping + settings.coupled * V[k]
        V[k], M[k], S[k] = _step_number(V[k] * decay, M[k], S[k], d, settings, rate, root)


@part
def _whole_gradient(V: Array, start: Array, G: Array, H: Array, rule: StepRule) -> float:
    """Set `H` to the gradient with scale, penalties and pull; return its clipping factor."""
    total = 0.0
    for k in range(len(V)):
        # The norm that is clipped is that of the whole gradient, with penalties and pull, so all of
        # it has to be known before the first coordinate moves.
        h = G[k] * rule.scale + rule.l2 * V[k] + rule.l1 * np.sign(V[k])
        h += rule.pull * (V[k] - start[k])
        H[k] = h
        total += h * h
    # ROUNDING avoids a division by 0, as in PyTorch.
    return min(rule.optimizer.clip / (math.sqrt(total) + ROUNDING), 1.0)


@part
def _step_number(
    v: float, m: float, s: float, d: float, settings: Settings, rate: float, root: float
) -> tuple[float, float, float]:
    """Return a coordinate of the model, and of both moments, after a step.

    Args:
        v: the coordinate of the model.
        m: that of the momentum, or of the mean gradient.
        s: that of the mean square; 0 if the rule has none.
        d: that of the gradient.
        settings: the settings.
        rate: the step size, corrected for the bias of m.
        root: the bias correction of the root of s.
    """
    m = settings.first * m + settings.second * d
    square = d * d
    # Yogi: v moves towards d^2 by a step of its size.
    direction = np.sign(square - s) if settings.signed != 0 else 1.0
    s = settings.kept * s + settings.added * square * direction
    step = settings.ahead * d + settings.behind * m
    return v - rate * step / (math.sqrt(s) * root + settings.epsilon), m, s
