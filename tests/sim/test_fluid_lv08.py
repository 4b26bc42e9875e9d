"""LV08 against figures by hand; tests/sim/test_simgrid_golden.py has SimGrid's own."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

import fedsim
from fedsim.physics.network_models import Lv08, Site
from fedsim.physics.signals import Constant, Steps
from fedsim.physics.topology import Topology, build_routes, star
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.models import layer
from fedsim.sim.network.routing import weight
from tests.runs import small
from tests.sim.radios import law

MEGABIT, KILOBYTE = 1e6, 8e3


LV08 = layer("lv08", Lv08())


def spans(
    topology: Topology,
    radios: tuple[Any, Any],
    latency: float,
    messages: Mapping[tuple[int, bool], float],
) -> dict[tuple[int, bool], float]:
    """Return how long after its bits have begun to flow each message has passed.

    Args:
        topology: links and routes.
        radios: every client's up and down rate.
        latency: of every client's radio.
        messages: by client and direction (up or not), the bits.
    """
    calendar, passed, clients = Calendar(), dict[tuple[int, bool], float](), len(topology.up)

    def end(key: tuple[int, bool]) -> None:
        passed[key] = calendar.now

    ups, downs = LV08.bearers(
        Site(
            calendar=calendar,
            topology=topology,
            up=[law(radios[0])] * clients,
            down=[law(radios[1])] * clients,
            latency=[latency] * clients,
        )
    )
    for (client, up), bits in messages.items():
        bearer, cap = (ups, radios[0]) if up else (downs, radios[1])
        bearer[client].start(bits, law(cap).peak, end, (client, up))
    calendar.run()
    return passed


def wire(rate: float, latency: float, duplex: str) -> Topology:
    edge = {"rate": rate, "latency": latency, "duplex": duplex}
    return build_routes(nx.Graph([("server", "client-0", edge)]), 1)


@pytest.mark.parametrize(
    ("duplex", "expected"),
    [("half", 0.996079), ("full", 0.1301 + 0.8 / 0.97)],
    ids=["half-duplex", "full-duplex"],
)
def test_100_kilobytes_over_10_milliseconds_and_1_megabit_a_second(
    duplex: str, expected: float
) -> None:
    made = wire(MEGABIT, 0.01, duplex)
    span = spans(made, (inf, inf), 0.0, {(0, True): 100 * KILOBYTE})
    assert LV08.delay(0.01) + span[0, True] == pytest.approx(expected, abs=5e-7)


def test_the_window_lets_through_its_size_in_every_round_trip() -> None:
    # 97 % of 4 MiB in 0.2 s, which SimGrid takes 6.2168 s for with the latency of 1.301 s.
    span = spans(wire(8e9, 0.1, "full"), (inf, inf), 0.0, {(0, True): 8e8})
    assert span[0, True] == pytest.approx(8e8 / (0.97 * 8 * 4194304 / 0.2), rel=1e-12)
    assert span[0, True] + LV08.delay(0.1) == pytest.approx(6.2168469918, rel=1e-9)


def test_the_radio_counts_as_a_link_of_the_route() -> None:
    on_wire = spans(wire(MEGABIT, 0.01, "full"), (inf, inf), 0.0, {(0, False): 1e6})
    by_radio = spans(star(1), (MEGABIT, MEGABIT), 0.01, {(0, False): 1e6})
    assert on_wire == by_radio


def test_both_directions_carry_each_other_s_acknowledgements() -> None:
    # Each of two equal flows gets x with x + 0.05 x = 97 % of the rate.
    span = spans(star(1), (MEGABIT, MEGABIT), 0.01, {(0, True): 1e6, (0, False): 1e6})
    assert list(span.values()) == pytest.approx([1.05 / 0.97] * 2, rel=1e-12)


def test_flows_share_in_proportion_to_the_inverse_of_their_round_trips() -> None:
    graph: nx.Graph[str] = nx.Graph()
    for client, latency in enumerate((0.01, 0.03)):
        graph.add_edge(f"client-{client}", "hub", latency=latency)
    graph.add_edge("hub", "server", rate=10 * MEGABIT)
    penalties = [latency + 8 * 20537 / (10 * MEGABIT) for latency in (0.01, 0.03)]
    share = penalties[1] / sum(penalties)
    messages = {(0, True): share * 1e7, (1, True): (1 - share) * 1e7}
    span = spans(build_routes(graph, 2), (inf, inf), 0.0, messages)
    assert list(span.values()) == pytest.approx([1 / 0.97] * 2, rel=1e-9)


def test_without_any_latency_or_limit_nothing_takes_time() -> None:
    assert spans(star(1), (inf, inf), 0.0, {(0, True): 1e9}) == {(0, True): 0.0}


def test_without_latency_there_is_no_window() -> None:
    assert spans(star(1), (1e12, 1e12), 0.0, {(0, True): 0.97e12}) == {(0, True): 1.0}


def test_queues_and_slots_are_for_the_bits_and_not_for_acknowledgements() -> None:
    fifo = star(2, uplink=MEGABIT, downlink=MEGABIT, discipline="fifo")
    both = {(client, up): 0.97e6 for client in (0, 1) for up in (False, True)}
    assert sorted(spans(fifo, (inf, inf), 0.01, both).values()) == pytest.approx([1, 1, 2, 2])
    slotted = star(2, uplink=MEGABIT, discipline="slotted")
    assert spans(slotted, (inf, inf), 0.01, {(0, True): 0.97e6}) == {(0, True): 2.0}


def test_a_radio_may_follow_a_trace() -> None:
    trace = Steps([0, 1], [1e6, 3e6], period=2)
    span = spans(star(1), (trace, 1e9), 0.01, {(0, True): 0.97 * 5e6})
    assert span[0, True] == pytest.approx(3.0, rel=1e-12)
    still = spans(star(1), (Constant(1e6), 1e9), 0.01, {(0, True): 0.97e6})
    assert still == {(0, True): 1.0}


def test_a_flow_over_nothing_that_slows_it_has_a_weight_all_the_same() -> None:
    assert weight(0.0, []) == weight(1.0, []) == 1.0
    assert weight(0.5, []) == 2.0


def test_clients_of_a_group_go_by_their_own_places_in_a_trace_as_they_do_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "rate.csv").write_text("0,0.01\n2,0.002\n5,0.03\n6,0.01\n")
    trace = {"kind": "csv", "path": str(tmp_path / "rate.csv"), "shift": "random"}
    group = {"device": "ideal", "radio": {"kind": "wifi", "latency": "0 s", "down_trace": trace}}
    passed = {}
    for model in ("lv08", "fluid"):
        world = small(
            fleet=[group | {"count": 3}],
            network={"topology": "tree", "gateways": 1, "model": model},
            stop={"rounds": 1},
        )
        events = fedsim.run(world, out=tmp_path / model).events
        rows = events[events["event"] == "receive"]
        passed[model] = rows[rows["node"] != "server"].set_index("node")["duration"].to_dict()
    assert len(set(passed["lv08"].values())) > 1
    for client, seconds in passed["fluid"].items():  # each within one piece of its trace
        assert passed["lv08"][client] == pytest.approx(seconds / 0.97, rel=1e-9)
