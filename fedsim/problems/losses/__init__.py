"""Losses: value, gradient, smoothness constant and work of a client's own objective."""

from fedsim.problems.losses.base import Loss, Rows, State
from fedsim.problems.losses.linear import LinearLoss
from fedsim.problems.losses.logistic import Logistic
from fedsim.problems.losses.mlp import MultilayerPerceptron
from fedsim.problems.losses.squared import Squared

LOSSES: tuple[type[Loss], ...] = (Squared, Logistic, MultilayerPerceptron)
"""Every loss that a scenario can name."""

__all__ = [
    "LOSSES",
    "LinearLoss",
    "Logistic",
    "Loss",
    "MultilayerPerceptron",
    "Rows",
    "Squared",
    "State",
]
