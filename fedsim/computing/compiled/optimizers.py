"""Steps of optimizers: those of `fedsim.problems.rules` that move a model number by number.

A step is one loop over the numbers of the model, for dense and sparse rows: momentum moves them
all. All rules are one formula, whose constants are in `settings`: a loop without branches is
vectorised, and compiled once.
"""

import math

import numpy as np

from fedsim.computing.compiled.compiler import part
from fedsim.computing.compiled.rows import MomentBuffers, StepRule
from fedsim.computing.compiled.settings import Settings
from fedsim.ports import Array
from fedsim.problems.optimizers import ROUNDING


@part
def advance(
    V: Array, start: Array, G: Array, moments: MomentBuffers, rule: StepRule, s: int
) -> None:
    """Take step `s` of a piece, counted from 0; other arguments as for `rows.move`.

    The moments are changed.
    """
    own, eta, t = rule.own, rule.rates[s], float(rule.taken + s + 1)
    H, M, S = moments.H, moments.M, moments.S
    shorter = _whole_gradient(V, start, G, H, rule)
    stays = 1 - eta * own.apart
    rate = eta / (1 - math.pow(own.bias1, t))
    root = 1 / math.sqrt(1 - math.pow(own.bias2, t))
    for k in range(len(V)):
        d = H[k] * shorter + own.coupled * V[k]
        V[k], M[k], S[k] = _step_number(V[k] * stays, M[k], S[k], d, own, rate, root)


@part
def _whole_gradient(V: Array, start: Array, G: Array, H: Array, rule: StepRule) -> float:
    """Set `H` to the gradient with scale, penalties and pull; return the factor that clips it."""
    total = 0.0
    for k in range(len(V)):
        h = G[k] * rule.scale + rule.l2 * V[k] + rule.l1 * np.sign(V[k])
        h += rule.pull * (V[k] - start[k])
        H[k] = h
        total += h * h
    return min(rule.own.clip / (math.sqrt(total) + ROUNDING), 1.0)


@part
def _step_number(
    v: float, m: float, s: float, d: float, own: Settings, rate: float, root: float
) -> tuple[float, float, float]:
    """Return a number of the model, and of both moments, after a step.

    Args:
        v: of the model.
        m: of the momentum, or the mean gradient.
        s: of the mean square; 0 where a rule has none.
        d: of the gradient.
        own: the settings.
        rate: the step size, corrected for the bias of m.
        root: what corrects the root of s.
    """
    m = own.first * m + own.second * d
    square = d * d
    toward = np.sign(square - s) if own.signed != 0 else 1.0
    s = own.kept * s + own.added * square * toward
    step = own.ahead * d + own.behind * m
    return v - rate * step / (math.sqrt(s) * root + own.epsilon), m, s
