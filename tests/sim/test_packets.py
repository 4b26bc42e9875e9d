"""Packets in the world, by hand: framing, what is sent again, and what is lost for good."""

from math import inf

import pytest

from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.policies import participation_of
from tests.sim.radios import RadioModel

from .packets import FRAMING, Scripted
from .physical import battery, gathered, member, spans, told
from .worlds import Run, answered, asked, echo, play, setup

BITS = "payload_bits", "header_bits", "transport_bits"


def exchange(
    radio: RadioModel, down: int, up: int, *, deadline: float = inf, **parts: object
) -> Run:
    """Hold a round: ask with so many bits, be answered with so many, and wait no longer."""

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(down))
        server.commit(server.initial)

    async def handle(client: SimClient, message: Message) -> Message:
        return answered(up)

    policy = participation_of(deadline=deadline)
    store = battery(1e6) if parts.pop("on_battery", False) else None
    parts |= {"participation": policy, "stop": Stop(rounds=1)}
    return play(setup(serve, handle, [member(store, radio=radio)], **parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("on_battery", [False, True])
def test_framing_is_charged_by_the_packet_both_ways(on_battery: bool) -> None:
    radio = RadioModel(32.0, 64.0, energy_up=1.0, energy_down=0.5, base=2.0, framing=FRAMING)
    run = exchange(radio, 96, 81, header_bits=16, on_battery=on_battery)
    # 112 bits down and 97 up are two packets each, though each is little more than one.
    assert told(run, "send", *BITS) == [(96, 16, 64), (81, 16, 64)]
    assert told(run, "receive", *BITS) == [(96, 16, 64), (81, 16, 64)]
    assert [row["duration"] for row in run.of("send")] == [176 / 64, 161 / 32]
    ((down,), (up,)) = (
        told(run, "receive", "joules", node="client-0"),
        told(run, "send", "joules", node="client-0"),
    )
    assert (down, up) == ((176 * 0.5 + 2.0 * 176 / 64,), (161 * 1.0 + 2.0 * 161 / 32,))
    assert (run.rounds[0]["bits_down"], run.rounds[0]["bits_up"]) == (176, 161)


def test_a_header_alone_is_a_packet_and_nothing_at_all_is_none() -> None:
    async def quiet(client: SimClient, message: Message) -> Silence:
        return SILENCE

    radio = RadioModel(32.0, 32.0, framing=FRAMING)
    run, _ = gathered(quiet, [member(radio=radio)], 1, header_bits=16)
    assert told(run, "send", *BITS, message="beacon") == [(0, 16, 32)]
    run, _ = gathered(quiet, [member(radio=radio)], 1, header_bits=0)
    assert told(run, "send", *BITS, message="beacon") == [(0, 0, 0)]


def test_what_is_lost_is_sent_again_at_the_cost_of_bits_time_and_energy() -> None:
    # 4 packets of 128 bits; 2 are lost, then 1 of those, then none: 3 more transmissions.
    loss = Scripted(0, 2, 1)  # the first answer is the downlink's
    radio = RadioModel(128.0, inf, energy_up=0.25, base=2.0, framing=FRAMING, loss=loss)
    run = exchange(radio, 8, 4 * 96)
    assert loss.asked == [1, 4, 2, 1]
    assert told(run, "send", *BITS, node="client-0") == [(4 * 96, 0, 4 * 32)]
    assert told(run, "retransmit", *BITS) == [(0, 0, 3 * 128)]
    # All of it takes 7 s, of which 3 are the repetition's, and each second costs 34 J.
    assert spans(run, "receive", None) == [(0.0, 7.0)]
    (first,), (again,) = run.of("send", node="client-0"), run.of("retransmit")
    assert (first["duration"], again["duration"]) == pytest.approx((4.0, 3.0), rel=1e-12)
    assert (first["joules"], again["joules"]) == pytest.approx((4 * 34.0, 3 * 34.0), rel=1e-12)
    assert run.rounds[0]["bits_up"] == 7 * 128
    assert run.world.meters().bits_lost == 3 * 128


def test_a_client_pays_for_what_it_hears_again() -> None:
    loss = Scripted(1)
    radio = RadioModel(inf, 128.0, energy_down=0.25, receive=1.0, framing=FRAMING, loss=loss)
    run = exchange(radio, 2 * 96, 8)
    assert told(run, "retransmit", "node", "peer", "joules") == [("server", "client-0", 0.0)]
    assert told(run, "receive", "duration", "joules", node="client-0") == [(3.0, 3 * 33.0)]
    assert run.rounds[0]["bits_down"] == 3 * 128


def test_an_uplink_that_is_lost_for_good_is_told_to_the_algorithm_and_to_nobody_else() -> None:
    loss = Scripted(0, 1, 1)
    radio = RadioModel(128.0, inf, energy_up=0.5, framing=FRAMING, loss=loss, tries=2)
    run = exchange(radio, 8, 2 * 96, deadline=5.0)
    assert loss.asked == [1, 2, 1]
    assert told(run, "send", "t", "detail", node="client-0") == [(3.0, "lost")]
    assert told(run, "lost", "t", "node", "peer", *BITS, "detail") == [
        (3.0, "client-0", "server", 192, 0, 64, "lost")
    ]
    assert run.of("receive", node="server") == []
    assert sum(row["joules"] for row in run.rows) == 3 * 64.0
    # The server learns of it by its deadline: no client has answered, so the round is no step.
    assert run.times("round") == run.times("abandoned") == [5.0]
    ((when, message),) = run.clients[0].state.taken_back
    assert (when, message.label) == (3.0, "answer")
    assert run.world.meters().bits_lost == 3 * 128


def test_a_downlink_that_is_lost_for_good_never_reaches_the_handler() -> None:
    radio = RadioModel(inf, 128.0, energy_down=0.5, framing=FRAMING, loss=Scripted(2), tries=1)
    run = exchange(radio, 2 * 96, 8, deadline=5.0)
    assert told(run, "send", "t", "node", "detail") == [(2.0, "server", "lost")]
    assert told(run, "receive", "node", "joules", *BITS, "detail") == [
        ("client-0", 128.0, 0, 0, 0, "lost")
    ]
    assert told(run, "lost", "node", *BITS) == [("server", 192, 0, 64)]
    assert (run.of("retransmit"), run.times("round")) == ([], [5.0])
    assert run.times("abandoned") == [5.0]
    assert run.clients[0].state.taken_back == []


def test_a_beacon_that_is_lost_is_nothing_to_take_back() -> None:
    async def quiet(client: SimClient, message: Message) -> Silence:
        return SILENCE

    radio = RadioModel(128.0, inf, framing=FRAMING, loss=Scripted(0, 1), tries=1)
    policy = participation_of(deadline=5.0)
    run, seen = gathered(quiet, [member(radio=radio)], 1, header_bits=16, participation=policy)
    # No beacon has come by 5 s: the server asks again, and the second one arrives.
    assert run.times("abandoned") == [5.0]
    assert seen == [(5.0 + 48 / 128, [])]
    assert told(run, "lost", "t", "message") == [(48 / 128, "beacon")]
    assert run.clients[0].state.taken_back == []


def test_a_message_without_a_bit_cannot_be_lost() -> None:
    radio = RadioModel(8.0, 8.0, framing=FRAMING, loss=Scripted(1, 1, 1), tries=1)
    run = exchange(radio, 0, 0)
    assert (run.of("lost"), run.t) == ([], 0.0)


@pytest.mark.parametrize("on_battery", [False, True])
def test_a_message_that_is_under_way_at_the_end_has_sent_what_it_will_repeat(
    on_battery: bool,
) -> None:
    radio = RadioModel(128.0, inf, energy_up=1.0, framing=FRAMING, loss=Scripted(0, 1))
    run = exchange(radio, 8, 96, deadline=0.5, on_battery=on_battery)
    # 256 bits would take 2 s; half a second of them has been paid for.
    assert told(run, "send", *BITS, "joules", "detail", node="client-0") == [
        (96, 0, 32, 64.0, "in flight")
    ]
    assert told(run, "retransmit", *BITS) == [(0, 0, 128)]
    meters = run.world.meters()
    assert (meters.bits_in_flight, meters.bits_lost) == (128, 128)


def test_repetition_is_drawn_anew_for_every_message_and_in_turn() -> None:
    loss = Scripted(0, 1, 0, 0)
    radio = RadioModel(128.0, inf, framing=FRAMING, loss=loss)
    run, _ = gathered(echo, [member(radio=radio)], 2)
    assert [row["duration"] for row in run.of("receive", node="server")] == [0.625, 0.3125]
