"""Loops over pieces of work and over clients, for dense and sparse rows.

Functions that differ between the two (`dense`, `sparse`) are chosen at compile time. Both take the
model w and the gradient as flat vectors, in the order of their `load`, and two buffers: A, shape
(4, m), for the products of four rows, and `o`, shape (c,), for the outputs of a perceptron.
"""

from typing import Any

import numpy as np

from fedsim.core.ports import Array
from fedsim.problems.evaluators.compiled import dense, sparse
from fedsim.problems.evaluators.compiled.compiler import (
    as_single,
    either,
    kernel,
    lent,
    matrix_at,
    part,
    single_at,
    vector_at,
)
from fedsim.problems.evaluators.compiled.drawing import sample
from fedsim.problems.evaluators.compiled.loss_functions import Block
from fedsim.problems.evaluators.compiled.pages import (
    ANCHOR,
    BATCH,
    BITS,
    CLIENT,
    DONE,
    DRAWN,
    ENDS,
    ETA,
    INFINITE,
    MODEL,
    OLD,
    OUT,
    PULL,
    RULE,
    SINGLE,
    STATE,
    STEPS,
    SUBTRACT,
    WRONG,
    Whole,
    finish,
    take,
    take_next,
)
from fedsim.problems.evaluators.compiled.rows import (
    Data,
    LossSpecification,
    MomentBuffers,
    StepRule,
    copy,
    differentiate,
    rescale,
    rows_are_there,
)
from fedsim.problems.evaluators.compiled.settings import LENGTH, Settings, settings_at

_rows = either(dense.rows_of, dense.columns_of, sparse.rows_of)
_load = either(dense.load, dense.load, sparse.load)
_unload = either(dense.unload, dense.unload, sparse.unload)
_sum_up = either(dense.sum_up, dense.sum_up, sparse.sum_up)
_step = either(dense.step, dense.step, sparse.step)
_begin = either(dense.begin, dense.begin, sparse.begin)
_end = either(dense.end, dense.end, sparse.end)
_total = either(dense.total, dense.total, sparse.total)


@part
def _piece(
    form: LossSpecification,
    data: Data,
    fields: Whole,
    numbers: Array,
    parts: Any,
) -> int:
    """Evaluate a piece of work; return its mark."""
    _, d, m, c, size, l1, l2, _ = form
    start, V, single, G, block, _ = parts
    i, b, steps = fields[CLIENT], fields[BATCH], fields[STEPS]
    n = data.rows[i]
    rows, t = _rows(data.places, data, i, d), matrix_at(data.t[i], n, c, data.like)
    # A minibatch of b of n rows is scaled by n/b: an unbiased estimate of the full gradient.
    scale = data.factor[i] * (n / b) if b else data.factor[i]
    mark = DONE
    # The gradient is evaluated at the old model first, if there is one, and then at the model; the
    # difference is taken at the end. V is the model in double precision and becomes the result; the
    # rows are multiplied with it, or with its copy in the precision of the samples.
    if steps:
        _load(rows, vector_at(fields[MODEL], size, V), V, d, m)
        mark = _descend(form, data, fields, numbers, rows, t, scale, parts)
        if mark == WRONG:
            return WRONG
    else:
        drawn = vector_at(fields[DRAWN], b, fields)
        # Checked once per piece: later accesses are not.
        if not rows_are_there(drawn, n):
            return WRONG
        for column in (OLD, MODEL):
            if fields[column]:
                # `start` is free here, as a gradient has no pull.
                if column == MODEL and fields[OLD]:
                    copy(V, start)  # the gradient at the old model
                _load(rows, vector_at(fields[column], size, V), V, d, m)
                _sum_up(rows, t, drawn, form, as_single(V, single), G, block)
                differentiate(V, G, scale, l1, l2)
        if fields[OLD]:
            for k in range(size):
                V[k] -= start[k]
    subtracted = vector_at(fields[MODEL], size if fields[SUBTRACT] else 0, V)
    if fields[SINGLE]:
        finite = _unload(rows, V, subtracted, single_at(fields[OUT], size), d, m)
    else:
        finite = _unload(rows, V, subtracted, vector_at(fields[OUT], size, V), d, m)
    return mark if finite else INFINITE


