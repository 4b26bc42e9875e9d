"""Radios whose rate is no constant: time on air, fading by the round, and traces."""

from math import inf

import pytest

from fedsim.core.ports import Message
from fedsim.core.streams import stream
from fedsim.physics.radios import LoRa, Shannon
from fedsim.physics.radios.channel import Framing
from fedsim.physics.signals import Steps
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from fedsim.sim.server import SimServer
from tests.sim.radios import RadioModel

from .links import ServerLink
from .physical import battery, gathered, member, online, spans
from .worlds import Run, answered, asked, play, setup

MODEM = LoRa(spreading=7, duty=0.25)
FRAMES = Framing(13, 235)
LORA = RadioModel(up=MODEM, down=inf, send=2.0, framing=FRAMES)


def uplinks(radio: RadioModel, bits: int, many: int, **parts: object) -> Run:
    """Let a client send so many messages, each as soon as the one before has arrived."""

    async def serve(server: SimServer) -> None:
        for _ in range(many):
            await server.exchange(asked(0))
            server.commit(server.initial)

    async def handle(client: SimClient, message: Message) -> Message:
        return answered(bits)

    store = battery(1e6) if parts.pop("on_battery", False) else None
    return play(setup(serve, handle, [member(store, radio=radio)], **parts))  # type: ignore[arg-type]


@pytest.mark.parametrize("on_battery", [False, True])
def test_a_frame_takes_its_time_on_air_and_costs_what_sending_costs(on_battery: bool) -> None:
    run = uplinks(LORA, 8 * 222, 1, on_battery=on_battery)
    (sent,) = run.of("send", node="client-0")
    assert sent["duration"] == pytest.approx(MODEM.airtime(235), rel=1e-12)
    assert sent["duration"] == pytest.approx(0.369, abs=5e-4)
    assert sent["joules"] == pytest.approx(2.0 * MODEM.airtime(235), rel=1e-12)
    assert sent["transport_bits"] == 8 * 13


def test_between_frames_the_sender_is_silent_and_does_not_pay_for_it() -> None:
    run = uplinks(LORA, 8 * (2 * 222 + 7), 1)
    (sent,) = run.of("send", node="client-0")
    full, last = MODEM.airtime(235), MODEM.airtime(20)
    assert sent["duration"] == pytest.approx(2 * full / 0.25 + last, rel=1e-12)
    assert sent["joules"] == pytest.approx(2.0 * (2 * full + last), rel=1e-12)
    assert sent["transport_bits"] == 3 * 8 * 13


def test_a_sender_keeps_to_its_duty_cycle_between_messages_too() -> None:
    run = uplinks(LORA, 8 * 100, 5)
    sent, air = spans(run, "send"), MODEM.airtime(113)
    begins = [begin for begin, _ in sent]
    assert begins == pytest.approx([n * air / 0.25 for n in range(5)], rel=1e-12)
    assert [end - begin for begin, end in sent] == pytest.approx([air] * 5, rel=1e-12)


def test_a_silence_that_is_owed_outlasts_a_time_without_a_network() -> None:
    air = MODEM.airtime(113)
    away = online(0.0, 0.5 * air, 0.75 * air, inf)

    async def handle(client: SimClient, message: Message) -> Message:
        return answered(8 * 100)

    run, _ = gathered(handle, [member(None, away, radio=LORA)], 1)
    # The round that it leaves is no step; in the next one it is asked again.
    assert run.times("abandoned") == pytest.approx([0.5 * air])
    (cut, sent) = spans(run, "send")
    assert cut == pytest.approx((0.0, 0.5 * air))
    assert sent[0] == pytest.approx(0.5 * air + 3 * air, rel=1e-12)


def test_a_beacon_without_a_bit_needs_no_frame() -> None:
    run = uplinks(LORA, 0, 2)
    assert run.t == 0.0


WEAK = Shannon(bandwidth=1e6, power=0.1, distance=400.0)


def test_a_channel_has_one_rate_a_round_drawn_from_the_stream_of_its_client() -> None:
    async def serve(server: SimServer) -> None:
        for _ in range(4):
            await server.exchange(asked(0))
            await server.exchange(asked(0))
            server.commit(server.initial)

    async def handle(client: SimClient, message: Message) -> Message:
        return answered(10_000)

    members = [member(radio=RadioModel(up=WEAK, send=0.1)), member(radio=RadioModel(up=WEAK))]
    run = play(setup(serve, handle, members, seed=5))
    for client in range(2):
        fading = WEAK.draw_channel(stream(5, "channel", client))
        rates = [fading.rate(number) for number in (1, 1, 2, 2, 3, 3, 4, 4)]
        lengths = [end - begin for begin, end in spans(run, "send", client)]
        assert lengths == pytest.approx([10_000 / rate for rate in rates], rel=1e-9)
    paid = [row["joules"] / row["duration"] for row in run.of("send", node="client-0")]
    assert paid == pytest.approx([0.1] * 8, rel=1e-9)


def test_the_rate_of_a_round_is_the_same_whichever_rounds_a_client_was_asked_in() -> None:
    def lengths(to: list[list[int]]) -> dict[int, float]:
        async def serve(server: SimServer) -> None:
            for cohort in to:
                await server.exchange(asked(0), to=cohort)
                server.commit(server.initial)

        async def handle(client: SimClient, message: Message) -> Message:
            return answered(10_000)

        run = play(setup(serve, handle, [member(radio=RadioModel(up=WEAK))] * 2))
        return {row["round"]: row["duration"] for row in run.of("send", node="client-0")}

    often, seldom = lengths([[0]] * 5), lengths([[0, 1], [1], [1], [0], [0]])
    assert list(seldom) == [1, 4, 5]
    for number, length in seldom.items():
        assert length == pytest.approx(often[number], rel=1e-9)


# 4 bit/s for 1 s, nothing for 2 s, 1 bit/s for 1 s; and so on.
TRACE = Steps([0.0, 1.0, 3.0], [4.0, 0.0, 1.0], period=4.0)


@pytest.mark.parametrize("on_battery", [False, True])
def test_a_transfer_along_a_trace_is_integrated_exactly(on_battery: bool) -> None:
    radio = RadioModel(TRACE, inf, energy_up=0.5, base=1.0)
    run = uplinks(radio, 6, 3, on_battery=on_battery)
    # 4 bits in the first second, then 1 in the fourth, and so on: 5 a period.
    assert spans(run, "send") == [(0.0, 4.25), (4.25, 8.5), (8.5, 12.75)]
    assert [row["joules"] for row in run.of("send", node="client-0")] == [3.0 + 4.25] * 3


@pytest.mark.parametrize("on_battery", [False, True])
def test_a_trace_meets_a_link(on_battery: bool) -> None:
    # The server takes 2 bit/s: 2 bits in the first second, nothing, 1 bit, 2 bits.
    radio = RadioModel(TRACE, inf, energy_up=0.5)
    run = uplinks(radio, 5, 1, server=ServerLink(uplink=2.0), on_battery=on_battery)
    assert spans(run, "send") == [(0.0, 5.0)]
    assert run.ledger.joules.sum(axis=0)[1] == 2.5


def test_a_trace_that_is_dry_when_the_run_ends_has_passed_what_it_has_passed() -> None:
    radio = RadioModel(TRACE, inf, energy_up=0.5, base=1.0)
    run = uplinks(radio, 6, 1, stop=Stop.in_si(time=2.5))
    (row,) = run.of("send", node="client-0")
    assert (row["detail"], row["duration"], row["joules"]) == ("in flight", 2.5, 4 * 0.5 + 2.5)
