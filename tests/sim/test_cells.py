"""Cells: a broadcast is transmitted once and heard by all who still listen."""

import asyncio
from math import inf

import pytest

from fedsim.core.ports import Message
from fedsim.physics.radios import LoRa
from fedsim.physics.radios.channel import Framing
from fedsim.physics.signals import Constant, Steps
from fedsim.sim.client import SimClient
from fedsim.sim.presence import Presence
from fedsim.sim.server import SimServer
from tests.policies import participation_of
from tests.sim.radios import RadioModel

from .cells import BITS, broadcast
from .links import ServerLink
from .packets import FRAMING, Scripted
from .physical import battery, gathered, member, spans, told
from .worlds import answered, asked, echo, play, setup


def test_it_is_charged_once_and_heard_by_all_at_the_rate_of_the_slowest() -> None:
    radios = [
        RadioModel(inf, rate, energy_down=0.5, receive=power)
        for rate, power in ((32.0, 1.0), (8.0, 2.0), (16.0, 3.0))
    ]
    run = broadcast([member(radio=radio) for radio in radios])
    assert told(run, "send", "node", "peer", "t", "duration", *BITS, node="server") == [
        ("server", None, 8.0, 8.0, 64, 0, 0)
    ]
    assert told(run, "receive", "node", "peer", "t", "duration", "joules", peer="server") == [
        (f"client-{n}", "server", 8.0, 8.0, 64 * 0.5 + 8.0 * power)
        for n, power in enumerate([1.0, 2.0, 3.0])
    ]
    assert run.rounds[0]["bits_down"] == 64
    meters = run.world.meters()
    assert (meters.bits_delivered, meters.bits_heard) == (64, 3 * 64)


def test_every_group_is_a_cell_of_its_own() -> None:
    slow, fast = RadioModel(inf, 8.0), RadioModel(inf, 32.0)
    members = [member(radio=slow), *[member(radio=fast, group=1)] * 2]
    run = broadcast(members, header_bits=16)
    assert told(run, "send", "t", *BITS) == [(2.5, 64, 16, 0), (10.0, 64, 16, 0)]
    assert told(run, "receive", "t", "node") == [
        (2.5, "client-1"),
        (2.5, "client-2"),
        (10.0, "client-0"),
    ]


def test_only_those_who_are_asked_listen() -> None:
    slow, fast = RadioModel(inf, 8.0, receive=1.0), RadioModel(inf, 32.0, receive=1.0)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(64), to=[1, 2])

    run = play(setup(serve, echo, [member(radio=slow), *[member(radio=fast)] * 2], cells=True))
    assert told(run, "receive", "t", "node", peer="server") == [
        (2.0, "client-1"),
        (2.0, "client-2"),
    ]
    assert run.ledger.joules.sum(axis=0).tolist() == [0.0, 0.0, 2.0, 2.0]


def test_it_waits_for_the_latency_and_the_promotion_of_the_last_listener() -> None:
    sleepy = RadioModel(
        inf,
        8.0,
        latency=1.0,
        promotion_time=2.0,
        promotion_power=5.0,
        tail_time=50.0,
        tail_power=1.0,
    )
    run = broadcast([member(radio=sleepy), member(radio=RadioModel(inf, 8.0, latency=4.0))])
    # Promoted until 2 s; the bits flow from 2 + 4 s on, for 8 s.
    assert spans(run, "receive", 0) == spans(run, "receive", 1) == [(6.0, 14.0)]
    assert spans(run, "promotion", 0) == [(0.0, 2.0)]
    assert spans(run, "tail", 0) == [(2.0, 6.0), (14.0, 64.0)]


def test_framing_is_charged_once_as_well() -> None:
    run = broadcast([member(radio=RadioModel(inf, 32.0, framing=FRAMING))] * 3, bits=100)
    assert told(run, "send", "t", *BITS) == [((100 + 64) / 32, 100, 0, 64)]
    assert told(run, "receive", *BITS) == [(100, 0, 64)] * 3


def test_who_misses_a_packet_has_missed_the_message_and_nothing_is_repeated() -> None:
    losses = Scripted(0), Scripted(1), Scripted(2)
    radios = [RadioModel(inf, 32.0, energy_down=1.0, framing=FRAMING, loss=loss) for loss in losses]
    run = broadcast([member(radio=radio) for radio in radios], bits=100)
    assert [loss.asked for loss in losses] == [[2], [2], [2]]
    assert told(run, "receive", "node", "joules", *BITS, "detail", peer="server") == [
        ("client-0", 164.0, 100, 0, 64, None),
        ("client-1", 164.0, 0, 0, 0, "lost"),
        ("client-2", 164.0, 0, 0, 0, "lost"),
    ]
    assert run.of("retransmit") == []
    assert [row["node"] for row in run.of("silent")] == ["client-0"]


