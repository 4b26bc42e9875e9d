"""Signals: integrals are exact, and `when` undoes them."""

import pickle
from math import inf, isfinite

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fedsim.physics.signals import Constant, Signal, Steps
from tests.physics.signals import SIGNALS, TIMES, VALUES, added_up, slack, steps
from tests.tiers import every

DAY = 86400.0
NIGHTS = Steps([0.0, 6 * 3600, 22 * 3600], [10.0, 0.0, 10.0], DAY)  # a charger, 22 h to 6 h


@given(SIGNALS, TIMES, st.floats(0, 1e4))
def test_an_integral_is_the_sum_of_its_pieces(signal: Signal, begin: float, span: float) -> None:
    assume(span <= 100 * getattr(signal, "period", inf))
    end = begin + span
    expected = added_up(signal, begin, end)
    tolerance = 200 * slack(signal, end)
    assert signal.integral(begin, end) == pytest.approx(expected, rel=1e-12, abs=tolerance)


@given(SIGNALS, TIMES, st.floats(0, 1e6), st.floats(0, 1e6))
def test_integrals_add_up(signal: Signal, begin: float, first: float, second: float) -> None:
    middle = begin + first
    end = middle + second
    parts = signal.integral(begin, middle) + signal.integral(middle, end)
    whole = signal.integral(begin, end)
    assert whole == pytest.approx(parts, rel=1e-12, abs=slack(signal, end))
    assert whole >= 0
    assert signal.integral(begin, begin) == 0


@given(SIGNALS, TIMES, st.floats(0, 1e12))
def test_when_undoes_the_integral(signal: Signal, begin: float, amount: float) -> None:
    end = signal.when(begin, amount)
    assert end >= begin
    if isfinite(end):
        assert signal.integral(begin, end) == pytest.approx(
            amount, rel=1e-12, abs=slack(signal, end)
        )
    elif isinstance(signal, Steps):
        horizon = begin + float(signal.times[-1]) + 1
        assert signal.average == 0
        assert signal.integral(begin, horizon) < amount + slack(signal, horizon)


@given(SIGNALS, TIMES, st.floats(0, 1e6))
def test_when_is_the_earliest_time(signal: Signal, begin: float, span: float) -> None:
    end = begin + span
    amount = signal.integral(begin, end)
    assume(amount > 0)
    reached = signal.when(begin, amount * (1 - 1e-9))
    assert reached <= end + 1e-9 * end  # however long nothing passes until the end


@given(SIGNALS, TIMES, st.lists(st.floats(0, 1e9), min_size=2, max_size=6))
def test_more_takes_longer(signal: Signal, begin: float, amounts: list[float]) -> None:
    ends = [signal.when(begin, amount) for amount in sorted(amounts)]
    assert ends == sorted(ends)


@given(steps(repeating=True), st.floats(0, 1e3), st.integers(1, 10**6))
def test_a_period_later_all_is_the_same(signal: Steps, t: float, cycles: int) -> None:
    later = t + cycles * signal.period
    margin = 1e-9 * (later + signal.offset)
    assume(signal.next_change(t) - t > margin)
    assume(t < margin or signal.next_change(t - margin) > t)
    assert signal.at(later) == signal.at(t)
    whole = signal.integral(t, later)
    expected = cycles * signal.average * signal.period
    assert whole == pytest.approx(expected, rel=1e-12, abs=slack(signal, later))


@given(steps(repeating=True), st.floats(0, 1e3), TIMES, st.floats(0, 1e3))
def test_a_shifted_signal_is_the_signal_later(
    signal: Steps, offset: float, begin: float, span: float
) -> None:
    moved, end = signal.shift(offset), begin + span
    assert moved.times is signal.times
    assert moved.values is signal.values
    assert moved.integral(begin, end) == pytest.approx(
        signal.integral(begin + offset, end + offset),
        rel=1e-12,
        abs=slack(signal, end + offset),
    )


@given(SIGNALS, TIMES)
def test_changes_come_one_by_one_and_the_value_holds_between(signal: Signal, t: float) -> None:
    for _ in range(20):
        after = signal.next_change(t)
        if after == inf:
            assert signal.at(10 * t + 1e6) == signal.at(t)
            return
        assert after > t
        assert signal.at(t) == signal.at(t + 0.5 * (after - t)) == signal.at(np.nextafter(after, 0))
        assert signal.at(after) != signal.at(t)
        t = after


@given(SIGNALS)
def test_the_peak_is_the_largest_value(signal: Signal) -> None:
    t, seen = 0.0, [signal.at(0.0)]
    while (t := signal.next_change(t)) < inf and len(seen) < 20:
        seen.append(signal.at(t))
    assert signal.peak == max(seen)


