"""Losses: value, gradient, smoothness constant and work of a client's own objective."""

from fedsim.blocks.registry import Registry
from fedsim.problems.losses.base import Loss, Rows, State
from fedsim.problems.losses.jax_loss import GivenFunctions, JaxLoss
from fedsim.problems.losses.linear import LinearLoss
from fedsim.problems.losses.logistic import Logistic, NeymanPearson
from fedsim.problems.losses.mlp import MultilayerPerceptron
from fedsim.problems.losses.network import TorchLoss
from fedsim.problems.losses.softmax import Softmax
from fedsim.problems.losses.squared import LeastSquares, Squared, TraceRegression

LOSSES: Registry[Loss] = Registry(
    "loss",
    (
        Squared,
        Logistic,
        Softmax,
        NeymanPearson,
        TraceRegression,
        MultilayerPerceptron,
        TorchLoss,
        JaxLoss,
    ),
    Loss,
    plural="losses",
)
"""Every loss that a scenario can name."""

__all__ = [
    "LOSSES",
    "GivenFunctions",
    "JaxLoss",
    "LeastSquares",
    "LinearLoss",
    "Logistic",
    "Loss",
    "MultilayerPerceptron",
    "NeymanPearson",
    "Rows",
    "Softmax",
    "Squared",
    "State",
    "TorchLoss",
    "TraceRegression",
]
