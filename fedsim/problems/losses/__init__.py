"""Losses: value, gradient, smoothness constant and work of a client's own objective."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.problems.losses.base import Loss, Rows, State

if TYPE_CHECKING:
    from fedsim.problems.losses.jax_loss import GivenFunctions, JaxLoss
    from fedsim.problems.losses.linear import LinearLoss
    from fedsim.problems.losses.logistic import Logistic, NeymanPearson
    from fedsim.problems.losses.mlp import MultilayerPerceptron
    from fedsim.problems.losses.network import TorchLoss
    from fedsim.problems.losses.softmax import Softmax
    from fedsim.problems.losses.squared import LeastSquares, Squared, TraceRegression
else:
    __getattr__, __dir__ = exports(__name__)

LOSSES: Registry[Loss] = Registry(
    "loss",
    Named(
        __name__,
        {
            "squared": "Squared",
            "logistic": "Logistic",
            "softmax": "Softmax",
            "neyman-pearson": "NeymanPearson",
            "trace-regression": "TraceRegression",
            "mlp": "MultilayerPerceptron",
            "torch": "TorchLoss",
            "jax": "JaxLoss",
        },
    ),
    Loss,
    plural="losses",
)
"""The losses that a scenario can name."""

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
