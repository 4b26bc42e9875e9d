"""Replies in columns are those that objects would be."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fedsim.algorithms.averaging import NormalisedUpdate
from fedsim.ports import Reply
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
from fedsim.wire.payloads.rows import DenseRows

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
