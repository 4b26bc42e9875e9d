"""Rounds in arrays: the order of their events, and what sends a run back to the calendar."""

import asyncio
import gc
import json
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, ClassVar, Literal
from unittest.mock import patch

import numpy as np
import pytest

import fedsim
from fedsim.algorithms.censored import GradientDescent, Innovation, Iterate
from fedsim.core.errors import Diverged
from fedsim.core.ports import Client
from fedsim.core.streams import Streams
from fedsim.results.record.schema import ROW_DTYPE
from fedsim.sim.arrays.fits import VARIABLE
from fedsim.sim.arrays.order import EventOrder
from fedsim.sim.arrays.rows import SPENT, RowBlocks
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.world import World
from tests.campaigns.worlds.playing import _different
from tests.tiers import every

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

PROBLEM = {
    "loss": {"kind": "squared"},
    "data": {"kind": "sklearn", "name": "diabetes"},
    "split": {"kind": "contiguous", "remainder": "spread"},
    "optimum": "unknown",
}
NEW = {"connections": "new"}
LTE = {"count": 5, "device": "cortex-m7", "radio": "lte"}


def scenario(**parts: Any) -> dict[str, Any]:
    return {
        "name": "arrays",
        "problem": PROBLEM,
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": [LTE],
        "stop": {"rounds": 4},
        **parts,
    }


def both(tmp_path: Path, block: dict[str, Any], blocks: list[type] | None = None) -> list[Path]:
    """Run a scenario in arrays, and as events."""
    runs = [fedsim.run(block, out=tmp_path / "arrays", check=False, blocks=blocks or []).runs[0]]
    with patch.dict("os.environ", {VARIABLE: "events"}):
        runs += fedsim.run(block, out=tmp_path / "events", check=False, blocks=blocks or []).runs
    return runs


