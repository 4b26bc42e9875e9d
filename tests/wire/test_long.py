"""Long vectors, which are held as they are sent, are the payloads of any other vector.

So are those that kernels have rounded as they computed them.
"""

import gc
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from fedsim.core.ports import DENSE, Work
from fedsim.problems.evaluators.compiled import program
from fedsim.problems.evaluators.compiled.evaluator import CompiledEvaluator
from fedsim.problems.evaluators.supported import compilable
from fedsim.problems.kernels import gradient, sgd_change, sgd_steps
from fedsim.wire import encode
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads.dense import Dense, LongDense, natural
from tests.problems.evaluators.test_compiled import losses_of
from tests.problems.examples import LOSSES
from tests.tiers import every, examples

LENGTH = 70_001


@every("form", list(ValueFormat))
@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_it_is_the_payload_of_all_its_values(form: ValueFormat) -> None:
    vector = np.random.default_rng(1).standard_normal(LENGTH)
    vector[:4] = np.inf, np.nan, 1e300, -0.0
    found, expected = natural(vector, DENSE, form), Dense.of(vector, form)
    assert isinstance(found, LongDense) == (form is not ValueFormat.FLOAT64)
    assert found.values.tobytes() == expected.values.tobytes()
    assert not found.values.flags.writeable
    assert found.bits == expected.bits
    assert encode(found) == encode(expected)


@pytest.mark.parametrize("length", [3, LENGTH])
def test_what_nothing_changes_is_not_copied(length: int) -> None:
    vector = np.arange(length) / 3
    view = vector.view()
    view.flags.writeable = False  # but the vector may change
    for one in (vector, view):
        found = natural(one, DENSE, ValueFormat.FLOAT64).values
        assert not np.shares_memory(found, vector)
        assert not found.flags.writeable
    vector.flags.writeable = False
    assert natural(vector, DENSE, ValueFormat.FLOAT64).values is vector
    assert ValueFormat.FLOAT32.round(vector) is not vector


def test_readers_share_what_is_kept_only_as_long_as_one_of_them_holds_it() -> None:
    payload = natural(np.arange(LENGTH) / 3, DENSE, ValueFormat.FLOAT32)
    first = payload.values
    assert payload.values is first
    copy = first.copy()
    del first
    gc.collect()
    held = [each for each in vars(payload).values() if isinstance(each, np.ndarray)]
    assert sum(each.nbytes for each in held) == 4 * LENGTH
    np.testing.assert_array_equal(payload.values, copy)


def test_what_is_in_its_format_already_is_not_copied() -> None:
    vector = np.array([1.0, np.inf, 1e-45, -0.0], np.float32)
    single: Any = vector
    assert not np.shares_memory(ValueFormat.FLOAT32.narrow(single), vector)
    vector.flags.writeable = False
    assert ValueFormat.FLOAT32.narrow(single) is vector
    wide = vector.astype(np.float64)
    for form in ValueFormat:
        found, expected = natural(single, DENSE, form), natural(wide, DENSE, form)
        assert isinstance(found, LongDense) == (form is ValueFormat.FLOAT32)
        assert encode(found) == encode(expected)
        assert found.values.tobytes() == expected.values.tobytes()
        assert found.bits == expected.bits


@examples(80)
@given(
    loss=some.sampled_from(LOSSES),
    sparse=some.booleans(),
    power=some.integers(-50, 160),
    small=some.sampled_from([1.0, 1e-38, 1e-42, 1e-60]),
    kernel=some.sampled_from([gradient, sgd_steps, sgd_change]),
    pull=some.sampled_from([None, 0.3]),
)
def test_a_kernel_rounds_as_a_message_does(
    loss: Any, sparse: bool, power: int, small: float, kernel: Any, pull: float | None
) -> None:
    losses = losses_of(loss, sparse=sparse)
    if not compilable(losses):
        return
    evaluator, rng = CompiledEvaluator(losses, 1), np.random.default_rng(power + 50)
    w = rng.standard_normal(losses[0].dimension) * 10.0**power * rng.integers(0, 2)
    steps = () if kernel is gradient else (small, (None, None), pull)
    works = [Work(kernel, client, (w, *steps), 1.0) for client in range(len(losses))]
    with patch.object(program, "SINGLES", 1):
        for work in works:
            tickets = [evaluator.submit(each) for each in (work, work._replace(single=True))]
            exact, rounded = (evaluator.result(ticket) for ticket in tickets)
            assert rounded.dtype == np.float32
            np.testing.assert_array_equal(rounded, ValueFormat.FLOAT32.narrow(exact))
            assert (np.signbit(rounded) == np.signbit(exact)).all() or np.isnan(exact).any()
            # What is finite is so before it is rounded.
            finite = [
                evaluator.finite(*each) for each in zip(tickets, (exact, rounded), strict=True)
            ]
            assert finite == [np.isfinite(exact).all()] * 2
            sheet = evaluator.submit_rows(work._replace(single=True), np.array([work.client]))
            assert sheet is not None
            group = evaluator.rows(sheet)
            assert (group is not None) == finite[0]
            if group is not None:
                assert group.tobytes() == rounded.tobytes()
