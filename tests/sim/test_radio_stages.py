"""Radios of several stages: what they log and draw, and when what is sent to them is heard."""

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import Message
from fedsim.physics.radios import RadioStage
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.sim.radios import RadioModel, connected, on_air
from tests.tiers import every, examples

from .worlds import SLOW, Run, answered, asked, fleet, play, setup, work

LISTENING = RadioStage(power=4.0, time=1.0, name="listening")
DOZING = RadioStage(power=1.0, time=5.0, cycle=2.0, name="c-drx")
PAGED = RadioStage(power=0.5, time=8.0, cycle=4.0, wake_time=1.0, wake_power=3.0, name="paging")
ASLEEP = RadioStage(cycle=100.0, wake_time=2.0, wake_power=3.0)
NARROW = RadioModel(1.0, 1.0, send=10.0, receive=5.0, stages=(LISTENING, DOZING, PAGED, ASLEEP))


def exchanges(*gaps: float, radio: RadioModel = NARROW, until: float = 300.0) -> Run:
    """Ask (1 bit), be answered at once (1 bit), and ask again so long after the answer."""

    async def serve(server: SimServer) -> None:
        for gap in (*gaps, 0.0):
            await server.exchange(asked(1))
            answer = server.now
            server.commit(server.initial)
            await asyncio.sleep(answer + gap - server.now)

    async def handle(client: SimClient, message: Message) -> Message:
        return answered(1)

    return play(setup(serve, handle, fleet((SLOW, radio)), stop=Stop.in_si(time=until)))


def of(run: Run, *events: str) -> list[tuple[str, float, float]]:
    """Return event, begin and end of the client's rows."""
    rows = (row for row in run.rows if row["node"] == "client-0" and row["event"] in events)
    return [(row["detail"] or row["event"], row["t"] - row["duration"], row["t"]) for row in rows]


def test_a_sleeping_radio_is_heard_as_the_run_begins_and_then_goes_to_rest_by_stages() -> None:
    run = exchanges(60.0)  # asked again at 64 s: it has been asleep since 18 s
    assert of(run, "promotion", "receive", "send", "tail")[:6] == [
        ("promotion", 0.0, 2.0),
        ("receive", 2.0, 3.0),
        ("send", 3.0, 4.0),
        ("listening", 4.0, 5.0),
        ("c-drx", 5.0, 10.0),
        ("paging", 10.0, 18.0),
    ]
    joules = [row["joules"] for row in run.rows if row["event"] in ("promotion", "tail")][:4]
    assert joules == [6.0, 4.0, 5.0, 4.0]
    # It hears of the second message 100 s after it fell asleep.
    assert of(run, "promotion", "receive")[2:] == [
        ("promotion", 118.0, 120.0),
        ("receive", 120.0, 121.0),
    ]


@every(
    ("gap", "begins"),
    [
        (0.5, 4.5),  # it listens
        (1.0, 5.0),  # at the very end of that, too
        (2.0, 7.0),  # connected: 2 and 4 s after 5 s
        (3.0, 7.0),
        (4.5, 9.0),
        (5.5, 15.0),  # released at 10 s, paged at 14 s, connected at 15 s
        (9.0, 15.0),
        (10.5, 19.0),  # paged for the last time at 18 s
        (14.5, 120.0),  # asleep
    ],
)
def test_a_message_down_waits_for_the_next_time_that_the_radio_listens(
    gap: float, begins: float
) -> None:
    run = exchanges(gap)
    assert of(run, "receive")[1][1] == pytest.approx(begins)


@every(("busy", "begins"), [(0.5, 3.5), (3.0, 6.0), (8.0, 12.0), (20.0, 25.0)])
def test_a_message_up_waits_for_the_resumption_alone(busy: float, begins: float) -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(busy))
        return answered(1)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(1))

    run = play(setup(serve, handle, fleet((SLOW, NARROW))))
    (send,) = of(run, "send")
    assert send[1] == pytest.approx(begins)  # computing since 3 s


def test_what_is_under_way_when_the_run_ends_waits_unheard() -> None:
    run = exchanges(60.0, until=90.0)
    server = [row for row in run.rows if row["event"] == "send" and row["node"] == "server"]
    assert [row["detail"] for row in server] == [None, "in flight"]
    assert server[1]["duration"] == 0.0
    assert len(of(run, "promotion")) == 1


times = st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 40.0])
powers = st.sampled_from([0.0, 0.25, 1.0, 2.0])
passing = st.builds(
    RadioStage,
    power=powers,
    time=st.sampled_from([0.0, 0.5, 2.0, 5.0]),
    cycle=st.sampled_from([0.0, 0.5, 1.5, 4.0]),
    wake_time=st.sampled_from([0.0, 0.5, 2.0]),
    wake_power=powers,
    name=st.sampled_from(["one", "two"]),
)
last = st.builds(RadioStage, cycle=times, wake_time=times, wake_power=powers)


@examples(100)
@given(
    st.tuples(powers, st.sampled_from([0.0, 1.0])),
    st.lists(passing, max_size=3),
    last,
    times,
    st.lists(st.tuples(times, times, st.integers(1, 8)), max_size=6),
)
def test_one_state_at_a_time_and_each_is_paid_for(
    first: tuple[float, float],
    middle: list[RadioStage],
    rest: RadioStage,
    latency: float,
    rounds: list[tuple[float, float, int]],
) -> None:
    stages = (RadioStage(*first, name="first"), *middle, rest)
    radio = RadioModel(1.0, 4.0, latency=latency, base=1.0, send=2.0, stages=stages)

    async def serve(server: SimServer) -> None:
        for gap, _, bits in rounds:
            await server.exchange(asked(bits))
            server.commit(server.initial)
            await asyncio.sleep(gap)

    async def handle(client: SimClient, message: Message) -> Message:
        _, busy, bits = rounds[client.round - 1]
        await client.compute(work(busy))
        return answered(bits)

    run = play(setup(serve, handle, fleet((SLOW, radio)), stop=Stop.in_si(time=1e4)))
    rows = [row for row in run.rows if row["node"] == "client-0"]
    spent = [row for row in rows if row["event"] in ("promotion", "tail", "send", "receive")]
    timed = sorted((row["t"] - row["duration"], row["t"]) for row in spent)
    assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(timed))
    waking = {stage.wake_power for stage in stages}
    drawn = {name: {s.power for s in stages if s.name == name} for name in ("first", "one", "two")}
    held = connected(radio)  # on the air it draws no less than that
    sending = held + on_air(radio, radio.send)
    for row in spent:
        if row["duration"] == 0:
            continue
        watts = row["joules"] / row["duration"]
        allowed = {"promotion": waking, "send": {sending}, "receive": {held}}.get(row["event"])
        allowed = drawn[row["detail"]] if allowed is None else allowed
        assert any(watts == pytest.approx(power, rel=1e-9, abs=1e-9) for power in allowed), row
