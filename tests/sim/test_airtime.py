"""On air, connected, listening, asleep: what a radio draws where a link behind it is slow."""

from dataclasses import dataclass
from math import inf
from typing import Any

import pytest

from fedsim.physics.radios import LoRa, Radio, powers_of
from fedsim.physics.signals import Steps
from fedsim.physics.topology import Topology, star
from fedsim.sim.server import SimServer
from tests.sim.radios import RadioModel, client_of
from tests.tiers import every

from .links import ServerLink
from .physical import battery, member
from .worlds import NO_LOSS, SLOW, Run, asked, echo, play, setup

SENT = 8
"""Bits of the answer."""


def uplink(radio: RadioModel, rate: float | ServerLink, store: Any = None, **parts: Any) -> Run:
    """Ask one client, which answers 8 bits at once, over a server's uplink, or one of a rate."""

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(8))

    link = rate if isinstance(rate, ServerLink) else ServerLink(uplink=rate)
    return play(setup(serve, echo, [member(store, radio=radio)], server=link, **parts))


def sent(run: Run) -> tuple[float, float]:
    row = run.of("send", node="client-0")[0]
    return row["joules"], row["duration"]


BY_STATE = {"send": 5.0, "receive": 3.0}
TAIL = {"tail_power": 0.5, "tail_time": 9.0}


@every("store", [None, battery(1e3)])
@every(
    ("figures", "connected"),
    [
        (BY_STATE, 0.0),  # it waits as it rests
        (BY_STATE | TAIL, 0.5),
        (BY_STATE | TAIL | {"base": 2.0}, 2.0),
        (BY_STATE | {"tail_power": 0.5}, 0.0),  # a tail of no time is none
    ],
)
def test_a_message_is_on_air_for_its_bits_and_connected_for_the_rest(
    figures: dict[str, float], connected: float, store: Any
) -> None:
    radio = RadioModel(4.0, 4.0, **figures)
    run = uplink(radio, 1.0, store)  # 8 s for what takes the radio 2 s
    on_air = figures.get("base", 0.0) + 5.0
    assert sent(run) == (2.0 * on_air + 6.0 * connected, 8.0)
    assert sent(uplink(radio, 4.0, store)) == (2.0 * on_air, 2.0)


def test_a_radio_of_energies_per_bit_pays_its_base_all_the_time() -> None:
    radio = RadioModel(4.0, 4.0, energy_up=0.25, base=1.5, **TAIL)
    assert sent(uplink(radio, 1.0)) == (8 * 0.25 + 8.0 * 1.5, 8.0)


def test_under_tcps_model_headers_are_on_air_too() -> None:
    radio = RadioModel(4.0, 4.0, **BY_STATE)
    joules, seconds = sent(uplink(radio, 1e9, sharing="lv08"))
    assert (joules, seconds) == pytest.approx((5.0 * 2.0 / 0.97, 2.0 / 0.97), rel=1e-12)


def test_a_modem_with_a_duty_cycle_is_on_air_for_its_frames() -> None:
    modem = LoRa(duty=0.5)
    radio = RadioModel(modem, modem, **BY_STATE)
    on_air = modem.span(SENT).on_air
    for rate in (1e6, 1.0):
        assert sent(uplink(radio, rate))[0] == pytest.approx(5.0 * on_air, rel=1e-12)


VARYING = Steps([0.0, 2.0, 3.0], [2.0, 4.0, 0.5])


@pytest.mark.parametrize("store", [None, battery(1e3)])
def test_where_the_own_rate_varies_time_on_air_is_the_integral_of_the_shares(store: Any) -> None:
    # At 1 bit/s of 2, 4 and then 0.5: 2 s at 1/2, 1 s at 1/4, and then the radio is the slowest.
    radio = RadioModel(VARYING, inf, **BY_STATE, **TAIL)
    joules, seconds = sent(uplink(radio, 1.0, store))
    assert seconds == pytest.approx(3.0 + 5.0 / 0.5)
    on_air = 2.0 / 2 + 1.0 / 4 + 10.0
    assert joules == pytest.approx(5.0 * on_air + 0.5 * (seconds - on_air), rel=1e-12)
    free, alone = sent(uplink(radio, 1e9, store))  # 4 bits, 4 bits: on air all the time
    assert (free, alone) == pytest.approx((5.0 * 3.0, 3.0), rel=1e-12)


