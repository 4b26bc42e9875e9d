"""Settings of an optimizer as compiled kernels read them: one vector at an address.

All elementwise rules of `fedsim.problems.rules` are one step with different constants. With the
gradient d and the number t of the step,

    m <- first m + second d
    v <- kept v + added d^2; with sign(d^2 - v) as a factor of d^2 if `signed`
    w <- (1 - eta decoupled) w - eta (ahead d + behind m)/(1 - bias1^t)
                             /(sqrt(v/(1 - bias2^t)) + epsilon).

Sgd has v = 0 and epsilon = 1.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import part, vector_at
from fedsim.problems.optimizers import SGD, Adagrad, Adam, AdamW, Optimizer, Training, Yogi


class Settings(NamedTuple):
    """The settings of an optimizer: see above, and `fedsim.problems.rules`.

    Attributes:
        given: whether there is an optimizer; otherwise steps are plain.
        clip: the largest norm of a gradient; infinite for none.
        coupled: weight decay that is added to the gradient.
        decoupled: decoupled weight decay, which shrinks the model by itself.
        first: the factor of the former momentum in m.
        second: the factor of the gradient in m.
        ahead: the factor of the gradient in a step.
        behind: the factor of m in a step.
        kept: the factor of the former mean square in v.
        added: the factor of the squared gradient in v.
        signed: whether v moves by the sign of d^2 - v (Yogi).
        bias1: beta1 if m is corrected for bias, otherwise 0.
        bias2: beta2 if v is corrected for bias, otherwise 0.
        epsilon: epsilon of the formula.
        initial: v before the first step.
        momenta: whether m is part of the state.
        squares: whether v is part of the state.
        counted: whether the number of steps is part of the state.
        result: whether the state follows the model in the result.
    """

    given: float = 0.0
    clip: float = math.inf
    coupled: float = 0.0
    decoupled: float = 0.0
    first: float = 0.0
    second: float = 1.0
    ahead: float = 0.0
    behind: float = 1.0
    kept: float = 0.0
    added: float = 0.0
    signed: float = 0.0
    bias1: float = 0.0
    bias2: float = 0.0
    epsilon: float = 1.0
    initial: float = 0.0
    momenta: float = 0.0
    squares: float = 0.0
    counted: float = 0.0
    result: float = 0.0


LENGTH: Final = len(Settings._fields)
"""The number of settings; the step sizes follow."""


def settings_of(training: Training) -> Array:
    """Return the settings and step sizes of a `compilable` training as one vector.

    >>> settings_of(Training(SGD(momentum=0.9), (0.1, 0.2)))[[0, 4, -2, -1]]
    array([1. , 0.9, 0.1, 0.2])
    """
    clip = math.inf if training.clip is None else training.clip
    settings = _constants(training.optimizer)
    settings = settings._replace(given=1.0, clip=clip, result=float(training.kept))
    # Step sizes follow at offset LENGTH.
    return np.array([*settings, *training.rates])


def _constants(rule: Optimizer) -> Settings:
    """Return the settings of a rule, without those of a training."""
    if isinstance(rule, SGD):
        return Settings(
            coupled=rule.weight_decay,
            first=rule.momentum,
            ahead=float(rule.nesterov),
            # Nesterov: d + momentum m; otherwise the step is m itself.
            behind=rule.momentum if rule.nesterov else 1.0,
            momenta=float(rule.momentum > 0),
        )
    if isinstance(rule, Adam):
        decoupled, signed = isinstance(rule, AdamW), isinstance(rule, Yogi)
        return Settings(
            coupled=0.0 if decoupled else rule.weight_decay,
            decoupled=rule.weight_decay if decoupled else 0.0,
            first=rule.beta1,
            second=1 - rule.beta1,
            # Yogi: v + (1 - beta2) sign(d^2 - v) d^2, without a decay of v.
            kept=1.0 if signed else rule.beta2,
            added=1 - rule.beta2,
            signed=float(signed),
            bias1=rule.beta1 if rule.bias_correction else 0.0,
            bias2=rule.beta2 if rule.bias_correction else 0.0,
            epsilon=rule.epsilon,
            initial=rule.initial,
            momenta=1.0,
            squares=1.0,
            counted=1.0,
        )
    if isinstance(rule, Adagrad):
        return Settings(
            coupled=rule.weight_decay,
            kept=1.0,
            added=1.0,
            epsilon=rule.epsilon,
            initial=rule.initial,
            squares=1.0,
        )
    raise TypeError(f"there is no compiled step of {rule.kind}")


@part
def settings_at(address: int, like: Array) -> Settings:
    """Return the settings at an address; those of plain steps for the address 0."""
    s = vector_at(address, LENGTH, like) if address else np.zeros(LENGTH)
    return Settings(
        # Written out: Numba creates a named tuple from a fixed number of arguments only.
        *(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8], s[9]),
        *(s[10], s[11], s[12], s[13], s[14], s[15], s[16], s[17], s[18]),
    )
