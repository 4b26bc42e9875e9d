"""The compiled form of TCP: the same as the objects of it, to the last bit of all times."""

from collections.abc import Sequence
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.addons.tcp import worlds
from fedsim.addons.tcp.bearers import Connections, bearers
from fedsim.addons.tcp.compiled import events
from fedsim.addons.tcp.compiled import layout as at
from fedsim.addons.tcp.compiled.compiler import integers_at, reals_at
from fedsim.addons.tcp.compiled.world import CompiledWorld
from fedsim.physics.network_models import Site
from fedsim.physics.radios.channel import Framing
from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import star
from fedsim.sim.engine.calendar import Calendar
from tests.addons.tcp.test_tcp_episodes import CLIENTS, TOPOLOGIES, Rounds, Start
from tests.sim.radios import law

STARTS = st.builds(
    Start,
    st.integers(0, CLIENTS - 1),
    st.one_of(st.sampled_from([0.0, 0.001, 0.02]), st.floats(0.0, 0.5)),
    st.one_of(st.sampled_from([0.0, 1.0, 7.0, 7.5, 60.0, 7000.0]), st.floats(0.0, 1500.0)),
    st.sampled_from(["waits", "waits", "waits", "looks", "stops"]),
    st.floats(0.0, 0.5),
)
NETWORKS = st.fixed_dictionaries(
    {
        "queue": st.sampled_from([5, 40, 1000]),
        "variant": st.sampled_from(["cubic", "newreno"]),
        "stack": st.sampled_from(["linux", "ns-3"]),
        "initial_window": st.sampled_from([1, 10, 30]),
    }
)


def played(
    begun: float, topology: str, network: dict[str, Any], rounds: list[list[Start]], every: float
) -> list[tuple[Any, ...]]:
    """Return all that is told of rounds, of which kernels take over after some segments."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worlds, "COMPILED_FROM", begun)
        made = Rounds(TOPOLOGIES[topology](), **network)
        told = made.play(rounds, every)
        used = any(bearer._episodes.world.compiled for bearer in made.bearers)
    assert used == (begun == 0.0 and any(rounds)) or 0.0 < begun < inf
    return told


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(sorted(TOPOLOGIES)),
    NETWORKS,
    st.lists(st.lists(STARTS, min_size=1, max_size=7), min_size=1, max_size=3),
    st.sampled_from([0.013, 0.35, 3.0]),
)
def test_kernels_tell_what_objects_do_to_the_last_bit(
    topology: str, network: dict[str, Any], rounds: list[list[Start]], every: float
) -> None:
    """All ends, what was sent again, and what is seen of messages on their way, or stopped."""
    expected = played(inf, topology, network, rounds, every)
    assert played(0.0, topology, network, rounds, every) == expected
    assert played(100.0, topology, network, rounds, every) == expected


@pytest.mark.slow
@pytest.mark.parametrize("queue", [30, 1000])
def test_many_messages_at_once_outgrow_a_buffer(queue: int) -> None:
    """Segments that are lost and sent again, and timers that are cancelled, by the hundreds."""
    rounds = [[Start(c, 0.0003 * c, 400.0 + 50 * c) for c in range(CLIENTS)]] * 2
    expected = played(inf, "star", {"queue": queue}, rounds, 0.9)
    assert played(0.0, "star", {"queue": queue}, rounds, 0.9) == expected
    if queue == 30:
        assert any(again for *_, again in expected)


@pytest.mark.parametrize("begun", [inf, pytest.param(0.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("stack", ["linux", "ns-3"])
def test_a_burst_over_idle_links_has_the_room_of_the_queue_and_one_more(
    stack: Any, begun: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Down, all SYN come to one link at once, in each round: the others are sent a second later."""
    clients, queue, begins = 12, 5, (0.37, 5.37)
    monkeypatch.setattr(worlds, "COMPILED_FROM", begun)
    calendar, arrived = Calendar(), list[float]()
    packets, rng = Framing(52, 1500), np.random.default_rng(0)
    site = Site(
        calendar=calendar,
        topology=star(clients, downlink=1e8),
        up=[law(1e9)] * clients,
        down=[law(1e9)] * clients,
        latency=[0.01 + 0.005 * client for client in range(clients)],
        framing=lambda _: packets,
    )
    tcp = Tcp(queue=queue, stack=stack, connections="new")
    _, down = bearers(site, Connections(tcp, lambda *_: rng))
    for number, begin in enumerate(begins):
        for client in range(clients):
            bits = 8 * (1000.0 + number)  # other ones, so that nothing recurs
            start = partial(down[client].start, bits, 1e9, lambda _: arrived.append(calendar.now))
            calendar.at(begin, start, client)
    calendar.run()
    assert len(arrived) == 2 * clients
    for begin in begins:
        times = np.array([each - begin for each in arrived if 0 < each - begin < 5])
        assert len(times) == clients
        assert sum(times > 1) == clients - queue - 1


