"""The calendar: exact times, the order within an instant, and timers that are cancelled."""

from collections.abc import Generator
from math import inf, nan
from typing import Any

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st
from simpy.core import EmptySchedule

from fedsim.sim.engine.calendar import DEADLINE, NORMAL, SETTLE, Calendar, Timer
from tests.tiers import examples

Process = Generator[simpy.Event, Any, None]

moments = st.floats(min_value=0, max_value=1e12)
laws = examples(60)


@laws
@given(st.lists(moments, max_size=30))
def test_a_timer_happens_at_its_time_to_the_last_bit(times: list[float]) -> None:
    env, seen = Calendar(), list[float]()
    for moment in times:
        env.at(moment, lambda: seen.append(env.now))
    env.run()
    assert seen == sorted(times)


def test_a_time_that_no_delay_could_reach_is_reached(env: Calendar, log: list[Any]) -> None:
    now, when = 0.3, 0.9
    assert now + (when - now) != when
    env.at(now, lambda: env.at(when, lambda: log.append(env.now)))
    env.run()
    assert log == [when]


@laws
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 1.0, 2.5]), st.sampled_from([NORMAL, SETTLE, DEADLINE])),
        max_size=40,
    )
)
def test_one_instant_goes_by_priority_and_then_first_in_first_out(
    entries: list[tuple[float, int]],
) -> None:
    env, seen = Calendar(), list[tuple[float, int, int]]()
    for serial, (when, priority) in enumerate(entries):
        if serial % 2:
            env.at(when, seen.append, (when, priority, serial), priority=priority)
        else:
            env.call(when, seen.append, (when, priority, serial), priority)
    env.run()
    expected = [(when, priority, serial) for serial, (when, priority) in enumerate(entries)]
    assert seen == sorted(expected)


def test_what_is_scheduled_for_this_very_instant_comes_before_its_deadlines(
    env: Calendar, log: list[Any]
) -> None:
    env.at(1.0, log.append, "deadline", priority=DEADLINE)
    env.at(1.0, lambda: env.at(1.0, lambda: env.at(1.0, log.append, "after two steps")))
    env.run()
    assert log == ["after two steps", "deadline"]


def test_events_processes_and_timers_share_one_order(env: Calendar, log: list[Any]) -> None:
    def process(name: str) -> Process:
        yield env.timeout(1.0)
        log.append(name)

    def note(event: simpy.Event) -> None:
        log.append(event.value)

    env.process(process("process 1"))
    env.step()  # it starts, and its timeout is in the heap
    env.at(1.0, log.append, "timer 2")
    env.timeout(1.0, "event 3").callbacks.append(note)
    env.call(1.0, log.append, "call 4")
    env.process(process("process 5"))
    env.step()
    env.at(1.0, log.append, "timer 6")
    env.run()
    assert log == ["process 1", "timer 2", "event 3", "call 4", "process 5", "timer 6"]


def test_it_runs_until_a_time_or_an_event_as_simpy_does(env: Calendar, log: list[Any]) -> None:
    for moment in (1.0, 2.0, 3.0):
        env.at(moment, log.append, moment)
    env.run(until=2.0)
    assert log == [1.0]
    assert env.run(until=env.timeout(0.5, "half past")) == "half past"
    assert log == [1.0, 2.0]


def test_a_time_that_has_passed_means_now(env: Calendar, log: list[Any]) -> None:
    env.at(2.0, lambda: env.at(1.0, lambda: log.append(env.now)))
    env.at(2.0, lambda: env.at(-inf, lambda: log.append(env.now)))
    env.run()
    assert log == [2.0, 2.0]


def test_a_time_that_is_no_number_is_refused(env: Calendar) -> None:
    with pytest.raises(ValueError, match="NaN"):
        env.at(nan, print)


def test_a_cancelled_timer_neither_happens_nor_moves_the_clock(
    env: Calendar, log: list[Any]
) -> None:
    env.at(1.0, log.append, "kept")
    env.at(5.0, log.append, "cancelled").cancel()
    env.run()
    assert (env.now, log) == (1.0, ["kept"])
    with pytest.raises(EmptySchedule):
        env.step()


def test_a_cancelled_timer_is_not_what_happens_next(env: Calendar) -> None:
    early, late = env.at(1.0, print), env.at(2.0, print)
    early.cancel()
    assert env.peek() == 2.0
    late.cancel()
    assert env.peek() == inf


def test_a_timer_knows_its_time_and_whether_it_is_still_to_come(env: Calendar) -> None:
    first, second = env.at(1.0, lambda: None), env.at(2.0, lambda: None)
    assert (first.when(), first.cancelled()) == (1.0, False)
    env.step()
    assert first.cancelled()
    first.cancel()  # it has happened: nothing to do
    assert not second.cancelled()
    env.run()
    assert env.now == 2.0


def test_a_timer_may_cancel_itself_and_others_of_its_instant(env: Calendar, log: list[Any]) -> None:
    timers = list[Timer]()

    def first() -> None:
        log.append("first")
        for timer in timers:
            timer.cancel()

    timers += [env.at(1.0, first), env.at(1.0, log.append, "second")]
    env.run()
    assert log == ["first"]


@laws
@given(st.integers(0, 1000), st.integers(0, 1200))
def test_cancelling_many_changes_nothing_for_the_others(seed: int, cancelled: int) -> None:
    rng = np.random.default_rng(seed)
    env, seen, timers = Calendar(), list[int](), list[tuple[float, int, Timer]]()
    for serial in range(1200):
        when = float(rng.integers(40))
        if serial % 6 == 0:
            env.call(when, lambda _: None, None)
        if serial % 7 == 0:
            env.timeout(when)
        timers.append((when, serial, env.at(when, seen.append, serial)))
    order = rng.permutation(1200).tolist()
    for number in order[:cancelled]:
        timers[number][2].cancel()
    env.run()
    kept = sorted(timers[number][:2] for number in order[cancelled:])
    assert seen == [serial for _, serial in kept]


def test_timers_cancelled_by_one_of_them_amid_the_run_leave_the_rest_in_order(
    env: Calendar, log: list[Any]
) -> None:
    doomed = [env.at(float(n), log.append, n) for n in range(2, 4000) if n % 3]
    kept = [n for n in range(2, 4000) if not n % 3]
    for n in kept:
        env.timeout(n).callbacks.append(lambda event: log.append(event.env.now))

    def cancel_all() -> None:
        for timer in doomed:
            timer.cancel()

    env.at(1.0, cancel_all)
    env.run()
    assert log == kept


def test_the_heap_does_not_grow_with_timers_that_were_cancelled(env: Calendar) -> None:
    largest = 0
    for n in range(20_000):
        env.at(1.0 + n, print).cancel()
        largest = max(largest, len(env._queue))
    assert largest < 1000


def test_a_step_lets_one_event_of_simpy_happen_at_its_time() -> None:
    env, seen = Calendar(), list[tuple[str, float]]()
    for name, delay in (("later", 5.0), ("sooner", 2.0)):
        event = env.timeout(delay, name)
        assert event.callbacks is not None
        event.callbacks.append(lambda each: seen.append((each.value, env.now)))
    env.step()
    assert (seen, env.now) == ([("sooner", 2.0)], 2.0)
    env.step()
    assert (seen[1:], env.now) == ([("later", 5.0)], 5.0)
    with pytest.raises(EmptySchedule):
        env.step()
