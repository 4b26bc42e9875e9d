"""Sums over compressed sparse rows. A model is stored as (d, m): a row of features reads few rows.

The arguments are those of `loops`.
"""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import in_order, part, vector_at
from fedsim.problems.evaluators.compiled.loss_functions import Block, slopes, value
from fedsim.problems.evaluators.compiled.optimizers import advance
from fedsim.problems.evaluators.compiled.rows import (
    Data,
    LossSpecification,
    StepRule,
    Whole,
    copy,
    load_targets,
    row_at,
    step_of,
    unload_flat,
)

Rows: TypeAlias = tuple[Array, NDArray[np.integer], NDArray[np.integer]]
"""The stored numbers, their columns, and the offsets of the rows."""


@part
def rows_of(places: Whole, data: Data, i: int, _: int) -> Rows:
    """Return the features of a client."""
    ends = vector_at(data.ends[i], data.rows[i] + 1, data.place)
    stored = ends[data.rows[i]]
    x = vector_at(data.x[i], stored, data.like)
    return x, vector_at(places[i], stored, data.place), ends


@part
def load(_: Rows, w: Array, V: Array, d: int, m: int) -> None:
    """Copy a model to V."""
    copy(w, V)


@part
def unload(_: Rows, V: Array, subtracted: Array, out: Array, d: int, m: int) -> bool:
    """Set `out` to V, minus `subtracted` unless it is empty; return whether V is finite."""
    return unload_flat(V, subtracted, out)


@part
def _forward(x: Array, places: NDArray[np.integer], W: Array, a: Array) -> None:
    """Set `a`, shape (m,), to the product of a row with W, shape (d, m)."""
    a[:] = 0
    for p in range(len(x)):
        for c in range(len(a)):
            # The model is rounded to the precision of the rows, as the product of a dense row does.
            a[c] += x[p] * x.dtype.type(W[places[p], c])


@in_order
def _product(x: Array, places: NDArray[np.integer], W: Array) -> float:
    """Return the product of a row with W, shape (d, 1)."""
    total = x.dtype.type(0)
    for p in range(len(x)):
        # The column is never negative, which Numba would test; W may be more precise than the row.
        total += x[p] * x.dtype.type(W[np.uintp(places[p]), 0])
    return total


@in_order
def _add(x: Array, places: NDArray[np.integer], slope: float, G: Array) -> None:
    """Add a multiple of a row to G, shape (d, 1)."""
    for p in range(len(x)):
        G[np.uintp(places[p]), 0] += x[p] * slope


@part
def _multiply(rows: Rows, drawn: Whole, first: int, count: int, W: Array, block: Block) -> None:
    """Set A to the products of a block of rows with W, shape (d, m)."""
    x, places, ends = rows
    A, a = block.A, block.rest
    for i in range(count):
        row = row_at(drawn, first + i, len(ends) - 1)
        begin, end = ends[row], ends[row + 1]
        # One column is by far the most common case, and needs no inner loop.
        if len(A) == 1:
            A[0, i] = _product(x[begin:end], places[begin:end], W)
        else:
            _forward(x[begin:end], places[begin:end], W, a)
            for c in range(len(a)):
                A[c, i] = a[c]


@part
def _add_up(
    rows: Rows,
    t: Array,
    drawn: Whole,
    form: LossSpecification,
    W: Array,
    G: Array,
    block: Block,
) -> None:
    """Add the gradient of the sum over some rows, or all if none is drawn, to G, shape (d, m)."""
    x, places, ends = rows
    # On sparse rows, `rest` has room for the m products of one row, and there is no head.
    A, a, head = block.A, block.rest, block.rest[:0]
    rows_in_all = len(drawn) or len(t)
    for first in range(0, rows_in_all, form.block):
        count = min(form.block, rows_in_all - first)
        _multiply(rows, drawn, first, count, W, block)
        load_targets(t, drawn, first, count, block.T)
        slopes(form.kind, count, block, head, head)
        for i in range(count):
            row = row_at(drawn, first + i, len(t))
            begin, end = ends[row], ends[row + 1]
            if len(A) == 1:
                _add(x[begin:end], places[begin:end], A[0, i], G)
            else:
                for c in range(len(a)):
                    a[c] = A[c, i]
                for p in range(begin, end):
                    for c in range(len(a)):
                        G[places[p], c] += x[p] * a[c]


@part
def sum_up(
    rows: Rows,
    t: Array,
    drawn: Whole,
    form: LossSpecification,
    w: Array,
    gradient: Array,
    block: Block,
) -> None:
    """Set `gradient` to that of the sum over the drawn rows, or over all rows if none is drawn."""
    gradient[:] = 0
    d, m = form.d, form.m
    _add_up(rows, t, drawn, form, w.reshape(d, m), gradient.reshape(d, m), block)


