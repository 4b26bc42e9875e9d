"""What compiled kernels are handed of the clients' losses, and what is done with a gradient.

Arrays of clients are passed by their addresses, so that those of any number of clients go into
one call and none is copied. Who makes these tuples keeps the arrays alive.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.compiler import part
from fedsim.ports import Array

Whole = NDArray[np.int64]


class Form(NamedTuple):
    """What the losses of all clients have in common.

    The model is a matrix (d, m), row by row, and a head behind it (see `heads`).

    Attributes:
        kind: of the loss, a number of `heads`.
        d, m, c: features, columns of the model, targets a row.
        size: of the model, with its head.
        l1, l2: weights of the penalties.
    """

    kind: int
    d: int
    m: int
    c: int
    size: int
    l1: float
    l2: float


class Data(NamedTuple):
    """The samples of all clients.

    Attributes:
        x: addresses of the features: all numbers, or those that a sparse matrix stores.
        places, ends: addresses of the column of each stored number, and of where rows begin; of
            dense rows a matrix without entries.
        t: addresses of the targets, (n, c).
        rows: n of each client.
        factor: what each sum over the rows is multiplied with.
        like: of no length, and of the type of features and targets.
        place: of no length, and of the type of places and ends.
    """

    x: Whole
    places: Whole
    ends: Whole
    t: Whole
    rows: Whole
    factor: Array
    like: Array
    place: NDArray[np.integer]


@part
def rows_are_there(drawn: Whole, rows: int) -> bool:
    """Say whether all numbers of rows are such; those below 0 count from the end.

    They are read without a check afterwards.
    """
    there = True
    for i in range(len(drawn)):
        there &= -rows <= drawn[i] < rows
    return there


@part
def copy(source: Array, target: Array) -> None:
    """Set `target` to `source`, both flat: of slices this compiles many times faster."""
    for k in range(len(source)):
        target[k] = source[k]


@part
def move(
    V: Array,
    start: Array,
    G: Array,
    scale: float,
    l1: float,
    l2: float,
    eta: float,
    pull: float,
) -> None:
    """Take a step of length eta along the gradient that G, less penalties and scale, says.

    All are flat: `V`, which moves, `start`, which it may be pulled to, and `G`. Loops without
    signs are vectorised, so there is one for the most common case.
    """
    if l1 == 0:
        for k in range(len(V)):
            V[k] -= eta * (G[k] * scale + l2 * V[k] + pull * (V[k] - start[k]))
        return
    for k in range(len(V)):
        g = G[k] * scale + l2 * V[k] + l1 * np.sign(V[k])
        V[k] -= eta * (g + pull * (V[k] - start[k]))


@part
def differentiate(V: Array, G: Array, scale: float, l1: float, l2: float) -> None:
    """Set V to a subgradient at V, of what is summed over the rows; arguments as for `move`."""
    if l1 == 0:
        for k in range(len(V)):
            V[k] = G[k] * scale + l2 * V[k]
        return
    for k in range(len(V)):
        V[k] = G[k] * scale + l2 * V[k] + l1 * np.sign(V[k])
