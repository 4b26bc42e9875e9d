"""Losses that have compiled kernels. This module loads no compiler."""

from collections.abc import Sequence

import numpy as np

from fedsim.problems import (
    Logistic,
    MultilayerPerceptron,
    Softmax,
    Squared,
    TraceRegression,
)
from fedsim.problems.client_loss import LocalLoss

_KNOWN = (Squared, TraceRegression, Logistic, Softmax, MultilayerPerceptron)


def has_kernels(local: LocalLoss) -> bool:
    """Return whether there are compiled kernels for a client's loss on its rows.

    Built-in losses have kernels for dense rows and, except for a perceptron, for sparse ones. A
    user-defined subclass has none, as it may compute something else.
    """
    dense = isinstance(local.arranged.X, np.ndarray)
    return type(local.loss) in _KNOWN and (dense or type(local.loss) is not MultilayerPerceptron)


def compilable(losses: Sequence[LocalLoss]) -> bool:
    """Return whether all clients' losses have compiled kernels, for rows stored alike."""
    if not losses or not has_kernels(losses[0]):
        return False
    return len({isinstance(loss.arranged.X, np.ndarray) for loss in losses}) == 1
