"""Data structures of the compiled kernels, and elementary operations on vectors.

Arrays of clients are passed as addresses, so that one call covers any number of clients without
copies. The caller that builds these tuples keeps the arrays alive.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import multiply_add, part
from fedsim.problems.evaluators.compiled.settings import Settings

Whole = NDArray[np.int64]


class LossSpecification(NamedTuple):
    """The specification that the losses of all clients share.

    The model is a matrix (d, m), row by row, followed by a head (see `loss_functions`).

    Attributes:
        kind: the number of the loss in `loss_functions`.
        d, m, c: features, columns of the model, targets per row.
        size: the length of the model, with its head.
        l1, l2: weights of the penalties.
        block: the number of rows processed together, a multiple of 4.
    """

    kind: int
    d: int
    m: int
    c: int
    size: int
    l1: float
    l2: float
    block: int


class Data(NamedTuple):
    """The samples of all clients.

    Attributes:
        x: addresses of the features: all numbers, or the stored ones of a sparse matrix.
        places, ends: addresses of the columns of stored numbers, and of the offsets of rows; an
            empty matrix for dense rows.
        t: addresses of the targets, (n, c).
        rows: the number of rows n of each client.
        factor: the factor of the sum over a client's rows in its loss.
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
        scale: the factor of the gradient of the drawn rows.
        l1, l2: weights of the penalties.
        eta, pull: see `fedsim.problems.kernels.sgd_steps`.
        steps: the number of steps.
        optimizer: the settings of an optimizer, if any.
        rates: the step sizes of the optimizer.
        taken: the steps that the optimizer's state has seen before.
    """

    scale: float
    l1: float
    l2: float
    eta: float
    pull: float
    steps: int
    optimizer: Settings
    rates: Array
    taken: int


@part
def rescale(rule: StepRule, scale: float) -> StepRule:
    """Return the rule for another number of drawn rows."""
    return StepRule(
        *(scale, rule.l1, rule.l2, rule.eta, rule.pull),
        *(rule.steps, rule.optimizer, rule.rates, rule.taken),
    )


class MomentBuffers(NamedTuple):
    """The buffers of an optimizer, each of the length of a model.

    Attributes:
        H: the full gradient.
        M, S: the state of the optimizer: momentum b or m, and mean square v.
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
        # Without a branch, so that the loop is vectorised.
        there &= -rows <= drawn[i] < rows
    return there


@part
def copy(source: Array, target: Array) -> None:
    """Copy `source` to `target`, both flat: a loop compiles much faster than a slice assignment."""
    for k in range(len(source)):
        target[k] = source[k]


# Explicit `multiply_add` fixes the rounding of a step wherever it is inlined. So `sparse` may take
# the step of a coordinate later and still get the same result.


@part
def step_of(v: float, origin: float, g: float, rule: StepRule) -> float:
    """Return a coordinate of the model after a step.

    Args:
        v: the coordinate of the model.
        origin: that of the model to which `pull` draws it.
        g: that of the gradient without scale and penalties.
        rule: the rule of the steps.
    """
    # h = scale g + l2 v + l1 sign(v) + pull (v - origin), in this order of operations.
    h = multiply_add(rule.l2, v, g * rule.scale)
    if rule.l1 != 0:
        h = multiply_add(rule.l1, np.sign(v), h)
    if rule.pull != 0:
        h = multiply_add(rule.pull, v - origin, h)
    return multiply_add(-rule.eta, h, v)


@part
def move(V: Array, start: Array, G: Array, rule: StepRule) -> None:
    """Take a step; G is the gradient without scale and penalties.

    All vectors are flat: `V`, which is updated, `start`, to which `pull` draws it, and `G`. Only
    loops without signs are vectorised, so the most common cases have separate loops.
    """
    scale, l1, l2, eta, pull = rule.scale, rule.l1, rule.l2, rule.eta, rule.pull
    # Each branch computes what `step_of` does, with the same roundings: terms that are 0 change
    # nothing.
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
def unload_flat(V: Array, subtracted: Array, out: Array) -> bool:
    """Set `out` to V, minus `subtracted` unless it is empty; return whether V is finite.

    `out` may have a narrower type and overflow although V is finite.
    """
    # The compiler must not assume that numbers are finite, or it would drop the sums below: see
    # `compiler._OPTIONS`, without `nnan` and `ninf`.
    nonfinite = 0.0
    if len(subtracted):
        for k in range(len(V)):
            v = V[k] - subtracted[k]
            out[k] = v
            # 0 * v is NaN if v is infinite or NaN, and 0 otherwise: a check without branches, which
            # is vectorised.
            nonfinite += 0 * v
    else:
        for k in range(len(V)):
            out[k] = V[k]
            nonfinite += 0 * V[k]
    return nonfinite == 0


@part
def differentiate(V: Array, G: Array, scale: float, l1: float, l2: float) -> None:
    """Set V to the subgradient of the loss at V; arguments as for `move`."""
    if l1 == 0:
        for k in range(len(V)):
            V[k] = G[k] * scale + l2 * V[k]
        return
    for k in range(len(V)):
        V[k] = G[k] * scale + l2 * V[k] + l1 * np.sign(V[k])