def test_all_may_miss_it() -> None:
    radio = RadioModel(inf, 32.0, loss=Scripted(1, 1))
    run = broadcast([member(radio=radio)] * 2)
    assert told(run, "send", "detail") == [("lost",)]
    assert run.world.meters().bits_lost == 64


@pytest.mark.parametrize("on_mains_first", [False, True])
def test_batteries_follow_the_rate_of_a_shared_link(on_mains_first: bool) -> None:
    # Two cells share 8 bit/s: each has 4 bit/s for 16 s, which costs a listener 2 W.
    radio = RadioModel(inf, 8.0, energy_down=0.5)
    first = member(radio=radio) if on_mains_first else member(battery(100.0), radio=radio)
    quick = RadioModel(inf, 8.0)
    charges = list[float | None]()

    async def serve(server: SimServer) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(server.exchange(asked(64)))
            for _ in range(12):
                await asyncio.sleep(1.0)
                charges.append(run_client(server))

    def run_client(server: SimServer) -> float:
        presence = server._presence
        assert isinstance(presence, Presence)
        supply = presence._supplies[1]
        assert supply is not None
        return supply.share * 100.0

    members = [first, member(battery(100.0), radio=radio), member(radio=quick, group=1)]
    policy = participation_of(deadline=50.0)
    play(
        setup(
            serve, echo, members, cells=True, server=ServerLink(downlink=8.0), participation=policy
        )
    )
    assert charges == [100.0 - 2.0 * n for n in range(1, 13)]


def test_a_cell_on_lora_keeps_the_frames_and_silences_of_its_modem() -> None:
    modem = LoRa(duty=0.5)
    radio = RadioModel(inf, modem, receive=1.0, framing=Framing(13, 235))
    run = broadcast([member(radio=radio)] * 2, bits=8 * 222 * 2)
    air = modem.airtime(235)
    for row in run.of("receive"):
        assert row["duration"] == pytest.approx(3 * air, rel=1e-12)
        assert row["joules"] == pytest.approx(2 * air, rel=1e-12)


def test_a_cell_on_lora_is_silent_between_two_broadcasts() -> None:
    modem = LoRa(duty=0.25)
    radio = RadioModel(inf, modem, framing=Framing(13, 235))

    async def serve(server: SimServer) -> None:
        for _ in range(3):
            await server.exchange(asked(8 * 100))
            server.commit(server.initial)

    air = modem.airtime(113)
    run = play(setup(serve, echo, [member(radio=radio)] * 2, cells=True))
    begins = [begin for begin, _ in spans(run, "send", None)]
    assert begins == pytest.approx([0.0, 4 * air, 8 * air], rel=1e-12)


def test_traces_have_no_slowest_one_and_are_refused() -> None:
    radio = RadioModel(inf, Steps([0.0, 1.0], [1.0, 2.0], 2.0))
    with pytest.raises(TypeError, match="constant rates"):
        broadcast([member(radio=radio)])


def test_replies_go_their_own_ways() -> None:
    async def handle(client: SimClient, message: Message) -> Message:
        return answered(32)

    radio = RadioModel(8.0, 8.0)
    _, seen = gathered(handle, [member(radio=radio)] * 3, 2, cells=True)
    assert seen == [(5.0, [(n, 1) for n in range(3)]), (10.0, [(n, 2) for n in range(3)])]


def test_a_receiver_of_no_time_pays_for_none_of_an_earlier_broadcast() -> None:
    """The fourth client's radio takes no time for what it receives alone; the cell's rate does."""
    slow, quick = RadioModel(8.0, 8.0), RadioModel(inf, inf)
    receiver = RadioModel(inf, inf, receive=0.5)
    store = battery(4.0, source=Constant(3.0), charge=0.0)
    members = [member(radio=slow), member(radio=quick), member(store, radio=receiver)]

    async def serve(server: SimServer) -> None:
        await asyncio.sleep(1.0)
        await server.exchange(asked(64))
        await server.exchange(asked(64), to=[2])
        await asyncio.sleep(1.0)

    run = play(setup(serve, echo, members, cells=True))  # audited
    assert run.error is None
    paid = [row["joules"] for row in run.of("receive", node="client-2")]
    assert paid == [pytest.approx(0.5 * 8.0), 0.0]
