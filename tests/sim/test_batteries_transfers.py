"""Batteries that run empty amid a transfer, a promotion or a tail, by hand."""

import asyncio
from math import inf

import pytest

from fedsim.core.ports import Message
from fedsim.physics.signals import Steps
from fedsim.physics.topology import Discipline, star
from fedsim.protocol.transport import Envelope
from fedsim.sim.client import Handler, SimClient
from fedsim.sim.server import SimServer
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel
from tests.tiers import every

from .links import ServerLink
from .physical import battery, gathered, member, spans, told
from .worlds import Run, answered, asked, play, setup, work

IDLE = device_of(speed=1.0, active=0.5, idle=0.5)
RADIO = RadioModel(8.0, 8.0, energy_up=0.25, energy_down=0.125, base=1.0, send=0.5, receive=0.25)
"""With the idle half a watt: 4 W up, 2.75 W down, 5.25 W both at once."""


def answering(bits: int) -> Handler:
    async def handle(client: SimClient, message: Message) -> Message:
        return answered(bits)

    return handle


def one(joules: float, down: int, up: int, radio: RadioModel = RADIO, *, wait: float = 0.0) -> Run:
    """Ask a client on a battery with so many bits, let it answer, and wait."""

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(down))
        await asyncio.sleep(wait)

    members = [member(battery(joules), device=IDLE, radio=radio)]
    return play(setup(serve, answering(up), members))


def test_an_upload_is_broken_off_when_the_battery_is_empty() -> None:
    run = one(20.0, 0, 80)
    assert told(run, "depleted", "t") == [(5.0,)]
    assert spans(run, "send") == [(0.0, 5.0)]
    assert told(run, "send", "joules", "payload_bits", "detail", "state_of_charge")[1:] == [
        (17.5, 80, "aborted", 0.0)
    ]
    assert told(run, "lost", "t", "node", "payload_bits", "detail") == [
        (5.0, "client-0", 80, "aborted")
    ]
    ((when, message),) = run.clients[0].state.taken_back
    assert (when, message.label) == (5.0, "answer")
    assert (run.t, run.world.meters().bits_lost) == (5.0, 80)


def test_a_download_is_broken_off_when_the_battery_is_empty() -> None:
    run = one(11.0, 80, 8)
    assert told(run, "depleted", "t") == [(4.0,)]
    assert told(run, "send", "t", "node", "duration", "joules", "detail") == [
        (4.0, "server", 4.0, 0.0, "aborted")
    ]
    assert told(run, "receive", "t", "node", "duration", "joules", "payload_bits", "detail") == [
        (4.0, "client-0", 4.0, 9.0, 0, "aborted")
    ]
    assert told(run, "lost", "t", "node") == [(4.0, "server")]
    assert run.clients[0].state.taken_back == []


@pytest.mark.parametrize(
    ("joules", "when", "event"),
    [(2.75, 1.0, "receive"), (4.25, 2.0, "compute"), (8.25, 3.0, "send")],
)
def test_what_ends_as_the_battery_does_has_ended(joules: float, when: float, event: str) -> None:
    # A second of 8 bits down, one of work and one of 8 bits up, and each costs what it takes.
    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(1.0))
        return answered(8)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(8))

    device = device_of(speed=1.0, active=1.5, idle=0.5)
    run = play(setup(serve, handle, [member(battery(joules), device=device, radio=RADIO)]))
    assert told(run, event, "t", "duration", "detail", node="client-0") == [(when, 1.0, None)]
    if event != "send":  # with which the run is over
        assert told(run, "depleted", "t") == [(when,)]


def test_two_directions_at_once_draw_the_base_power_once() -> None:
    # Asked again at 1 s, while the answer is under way: 4 W, then 5.25 W.
    async def serve(server: SimServer) -> None:
        asyncio.get_running_loop().call_later(1.0, ask_again, server)
        await server.exchange(asked(0))

    def ask_again(server: SimServer) -> None:
        server._network.send_down([0], Envelope(asked(80), 1, 0, 0, word=0))

    members = [member(battery(14.5), device=IDLE, radio=RADIO)]
    run = play(setup(serve, answering(80), members))
    assert told(run, "depleted", "t") == [(3.0,)]
    assert spans(run, "send") == [(0.0, 3.0)]
    assert spans(run, "receive")[-1] == (1.0, 3.0)


PER_BIT = RadioModel(up=8.0, energy_up=0.25)
"""2 W at full rate, 1 W at half."""


def sharing(first: float, second: float = 1e6, discipline: Discipline = "fair") -> Run:
    """Let one client send 80 bits from 0 s, another one 24 bits from 2 s, over 8 bit/s."""

    async def handle(client: SimClient, message: Message) -> Message:
        await client.compute(work(2.0 * client.id))
        return answered(80 if client.id == 0 else 24)

    device = device_of(speed=1.0)
    members = [member(battery(joules), device=device, radio=PER_BIT) for joules in (first, second)]
    links = star(2, uplink=8.0, discipline=discipline)
    run, _ = gathered(handle, members, 1, topology=links)
    return run