@part
def _descend(
    form: LossSpecification,
    data: Data,
    fields: Whole,
    numbers: Array,
    rows: Any,
    t: Array,
    scale: float,
    parts: Any,
) -> int:
    """Take the steps of a piece from the model in V, and store an optimizer's state; return a mark.

    The mark is `WRONG` if a drawn row does not exist, and `INFINITE` if the state is not finite.
    """
    i, b, steps, bits = fields[CLIENT], fields[BATCH], fields[STEPS], fields[BITS]
    n = data.rows[i]
    start, V = parts[0], parts[1]
    optimizer = settings_at(fields[RULE], numbers)
    # The step sizes of an optimizer follow its settings.
    rates = vector_at(fields[RULE] + 8 * LENGTH, steps if optimizer.given else 0, numbers)
    # A state begins with the number of its steps, stored as a float64 like the moments.
    before = int(vector_at(fields[STATE], 1, numbers)[0]) if fields[STATE] else 0
    rule = StepRule(
        scale, form.l1, form.l2, numbers[ETA], numbers[PULL], steps, optimizer, rates, before
    )
    if optimizer.given:
        _begin_moments(form, fields, rows, optimizer, parts[-1])
    # Marks of earlier samples stay in `place`: each step uses its own number as mark, which avoids
    # clearing it.
    # Without bits, the rows were drawn before, and both are empty.
    place, taken = np.full(n if bits else 0, -1), np.empty(b if bits else 0, np.int64)
    # `_begin` sets `start` to the model; an anchor replaces it below.
    state = _begin(rows, form, parts, rule)
    if fields[ANCHOR]:
        _load(rows, vector_at(fields[ANCHOR], form.size, V), start, form.d, form.m)
    for s in range(steps):
        if bits:
            sample(bits, place, taken, s)
            drawn = taken
        else:
            drawn = _drawn_rows(fields, s)
            if not rows_are_there(drawn, n):
                return WRONG
        if fields[ENDS]:
            # The gradient of a minibatch is scaled by its own size.
            rule = rescale(rule, data.factor[i] * (n / len(drawn)))
        _step(rows, t, drawn, form, parts, rule, state, s)
    _end(rows, form, parts, rule, state)
    if optimizer.result:
        return _keep_moments(form, fields, rows, rule, parts[-1])
    return DONE


@part
def _drawn_rows(fields: Whole, s: int) -> Whole:
    """Return the rows of step `s` of a piece; empty for all rows."""
    first, b = s * fields[BATCH], fields[BATCH]
    if fields[ENDS]:
        ends = vector_at(fields[ENDS], fields[STEPS] + 1, fields)
        first, b = ends[s], ends[s + 1] - ends[s]
    return vector_at(fields[DRAWN] + 8 * first, b, fields)  # type: ignore[no-any-return]


@part
def _begin_moments(
    form: LossSpecification,
    fields: Whole,
    rows: Any,
    optimizer: Settings,
    moments: MomentBuffers,
) -> None:
    """Set the moments to a piece's earlier state, or to a new one."""
    # The first 8 bytes of a state are the number of its steps.
    size, address = form.size, fields[STATE] + 8
    # The state is the momentum, if the rule has one, and then the mean square, if it has one.
    for held, first, V in (
        (optimizer.momenta, 0.0, moments.M),
        (optimizer.squares, optimizer.initial, moments.S),
    ):
        if held and fields[STATE]:
            _load(rows, vector_at(address, size, V), V, form.d, form.m)
            address += 8 * size
        else:
            for k in range(size):
                V[k] = first


