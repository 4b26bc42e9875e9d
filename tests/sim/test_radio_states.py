"""Promotion and tail: the states of a radio, by hand and as laws."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Message
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.sim.radios import RadioModel, connected, on_air
from tests.tiers import examples

from .worlds import SLOW, Run, answered, asked, fleet, play, setup, work

# Promoted in 2 s at 8 W; 1 bit/s at 3 W and 1 J/bit up; a tail of 4 s at 0.5 W.
CELLULAR = RadioModel(
    up=1.0,
    down=1.0,
    energy_up=1.0,
    base=3.0,
    promotion_power=8.0,
    promotion_time=2.0,
    tail_power=0.5,
    tail_time=4.0,
)


def two_rounds(gap: float, radio: RadioModel = CELLULAR) -> Run:
    """Ask (1 bit), answer at once (2 bits), wait, and do it again."""

    async def serve(server: SimServer) -> None:
        for _ in range(2):
            await server.exchange(asked(1))
            start = server.now
            server.commit(server.initial)
            await sleep(server, start + gap)

    async def handle(client: SimClient, message: Message) -> Message:
        return answered(2)

    return play(setup(serve, handle, fleet((SLOW, radio)), stop=Stop.in_si(time=100.0)))


async def sleep(server: SimServer, until: float) -> None:
    """Let the server wait."""
    await asyncio.sleep(until - server.now)


def spans(run: Run, event: str) -> list[tuple[float, float, float]]:
    return [(row["t"] - row["duration"], row["t"], row["joules"]) for row in run.of(event)]


def test_an_idle_radio_is_promoted_before_the_first_byte() -> None:
    run = two_rounds(1.0)
    assert spans(run, "promotion") == [(0.0, 2.0, 16.0)]
    assert spans(run, "receive")[0] == (2.0, 3.0, 3.0)  # of the client
    assert spans(run, "send")[1] == (3.0, 5.0, 2 * 3.0 + 2.0)


def test_messages_closer_than_the_tail_share_one_connection() -> None:
    run = two_rounds(1.0)  # the tail costs what it lasts: 1 s between, 1 s to the end
    assert spans(run, "tail") == [(5.0, 6.0, 0.5), (9.0, 10.0, 0.5)]
    assert len(run.of("promotion")) == 1


def test_messages_farther_apart_than_the_tail_pay_it_in_full_and_are_promoted_again() -> None:
    run = two_rounds(10.0)
    assert spans(run, "tail") == [(5.0, 9.0, 2.0), (20.0, 24.0, 2.0)]
    assert spans(run, "promotion") == [(0.0, 2.0, 16.0), (15.0, 17.0, 16.0)]


def test_a_message_at_the_very_end_of_the_tail_still_finds_it_connected() -> None:
    run = two_rounds(4.0)
    assert spans(run, "tail")[0] == (5.0, 9.0, 2.0)
    assert len(run.of("promotion")) == 1


def test_the_wait_for_a_latency_holds_the_connection() -> None:
    far = RadioModel(1.0, 1.0, latency=6.0, base=3.0, tail_power=0.5, tail_time=4.0)
    run = two_rounds(1.0, far)
    # Down at 6 s, up at 13 s, down at 22 s, up at 29 s: never 4 s idle, though 6 s pass.
    assert [span[:2] for span in spans(run, "tail")] == [
        (0.0, 6.0),
        (7.0, 13.0),
        (15.0, 22.0),
        (23.0, 29.0),
        (31.0, 32.0),
    ]


def test_computing_in_between_is_tail_too() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(3.0))
        return answered(2)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(1))

    run = play(setup(serve, handle, fleet((SLOW, CELLULAR))))
    assert spans(run, "tail") == [(3.0, 6.0, 1.5)]  # the run ends with the last bit
    assert run.t == 8.0


powers = st.sampled_from([0.0, 0.25, 1.0, 2.0])
times = st.sampled_from([0.0, 0.5, 1.0, 3.0])
radios = st.builds(
    RadioModel,
    up=st.sampled_from([1.0, 4.0]),
    down=st.sampled_from([1.0, 4.0]),
    latency=times,
    energy_up=powers,
    energy_down=powers,
    base=powers,
    send=powers,
    receive=powers,
    promotion_power=powers,
    promotion_time=times,
    tail_power=powers,
    tail_time=st.sampled_from([0.5, 1.0, 3.0]),
)


@examples(100)
@given(radios, st.lists(st.tuples(times, st.integers(1, 8), st.integers(1, 8)), max_size=6))
def test_a_radio_is_in_one_state_at_a_time_and_pays_for_each(
    radio: RadioModel, rounds: list[tuple[float, int, int]]
) -> None:
    async def serve(server: SimServer) -> None:
        for pause, bits, _ in rounds:
            await server.exchange(asked(bits))
            server.commit(server.initial)
            await sleep(server, server.now + pause)

    async def handle(client: SimClient, message: Message) -> Message:
        pause, _, bits = rounds[client.round - 1]
        await client.compute(work(pause))
        return answered(bits)

    run = play(setup(serve, handle, fleet((SLOW, radio)), stop=Stop.in_si(time=1e3)))
    rows = [row for row in run.rows if row["node"] == "client-0"]
    states = ("promotion", "tail", "send", "receive")
    timed = sorted((row["t"] - row["duration"], row["t"]) for row in rows if row["event"] in states)
    assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(timed))
    held = connected(radio)
    for row in rows:
        span, bits = row["duration"], row["payload_bits"]
        joules = {
            "promotion": radio.promotion_power * span,
            "tail": radio.tail_power * span,
            "send": (held + on_air(radio, radio.send)) * span + radio.energy_up * bits,
            "receive": (held + on_air(radio, radio.receive)) * span + radio.energy_down * bits,
            "compute": 0.0,
        }[row["event"]]
        assert row["joules"] == pytest.approx(joules, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("cells", [False, True])
def test_a_radio_is_paid_until_the_end_whether_or_not_it_has_ever_sent(cells: bool) -> None:
    # One bit down in 1 s after a promotion of 2 s; who hears it still computes at the end.
    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(50.0))
        return answered(2)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(1))

    world = setup(serve, handle, fleet((SLOW, CELLULAR)), stop=Stop.in_si(time=5.5), cells=cells)
    run = play(world)
    assert spans(run, "tail") == [(3.0, 5.5, 1.25)]
    assert not [row for row in run.of("send") if row["node"] != "server"]
