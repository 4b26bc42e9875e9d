"""A star network: how long a message takes, who waits for whom, and what is in flight."""

from math import inf

from tests.sim.radios import RadioModel
from tests.tiers import every

from .links import ServerLink
from .stars import Network, Sent, Span

RADIO = RadioModel(up=8.0, down=16.0, latency=0.5)
BOTH_WAYS = every("up", [True, False])


@BOTH_WAYS
def test_a_message_takes_the_latencies_and_its_bits_over_the_rate(up: bool) -> None:
    network = Network([RADIO], ServerLink(latency=0.25))
    network.send([Sent(1.0, 0, 32, up)])
    network.env.run()
    arrival = 1.0 + 0.5 + 0.25 + (32 / 8 if up else 32 / 16)
    assert network.arrived == [Sent(arrival, 0, 32, up)]
    assert network.close() == [Span(1.75, arrival, 0, 32, up, True)]


def test_each_direction_of_the_server_has_its_own_rate() -> None:
    radio = RadioModel(latency=0.5)
    network = Network([radio], ServerLink(downlink=4.0, uplink=2.0))
    network.send([Sent(0.0, 0, 8, up=True), Sent(0.0, 0, 8, up=False)])
    network.env.run()
    assert network.arrived == [Sent(2.5, 0, 8, up=False), Sent(4.5, 0, 8, up=True)]


@BOTH_WAYS
def test_clients_share_the_server_and_not_each_others_radios(up: bool) -> None:
    radios, messages = [RadioModel(8.0, 8.0)] * 4, [Sent(0.0, n, 32, up) for n in range(4)]
    shared, own = Network(radios, ServerLink(16.0, 16.0)), Network(radios)
    for network, end in ((shared, 8.0), (own, 4.0)):
        network.send(messages)
        network.env.run()
        assert network.arrived == [Sent(end, n, 32, up) for n in range(4)]


@BOTH_WAYS
def test_a_lane_carries_one_message_at_a_time_in_order(up: bool) -> None:
    network = Network([RadioModel(8.0, 8.0, latency=0.5)])
    network.send([Sent(0.0, 0, bits, up) for bits in (32, 8, 16)])
    network.env.run()
    # The next one takes the latency too: it leaves when the one in front has arrived.
    assert [message.bits for message in network.arrived] == [32, 8, 16]
    assert [message.t for message in network.arrived] == [4.5, 6.0, 8.5]


def test_a_radio_sends_and_receives_at_once() -> None:
    network = Network([RadioModel(8.0, 8.0)])
    network.send([Sent(0.0, 0, 32, up=True), Sent(0.0, 0, 32, up=False)])
    network.env.run()
    assert [message.t for message in network.arrived] == [4.0, 4.0]


def test_an_infinite_rate_leaves_the_latency() -> None:
    network = Network([RadioModel(latency=0.5)])
    network.send([Sent(1.0, 0, 10**15, up=True), Sent(1.0, 0, 10**15, up=False)])
    network.env.run()
    assert [message.t for message in network.arrived] == [1.5, 1.5]


def test_an_ideal_network_takes_no_time_and_keeps_the_order() -> None:
    network = Network([RadioModel()] * 3)
    sent = [Sent(2.0, n % 3, n, n % 2 == 0) for n in range(1, 12)]
    network.send(sent)
    network.env.run()
    assert network.env.now == 2.0
    for client in range(3):
        for up in (True, False):
            mine = [one for one in network.arrived if (one.client, one.up) == (client, up)]
            assert mine == [one for one in sent if (one.client, one.up) == (client, up)]


@BOTH_WAYS
@every("capacity", [inf, 100.0])
def test_what_is_in_flight_is_logged_with_the_time_its_bits_have_flowed(
    up: bool, capacity: float
) -> None:
    network = Network([RadioModel(8.0, 8.0, 0.5)] * 3, ServerLink(capacity, capacity))
    network.send([Sent(0.0, 0, 8, up), Sent(0.0, 1, 64, up), Sent(0.0, 1, 24, up)])
    network.send([Sent(1.75, 2, 40, up)])
    network.env.run(until=2.0)
    spans = network.close()
    assert network.in_flight == 64 + 24 + 40
    assert spans[0] == Span(0.5, 1.5, 0, 8, up, True)
    flowing, waiting, starting = sorted(spans[1:], key=lambda span: (span.client, -span.bits))
    assert flowing == Span(0.5, 2.0, 1, 64, up, False)
    assert waiting == Span(2.0, 2.0, 1, 24, up, False)
    assert starting == Span(2.0, 2.0, 2, 40, up, False)


def test_both_directions_at_once_pay_the_base_power_once() -> None:
    radio = RadioModel(up=8.0, down=8.0, base=3.0, energy_up=0.5, energy_down=0.25)
    network = Network([radio])
    network.send([Sent(0.0, 0, 32, up=True), Sent(2.0, 0, 40, up=False), Sent(9.0, 0, 8, up=True)])
    network.env.run()
    # On from 0 to 7, then from 9 to 10.
    assert network.radios[0].joules == 3.0 * 8 + 0.5 * 40 + 0.25 * 40


@BOTH_WAYS
@every("capacity", [inf, 4.0])
def test_a_transfer_that_is_broken_off_has_cost_what_has_passed(up: bool, capacity: float) -> None:
    radio = RadioModel(8.0, 8.0, latency=0.5, base=3.0, energy_up=0.5, energy_down=0.5)
    network = Network([radio], ServerLink(capacity, capacity))
    network.send([Sent(0.0, 0, 64, up)])
    network.env.run(until=2.5)
    network.close()
    assert network.radios[0].joules == 3.0 * 2.0 + 0.5 * 2.0 * min(8.0, capacity)


def test_latency_costs_no_energy() -> None:
    network = Network([RadioModel(8.0, 8.0, latency=2.0, base=3.0)])
    network.send([Sent(0.0, 0, 8, up=True), Sent(0.5, 0, 8, up=False)])
    network.env.run(until=1.5)
    network.close()
    assert network.radios[0].joules == 0.0
