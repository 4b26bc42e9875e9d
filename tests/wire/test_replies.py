"""Replies in columns are those that objects would be."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from numpy.typing import NDArray

from fedsim.algorithms.averaging import NormalisedUpdate
from fedsim.core.ports import Array, Reply
from fedsim.problems.evaluators.compiled import add_rows
from fedsim.problems.evaluators.compiled.sums import BLOCK
from fedsim.wire import (
    Dense,
    ReplyColumns,
    Scalar,
    ValueFormat,
    field_payloads,
    of_round,
    senders,
    weighted_sum,
)
from fedsim.wire.payloads import rows
from fedsim.wire.payloads.rows import AddRows, DenseRows, RowPayloads

FORM = ValueFormat.FLOAT32


def both(which: list[int], length: int) -> tuple[ReplyColumns, list[Reply]]:
    """Return replies of round 3 in columns, and the same as objects.

    Args:
        which: the group of each client, from 0.
        length: of their vectors.
    """
    rng = np.random.default_rng(len(which))
    groups = np.array(which)
    places, messages, objects = np.empty(len(which), np.int32), [], dict[int, Reply]()
    for group in range(max(which) + 1):
        own = np.flatnonzero(groups == group)
        places[own] = rng.permutation(len(own))
        vectors = rng.standard_normal((max(len(own), 1), length)) * 10.0 ** rng.integers(
            -2, 3, length
        )
        taus = Scalar(np.array(float(group)), FORM)
        messages.append(NormalisedUpdate(DenseRows(vectors, FORM), taus))
        for place in own.tolist():
            one = NormalisedUpdate(Dense.of(vectors[places[place]], FORM), taus)
            objects[place] = Reply(2 * place, 3, one)
    clients = 2 * np.arange(len(which))
    columns = ReplyColumns(clients, 3, messages, groups, places)
    return columns, [objects[place] for place in range(len(which))]


@given(
    some.lists(some.integers(0, 2), min_size=1, max_size=12),
    some.integers(1, 4),
    some.integers(1, 9),
)
def test_columns_are_the_objects(which: list[int], length: int, at_once: int) -> None:
    columns, objects = both(which, length)
    assert len(columns) == len(objects)
    for one, other in zip(columns, objects, strict=True):
        assert one[:2] == other[:2]
        assert type(one.message) is type(other.message)
        assert one.message.bits == other.message.bits
        assert one.message.delta.values.tobytes() == other.message.delta.values.tobytes()
        assert one.message.tau is other.message.tau
    assert columns[-1].client == objects[-1].client
    assert [reply.client for reply in columns[1:]] == [reply.client for reply in objects[1:]]
    assert senders(columns).tolist() == senders(objects).tolist()
    weights = np.random.default_rng(1).random(len(which))
    for field in ("delta", "tau"):
        total = np.zeros_like(getattr(objects[0].message, field).values)
        for weight, reply in zip(weights, objects, strict=True):
            total = total + weight * getattr(reply.message, field).values
        with patch("fedsim.wire.payloads.rows._AT_ONCE", at_once):
            sums = [
                weighted_sum(field_payloads(each, field), weights) for each in (columns, objects)
            ]
        assert [each.tobytes() for each in sums] == 2 * [total.tobytes()]


def test_replies_of_a_round_are_found_in_either_form() -> None:
    for replies in both([0, 1, 0], 2):
        assert len(of_round(replies, 3)) == 3
        assert not of_round(replies, 2)


def test_there_is_no_reply_beyond_the_last() -> None:
    columns, _ = both([0, 0], 2)
    with pytest.raises(IndexError):
        columns[2]


SPECIAL = [0.0, -0.0, 5e-324, -1e-310, 1.5e-45, 3e38, -3.5e38, 1.7e308, np.inf, -np.inf, np.nan]
"""Zeros, numbers too small for their format, numbers whose sums exceed it, and those beyond it."""


def rows_of(
    which: list[int], length: int, form: ValueFormat, add: AddRows | None, *, special: bool = False
) -> RowPayloads:
    """Return a payload for each group in a list, a row of the group's array, in no order."""
    rng = np.random.default_rng([len(which), length])
    groups, places, sources = np.array(which), np.empty(len(which), np.int32), list[DenseRows]()
    for group in range(max(which) + 1):
        own = np.flatnonzero(groups == group)
        places[own] = rng.permutation(len(own))
        shape = max(len(own), 1), length
        vectors = rng.standard_normal(shape) * 10.0 ** rng.integers(-9, 9, length)
        if special:
            vectors = np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), vectors)
        sources.append(DenseRows(vectors, form, add))
    return RowPayloads(sources, groups, places)


