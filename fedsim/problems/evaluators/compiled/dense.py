"""Sums over dense rows. A model is stored as (m, d) and its head, so that loops are contiguous.

The arguments are those of `loops`.
"""

from typing import Any, TypeAlias

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled.compiler import as_single, either, matrix_at, part
from fedsim.problems.evaluators.compiled.loss_functions import Block, slopes, value
from fedsim.problems.evaluators.compiled.optimizers import advance
from fedsim.problems.evaluators.compiled.rows import (
    Data,
    LossSpecification,
    StepRule,
    Whole,
    add_multiple,
    add_multiples,
    add_product,
    add_products,
    copy,
    load_targets,
    move,
    row_at,
    unload_flat,
)

Columns: TypeAlias = tuple[Array]
"""The features of all rows, (d, n)."""

Dense: TypeAlias = Array | Columns


@part
def rows_of(_: Whole, data: Data, i: int, d: int) -> Array:
    """Return the features of a client, shape (n, d)."""
    return matrix_at(data.x[i], data.rows[i], d, data.like)  # type: ignore[no-any-return]


@part
def columns_of(_: tuple[Whole], data: Data, i: int, d: int) -> Columns:
    """Return the features of a client that are stored by columns."""
    return (matrix_at(data.x[i], d, data.rows[i], data.like),)


@part
def load(_: Array, w: Array, V: Array, d: int, m: int) -> None:
    """Copy a model, stored as (d, m) and its head, to V."""
    # Transposed, so that the products of a row run over contiguous numbers.
    for k in range(d):
        for c in range(m):
            V[c * d + k] = w[k * m + c]
    copy(w[m * d :], V[m * d :])


@part
def unload(_: Array, V: Array, subtracted: Array, out: Array, d: int, m: int) -> bool:
    """Set `out`, stored as (d, m) and its head, to V, minus a model unless it is empty.

    Returns:
        Whether V is finite, before it is rounded to the type of `out`.
    """
    # A single column is stored alike in both orders.
    if m == 1:
        return unload_flat(V, subtracted, out)
    nonfinite = 0.0
    if len(subtracted):
        for k in range(d):
            for c in range(m):
                v = V[c * d + k] - subtracted[k * m + c]
                out[k * m + c] = v
                nonfinite += 0 * v  # see `unload_flat`
    else:
        for k in range(d):
            for c in range(m):
                out[k * m + c] = V[c * d + k]
                nonfinite += 0 * V[c * d + k]
    head = unload_flat(V[m * d :], subtracted[m * d :], out[m * d :])
    return nonfinite == 0 and head


# Operations on a block of rows. Dense rows are stored by rows, (n, d); narrow ones by columns,
# since their rows are too short for vectorised loops. Drawn rows of the latter are gathered first.


@part
def _four_rows(rows: Array, drawn: Whole, first: int) -> tuple[Array, Array, Array, Array]:
    """Return four rows from a position on, in the order of the draws if there are any."""
    n = len(rows)
    return (
        rows[row_at(drawn, first, n)],
        rows[row_at(drawn, first + 1, n)],
        rows[row_at(drawn, first + 2, n)],
        rows[row_at(drawn, first + 3, n)],
    )


@part
def _multiply_rows(
    rows: Array, drawn: Whole, first: int, count: int, W: Array, block: Block
) -> None:
    """Set A to the products of a block of rows with W, shape (m, d)."""
    A, n, even = block.A, len(rows), count // 4 * 4
    _clear(A, count)
    # Four rows at a time; up to three are left for the second loop.
    for i in range(0, even, 4):
        x0, x1, x2, x3 = _four_rows(rows, drawn, first + i)
        add_products(x0, x1, x2, x3, W, A, i)
    for i in range(even, count):
        add_product(rows[row_at(drawn, first + i, n)], W, A, i)


@part
def _collect_rows(
    rows: Array, drawn: Whole, first: int, count: int, block: Block, G: Array
) -> None:
    """Add the rows of a block, each with its slopes in A, to G, shape (m, d)."""
    A, n, even = block.A, len(rows), count // 4 * 4
    for i in range(0, even, 4):
        x0, x1, x2, x3 = _four_rows(rows, drawn, first + i)
        add_multiples(x0, x1, x2, x3, A, i, G)
    for i in range(even, count):
        add_multiple(rows[row_at(drawn, first + i, n)], A, i, G)