@given(VALUES, TIMES, st.floats(0, 1e6))
def test_a_constant_is_a_trace_of_one_step(value: float, t: float, span: float) -> None:
    constant = Constant(value)
    for trace in (Steps([0.0], [value]), Steps([0, 1, 2], [value] * 3, period=3.0)):
        assert trace.at(t) == constant.at(t)
        assert trace.next_change(t) == constant.next_change(t) == inf
        assert trace.integral(t, t + span) == pytest.approx(constant.integral(t, t + span))
        assert trace.average == pytest.approx(constant.average)
        assert trace.peak == constant.peak


def test_the_last_value_stays() -> None:
    signal = Steps([0, 10], [1, 3])
    assert [signal.at(t) for t in (0, 9.99, 10, 1e9)] == [1, 1, 3, 3]
    assert signal.average == 3
    assert signal.when(0, 40) == 20
    assert signal.when(5, 5) == 10


def test_a_trace_that_ends_at_zero_gives_no_more() -> None:
    signal = Steps([0, 10], [2, 0])
    assert signal.when(0, 20) == 10
    assert signal.when(0, 20.001) == inf
    assert signal.when(10, 1e-300) == inf
    assert Steps([0, 10, 20], [2, 1, 0]).when(0, 30) == 20


def test_where_nothing_passes_the_next_piece_is_waited_for() -> None:
    signal = Steps([0, 1e9], [0, 1])
    assert signal.when(0, 1e-300) == 1e9
    far = Steps([0, 1, 2], [1e12, 0, 1], period=3.0)
    assert far.when(1.5, 1e-9) >= 2  # too little to be seen beside what has passed before


def test_a_night_over_midnight_is_one_piece() -> None:
    assert NIGHTS.next_change(22 * 3600) == DAY + 6 * 3600
    assert NIGHTS.average == pytest.approx(10 / 3)
    assert NIGHTS.when(23 * 3600, 8 * 36000) == DAY + 22 * 3600 + 3600


def test_a_piece_of_no_length_at_the_end_does_not_count() -> None:
    signal = Steps([0, 6, 12], [1, 2, 99], period=12)
    assert signal.peak == 2
    assert signal.average == 1.5


def test_many_periods_ahead_cost_nothing() -> None:
    signal = Steps([0, 1], [1, 0], period=2.0)
    assert signal.when(0, 1e9) == 2e9 - 1
    assert signal.integral(0, 2e9) == 1e9


def test_values_are_plain_numbers() -> None:
    signal = Steps(np.arange(3.0), np.ones(3) * [1, 2, 1], 4.0)
    numbers = [signal.at(1), signal.integral(0, 9), signal.when(0, 9), signal.next_change(0)]
    assert {type(number) for number in [*numbers, signal.average, signal.peak]} == {float}


def test_a_signal_can_be_sent_to_another_process() -> None:
    there = pickle.loads(pickle.dumps(NIGHTS.shift(100)))
    assert there.integral(0, 1e6) == NIGHTS.shift(100).integral(0, 1e6)


@every(
    ("times", "values", "period", "seen"),
    [
        ([1, 2], [1, 1], inf, "got the first time 1.0; expected 0"),
        ([0, 2, 2], [1, 2, 3], inf, "got the time 2.0 after 2.0; times must increase"),
        ([0, 2, 1], [1, 2, 3], inf, "got the time 1.0 after 2.0; times must increase"),
        ([0, inf], [1, 2], inf, "got the time inf after 0.0; times must increase"),
        ([0, 1], [1, -2], inf, "got the value -2.0"),
        ([0, 1], [1, float("nan")], inf, "got the value nan"),
        ([0, 1], [1, inf], inf, "got the value inf"),
        ([0, 1], [1, 2], 0.5, "got the period 0.5; expected at least the last time, 1.0"),
        ([0], [1], 0.0, "got the period 0.0; expected at least the last time, 0.0"),
        ([0], [1], float("nan"), "got the period nan"),
        ([], [], inf, "at least one"),
        ([0, 1], [1], inf, "shape"),
    ],
)
def test_what_is_no_signal_is_refused(
    times: list[float], values: list[float], period: float, seen: str
) -> None:
    with pytest.raises(ValueError, match=seen):
        Steps(times, values, period)


@pytest.mark.parametrize("value", [-1.0, inf, float("nan")])
def test_what_is_no_constant_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match=f"got {value}"):
        Constant(value)


def test_what_is_shared_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        NIGHTS.values[0] = 1.0


def test_a_trace_that_ends_cannot_be_shifted() -> None:
    with pytest.raises(ValueError, match="repeating"):
        Steps([0, 1], [1, 2]).shift(1.0)


def test_the_piece_of_a_time_is_found_without_a_walk_over_the_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    count = 1000
    signal = Steps(np.arange(count), np.arange(count) % 7, count)
    begin, seen = Steps._begin, [0]

    def counted(self: Steps, cycle: int, piece: int) -> float:
        seen[0] += 1
        return begin(self, cycle, piece)

    monkeypatch.setattr(Steps, "_begin", counted)
    for t in (0.5, 400.5, 999.5, 5 * count + 1.5, 7 * count + 600.5):
        seen[0] = 0
        assert signal.at(t) == int(t) % count % 7
        assert seen[0] < 20