@part
def _keep_moments(
    form: LossSpecification,
    fields: Whole,
    rows: Any,
    rule: StepRule,
    moments: MomentBuffers,
) -> int:
    """Write the state after the model of a result; return a mark."""
    optimizer, size, finite = rule.optimizer, form.size, True
    address = fields[OUT] + 8 * size
    # The number of steps continues across rounds only for rules that count it (bias correction).
    vector_at(address, 1, moments.M)[0] = rule.taken + rule.steps * optimizer.counted
    address += 8
    for held, V in ((optimizer.momenta, moments.M), (optimizer.squares, moments.S)):
        if held:
            finite &= _unload(rows, V, V[:0], vector_at(address, size, V), form.d, form.m)
            address += 8 * size
    return DONE if finite else INFINITE


@part
def _block(form: LossSpecification, room: Array) -> Block:
    """Return the buffers of a block of rows, as parts of one buffer."""
    m, c, B = form.m, form.c, form.block
    # Parts of one buffer, in the order of `Block`; `numbers_of_a_row` gives their total.
    A, T = room[: m * B].reshape(m, B), room[m * B : (m + c) * B].reshape(c, B)
    end = (m + 2 * c) * B
    O, Z = room[(m + c) * B : end].reshape(c, B), room[end : end + 2 * B].reshape(2, B)  # noqa: E741
    return Block(A, T, O, Z, room[end + 2 * B :])


@kernel
def evaluate(
    form: LossSpecification,
    data: Data,
    table: Whole,
    numbers: Array,
    marks: int,
    room: Array,
    narrow: Array,
    only: int,
    most: int,
) -> int:
    """Evaluate pending pieces of a queue, each by itself; return their number.

    Args:
        form: the specification of the losses.
        data: the samples of the clients.
        table: see `WorkQueue`.
        numbers: see `WorkQueue`.
        marks: see `WorkQueue`.
        room: a buffer of five times the length of a model.
        narrow: a buffer of the samples' type, for two models and a block.
        only: the index of a single piece, to be evaluated if pending; negative for all, in order.
        most: the largest number of pieces.
    """
    size, room, narrow = form.size, lent(room), lent(narrow)
    # `room` holds, in this order, the start, the model V, and the optimizer's H, M and S.
    H, M, S = room[2 * size : 3 * size], room[3 * size : 4 * size], room[4 * size :]
    V, moments = room[size : 2 * size], MomentBuffers(H, M, S)
    # `narrow` starts with the model and the gradient in the type of the samples.
    block = _block(form, narrow[2 * size :])
    parts = room[:size], V, narrow[:size], narrow[size : 2 * size], block, moments
    for done in range(most):
        if only < 0:
            j = take_next(marks)
            if j < 0:
                return done
        else:
            # Out of order: `take_next` later skips it, since its mark is no longer waiting.
            j = only
            if not take(marks, j):
                return done
        # The mark is stored last, after the result: a thread that sees it sees the result as well.
        finish(marks, j, _piece(form, data, table[j], numbers[j], parts))
    return most


@kernel
def values(
    form: LossSpecification, data: Data, first: int, w: Array, out: Array, narrow: Array
) -> None:
    """Set `out` to f_m(w) of the clients from `first` on, without penalties.

    `narrow` is as for `evaluate`.
    """
    size, narrow = form.size, lent(narrow)
    single, block = narrow[:size], _block(form, narrow[2 * size :])
    for j in range(len(out)):
        i = first + j
        rows = _rows(data.places, data, i, form.d)
        t = matrix_at(data.t[i], data.rows[i], form.c, data.like)
        # All clients are evaluated at one model, which is converted once.
        if j == 0:
            _load(rows, w, single, form.d, form.m)
        # The penalty is the same for all clients: `CompiledProgram.penalty` adds it.
        out[j] = data.factor[i] * _total(rows, t, form, single, block)