@part
def _multiply_columns(
    rows: Columns, drawn: Whole, first: int, count: int, W: Array, block: Block
) -> None:
    """Set A to the products of a block of rows stored by columns with W, shape (m, d)."""
    A, X, d = block.A, rows[0], W.shape[1]
    # Drawn rows are not contiguous within a column: gather them once, and use them twice.
    if len(drawn):
        gathered = block.rest[: d * A.shape[1]].reshape(d, A.shape[1])
        for k in range(d):
            x, column = X[k], gathered[k]
            for r in range(count):
                column[r] = x[row_at(drawn, first + r, len(x))]
        X, first = gathered, 0
    _clear(A, count)
    end, even = first + count, d // 4 * 4
    for k in range(0, even, 4):
        x0, x1, x2, x3 = (
            X[k, first:end],
            X[k + 1, first:end],
            X[k + 2, first:end],
            X[k + 3, first:end],
        )
        add_multiples(x0, x1, x2, x3, W, k, A)
    for k in range(even, d):
        add_multiple(X[k, first:end], W, k, A)


@part
def _collect_columns(
    rows: Columns, drawn: Whole, first: int, count: int, block: Block, G: Array
) -> None:
    """Add rows stored by columns, with their slopes in A, to G; drawn ones are gathered already."""
    A, X, d = block.A, rows[0], G.shape[1]
    # Here `add_products` and `add_multiples` swap roles: the vectors are columns, not rows.
    if len(drawn):
        # `_multiply_columns` has gathered the same rows just before.
        X, first = block.rest[: d * A.shape[1]].reshape(d, A.shape[1]), 0
    end, even = first + count, d // 4 * 4
    for k in range(0, even, 4):
        x0, x1, x2, x3 = (
            X[k, first:end],
            X[k + 1, first:end],
            X[k + 2, first:end],
            X[k + 3, first:end],
        )
        add_products(x0, x1, x2, x3, A, G, k)
    for k in range(even, d):
        add_product(X[k, first:end], A, G, k)


_multiply = either(_multiply_rows, _multiply_columns)
_collect = either(_collect_rows, _collect_columns)


@part
def _clear(A: Array, count: int) -> None:
    """Set the first `count` numbers of each row of A to 0."""
    for c in range(len(A)):
        a = A[c]
        for r in range(count):
            a[r] = 0


@part
def sum_up(
    rows: Dense,
    t: Array,
    drawn: Whole,
    form: LossSpecification,
    w: Array,
    gradient: Array,
    block: Block,
) -> None:
    """Set `gradient` to that of the sum over the drawn rows, or over all rows if none is drawn."""
    m, d = form.m, form.d
    W, head = w[: m * d].reshape(m, d), w[m * d :]
    G, to_head = gradient[: m * d].reshape(m, d), gradient[m * d :]
    gradient[:] = 0
    rows_in_all = len(drawn) or len(t)
    # Block by block: the rows of a block are still in the cache when they are used again.
    for first in range(0, rows_in_all, form.block):
        count = min(form.block, rows_in_all - first)
        _multiply(rows, drawn, first, count, W, block)
        load_targets(t, drawn, first, count, block.T)
        slopes(form.kind, count, block, head, to_head)
        _collect(rows, drawn, first, count, block, G)


@part
def begin(_: Array, form: LossSpecification, parts: Any, rule: StepRule) -> int:
    """Prepare steps from the model in V; dense rows keep nothing between steps but buffers."""
    start, V = parts[0], parts[1]
    # `start` is read for the pull, and by optimizers, which evaluate the pull in any case. Without
    # either, the copy is spared.
    if rule.pull != 0 or rule.optimizer.given:
        copy(V, start)
    return 0


@part
def step(
    rows: Array,
    t: Array,
    drawn: Whole,
    form: LossSpecification,
    parts: Any,
    rule: StepRule,
    _: int,
    s: int,
) -> None:
    """Take step `s` with the drawn rows, or all of them if none is drawn."""
    start, V, single, G, block, moments = parts
    sum_up(rows, t, drawn, form, as_single(V, single), G, block)
    # Known at run time only, but constant over a piece: the branch is cheap.
    if rule.optimizer.given:
        advance(V, start, G, moments, rule, s)
    else:
        move(V, start, G, rule)


@part
def end(_: Array, form: LossSpecification, parts: Any, rule: StepRule, __: int) -> None:
    """Do nothing: V is up to date after every step."""


@part
def total(rows: Dense, t: Array, form: LossSpecification, w: Array, block: Block) -> float:
    """Return the sum of the rows' losses."""
    m, d = form.m, form.d
    W, head, losses = w[: m * d].reshape(m, d), w[m * d :], 0.0
    none = np.empty(0, np.int64)  # no drawn rows: all of them
    for first in range(0, len(t), form.block):
        count = min(form.block, len(t) - first)
        _multiply(rows, none, first, count, W, block)
        load_targets(t, none, first, count, block.T)
        losses += value(form.kind, count, block, head)
    return losses