@pytest.mark.parametrize("seed", range(20))
def test_the_order_of_events_is_that_of_the_calendar(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:
        monkeypatch.setattr("fedsim.sim.arrays.order._AT_ONCE", 3)  # so compared in several blocks
    if seed % 4 > 1:  # so times are held as runs, all or but for those of the last events
        monkeypatch.setattr("fedsim.sim.arrays.order._MANY", 8 if seed % 8 > 3 else 1)
        monkeypatch.setattr("fedsim.sim.arrays.order._SHARE", 1)
    roots, order, calendar = 4, EventOrder(4), Calendar()
    parents, times = np.arange(roots), np.zeros(roots)
    children: dict[int, list[tuple[float, int, int]]] = {}
    for priority in (1, 1, 2, 2, 3):  # what settles an instant schedules nothing before that
        chosen = rng.integers(len(parents), size=8)
        due = times[chosen] + rng.integers(3, size=8)  # on a grid, for many ties
        numbers = order.add(due, parents[chosen], priority=priority)
        for number, parent, time in zip(numbers, parents[chosen], due, strict=True):
            children.setdefault(int(parent), []).append((time, priority, int(number)))
        parents, times = np.concatenate([parents, numbers]), np.concatenate([times, due])
    happened: list[int] = []

    def happen(number: int) -> None:
        happened.append(number)
        for time, priority, child in children.get(number, ()):
            calendar.call(time, happen, child, priority)

    for root in range(roots):
        happen(root)
    while np.isfinite(calendar.peek()):
        calendar.step()
    places = order.places()
    assert [int(number) for number in np.argsort(places)[roots:]] == happened[roots:]
    assert sorted(places) == list(range(roots + order.count))


class Pausing(GradientDescent):
    """Waits, in its third round, for something that is no work."""

    kind: Literal["pausing"] = "pausing"  # type: ignore[assignment]
    in_arrays: ClassVar[bool] = True

    async def handle(self, client: Client, message: Iterate) -> Innovation:
        """Sleep, and reply as ever."""
        if client.round == 3:
            await asyncio.sleep(2.5)
        gradient = await client.compute(client.oracle.gradient(message.theta.values))
        return Innovation(client.pack(gradient))


class Diverging(GradientDescent):
    """Diverges, in its second round, before any client has computed."""

    kind: Literal["diverging"] = "diverging"  # type: ignore[assignment]
    in_arrays: ClassVar[bool] = True

    async def handle(self, client: Client, message: Iterate) -> Innovation:
        """Diverge, or reply as ever."""
        if client.round == 2:
            raise Diverged(client.round, "as it is asked to")
        gradient = await client.compute(client.oracle.gradient(message.theta.values))
        return Innovation(client.pack(gradient))


@pytest.fixture
def restarts() -> Any:
    seen: list[int] = []
    again: Callable[[World], None] = World._start_again

    def start_again(world: World) -> None:
        seen.append(world.last_round[0])
        again(world)

    with patch.object(World, "_start_again", start_again):
        yield seen


def test_a_run_that_diverges_in_a_client_is_made_again_as_events(
    tmp_path: Path, restarts: list[int]
) -> None:
    steps = {"kind": "fedavg", "step_size": 1e120, "local_steps": 3}
    one, other = both(tmp_path, scenario(algorithm=steps))
    assert json.loads((one / "summary.json").read_text())["status"] == "diverged"
    assert len(restarts) == 1
    assert not _different(one, other)


def test_a_handler_that_waits_for_something_else_sends_the_run_back_to_events(
    tmp_path: Path, restarts: list[int]
) -> None:
    one, other = both(
        tmp_path, scenario(algorithm={"kind": "pausing", "step_size": 0.1}), [Pausing]
    )
    assert restarts == [2]
    assert not _different(one, other)


@pytest.mark.parametrize("kind", ["pausing", "gd"])
def test_grams_are_those_of_events_also_where_the_run_is_made_again(
    kind: str, tmp_path: Path, restarts: list[int]
) -> None:
    fleet = [{**LTE, "carbon": "PL"}, {**LTE, "carbon": "BR"}]
    block = scenario(algorithm={"kind": kind, "step_size": 0.1}, fleet=fleet, stop={"rounds": 9})
    one, other = both(tmp_path, block, [Pausing])
    assert restarts == ([2] if kind == "pausing" else [])
    assert (fedsim.open(one).rounds["grams"][1:] > 0).all()
    assert not _different(one, other)


@pytest.mark.slow
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_handlers_that_have_not_begun_are_closed_where_another_fails(
    tmp_path: Path, restarts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    unraisable = list[object]()
    monkeypatch.setattr("sys.unraisablehook", lambda of: unraisable.append(of.exc_value))
    method = {"kind": "diverging", "step_size": 0.1}
    one, other = both(tmp_path, scenario(algorithm=method), [Diverging])
    gc.collect()
    assert restarts == [1]
    assert not _different(one, other)
    assert not unraisable  # such as a coroutine that was never awaited


@pytest.mark.parametrize("after", ["9 h", "21 s", "0.1 s"])
def test_silence_ends_at_the_deadline_and_who_misses_it_sends_the_run_back(
    after: str, tmp_path: Path, restarts: list[int]
) -> None:
    method = {"kind": "chb", "step_size": "1/L", "momentum": 0.4, "censor": 100.0}
    parts = {"algorithm": method, "silence": {"kind": "deadline", "after": after}}
    one, other = both(tmp_path, scenario(**parts, stop={"rounds": 30}))
    assert fedsim.open(one).clients["silent"].sum()
    assert restarts == ([0] if after == "0.1 s" else [])
    assert not _different(one, other)


def test_what_a_handler_has_read_that_never_began_does_not_count(
    tmp_path: Path, restarts: list[int]
) -> None:
    method = {"kind": "chb-charge", "step_size": "1/L", "censor": 0.1}
    parts = {"algorithm": method, "silence": {"kind": "deadline", "after": "2.1 s"}}
    free = {"energy_up": "0 J/bit", "energy_down": "0 J/bit", "base": "0 W", "latency": "0 s"}
    radio = {"kind": "custom", "up": "9 bit/s", "down": "9 bit/s", **free}
    fleet = [{"count": 2, "device": "pi-4", "radio": radio}]
    one, other = both(tmp_path, scenario(**parts, fleet=fleet))
    assert restarts == [0]
    assert not _different(one, other)


def test_check_says_what_is_played_event_by_event_and_why(tmp_path: Path) -> None:
    charged = {"fleet": [{**LTE, "battery": {"charging": {"kind": "constant", "power": "1 W"}}}]}
    held = {"fleet": [{**LTE, "battery": {"charge": "40 %"}}]}
    found = fedsim.check(scenario(variants={"mains": {}, "held": held, "charged": charged}))
    assert [(each.about, each.text.partition(": ")[2]) for each in found.events] == [
        ("charged", "a battery is charged")
    ]


@every(
    ("parts", "why"),
    [
        ({"network": {"model": "tcp", "tcp": NEW}}, ""),
        ({"network": {"model": "tcp", "tcp": {"discipline": "fq-codel"}}}, "fq-codel"),
        ({"network": {"model": "tcp"}}, "connections are kept"),
        ({"network": {"model": "tcp", "tcp": NEW}, "fleet": [{**LTE, "battery": {}}]}, "batteries"),
    ],
)
def test_check_says_why_segments_are_objects(parts: dict[str, Any], why: str) -> None:
    events = fedsim.check(scenario(**parts)).events
    found = [each.text for each in events if each.key == "network.tcp"]
    assert len(found) == bool(why)
    assert all(why in each for each in found)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({}, ""),
        ({"fleet": [{**LTE, "battery": {"charge": "40 %"}}]}, ""),
        ({"participation": {"kind": "full", "quorum": "50 %"}}, "participation.quorum"),
        ({"participation": {"kind": "full", "deadline": "9 h"}}, ""),
        ({"stop": {"rounds": 4, "time": "9 s"}}, "stop.time may end a run within a round"),
        ({"network": {"server": {"uplink": "1 Mbit/s"}}}, ""),
        ({"network": {"model": "tcp"}}, "network.model tcp"),
        ({"silence": {"kind": "deadline", "after": "9 h"}}, ""),
    ],
)
def test_what_is_not_played_in_arrays_says_why(
    parts: dict[str, Any], why: str, tmp_path: Path
) -> None:
    seen: list[str] = []
    with patch("fedsim.sim.world.why_events", side_effect=_noting(seen)):
        fedsim.run(scenario(**parts), out=tmp_path, check=False)
    assert why in seen[0]
    assert bool(why) == bool(seen[0])


