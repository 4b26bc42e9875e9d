"""Steps of optimizers: the elementwise rules of `fedsim.problems.rules`.

A step is one loop over the coordinates of the model, for dense and sparse rows alike, as momentum
moves all coordinates. It performs the operations of the rule in their order, so models and moments
equal those of the rule to the last bit. The rules themselves are not compiled. As functions of
single numbers they would take several times as long in NumPy and PyTorch. As functions of arrays
they would take several times as long in a kernel.
"""

import math

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import part, rounded
from fedsim.problems.evaluators.compiled.rows import MomentBuffers, StepRule
from fedsim.problems.evaluators.compiled.settings import Settings
from fedsim.problems.optimizers import ROUNDING


@rounded
def advance(
    V: Array, start: Array, G: Array, moments: MomentBuffers, rule: StepRule, s: int
) -> None:
    """Take step `s` of a piece, counted from 0; other arguments as for `rows.move`.

    The moments are updated.
    """
    own, eta = rule.optimizer, rule.rates[s]
    H, M, S = moments.H, moments.M, moments.S
    clipping = _whole_gradient(V, start, G, H, rule)
    # Coupled decay is added after clipping, as in PyTorch; decoupled decay shrinks V itself.
    coupled, shrunk = (0.0, own.decay) if own.decoupled else (own.decay, 0.0)
    for k in range(len(V)):
        H[k] = H[k] * clipping + coupled * V[k]
        V[k] *= 1 - eta * shrunk
    if not own.squares:
        for k in range(len(V)):
            M[k] = own.momentum * M[k] + H[k]
            V[k] -= eta * (H[k] + own.momentum * M[k] if own.nesterov else M[k])
    elif own.momenta:
        _adapt(V, H, M, S, own, eta, float(rule.taken + s + 1))
    else:
        for k in range(len(V)):
            S[k] += H[k] * H[k]
            V[k] -= eta * H[k] / (math.sqrt(S[k]) + own.epsilon)


@rounded
def _adapt(V: Array, H: Array, M: Array, S: Array, own: Settings, eta: float, t: float) -> None:
    """Take step t of adam, adamw or yogi."""
    rate, divisor = eta, 1.0
    if own.corrected:
        rate /= 1 - math.pow(own.beta1, t)
        # The exponent is a setting: a root in place of the power would be rounded otherwise.
        divisor = math.pow(1 - math.pow(own.beta2, t), own.half)
    for k in range(len(V)):
        M[k] = own.beta1 * M[k] + (1 - own.beta1) * H[k]
        square = H[k] * H[k]
        added = (1 - own.beta2) * square
        if own.signed:
            S[k] -= added * np.sign(S[k] - square)
        else:
            S[k] = own.beta2 * S[k] + added
        V[k] -= rate * M[k] / (math.sqrt(S[k]) / divisor + own.epsilon)


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
