"""Traces: what the Trace Event Format asks for, and that they say what the log says."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedsim.results.analysis import Log, link_load, spans, write_trace
from fedsim.results.analysis.trace import INSTANTS
from tests.results.analysis.traces import SECOND, Events, kept, names, of, traced


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return kept(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Return a run in which one radio sends and receives at once, and another one is slow."""
    fleet = [{"count": 5, "radio": {"kind": "wifi", "up": "5 kbit/s", "down": "5 kbit/s"}}]
    late = {"kind": "full", "deadline": "500 ms"}
    return kept(tmp_path_factory.mktemp("runs"), fleet=fleet, participation=late)


@pytest.fixture(scope="module")
def events(run: Log, tmp_path_factory: pytest.TempPathFactory) -> Events:
    return traced(tmp_path_factory.mktemp("trace") / "trace.json", run)


@pytest.fixture(scope="module")
def crowded(busy: Log, tmp_path_factory: pytest.TempPathFactory) -> Events:
    return traced(tmp_path_factory.mktemp("trace") / "trace.json", busy)


@pytest.fixture(params=[("events", "run"), ("crowded", "busy")], ids=["run", "busy"])
def both(request: pytest.FixtureRequest) -> tuple[Events, Log]:
    """Return a trace, and the log that it is made from."""
    events, log_ = (request.getfixturevalue(name) for name in request.param)
    return events, log_


@pytest.fixture
def either(both: tuple[Events, Log]) -> Events:
    return both[0]


def by_thread(events: Events) -> Iterator[Events]:
    for thread in names(events, "thread_name", "tid"):
        yield [each for each in events if each["ph"] == "X" and each["tid"] == thread]


# -- the format ------------------------------------------------------------------------


def test_every_event_has_what_its_phase_needs(either: Events) -> None:
    needed = {
        "M": {"args"},
        "X": {"ts", "dur", "tid", "cat", "args"},
        "i": {"ts", "s", "tid", "cat"},
        "C": {"ts", "args"},
    }
    for each in either:
        assert {"name", "pid"} | needed[each["ph"]] <= set(each)
        for key in ("ts", "dur"):
            assert each.get(key, 0) >= 0
    assert {each["ph"] for each in either} == set(needed)


def test_numbers_of_threads_are_unique_and_none_is_that_of_a_process(either: Events) -> None:
    processes = names(either, "process_name", "pid")
    threads = names(either, "thread_name", "tid")
    homes = {(each["pid"], each["tid"]) for each in either if "tid" in each}
    assert len(homes) == len(threads)
    assert {thread for _, thread in homes} == set(threads)
    assert {each["pid"] for each in either} == set(processes)
    assert not set(threads) & set(processes)
    assert 0 not in {*threads, *processes}


def test_nothing_overlaps_on_a_thread(either: Events) -> None:
    """To the nanosecond, which is what a viewer makes of times."""
    for own in by_thread(either):
        end = 0
        for each in sorted(own, key=lambda each: (each["ts"], each["dur"])):
            begin = round(each["ts"] * 1000)
            assert begin >= end, each
            end = begin + round(each["dur"] * 1000)


def test_time_never_runs_back_within_a_part(either: Events) -> None:
    parts = [
        [each["ts"] for each in own]
        for own in (of(either, "X"), of(either, "i"), of(either, "X", "round"))
    ]
    counters = {(each["pid"], each["name"]) for each in either if each["ph"] == "C"}
    parts += [
        [each["ts"] for each in either if each["ph"] == "C" and (each["pid"], each["name"]) == key]
        for key in counters
    ]
    for times in parts:
        assert times == sorted(times)


# -- what it says ----------------------------------------------------------------------