def _noting(seen: list[str]) -> Callable[[Any], str]:
    from fedsim.sim.arrays.fits import why_events

    def why(setup: Any) -> str:
        seen.append(why_events(setup))
        return seen[-1]

    return why


class Written:
    """Takes the place of a log."""

    def __init__(self) -> None:
        self.rows = list[Any]()

    def foresee(self, _: list[str]) -> dict[str, int]:
        return {}

    def extend(self, rows: Any) -> None:
        self.rows += rows.tolist()


@pytest.mark.parametrize("seed", range(6))
def test_rows_in_pieces_are_those_of_a_loop_over_events(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.sim.arrays.rows._AT_ONCE", int((3, 7, 1000)[seed % 3]))
    monkeypatch.setattr("fedsim.sim.arrays.rows._MANY", 2)
    rng, count = np.random.default_rng(seed), 40
    places, blocks, made = rng.permutation(count), RowBlocks(), list[dict[str, Any]]()
    for number in range(4):
        events = rng.choice(count, int(rng.integers(1, count)), replace=False)
        times = np.full(len(events), 2.5) if number % 2 else rng.uniform(size=len(events))
        times[-1] = -0.0 if seed % 2 else times[-1]  # equal to 0.0, but not to the bit
        own = {"t": times, "duration": np.zeros(len(events)), "joules": rng.uniform(size=1)}
        paid = {SPENT: rng.uniform(size=len(events))} if number == 2 else {}
        blocks.add(events, number, np.arange(len(events)), **own, **paid)
        for place, event in enumerate(events.tolist()):
            cost = float(paid[SPENT][place]) if paid else float(own["joules"][0])
            made.append({"at": places[event], "number": number, "node": place, "spent": cost})
            made[-1] |= {"t": float(times[place]), "joules": float(own["joules"][0])}
    log: Any = Written()
    spent = [x for some in blocks.in_order(places, log).write(log) for x in some.tolist()]
    expected = sorted(made, key=itemgetter("at", "number"))
    names = ROW_DTYPE.names or ()
    found = [dict(zip(names, row, strict=True)) for row in log.rows]
    assert [row["node"] for row in found] == [row["node"] for row in expected]
    assert [row["event"] for row in found] == [row["number"] for row in expected]
    for key in ("t", "joules"):
        assert (
            np.array([row[key] for row in found]).tobytes()
            == np.array([row[key] for row in expected]).tobytes()
        )
    assert spent == [row["spent"] for row in expected]


@pytest.mark.parametrize(
    ("clients", "algorithm", "why"),
    [
        (5, "gd", "5 clients are asked at once"),
        (16, "gd", ""),
        (16, "scaffold", "16 clients are asked at once"),
    ],
)
def test_rounds_of_few_clients_are_played_event_by_event(
    clients: int, algorithm: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    steps = {"step_size": 0.01} | ({"local_steps": 2} if algorithm == "scaffold" else {})
    fleet, method = [LTE | {"count": clients}], {"kind": algorithm, **steps}
    block = scenario(fleet=fleet, algorithm=method)
    assert [why in note.text for note in fedsim.check(block).events] == ([True] if why else [])
    monkeypatch.setenv(VARIABLE, "arrays")
    assert not fedsim.check(block).events


def test_times_drawn_for_many_clients_together_are_those_drawn_one_by_one(tmp_path: Path) -> None:
    slowdowns = [
        {"kind": "lognormal", "sigma": 0.5},
        {"kind": "shifted-exponential", "shift": 0.4, "rate": 2.0},
        {"kind": "none"},
    ]
    fleet = [
        LTE | {"count": 70 + place, "device": {"kind": "cortex-m7", "slowdown": slowdown}}
        for place, slowdown in enumerate(slowdowns)
    ]
    method = {"kind": "fedavg", "step_size": 1e-4, "local_steps": 3}
    some = {"kind": "uniform", "count": 80}
    made = list[int]()

    def watched(streams: Streams, purpose: str, numbers: list[int]) -> list[np.random.Generator]:
        made.append(len(numbers))
        return of_entities(streams, purpose, numbers)

    of_entities = Streams.of_entities
    with patch.object(Streams, "of_entities", watched):
        runs = both(tmp_path, scenario(fleet=fleet, algorithm=method, participation=some))
    assert max(made) >= 16  # from so many on they are seeded together
    assert sum(made) <= 141  # each has one stream, and clients of one kind draw nothing
    assert not _different(*runs)


@every("kind", ["gd", "fedavg"])
def test_malicious_clients_that_keep_silent_do_so_in_arrays_too(kind: str, tmp_path: Path) -> None:
    algorithm = {
        "kind": kind,
        "step_size": 1e-3,
        **({"local_steps": 2} if kind == "fedavg" else {}),
    }
    fleet = [LTE, {**LTE, "count": 2, "attack": "silent"}]
    one, other = both(tmp_path / kind, scenario(algorithm=algorithm, fleet=fleet))
    assert not _different(one, other)
    beacons = fedsim.open(tmp_path / kind / "arrays").clients["beacons"].tolist()
    assert beacons == [0] * 5 + [4] * 2
