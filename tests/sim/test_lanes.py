"""Lanes: the table of their states, and the classes of their routes."""

from collections import Counter

import pytest
from hypothesis import given

from fedsim.sim.network.lane_states import TRANSITIONS, LaneEvent, LaneState, RouteClass
from fedsim.sim.network.lanes import Lane
from tests.tiers import every, examples

from .links import ServerLink
from .radios import RadioModel
from .stars import Network, Sent
from .test_network_laws import carried, ends, fleets, links, messages


def reached(state: LaneState) -> set[LaneState]:
    """Return the states that some sequence of events leads to."""
    found, new = set[LaneState](), {state}
    while new:
        found |= new
        new = {to for one in new for to in TRANSITIONS[one].values()} - found
    return found


def test_every_state_is_reached_every_event_used_and_every_message_can_end() -> None:
    assert set(TRANSITIONS) == reached(LaneState.IDLE) == set(LaneState)
    assert {event for row in TRANSITIONS.values() for event in row} == set(LaneEvent)
    assert not TRANSITIONS[LaneState.CLOSED]
    for state in set(LaneState) - {LaneState.CLOSED}:
        assert TRANSITIONS[state][LaneEvent.CLOSE] is LaneState.CLOSED
        assert LaneState.IDLE in reached(state)


def test_an_event_that_a_state_does_not_have_names_lane_state_and_event() -> None:
    network = Network([RadioModel(up=1.0, down=1.0)])
    network.send([Sent(0.0, 0, 8, up=True)])
    network.env.run()
    lane = network.star._up[0]
    with pytest.raises(RuntimeError) as refused:
        lane.fire(LaneEvent.LAST_BIT)
    assert str(refused.value) == (
        "the uplink of client 0 got LAST_BIT in state IDLE;"
        " expected START, START_TIMER, ABORT, CLOSE"
    )
    assert lane.state is LaneState.IDLE


@every(
    ("rate", "latency", "capacity", "expected"),
    [
        (float("inf"), 0.0, float("inf"), RouteClass.INSTANT),
        (float("inf"), 0.5, float("inf"), RouteClass.TIMER),
        (8.0, 0.0, float("inf"), RouteClass.TIMER),
        (8.0, 0.0, 4.0, RouteClass.BEARER),
    ],
)
def test_the_class_of_a_route_is_the_least_that_it_needs(
    rate: float, latency: float, capacity: float, expected: RouteClass
) -> None:
    network = Network([RadioModel(up=rate, down=rate)], ServerLink(uplink=capacity))
    lane = network.star._up[0]
    lane.set_route(lane.bearer, latency)
    assert lane.route_class is expected


@examples(60)
@given(messages, fleets, links, ends)
def test_a_route_class_changes_no_message_and_no_joule(
    sent: list[Sent], models: list[RadioModel], link: ServerLink, end: float | None
) -> None:
    network, spans = carried(sent, models, link, end)
    with pytest.MonkeyPatch.context() as patch:
        lead = Lane.set_route

        def in_full(lane: Lane, *route: object) -> None:
            lead(lane, *route)  # type: ignore[arg-type]
            lane.route_class = RouteClass.FULL

        patch.setattr(Lane, "set_route", in_full)
        full, full_spans = carried(sent, models, link, end)
    # Those that end at one instant may do so in another order.
    assert Counter(spans) == Counter(full_spans)
    assert network.star.message_log.delivered == full.star.message_log.delivered
    for client, radio in network.radios.items():
        assert radio.joules == pytest.approx(full.radios[client].joules)
