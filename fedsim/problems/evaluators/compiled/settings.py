"""Settings of an optimizer as compiled kernels read them: one vector at an address."""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import part, vector_at
from fedsim.problems.optimizers import SGD, Adam, AdamW, Training, Yogi


class Settings(NamedTuple):
    """The settings of an optimizer; those that its rule does not have are 0.

    Attributes:
        given: whether there is an optimizer; otherwise steps are plain.
        clip: the largest norm of a gradient; infinite for none.
        decay: lambda, the weight decay.
        decoupled: whether decay shrinks the model, apart from the gradient.
        momentum: mu.
        nesterov: whether momentum is Nesterov's.
        beta1, beta2: the decays of m and v.
        corrected: whether m and v are corrected for bias.
        signed: whether v moves by the sign of v - d^2 (Yogi).
        half: 1/2, as an exponent.
        epsilon: epsilon of the rule.
        initial: v before the first step.
        momenta: whether b or m is part of the state.
        squares: whether v is part of the state.
        counted: whether the number of steps is part of the state.
        result: whether the state follows the model in the result.
    """

    given: float
    clip: float
    decay: float
    decoupled: float
    momentum: float
    nesterov: float
    beta1: float
    beta2: float
    corrected: float
    signed: float
    half: float
    epsilon: float
    initial: float
    momenta: float
    squares: float
    counted: float
    result: float


LENGTH: Final = len(Settings._fields)
"""The number of settings; the step sizes follow."""


def settings_of(training: Training) -> Array:
    """Return the settings and step sizes of a `compilable` training as one vector.

    >>> settings_of(Training(SGD(momentum=0.9), (0.1, 0.2)))[[0, 4, -2, -1]]
    array([1. , 0.9, 0.1, 0.2])
    """
    rule: Any = training.optimizer
    adam, sgd = isinstance(rule, Adam), isinstance(rule, SGD)
    settings = Settings(
        given=True,
        clip=math.inf if training.clip is None else training.clip,
        decay=rule.weight_decay,
        decoupled=isinstance(rule, AdamW),
        momentum=rule.momentum if sgd else 0.0,
        nesterov=sgd and rule.nesterov,
        beta1=rule.beta1 if adam else 0.0,
        beta2=rule.beta2 if adam else 0.0,
        corrected=adam and rule.bias_correction,
        signed=isinstance(rule, Yogi),
        half=0.5,
        epsilon=0.0 if sgd else rule.epsilon,
        initial=0.0 if sgd else rule.initial,
        momenta=adam or (sgd and rule.momentum > 0),
        squares=not sgd,
        counted=adam,
        result=training.kept,
    )
    # Step sizes follow at offset LENGTH.
    return np.array([*settings, *training.rates], np.float64)


@part
def settings_at(address: int, like: Array) -> Settings:
    """Return the settings at an address; those of plain steps for the address 0."""
    s = vector_at(address, LENGTH, like) if address else np.zeros(LENGTH)
    return Settings(
        # Written out: Numba creates a named tuple from a fixed number of arguments only.
        *(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7], s[8]),
        *(s[9], s[10], s[11], s[12], s[13], s[14], s[15], s[16]),
    )