# Steps on sparse rows.
#
# A step moves the coordinates that occur in its rows. By penalties and `pull` it also moves all
# others, each in a way that depends on itself alone. So a step updates the coordinates of its rows
# only. The steps that another coordinate has missed are made up for, by the very same operations,
# when a row contains it, or after the last step. The cost of a step is then proportional to the
# stored numbers of its rows, however long the model is. The gradient is 0 between steps. Rows in
# single precision are multiplied with numbers of the model that are rounded one by one: a rounded
# copy of the model would displace other data from the cache.


@part
def begin(
    rows: Rows,
    form: LossSpecification,
    parts: Any,
    rule: StepRule,
) -> NDArray[np.int32]:
    """Prepare steps from the model in V; return the number of steps each feature has taken.

    It is empty if features only change by the gradients of their rows.
    """
    start, V, G = parts[0], parts[1], parts[3]
    # Every step leaves G at 0 again, so it is cleared once, not once per step.
    G[:] = 0
    if rule.pull != 0 or rule.optimizer.given:
        copy(V, start)
    # Without penalties and pull, a coordinate moves only by gradients, and no counts are needed.
    others = rule.pull != 0 or rule.l1 != 0 or rule.l2 != 0
    return np.zeros(form.d if others and not rule.optimizer.given else 0, np.int32)


@part
def step(
    rows: Rows,
    t: Array,
    drawn: Whole,
    form: LossSpecification,
    parts: Any,
    rule: StepRule,
    taken: NDArray[np.int32],
    s: int,
) -> None:
    """Take step `s` with the drawn rows, or all of them if none is drawn."""
    start, V, _, G, block, moments = parts
    _, places, ends = rows
    d, m, n = form.d, form.m, len(ends) - 1
    # Before the gradient: the products of the rows need the present coordinates.
    # In step 0 no feature has missed a step.
    if len(taken) and s:
        for i in range(len(drawn) or n):
            row = row_at(drawn, i, n)
            for p in range(ends[row], ends[row + 1]):
                _catch_up(places[p], s, m, parts, rule, taken)
    _add_up(rows, t, drawn, form, V.reshape(d, m), G.reshape(d, m), block)
    if rule.optimizer.given:  # momentum moves all coordinates
        advance(V, start, G, moments, rule, s)
        G[:] = 0  # `_add_up` adds to it in the next step
        return
    for i in range(len(drawn) or n):
        row = row_at(drawn, i, n)
        features = places[ends[row] : ends[row + 1]]
        if len(taken) == 0:
            _move_own(features, V, G, m, rule)
        else:
            for q in range(len(features)):
                # Exactly one step, that with the gradient: these features were brought up to step s
                # above.
                _catch_up(features[q], s + 1, m, parts, rule, taken)


@part
def _move_own(places: NDArray[np.integer], V: Array, G: Array, m: int, rule: StepRule) -> None:
    """Move the features of a row by a step, if features without gradient do not change.

    Rows may share a feature: its gradient is 0 at its second occurrence.
    """
    if m == 1:
        for p in range(len(places)):
            k = np.uintp(places[p])
            V[k] = step_of(V[k], V[k], G[k], rule)
            G[k] = 0
        return
    for p in range(len(places)):
        for c in range(m * places[p], m * (places[p] + 1)):
            V[c] = step_of(V[c], V[c], G[c], rule)
            G[c] = 0


@part
def _catch_up(
    feature: int,
    s: int,
    m: int,
    parts: Any,
    rule: StepRule,
    taken: NDArray[np.int32],
) -> None:
    """Move a feature by all steps up to the s-th, the first of them with its gradient in G."""
    start, V, G = parts[0], parts[1], parts[3]
    # A feature may occur in several rows of the step.
    if taken[feature] == s:
        return
    for k in range(m * feature, m * (feature + 1)):
        # One step after another, not a closed form of several: the result has to be that of steps
        # that are not postponed, to the last bit.
        v = V[k]
        for _ in range(taken[feature], s):
            v = step_of(v, start[k] if rule.pull != 0 else v, G[k], rule)
            # Only the first missed step has a gradient; the others have penalties and pull alone.
            G[k] = 0
        V[k] = v
    taken[feature] = s


@part
def end(
    rows: Rows,
    form: LossSpecification,
    parts: Any,
    rule: StepRule,
    taken: NDArray[np.int32],
) -> None:
    """Move all features by the steps that they have not taken yet."""
    # `taken` is empty if features change only by gradients: then nothing is missing.
    for feature in range(len(taken)):
        _catch_up(feature, rule.steps, form.m, parts, rule, taken)


@part
def total(rows: Rows, t: Array, form: LossSpecification, w: Array, block: Block) -> float:
    """Return the sum of the rows' losses."""
    W, losses, none = w.reshape(form.d, form.m), 0.0, np.empty(0, np.int64)
    for first in range(0, len(t), form.block):
        count = min(form.block, len(t) - first)
        _multiply(rows, none, first, count, W, block)
        load_targets(t, none, first, count, block.T)
        losses += value(form.kind, count, block, block.rest[:0])
    return losses
