"""Laws of a star under any traffic: bits, lanes, rates, and energy as an integral of power."""

from collections import Counter
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.sim.power.radio import RadioMeter
from fedsim.sim.power.radio_kind import RadioKind
from tests.tiers import examples

from .links import ServerLink
from .radios import RadioModel, peak
from .stars import Network, Sent, Span

CLIENTS = 3

messages = st.lists(
    st.builds(
        Sent,
        t=st.one_of(st.sampled_from([0.0, 1.0, 1.5]), st.floats(0, 5)),
        client=st.integers(0, CLIENTS - 1),
        bits=st.integers(1, 50),
        up=st.booleans(),
    ),
    max_size=25,
)
rates = st.sampled_from([4.0, 10.0, 33.3, inf])
radios = st.builds(
    RadioModel,
    up=rates,
    down=rates,
    latency=st.sampled_from([0.0, 0.125, 0.9]),
    energy_up=st.floats(0, 2),
    energy_down=st.floats(0, 2),
    base=st.floats(0, 5),
)
fleets = st.lists(radios, min_size=CLIENTS, max_size=CLIENTS)
links = st.builds(ServerLink, downlink=rates, uplink=rates, latency=st.sampled_from([0.0, 0.25]))
ends = st.one_of(st.none(), st.floats(0.1, 12))
laws = examples(80)


def carried(
    sent: list[Sent], models: list[RadioModel], link: ServerLink, end: float | None = None
) -> tuple[Network, list[Span]]:
    network = Network(models, link)
    network.send(sent)
    network.env.run(until=end)
    return network, network.close()


def length_of_union(spans: list[Span]) -> float:
    """Return how long at least one of the spans lasts."""
    length, reach = 0.0, -inf
    for begin, end, *_ in sorted(spans):
        length += max(end - max(begin, reach), 0.0)
        reach = max(reach, end)
    return length


@laws
@given(messages, fleets, links, ends)
def test_every_bit_that_was_sent_has_arrived_or_is_in_flight(
    sent: list[Sent], models: list[RadioModel], link: ServerLink, end: float | None
) -> None:
    network, spans = carried(sent, models, link, end)
    taken = [one for one in sent if end is None or one.t < end]
    assert Counter(span[2:5] for span in spans) == Counter(one[1:] for one in taken)
    delivered = [one[1:] for one in network.arrived]
    assert Counter(span[2:5] for span in spans if span.arrived) == Counter(delivered)
    bits = sum(one.bits for one in taken)
    assert network.traffic.bits_up == sum(one.bits for one in taken if one.up)
    assert network.traffic.bits_up + network.traffic.bits_down == bits
    assert network.star.message_log.delivered == sum(one.bits for one in network.arrived)
    assert network.star.message_log.delivered + network.in_flight == bits
    assert end is not None or not network.in_flight


@laws
@given(messages, fleets, links)
def test_a_lane_carries_one_message_at_a_time_in_the_order_given(
    sent: list[Sent], models: list[RadioModel], link: ServerLink
) -> None:
    _, spans = carried(sent, models, link)
    for client, up in {(one.client, one.up) for one in sent}:
        given_order = [
            one for one in sorted(sent, key=lambda one: one.t) if one[1::2] == (client, up)
        ]
        lane = [span for span in spans if (span.client, span.up) == (client, up)]
        assert [span.bits for span in lane] == [one.bits for one in given_order]
        latency = models[client].latency + link.latency
        free = -inf
        for one, span in zip(given_order, lane, strict=True):
            assert span.begin == pytest.approx(max(one.t, free) + latency, rel=1e-12)
            free = span.end


@laws
@given(messages, fleets)
def test_an_open_server_leaves_every_radio_at_its_own_rate(
    sent: list[Sent], models: list[RadioModel]
) -> None:
    _, spans = carried(sent, models, ServerLink())
    for span in spans:
        rate = peak(models[span.client].up if span.up else models[span.client].down)
        assert span.end - span.begin == pytest.approx(span.bits / rate, rel=1e-9, abs=1e-12)


@laws
@given(messages, fleets, links, ends)
def test_a_radio_spends_the_integral_of_its_power(
    sent: list[Sent], models: list[RadioModel], link: ServerLink, end: float | None
) -> None:
    network, spans = carried(sent, models, link, end)
    for client, model in enumerate(models):
        mine = [span for span in spans if span.client == client]
        least = most = model.base * length_of_union(mine)
        for span in mine:
            per_bit, rate, capacity = (
                (model.energy_up, peak(model.up), link.uplink)
                if span.up
                else (model.energy_down, peak(model.down), link.downlink)
            )
            reach = rate * (span.end - span.begin) if span.end > span.begin else 0.0
            passed = span.bits if span.arrived else min(reach, span.bits)
            most += per_bit * passed
            least += per_bit * passed if span.arrived or capacity == inf else 0.0
        joules = network.radios[client].joules
        assert least * (1 - 1e-9) - 1e-9 <= joules <= most * (1 + 1e-9) + 1e-9
    spent = sum(radio.joules for radio in network.radios.values())
    assert network.traffic.joules == pytest.approx(spent, rel=1e-9, abs=1e-12)


pauses_and_lengths = st.lists(
    st.tuples(st.floats(0, 3), st.floats(0.01, 3), st.integers(0, 9)), max_size=12
)


@laws
@given(pauses_and_lengths, pauses_and_lengths)
def test_any_pattern_of_overlaps_costs_the_length_of_its_union(
    up: list[tuple[float, float, int]], down: list[tuple[float, float, int]]
) -> None:
    law = RadioModel(base=2.0, energy_up=0.5, energy_down=0.25)
    radio = RadioMeter(RadioKind.of(law, law.rates({})))
    ended, announced, spans = 0, 1, list[Span]()
    moments = list[tuple[float, int, bool, float]]()
    for lane, pattern in ((True, up), (False, down)):
        now = 0.0
        for pause, length, bits in pattern:
            spans.append(Span(now + pause, now + pause + length, 0, bits, lane, True))
            # Bits are announced as soon as the lane is free, and flow after the pause.
            moments += [(now, announced, lane, spans[-1].begin), (spans[-1].end, ended, lane, bits)]
            now = spans[-1].end
    for now, kind, lane, value in sorted(moments):
        if kind == announced:
            radio.began[lane] = value
        else:
            radio.end(now, value, lane)
    per_bit = sum(span.bits * (0.5 if span.up else 0.25) for span in spans)
    assert radio.joules == pytest.approx(2.0 * length_of_union(spans) + per_bit, abs=1e-9)
