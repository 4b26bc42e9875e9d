"""The air around a LoRa gateway: pure ALOHA, capture, and the rule of pairs."""

from math import erfc, exp, inf, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.lorawan.air import Air, LoRaFrame
from fedsim.core.ports import Array
from fedsim.sim.engine.calendar import Calendar
from tests.tiers import every


def received(air: Air, begins: Array, seconds: float, signals: Array, channels: Any) -> Any:
    """Let frames begin at their times in the event engine; return which were received."""
    calendar, outcomes = Calendar(), np.zeros(len(begins), bool)

    def begin(number: int) -> None:
        now = calendar.now
        frame = LoRaFrame(float(signals[number]), int(channels[number]), 12, now + seconds)
        air.begin(frame, now)
        calendar.call(frame.until, end, (number, frame))

    def end(ended: tuple[int, LoRaFrame]) -> None:
        outcomes[ended[0]] = air.end(ended[1], calendar.now)

    for number, time in enumerate(begins):
        calendar.call(float(time), begin, number)
    while calendar.peek() < inf:
        calendar.step()
    return outcomes


def share_and_error(outcomes: Any) -> tuple[float, float]:
    """Return the share of successes, and its standard error by the means of 50 batches."""
    means = outcomes.astype(float).reshape(50, -1).mean(axis=1)
    return float(means.mean()), float(means.std(ddof=1) / sqrt(50))


@every("load", [0.1, 0.5, 1.0])
@every("channels", [1, 3])
def test_poisson_senders_succeed_as_in_pure_aloha(load: float, channels: int) -> None:
    """Abramson 1970: a frame succeeds with exp(-2G), G frames in the time of one, by channel."""
    rng = np.random.default_rng(7)
    frames = 20_000
    begins = rng.exponential(1 / (load * channels), frames).cumsum()
    outcomes = received(
        Air(None, None), begins, 1.0, np.zeros(frames), rng.integers(channels, size=frames)
    )
    share, error = share_and_error(outcomes)
    assert error < 0.012
    assert abs(share - exp(-2 * load)) < 4 * error


@pytest.mark.parametrize("deviation", [3.0, 8.0])
def test_two_senders_capture_by_the_normal_distribution(deviation: float) -> None:
    """Levels that differ by N(0, 2 s^2): each of two frames is received with P(N >= 6 dB)."""
    rng = np.random.default_rng(3)
    pairs = 10_000
    begins = (10.0 * np.arange(pairs)[:, None] + [0.0, 0.5]).ravel()
    signals = rng.normal(0.0, deviation, 2 * pairs)
    outcomes = received(Air(6.0, None), begins, 1.0, signals, np.zeros(2 * pairs))
    expected = 0.5 * erfc(6 / (sqrt(2) * deviation) / sqrt(2))
    both = outcomes.reshape(pairs, 2)
    assert not (both[:, 0] & both[:, 1]).any()
    error = sqrt(expected * (1 - expected) / pairs)  # one frame of each pair is independent
    assert abs(both[:, 0].mean() - expected) < 4 * error
    assert abs(both[:, 1].mean() - expected) < 4 * error


FRAMES = st.lists(
    st.tuples(
        st.integers(0, 40),  # begin
        st.integers(1, 12),  # length
        st.integers(-12, 12),  # level
        st.integers(0, 1),  # channel
        st.sampled_from([7, 12]),
    ),
    max_size=25,
)


@given(
    FRAMES,
    st.none() | st.integers(0, 8),
    st.none() | st.integers(0, 10),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5)), max_size=2),
)
def test_frames_are_lost_as_pairs_say(
    frames: list[tuple[int, int, int, int, int]],
    capture: int | None,
    isolation: int | None,
    jams: list[tuple[int, int]],
) -> None:
    """Hold the heaps against all pairs of frames, in whole seconds, where many ends coincide."""
    calendar, air = Calendar(), Air(capture, isolation if capture is not None else None)
    seen = dict[int, bool]()

    def begin(number: int) -> None:
        at, length, level, channel, spreading = frames[number]
        frame = LoRaFrame(level, channel, spreading, at + length)
        air.begin(frame, calendar.now)
        calendar.call(at + length, end, (number, frame))

    def end(ended: tuple[int, LoRaFrame]) -> None:
        seen[ended[0]] = air.end(ended[1], calendar.now)

    for number, frame in enumerate(frames):
        calendar.call(frame[0], begin, number)
    for at, length in jams:
        calendar.call(at, lambda until: air.jam(calendar.now, until), at + length)
    while calendar.peek() < inf:
        calendar.step()

    def loses(one: int, other: int) -> bool:
        begin, length, level, channel, spreading = frames[one]
        at, span, rival, place, factor = frames[other]
        if channel != place or not (at < begin + length and begin < at + span):
            return False
        if spreading == factor:
            return capture is None or level - rival < capture
        return capture is not None and isolation is not None and level - rival < -isolation

    for one, (begin_at, length, *_) in enumerate(frames):
        jammed = any(at < begin_at + length and begin_at < at + span for at, span in jams)
        lost = jammed or any(loses(one, other) for other in range(len(frames)) if other != one)
        assert seen[one] is not lost


def test_a_frame_without_a_demodulator_is_lost() -> None:
    """Nine frames of nine channels at once: a gateway of eight demodulators misses the last."""
    air = Air(6.0, None, 8)
    frames = [LoRaFrame(-100.0, channel, 7, 1.0) for channel in range(9)]
    for frame in frames:
        air.begin(frame, 0.0)
    assert [air.end(frame, 1.0) for frame in frames] == [True] * 8 + [False]
    again = LoRaFrame(-100.0, 0, 7, 3.0)
    air.begin(again, 2.0)
    assert air.end(again, 3.0)


def test_ended_frames_are_dropped() -> None:
    """A strong frame that never has to be looked at again is not kept for ever."""
    air = Air(6.0, None)
    for number in range(10_000):
        frame = LoRaFrame(float(number % 7), 0, 7, number + 0.5)
        air.begin(frame, float(number))
        assert air.end(frame, number + 0.5)
    kept = air._channels[0][7]
    assert len(kept._strongest) + len(kept._weakest) < 300
