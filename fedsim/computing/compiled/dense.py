"""Sums over dense rows. A model is stored as (m, d) and its head, so that loops are contiguous.

The arguments are those of `loops`.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.computing.compiled.compiler import as_single, matrix_at, part
from fedsim.computing.compiled.loss_functions import slopes, value
from fedsim.computing.compiled.optimizers import advance
from fedsim.computing.compiled.rows import (
    Data,
    LossSpecification,
    StepRule,
    Whole,
    backward,
    copy,
    forward,
    move,
    unload_flat,
)
from fedsim.ports import Array


@part
def rows_of(_: Whole, data: Data, i: int, d: int) -> Array:
    """Return the features of a client, shape (n, d)."""
    return matrix_at(data.x[i], data.rows[i], d, data.like)  # type: ignore[no-any-return]


@part
def load(_: Array, w: Array, V: Array, d: int, m: int) -> None:
    """Copy a model, stored as (d, m) and its head, to V."""
    for k in range(d):
        for c in range(m):
            V[c * d + k] = w[k * m + c]
    copy(w[m * d :], V[m * d :])


@part
def unload(_: Array, V: Array, less: Array, out: Array, d: int, m: int) -> bool:
    """Set `out`, stored as (d, m) and its head, to V, minus a model unless that is empty.

    Returns:
        Whether all of it is finite, before it is rounded to the type of `out`.
    """
    if m == 1:
        return unload_flat(V, less, out)
    wrong = 0.0
    if len(less):
        for k in range(d):
            for c in range(m):
                v = V[c * d + k] - less[k * m + c]
                out[k * m + c] = v
                wrong += 0 * v
    else:
        for k in range(d):
            for c in range(m):
                out[k * m + c] = V[c * d + k]
                wrong += 0 * V[c * d + k]
    head = unload_flat(V[m * d :], less[m * d :], out[m * d :])
    return wrong == 0 and head


@part
def sum_up(
    rows: Array,
    t: Array,
    drawn: NDArray[np.int64],
    kind: int,
    d: int,
    m: int,
    w: Array,
    gradient: Array,
    A: Array,
    o: Array,
) -> None:
    """Set `gradient` to that of the sum over the drawn rows, or over all rows if none is drawn.

    Rows are processed in groups of four; the last one fills up an incomplete group, with slopes of
    0.
    """
    W, head = w[: m * d].reshape(m, d), w[m * d :]
    G, to_head = gradient[: m * d].reshape(m, d), gradient[m * d :]
    gradient[:] = 0
    count = len(drawn) or len(rows)
    row = np.empty(4, np.int64)
    for i in range(0, count, 4):
        left = min(4, count - i)
        for r in range(4):
            place = i + min(r, left - 1)
            row[r] = drawn[place] if len(drawn) else place
            if row[r] < 0:
                row[r] += len(rows)
        x0, x1, x2, x3 = rows[row[0]], rows[row[1]], rows[row[2]], rows[row[3]]
        forward(x0, x1, x2, x3, W, A)
        A[left:] = 0
        for r in range(left):
            slopes(kind, A[r], t[row[r]], head, to_head, o)
        backward(x0, x1, x2, x3, A, G)


@part
def begin(_: Array, form: LossSpecification, parts: Any, rule: StepRule) -> int:  # noqa: ANN401, ARG001
    """Get ready for steps from the model in V; nothing is kept between them but the buffers."""
    start, V = parts[0], parts[1]
    if rule.pull != 0 or rule.own.given:
        copy(V, start)
    return 0


@part
def step(
    rows: Array,
    t: Array,
    drawn: NDArray[np.int64],
    form: LossSpecification,
    parts: Any,  # noqa: ANN401 - buffers
    rule: StepRule,
    _: int,
    s: int,
) -> None:
    """Take step `s` with the drawn rows, or all of them if none is drawn."""
    start, V, single, G, A, o, moments = parts
    sum_up(rows, t, drawn, form.kind, form.d, form.m, as_single(V, single), G, A, o)
    if rule.own.given:
        advance(V, start, G, moments, rule, s)
    else:
        move(V, start, G, rule)


@part
def end(_: Array, form: LossSpecification, parts: Any, rule: StepRule, __: int) -> None:  # noqa: ANN401
    """Do nothing: all of V is up to date."""


@part
def total(rows: Array, t: Array, kind: int, d: int, m: int, w: Array, A: Array, o: Array) -> float:
    """Return the sum of the rows' losses."""
    W, head = w[: m * d].reshape(m, d), w[m * d :]
    losses, last = 0.0, len(rows) - 1
    for i in range(0, len(rows), 4):
        forward(
            rows[i], rows[min(i + 1, last)], rows[min(i + 2, last)], rows[min(i + 3, last)], W, A
        )
        for r in range(min(4, len(rows) - i)):
            losses += value(kind, A[r], t[i + r], head, o)
    return losses