def test_kernels_are_for_many_segments_and_for_what_they_know() -> None:
    made = worlds.PacketWorlds(Tcp(connections="new"))
    made.segments = worlds.COMPILED_FROM - 1
    world = made.make(Calendar())
    assert made.better(world) is world
    made.segments += 1
    assert made.pay
    other = worlds.PacketWorlds(Tcp(discipline="fq-codel", connections="new"))
    other.segments = made.segments
    assert not other.pay
    assert other.better(world) is world


def test_what_is_simulated_as_objects_counts_its_segments() -> None:
    made = Rounds(star(CLIENTS, uplink=3e7))
    made.play([[Start(client, 0.0, 60.0) for client in range(CLIENTS)]], 1.0)
    assert made.bearers[0]._episodes._worlds.segments == CLIENTS * 61


@numba.njit  # type: ignore[untyped-decorator]  # it has no types
def drained(buffer: int, at_once: int, delays: Any, times: Any, keys: Any) -> int:
    """Let some events be due, and one more after each; note when they come, and in which order."""
    W, F = integers_at(buffer), reals_at(buffer)
    pushed = taken = 0
    now = 0.0
    while pushed < len(delays) or W[at.LENGTH]:
        more = at_once if not pushed else 1
        for _ in range(min(more, len(delays) - pushed)):
            if not events.enough(W, at.SPARE, at.SPARE):
                return -1
            events.push(W, F, now + delays[pushed], at.NORMAL, at.FINISH, at.NOTHING)
            pushed += 1
        entry = W[at.HEAP]
        now, node = F[entry], W[entry + at.NODE_OF]
        times[taken], keys[taken] = now, W[entry + at.KEY]
        taken += 1
        events.drop_first(W, F)
        events.free_node(W, node)
    return taken


def in_order(at_once: int, delays: Sequence[float]) -> list[tuple[float, int]]:
    """Return the same by the heap of Python's library."""
    heap, found, now = list[tuple[float, int]](), list[tuple[float, int]](), 0.0
    for number, delay in enumerate(delays):
        heappush(heap, (now + delay, number))
        if number >= at_once - 1:
            found.append(heappop(heap))
            now = found[-1][0]
    while heap:
        found.append(heappop(heap))
    return found


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 3000),
    st.lists(st.sampled_from([0.0, 1e-6, 1e-4, 0.01, 0.2, 3.0, 1e5]), min_size=1, max_size=4),
    st.sampled_from([1, 40]),
    st.integers(0, 2**32 - 1),
)
def test_events_come_in_the_order_of_one_heap(
    at_once: int, scales: list[float], alike: int, seed: int
) -> None:
    """Whatever slices of time they are put into, and whenever these are chosen anew."""
    rng = np.random.default_rng(seed)
    count = 12_000
    phases = np.repeat(rng.choice(scales, size=6), count // 6)  # events come faster, and slower
    drawn = phases * rng.choice([1.0, *scales], size=count) * rng.random(count)
    delays = np.where(rng.random(count) < 0.5, drawn, np.ceil(alike * drawn) / alike)
    world = CompiledWorld(Tcp())
    world._grow(1 << 20)
    times, keys = np.zeros(count), np.zeros(count, np.int64)
    assert drained(world._buffer, at_once, delays, times, keys) == count
    serials = (keys - at.NORMAL) // at.KINDS
    expected = in_order(min(at_once, count), delays.tolist())
    assert list(zip(times.tolist(), serials.tolist(), strict=True)) == expected
    assert world._words[at.SLICES] == 0 or at_once >= events.MANY
