"""The data structures of the compiled kernels, and their elementary operations on vectors.

Arrays of clients are passed as addresses, so that one call can have those of any number of clients
without copies. The caller that builds these tuples keeps the arrays alive.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.compiler import multiply_add, part
from fedsim.computing.compiled.settings import Settings
from fedsim.ports import Array

Whole = NDArray[np.int64]


class LossSpecification(NamedTuple):
    """The specification that the losses of all clients share.

    The model is a matrix (d, m), row by row, followed by a head (see `loss_functions`).

    Attributes:
        kind: of the loss, a number of `loss_functions`.
        d, m, c: features, columns of the model, targets a row.
        size: the length of the model, with its head.
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
        x: addresses of the features: all numbers, or the stored ones of a sparse matrix.
        places, ends: addresses of the columns of stored numbers, and of the offsets of rows; an
            empty matrix for dense rows.
        t: addresses of the targets, (n, c).
        rows: n of each client.
        factor: of the sum over a client's rows in its loss.
        like: an empty array of the type of features and targets.
        place: an empty array of the type of places and ends.
    """

    x: Whole
    places: Whole
    ends: Whole
    t: Whole
    rows: Whole
    factor: Array
    like: Array
    place: NDArray[np.integer]


class StepRule(NamedTuple):
    """The steps of a piece of work.

    Attributes:
        scale: of the gradient of the drawn rows of a step.
        l1, l2: weights of the penalties.
        eta, pull: see `fedsim.problems.kernels.sgd_steps`.
        steps: their number.
        own: the settings of an optimizer, if one is given.
        rates: the step sizes of an optimizer.
        taken: the steps of the optimizer's state before them.
    """

    scale: float
    l1: float
    l2: float
    eta: float
    pull: float
    steps: int
    own: Settings
    rates: Array
    taken: int


@part
def rescale(rule: StepRule, scale: float) -> StepRule:
    """Return the same steps for another number of drawn rows."""
    return StepRule(
        *(scale, rule.l1, rule.l2, rule.eta, rule.pull),
        *(rule.steps, rule.own, rule.rates, rule.taken),
    )


class MomentBuffers(NamedTuple):
    """The buffers of an optimizer, each of the length of a model.

    Attributes:
        H: for a whole gradient.
        M, S: its state, b or m, and v.
    """

    H: Array
    M: Array
    S: Array


@part
def rows_are_there(drawn: Whole, rows: int) -> bool:
    """Return whether all drawn rows exist; negative numbers count from the end.

    Later accesses are not checked.
    """
    there = True
    for i in range(len(drawn)):
        there &= -rows <= drawn[i] < rows
    return there


@part
def copy(source: Array, target: Array) -> None:
    """Copy `source` to `target`, both flat: a loop compiles much faster than a slice assignment."""
    for k in range(len(source)):
        target[k] = source[k]


# A step is rounded in one way wherever it stands, so that `sparse` may take it later.


@part
def step_of(v: float, origin: float, g: float, rule: StepRule) -> float:
    """Return a coordinate after a step.

    Args:
        v: of the model.
        origin: of the model that `pull` draws it to.
        g: of the gradient without scale and penalties.
        rule: of the steps.
    """
    h = multiply_add(rule.l2, v, g * rule.scale)
    if rule.l1 != 0:
        h = multiply_add(rule.l1, np.sign(v), h)
    if rule.pull != 0:
        h = multiply_add(rule.pull, v - origin, h)
    return multiply_add(-rule.eta, h, v)


@part
def move(V: Array, start: Array, G: Array, rule: StepRule) -> None:
    """Take a step; G is the gradient without scale and penalties.

    All vectors are flat: `V`, which is updated, `start`, to which `pull` draws it, and `G`. Loops
    without signs are vectorised, so there are separate ones for the most common cases.
    """
    scale, l1, l2, eta, pull = rule.scale, rule.l1, rule.l2, rule.eta, rule.pull
    if l1 == 0 and pull == 0:
        for k in range(len(V)):
            V[k] = multiply_add(-eta, multiply_add(l2, V[k], G[k] * scale), V[k])
    elif l1 == 0:
        for k in range(len(V)):
            h = multiply_add(pull, V[k] - start[k], multiply_add(l2, V[k], G[k] * scale))
            V[k] = multiply_add(-eta, h, V[k])
    else:
        for k in range(len(V)):
            V[k] = step_of(V[k], start[k] if pull != 0 else V[k], G[k], rule)


@part
def unload_flat(V: Array, less: Array, out: Array) -> bool:
    """Set `out` to V, minus `less` unless that is empty; return whether all of it is finite.

    It may be finite where `out`, of a narrower type, is not.
    """
    wrong = 0.0
    if len(less):
        for k in range(len(V)):
            v = V[k] - less[k]
            out[k] = v
            wrong += 0 * v
    else:
        for k in range(len(V)):
            out[k] = V[k]
            wrong += 0 * V[k]
    return wrong == 0


@part
def differentiate(V: Array, G: Array, scale: float, l1: float, l2: float) -> None:
    """Set V to the subgradient of the loss at V; arguments as for `move`."""
    if l1 == 0:
        for k in range(len(V)):
            V[k] = G[k] * scale + l2 * V[k]
        return
    for k in range(len(V)):
        V[k] = G[k] * scale + l2 * V[k] + l1 * np.sign(V[k])


# Products of four dense rows with the columns of a model, and back.
#
# A model of m columns is stored transposed, (m, d), so that all loops run over contiguous numbers.
# Four rows are processed at once, so that each number of the model is loaded once for all of them,
# and two columns at once, so that each number of the rows is loaded once for both. The eight sums
# are separate variables, since the compiler does not keep an array of them in registers.


@part
def forward(x0: Array, x1: Array, x2: Array, x3: Array, W: Array, A: Array) -> None:
    """Set A, shape (4, m), to the products of four rows (d,) with W, shape (m, d)."""
    m, d = W.shape
    for c in range(0, m - 1, 2):
        v, w = W[c], W[c + 1]
        zero = W.dtype.type(0)
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
        for k in range(d):
            a0 += x0[k] * v[k]
            a1 += x1[k] * v[k]
            a2 += x2[k] * v[k]
            a3 += x3[k] * v[k]
            b0 += x0[k] * w[k]
            b1 += x1[k] * w[k]
            b2 += x2[k] * w[k]
            b3 += x3[k] * w[k]
        A[0, c], A[1, c], A[2, c], A[3, c] = a0, a1, a2, a3
        A[0, c + 1], A[1, c + 1], A[2, c + 1], A[3, c + 1] = b0, b1, b2, b3
    if m % 2:
        _forward_last(x0, x1, x2, x3, W[m - 1], A)


@part
def _forward_last(x0: Array, x1: Array, x2: Array, x3: Array, w: Array, A: Array) -> None:
    c = A.shape[1] - 1
    a0 = a1 = a2 = a3 = w.dtype.type(0)
    for k in range(len(w)):
        a0 += x0[k] * w[k]
        a1 += x1[k] * w[k]
        a2 += x2[k] * w[k]
        a3 += x3[k] * w[k]
    A[0, c], A[1, c], A[2, c], A[3, c] = a0, a1, a2, a3


@part
def backward(x0: Array, x1: Array, x2: Array, x3: Array, S: Array, G: Array) -> None:
    """Add to G, shape (m, d), the sum of S[r, c] x_r over four rows (d,), S of shape (4, m)."""
    m, d = G.shape
    for c in range(0, m - 1, 2):
        g, h = G[c], G[c + 1]
        s0, s1, s2, s3 = S[0, c], S[1, c], S[2, c], S[3, c]
        t0, t1, t2, t3 = S[0, c + 1], S[1, c + 1], S[2, c + 1], S[3, c + 1]
        for k in range(d):
            g[k] += s0 * x0[k] + s1 * x1[k] + s2 * x2[k] + s3 * x3[k]
            h[k] += t0 * x0[k] + t1 * x1[k] + t2 * x2[k] + t3 * x3[k]
    if m % 2:
        g, c = G[m - 1], m - 1
        s0, s1, s2, s3 = S[0, c], S[1, c], S[2, c], S[3, c]
        for k in range(d):
            g[k] += s0 * x0[k] + s1 * x1[k] + s2 * x2[k] + s3 * x3[k]
