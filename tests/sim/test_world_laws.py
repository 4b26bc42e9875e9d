"""Laws of any world: random fleets, links, silence and moods, held against the log."""

from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import SERVER, SILENCE, Message, Silence
from fedsim.protocol.silence import SilencePolicy
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.config import WorldConfig
from fedsim.sim.members import ClientConfig
from fedsim.sim.server import SimServer
from tests.policies import silence_of
from tests.sim.devices import device_of
from tests.tiers import examples

from .links import ServerLink
from .radios import RadioModel, client_of
from .worlds import IDEAL, NO_LOSS, Row, Run, answered, asked, play, setup, work

devices = st.builds(
    device_of,
    speed=st.sampled_from([0.5, 1.0, 3.0, inf]),
    active=st.floats(2, 5),
    idle=st.just(0.0) | st.floats(1e-24, 2),  # no file says less
)
rates = st.sampled_from([16.0, 50.0, 333.3, inf])
powers = st.floats(0, 2)
radios = st.builds(
    RadioModel,
    up=rates,
    down=rates,
    latency=st.sampled_from([0.0, 0.1, 1.5]),
    energy_up=powers,
    energy_down=powers,
    base=powers,
)
members = st.builds(client_of, device=devices, radio=radios, oracle=st.just(NO_LOSS))
silences = st.one_of(
    st.just(silence_of()),
    st.builds(
        silence_of,
        beacon=st.booleans(),
        after=st.sampled_from([0.0, 0.7, 2.0, 9.0]),
        keep_late=st.booleans(),
    ),
)
stops = st.builds(
    Stop.in_si, rounds=st.integers(1, 5), time=st.sampled_from([3.0, None]), bits=st.just(2000)
)


async def moody(client: SimClient, message: Message) -> Message | Silence:
    """Work now and then, keep quiet now and then."""
    if client.rng.random() < 0.7:
        await client.compute(work(float(client.rng.integers(0, 4))))
    return SILENCE if client.rng.random() < 0.3 else answered(int(client.rng.integers(0, 99)))


async def choosy(server: SimServer) -> None:
    """Ask some of the clients, now and then twice in a round."""
    while True:
        for _ in range(int(server.rng.integers(1, 3))):
            some = [client for client in server.clients if server.rng.random() < 0.7]
            await server.exchange(asked(int(server.rng.integers(0, 99))), to=some)
        server.commit(server.initial)


worlds = st.builds(
    setup,
    st.just(choosy),
    st.just(moody),
    st.lists(members, min_size=1, max_size=4),
    seed=st.integers(0, 999),
    header_bits=st.sampled_from([0, 16]),
    server=st.builds(
        ServerLink, downlink=rates, uplink=rates, latency=st.sampled_from([0.0, 0.25])
    ),
    silence=silences,
    stop=stops,
)
laws = examples(60)


def total(rows: list[Row], *columns: str) -> Any:
    return sum(row[column] for row in rows for column in columns)


def lane(row: Row) -> tuple[str, str]:
    return row["node"], row["peer"]


def check_bits(run: Run) -> None:
    bits = ("payload_bits", "header_bits")
    flight = run.of("send", detail="in flight")
    sent, received = total(run.of("send"), *bits), total(run.of("receive"), *bits)
    assert sent == received + total(flight, *bits)
    traffic = run.world.traffic
    assert sent == traffic.bits_up + traffic.bits_down
    assert total(run.of("send", node="server"), *bits) == traffic.bits_down
    assert len(run.of("send")) == len(run.of("receive", detail=None)) + len(flight)


def check_energy(run: Run, made: WorldConfig) -> None:
    idle = sum(member.device.idle for member in made.fleet) * run.t
    at_rest = total(run.of("round") + run.of("stop"), "joules")
    assert at_rest == pytest.approx(idle, rel=1e-9, abs=1e-12)
    everything = total(run.rows, "joules")
    assert run.world.traffic.joules == pytest.approx(everything, rel=1e-9, abs=1e-12)
    for number, member in enumerate(made.fleet):
        mine = [row for row in run.rows if row["node"] == f"client-{number}"]
        metered = run.world.meters().joules[number]
        assert total(mine, "joules") == pytest.approx(metered, rel=1e-9, abs=1e-12)
        for row in mine:
            if row["event"] == "compute":
                drawn = (member.device.working() - member.device.idle) * row["duration"]
                assert row["joules"] == pytest.approx(drawn, abs=1e-12)


