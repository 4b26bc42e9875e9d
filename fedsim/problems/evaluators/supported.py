"""Which losses there are compiled kernels for: known without loading a compiler."""

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

    There are for built-in losses of dense rows and, except for a perceptron, of sparse ones; not
    for user-defined subclasses, which may compute something else.
    """
    dense = isinstance(local.arranged.X, np.ndarray)
    return type(local.loss) in _KNOWN and (dense or type(local.loss) is not MultilayerPerceptron)


def compilable(losses: Sequence[LocalLoss]) -> bool:
    """Return whether there are compiled kernels for the losses of all clients, on rows alike."""
    if not losses or not has_kernels(losses[0]):
        return False
    return len({isinstance(loss.arranged.X, np.ndarray) for loss in losses}) == 1
