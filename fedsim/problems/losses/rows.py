"""What the kernels of losses take: a client's samples as its loss has arranged them."""

from math import inf
from typing import NamedTuple

from fedsim.ports import Array
from fedsim.problems.features import Features

State = tuple[Array, ...]
"""What value and gradient at one model have in common, such as residuals."""


class Rows(NamedTuple):
    """The samples of one client as a loss has arranged them for its kernels.

    Those of k clients with as many rows each may be stacked: then arrays have an axis more in
    front, of length k, and so has `reach`.

    Attributes:
        X: features or what was made of them, shape (n, d), dense or compressed sparse rows.
        t: targets, shape (n,) or (n, outputs).
        factor: what the sum over the rows is multiplied with, as the scale says.
        reach: the largest norm of a row of X, so that no product exceeds it times |w|;
            infinite where it was not computed.
    """

    X: Features
    t: Array
    factor: float
    reach: float | Array = inf
