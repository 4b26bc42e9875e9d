"""LV08, SimGrid's validated model of TCP transfers, as flows of a fluid network.

Velho and Legrand, "Accuracy study and improvement of network simulation in the SimGrid
framework", SIMUTools 2009; the constants are those of SimGrid since 3.x (`network/model:LV08`).
As there, weight and window see the latencies and bandwidths of the platform as they are, and
the bandwidth factor applies to whatever rate a flow gets, be it held back by a link or by
its window. All amounts are in bits here and in bytes there.
"""

from collections.abc import Sequence
from math import inf

from fedsim.physics.radios import RateLaw
from fedsim.physics.topology import Topology
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.pipes import Link, Path, Pipe
from fedsim.sim.network.planning import LinkPlan, Way

LATENCY_FACTOR = 13.01
"""What slow start makes of the latency of route and radio."""

BANDWIDTH_FACTOR = 0.97
"""What headers leave of a bandwidth."""

REVERSE_USAGE = 0.05
"""What acknowledgements take of the way back, of the rate on the way there."""

SEGMENT = 8 * 20537.0
"""The S of the weight 1/(latency + sum S/bandwidth), bits."""

WINDOW = 8 * 4194304.0
"""The largest window of TCP, bits; a flow has one of it in every round trip at most."""


def weight(latency: float, bandwidths: Sequence[float]) -> float:
    """Return the weight of a flow: the inverse of its round-trip time under load.

    Args:
        latency: one way, s.
        bandwidths: of all links on its way, bit/s.
    """
    penalty = latency + sum([SEGMENT / bandwidth for bandwidth in bandwidths])
    return 1.0 / penalty if penalty else 1.0


def most(latency: float) -> float:
    """Return what the window lets through at a one-way latency in s, bit/s."""
    return WINDOW / (2.0 * latency) if latency else inf


def nominal(law: RateLaw) -> float:
    """Return the bandwidth that a weight is computed with, bit/s: in the long run."""
    return law.average or law.peak or inf


def paths(
    fluid: Fluid, topology: Topology, lanes: Sequence[Way], radio_latency: Sequence[float]
) -> list[Path]:
    """Return the path of every lane; the two directions of a client are each other's way back.

    Args:
        fluid: where they will flow.
        topology: links and routes.
        lanes: the uplinks by client, and then the downlinks.
        radio_latency: by client, one way, s.
    """
    plan, clients = LinkPlan(topology, [(1, lane) for lane in lanes]), len(lanes) // 2
    links = [
        fluid.link(link.capacity.scaled(BANDWIDTH_FACTOR), plan.discipline(n), plan.users(n))
        for n, link in enumerate(topology.links)
    ]
    radios = [fluid.link(lane.rate.scaled(BANDWIDTH_FACTOR)) for lane in lanes]
    used = [
        (radio, *[links[link] for link in lane.route.links])
        for radio, lane in zip(radios, lanes, strict=True)
    ]
    result = list[Path]()
    for number, lane in enumerate(lanes):
        usage = round_trip(used[number], used[(number + clients) % len(lanes)])
        latency = lane.route.latency + radio_latency[lane.client]
        laws = [lane.rate, *[topology.links[link].capacity for link in lane.route.links]]
        importance = weight(latency, [nominal(law) for law in laws])
        limit = BANDWIDTH_FACTOR * most(latency)
        result.append(fluid.path([*usage], [*usage.values()], importance, limit))
    return result


def round_trip(there: Sequence[Link], back: Sequence[Link]) -> dict[Link, float]:
    """Return what a flow takes of each link, in proportion to its rate."""
    usage = dict.fromkeys(there, 1.0)
    for link in back:
        if isinstance(link, Pipe):  # acknowledgements neither queue nor wait for a slot
            usage[link] = usage.get(link, 0.0) + REVERSE_USAGE
    return usage
