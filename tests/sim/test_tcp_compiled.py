"""The compiled form of TCP: the same as the objects of it, to the last bit of all times."""

from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.physics.tcp import Tcp
from fedsim.physics.topology import star
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.tcp import worlds
from tests.sim.test_tcp_episodes import CLIENTS, TOPOLOGIES, Rounds, Start

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


def test_kernels_are_for_many_segments_and_for_what_they_know() -> None:
    made = worlds.PacketWorlds(Tcp())
    made.segments = worlds.COMPILED_FROM - 1
    world = made.make(Calendar())
    assert made.better(world) is world
    made.segments += 1
    assert made.pay
    other = worlds.PacketWorlds(Tcp(discipline="fq-codel"))
    other.segments = made.segments
    assert not other.pay
    assert other.better(world) is world


def test_what_is_simulated_as_objects_counts_its_segments() -> None:
    made = Rounds(star(CLIENTS, uplink=3e7))
    made.play([[Start(client, 0.0, 60.0) for client in range(CLIENTS)]], 1.0)
    assert made.bearers[0]._episodes._worlds.segments == CLIENTS * 61