def test_the_slices_are_the_spans_of_the_clients(both: tuple[Events, Log]) -> None:
    events, log_ = both
    threads = names(events, "thread_name", "tid")
    columns = ["node", "state", "begin", "end", "bits"]
    expected = sorted(
        (str(node), str(state), begin * SECOND, end * SECOND, bits)
        for node, state, begin, end, bits in zip(
            *(spans(log_.events)[name] for name in columns), strict=True
        )
    )
    found = sorted(
        (
            *(threads[each["tid"]].split()[0], each["name"]),
            *(each["ts"], each["ts"] + each["dur"]),
            each["args"].get("bits", 0),
        )
        for each in of(events, "X")
    )
    for place in (0, 1, 4):
        assert [each[place] for each in found] == [each[place] for each in expected]
    times, wanted = (np.array([each[2:4] for each in rows]) for rows in (found, expected))
    assert np.allclose(times, wanted, rtol=0, atol=2e-3)


def test_clients_stand_in_the_process_of_their_kind(events: Events, run: Log) -> None:
    assert list(names(events, "process_name", "pid").values()) == [
        "server", "0: cortex-m7, lte", "1: pi-4, wifi", "2: phone-mid, ideal",
    ]  # fmt: skip
    threads = [
        (each["pid"], each["args"]["name"]) for each in events if each["name"] == "thread_name"
    ]
    assert threads == [
        (1, "rounds"),
        *((2, f"client-{number}{track}") for number in range(3) for track in ("", " radio")),
        *((3, f"client-{number}{track}") for number in (3, 4) for track in ("", " radio")),
        (4, "client-5"), (4, "client-5 radio"),
    ]  # fmt: skip


def test_what_a_radio_does_at_once_has_a_track_of_its_own(crowded: Events) -> None:
    threads = names(crowded, "thread_name", "tid").values()
    assert {"client-0", "client-0 radio", "client-0 down"} <= set(threads)


def test_rounds_are_slices_and_marks(events: Events, run: Log) -> None:
    slices, marks = of(events, "X", "round"), of(events, "i", "round")
    rounds = run.rounds[run.rounds["round"] > 0]  # the start is no slice
    ends = rounds["t"].to_numpy() * SECOND
    assert [each["name"] for each in slices] == [f"round {number}" for number in range(1, 31)]
    assert np.allclose([each["ts"] + each["dur"] for each in slices], ends, rtol=0, atol=2e-3)
    assert np.allclose([each["ts"] for each in marks], ends, rtol=0, atol=1e-3)
    assert {each["s"] for each in marks} == {"g"}
    gaps = [each["args"]["gap"] for each in slices]
    assert np.allclose(gaps, rounds["gap"], rtol=1e-8)


def test_what_happened_to_clients_is_in_it(both: tuple[Events, Log]) -> None:
    events, log_ = both
    counts = log_.events["event"].astype(str).value_counts()
    found = pd.Series([each["name"] for each in of(events, "i")]).value_counts()
    for name in INSTANTS:
        assert found.get(name, 0) == counts.get(name, 0)
    assert found.sum() > 0


def test_counters_are_the_load_and_the_charges(events: Events, run: Log) -> None:
    load = link_load(run.events)
    for name in ("up", "down"):
        found = [each for each in events if each["name"] == f"link load {name}"]
        values = [each["args"]["bit/s"] for each in found]
        changed = load[name][load[name].diff() != 0]
        assert np.allclose(values, changed, rtol=1e-8)
        assert values[-1] == 0
    levels = run.events.dropna(subset=["state_of_charge"])
    for node in ("client-3", "client-4"):
        own: list[float] = [
            each["args"]["%"] for each in events if each["name"] == f"{node} charge"
        ]
        expected = levels.loc[levels["node"] == node, "state_of_charge"]
        assert own[0] == pytest.approx(100 * expected.iloc[0], abs=1e-3)
        assert min(own) == pytest.approx(100 * expected.min(), abs=1e-3)
        assert all(one != other for one, other in pairwise(own))
    charged = {each["name"] for each in events if each["name"].endswith("charge")}
    assert charged == {"client-3 charge", "client-4 charge"}


def test_the_same_log_makes_the_same_bytes(run: Log, tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write_trace(tmp_path / name, run)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "b.json"]