def check_spans(run: Run) -> None:
    """Nobody does two things of a kind at once, and each message has one sender's row."""
    assert all(before["t"] <= after["t"] for before, after in pairwise(run.rows))
    assert all(row["duration"] >= 0 for row in run.rows)
    done = [row for row in run.rows if row["event"] in {"compute", "send"}]
    kinds = {(row["event"], *lane(row)) for row in done}
    for kind in kinds:
        mine = [row for row in done if (row["event"], *lane(row)) == kind]
        spans = sorted((row["t"] - row["duration"], row["t"]) for row in mine if row["duration"])
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(spans))


def check_silence(run: Run, made: WorldConfig) -> None:
    """A client says one thing a message: it answers, or is silent, or is still at work."""
    for number in range(len(made.fleet)):
        name = f"client-{number}"
        silent = len(run.of("silent", node=name))
        said = len(run.of("send", node=name))
        beacons = len(run.of("send", node=name, message="beacon"))
        assert beacons == (silent if made.silence.beacon else 0)
        heard = len(run.of("receive", node=name, detail=None))
        assert heard - 1 <= said - beacons + silent + len(run.clients[number]._inbox or ()) <= heard


@laws
@given(worlds)
def test_laws_of_any_world(made: WorldConfig) -> None:
    run = play(made)  # which audits it
    assert run.error is None
    check_bits(run)
    check_energy(run, made)
    check_spans(run)
    check_silence(run, made)
    rounds = run.rounds
    assert [row["round"] for row in rounds] == list(range(1, len(rounds) + 1))
    assert [row["t"] for row in rounds] == run.times("round")
    up = sum(row["bits_up"] for row in rounds)
    if not run.reason.startswith("time"):  # which ends it in the middle of a round
        assert up == run.world.traffic.bits_up  # nothing is sent after the last round


@laws
@given(worlds)
def test_a_world_is_a_function_of_its_setup(made: WorldConfig) -> None:
    made = replace(made, stop=Stop(rounds=2))
    first, again = play(made), play(made)
    assert [chunk.tobytes() for chunk in first.raw] == [chunk.tobytes() for chunk in again.raw]


@laws
@given(st.lists(members, min_size=1, max_size=5), st.integers(0, 999))
def test_a_round_over_open_links_lasts_as_long_as_its_slowest_client(
    fleet: list[ClientConfig], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    operations, bits = rng.exponential(size=len(fleet)), rng.integers(1, 999, len(fleet))

    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(operations[client.id]))
        return answered(int(bits[client.id]))

    async def serve(server: SimServer) -> None:
        while True:
            await server.exchange(asked(100))
            server.commit(server.initial)

    link, stop = ServerLink(latency=0.25), Stop(rounds=3)
    run = play(setup(serve, handle, fleet, header_bits=20, server=link, stop=stop))
    slowest = max(
        2 * (member.radio.latency + 0.25)
        + 120 / member.rates.down.peak
        + member.device.seconds(operations[n], 1)
        + (bits[n] + 20) / member.rates.up.peak
        for n, member in enumerate(fleet)
    )
    assert run.times("round") == pytest.approx([slowest, 2 * slowest, 3 * slowest], rel=1e-9)


@laws
@given(st.integers(1, 5), st.integers(0, 999), silences)
def test_in_an_ideal_world_no_time_passes_and_everything_happens_in_order(
    clients: int, seed: int, silence: SilencePolicy
) -> None:
    fleet = [client_of(device_of(), IDEAL, NO_LOSS)] * clients
    silence = silence_of(beacon=False, after=0.0) if silence.closes_after < inf else silence
    run = play(setup(choosy, moody, fleet, seed=seed, silence=silence, stop=Stop(rounds=4)))
    assert {row["t"] for row in run.rows} == {0.0}
    assert run.of("late") == []
    assert not run.world.meters().bits_in_flight
    assert len(run.of("round")) == 4
    numbers = [row["round"] for row in run.rows]
    assert numbers == sorted(numbers)
    assert all(row["peer"] == "server" for row in run.of("receive") if row["node"] != "server")
    assert SERVER not in {row["node"] for row in run.rows}