@pytest.mark.parametrize("form", list(ValueFormat))
@given(
    which=some.lists(some.integers(0, 3), min_size=1, max_size=14),
    # Three threads get two coordinates each: a column alone NumPy adds in pairs.
    length=some.sampled_from([7, 64, 1001, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 5]),
    weighted=some.booleans(),
    special=some.booleans(),
    threads=some.sampled_from(["1", "3"]),
)
def test_a_compiled_sum_has_the_bits_of_a_loop(
    form: ValueFormat, which: list[int], length: int, weighted: bool, special: bool, threads: str
) -> None:
    given_rows = rows_of(which, length, form, add_rows, special=special)
    weights = np.random.default_rng(3).random(len(which)) if weighted else None
    if weights is not None and special:
        weights[-1] = 0.0
    total = np.zeros(length)
    with np.errstate(all="ignore"):
        for place, each in enumerate(given_rows):
            total += each.values if weights is None else weights[place] * each.values
        with (
            patch.multiple(rows, _COMPILED=1, _WIDE=1, _SHARED=1),
            patch.dict("os.environ", {"FEDSIM_THREADS": threads}),
        ):
            found = weighted_sum(given_rows, weights)
    # The sign and the payload of a NaN depend on the order of operands, which no format keeps.
    assert np.array_equal(np.isnan(found), np.isnan(total))
    wrong = np.isnan(total)
    assert np.where(wrong, 0, found).tobytes() == np.where(wrong, 0, total).tobytes()


def test_only_a_long_sum_of_rows_of_one_type_is_compiled() -> None:
    calls = list[int]()

    def add(
        total: Array, rows: NDArray[np.int64], like: NDArray[np.floating], factors: Array
    ) -> None:
        calls.append(len(rows))
        add_rows(total, rows, like, factors)

    short, many = rows_of([0, 1], 50, FORM, add), rows_of([0, 1] * 700, 50, FORM, add)
    weighted_sum(short)
    assert not calls
    weighted_sum(many)
    assert calls == [1400]
    # Of 16 bits, handed over by one group alone, or of two types: NumPy adds these.
    plain = rows_of([0] * 1400, 50, FORM, None)
    mixed = [*many[:700], *plain[:700]]
    half = rows_of([0] * 1400, 50, ValueFormat.FLOAT16, add)
    wide = rows_of([0, 1] * 700, 50, ValueFormat.FLOAT64, add)
    one, other = many._sources[0], wide._sources[0]
    types = RowPayloads([one, other], many._which, many._places)
    groups = RowPayloads([one, plain._sources[0]], many._which, many._places)
    for each in (mixed, half, types, groups):
        with np.errstate(over="ignore", invalid="ignore"):  # 16 bits do not hold all of them
            weighted_sum(each)
    assert calls == [1400]


def test_a_compiled_sum_is_refused_rows_that_are_not_there() -> None:
    given_rows = rows_of([0] * 1400, 50, FORM, add_rows)
    beyond = RowPayloads(given_rows._sources, given_rows._which, given_rows._places + 1)
    with pytest.raises(IndexError):
        weighted_sum(beyond)