CUT = Steps([0.0, 2.0, 3.0, 4.0], [2.0, 0.0, 4.0, 0.5])


@dataclass(frozen=True)
class DividedLink(ServerLink):
    """A server's link of which a client has its slot, whatever the others send."""

    def of(self, clients: int) -> Topology:
        return star(clients, uplink=self.uplink, discipline="slotted")


@every("store", [None, battery(1e3)])
@every("link", [ServerLink, DividedLink])
def test_a_radio_tries_all_the_time_in_an_outage_of_its_own_whatever_holds_it_up(
    link: type[ServerLink], store: Any
) -> None:
    # At 1 bit/s of 2 for 2 s, of nothing for 1 s, of 4 for 1 s; then 0.5, for the last 5 bits.
    radio = RadioModel(CUT, inf, **BY_STATE, **TAIL)
    joules, seconds = sent(uplink(radio, link(uplink=1.0), store))
    assert seconds == pytest.approx(4.0 + 5.0 / 0.5)
    on_air = 2.0 / 2 + 1.0 + 1.0 / 4 + 10.0
    assert joules == pytest.approx(5.0 * on_air + 0.5 * (seconds - on_air), rel=1e-12)
    free, alone = sent(uplink(radio, link(uplink=1e9), store))  # 4 bits, none, 4 bits
    assert (free, alone) == pytest.approx((5.0 * 4.0, 4.0), rel=1e-12)


@pytest.mark.parametrize("link", [ServerLink, DividedLink])
def test_a_battery_feels_each_share_as_it_changes(link: type[ServerLink]) -> None:
    # 2 s at 1/2, then 5 W and 0.5 W: what is left of 7 J after 5.5 J lasts 1.5 J / (5 W) = 0.3 s.
    radio = RadioModel(CUT, inf, **BY_STATE, **TAIL)
    run = uplink(radio, link(uplink=1.0), battery(7.0))
    (row,) = run.of("depleted")
    assert row["t"] == pytest.approx(2.0 + 1.5 / 5.0, rel=1e-9)


def test_both_directions_share_connected_power() -> None:
    powers = powers_of(RadioModel(4.0, 4.0, **BY_STATE, **TAIL))
    assert (powers.held, powers.on_air) == (0.5, (2.5, 4.5))


LISTENING = {"kind": "zigbee", "listening": "25 %", "sleep": "4 mW"}


def test_a_client_that_is_never_asked_listens_and_its_battery_pays() -> None:
    radio = Radio.model_validate(LISTENING)
    mean = 0.25 * 0.056 + 0.75 * 0.004
    assert radio.resting == pytest.approx(mean, rel=1e-12)

    async def serve(server: SimServer) -> None:
        await server.exchange(asked(8), to=[0])

    members = [member(), client_of(SLOW, radio, NO_LOSS, battery(1e3))]
    members[0] = member(radio=RadioModel(1e-2, 1e9))  # its answer takes 800 s
    run = play(setup(serve, echo, members))
    meters = run.world.meters()
    assert meters.idle_joules[1] == pytest.approx(mean * 800.0, rel=1e-9)
    assert float(meters.stores.delivered[0]) == pytest.approx(mean * 800.0, rel=1e-9)


def test_states_are_beyond_what_it_draws_at_rest_and_never_less() -> None:
    radio = Radio.model_validate(LISTENING | {"tail_power": "10 mW", "tail_time": "1 s"})
    assert radio.states.stages[0].power == 0.0  # its rest is 17 mW
    powers = powers_of(radio)
    assert powers.held == 0.0
    assert powers.on_air == pytest.approx((0.056 - 0.017, 0.052 - 0.017), rel=1e-12)