def test_on_a_shared_link_the_battery_follows_the_rate() -> None:
    # 4 J until 2 s, 6 J at half the rate until 8 s, and the last 3 J in 1.5 s.
    run = sharing(13.0)
    assert told(run, "depleted", "t") == [(9.5,)]
    assert told(run, "send", "t", "duration", "joules", "detail", node="client-0") == [
        (9.5, 9.5, 13.0, "aborted")
    ]
    assert spans(run, "send", 1) == [(2.0, 8.0)]


def test_a_battery_may_be_empty_while_the_rate_is_low() -> None:
    run = sharing(7.0)
    assert told(run, "depleted", "t") == [(5.0,)]
    # The other client has sent 12 of its 24 bits, and has the link for itself from then on.
    assert spans(run, "send", 1) == [(2.0, 6.5)]
    assert told(run, "send", "joules", node="client-1") == [(6.0,)]


def test_the_last_bit_may_be_the_end_of_another_battery() -> None:
    run = sharing(1e6, 3.0)
    assert told(run, "depleted", "t", "node") == [(5.0, "client-1")]
    assert spans(run, "send", 0) == [(0.0, 11.5)]  # 16 + 12 bits by 5 s, then 52 at 8 bit/s


def test_who_waits_for_a_link_of_one_at_a_time_does_not_pay_for_bits() -> None:
    run = sharing(5.0, discipline="fifo")
    assert told(run, "depleted", "t") == [(2.5,)]
    (row,) = run.of("send", node="client-1")
    assert (row["t"], row["duration"], row["joules"]) == (5.5, 3.5, 6.0)


def test_a_fixed_share_is_drawn_at_its_rate() -> None:
    run = sharing(5.0, discipline="slotted")
    assert told(run, "depleted", "t") == [(5.0,)]
    assert spans(run, "send", 1) == [(2.0, 8.0)]


CELLULAR = RadioModel(
    up=8.0,
    down=8.0,
    energy_up=0.25,
    base=1.5,
    promotion_power=3.5,
    promotion_time=2.0,
    tail_power=1.5,
    tail_time=4.0,
)
"""With the idle half a watt: 4 W promoting and sending, 2 W connected and receiving."""


@every(
    ("joules", "when", "state", "span"),
    [
        (6.0, 1.5, "promotion", (0.0, 1.5)),
        (9.0, 2.5, "receive", (2.0, 2.5)),  # 16 bits down until 4 s
        (14.0, 4.5, "send", (4.0, 4.5)),  # 16 bits up until 6 s
        (24.0, 8.0, "tail", (6.0, 8.0)),  # until 10 s
        (30.0, 14.0, "tail", (6.0, 10.0)),  # at rest
    ],
)
def test_a_battery_may_be_empty_in_any_state_of_a_radio(
    joules: float, when: float, state: str, span: tuple[float, float]
) -> None:
    run = one(joules, 16, 16, CELLULAR, wait=50.0)
    assert told(run, "depleted", "t") == [(when,)]
    assert spans(run, state)[-1] == span
    assert sum(row["joules"] for row in run.rows) == joules


def test_a_radio_that_died_is_promoted_anew() -> None:
    async def serve(server: SimServer) -> None:
        await server.exchange(asked(16))

    store = battery(9.0, source=charger(after=20.0))
    members = [member(store, device=IDLE, radio=CELLULAR)]
    run = play(setup(serve, answering(0), members))
    assert spans(run, "promotion")[0] == (0.0, 2.0)
    # It is asked again as soon as it is charged, by a round that begins with that.
    ((back,),) = told(run, "charged", "t")
    assert back > 20.0
    assert spans(run, "promotion")[1] == (back, back + 2.0)


def charger(after: float) -> Steps:
    return Steps([0.0, after], [0.0, 100.0])


def test_the_latency_is_waited_for_at_the_power_of_the_state() -> None:
    far = RadioModel(8.0, 8.0, latency=4.0, energy_up=1.0, base=2.0)
    run = one(3.0, 0, 16, far)
    # 4 s down, and 2 of 4 s up at half a watt: no bit of the answer is on the air yet.
    assert told(run, "depleted", "t") == [(6.0,)]
    assert told(run, "send", "duration", "joules", "detail", node="client-0") == [
        (0.0, 0.0, "aborted")
    ]


def test_an_ideal_radio_draws_nothing() -> None:
    run = one(10.0, 64, 64, RadioModel(inf, inf), wait=4.0)
    assert (run.of("depleted"), run.t) == ([], 4.0)
    assert run.world.meters().stores.final.tolist() == [8.0]


def test_a_link_that_holds_up_an_ideal_radio_draws_by_the_bit() -> None:
    members = [member(battery(10.0), device=device_of(), radio=RadioModel(energy_up=0.5))]
    run, _ = gathered(answering(64), members, 1, server=ServerLink(uplink=4.0))
    assert told(run, "depleted", "t") == [(5.0,)]
    assert told(run, "send", "joules", node="client-0") == [(10.0,)]