@part
def row_at(drawn: Whole, i: int, n: int) -> int:
    """Return the number of the i-th of the drawn rows, or of all n if none is drawn."""
    row = drawn[i] if len(drawn) else i
    # Negative numbers count from the end, as in NumPy.
    return row + n if row < 0 else row


@part
def load_targets(t: Array, drawn: Whole, first: int, count: int, T: Array) -> None:
    """Set T, shape (c, B), to the targets (n, c) of a block of rows."""
    if len(T) == 1 and len(drawn) == 0:  # a common case, whose numbers are contiguous
        targets, flat = T[0], t.reshape(len(t))
        for r in range(count):
            targets[r] = flat[first + r]
        return
    for k in range(len(T)):
        targets = T[k]
        for r in range(count):
            targets[r] = t[row_at(drawn, first + r, len(t)), k]


# Products of four vectors with others, and back.
#
# The vectors are dense rows, or columns of many rows. All loops run over contiguous numbers. Four
# vectors are processed at once, so that each number of the others is loaded once for all of them,
# and two of the others at once, so that each number of the vectors is loaded once for both. The
# eight sums are separate variables, since the compiler does not keep an array of them in registers.


@part
def add_products(x0: Array, x1: Array, x2: Array, x3: Array, W: Array, out: Array, at: int) -> None:
    """Add the products of four vectors with each row of W to four columns of `out` from `at` on.

    The rows of W may be longer than the vectors.
    """
    # Zero in the type of W: a float64 zero would widen the sums of float32 numbers.
    m, zero = len(W), W.dtype.type(0)
    # Two rows of W at a time; an odd last one follows below.
    for c in range(0, m - 1, 2):
        v, w = W[c], W[c + 1]
        a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
        for k in range(len(x0)):
            a0 += x0[k] * v[k]
            a1 += x1[k] * v[k]
            a2 += x2[k] * v[k]
            a3 += x3[k] * v[k]
            b0 += x0[k] * w[k]
            b1 += x1[k] * w[k]
            b2 += x2[k] * w[k]
            b3 += x3[k] * w[k]
        row, other = out[c, at : at + 4], out[c + 1, at : at + 4]
        row[0], row[1], row[2], row[3] = (
            row[0] + a0,
            row[1] + a1,
            row[2] + a2,
            row[3] + a3,
        )
        other[0], other[1] = other[0] + b0, other[1] + b1
        other[2], other[3] = other[2] + b2, other[3] + b3
    if m % 2:
        w = W[m - 1]
        a0 = a1 = a2 = a3 = zero
        for k in range(len(x0)):
            a0 += x0[k] * w[k]
            a1 += x1[k] * w[k]
            a2 += x2[k] * w[k]
            a3 += x3[k] * w[k]
        row = out[m - 1, at : at + 4]
        row[0], row[1], row[2], row[3] = (
            row[0] + a0,
            row[1] + a1,
            row[2] + a2,
            row[3] + a3,
        )


@part
def add_product(x: Array, W: Array, out: Array, at: int) -> None:
    """Add the products of one vector, like `add_products`."""
    for c in range(len(W)):
        w, a = W[c], W.dtype.type(0)
        for k in range(len(x)):
            a += x[k] * w[k]
        out[c, at] += a


@part
def add_multiples(x0: Array, x1: Array, x2: Array, x3: Array, S: Array, at: int, G: Array) -> None:
    """Add the multiples of four vectors by four columns of S, from `at` on, to the rows of G."""
    # Two rows of G at a time, so that each number of the vectors is loaded once for both.
    m = len(G)
    for c in range(0, m - 1, 2):
        g, h = G[c], G[c + 1]
        s0, s1, s2, s3 = S[c, at], S[c, at + 1], S[c, at + 2], S[c, at + 3]
        t0, t1, t2, t3 = S[c + 1, at], S[c + 1, at + 1], S[c + 1, at + 2], S[c + 1, at + 3]
        for k in range(len(x0)):
            g[k] += s0 * x0[k] + s1 * x1[k] + s2 * x2[k] + s3 * x3[k]
            h[k] += t0 * x0[k] + t1 * x1[k] + t2 * x2[k] + t3 * x3[k]
    if m % 2:
        g, c = G[m - 1], m - 1
        s0, s1, s2, s3 = S[c, at], S[c, at + 1], S[c, at + 2], S[c, at + 3]
        for k in range(len(x0)):
            g[k] += s0 * x0[k] + s1 * x1[k] + s2 * x2[k] + s3 * x3[k]


@part
def add_multiple(x: Array, S: Array, at: int, G: Array) -> None:
    """Add the multiples of one vector, like `add_multiples`."""
    for c in range(len(G)):
        g, s = G[c], S[c, at]
        for k in range(len(x)):
            g[k] += s * x[k]
