"""Classes of clients that are alike in all that a round's times and joules depend on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.topology import Route, Topology
from fedsim.sim.config import ClientConfig
from fedsim.sim.lazy import RunLengthSequence, joint
from fedsim.sim.network.routing import LinkPlan, RoutedLane, route_lanes
from fedsim.sim.power.radio_kind import RadioKind

Ids = NDArray[np.int64]
"""Numbers of clients."""

Class = tuple[ClientConfig, tuple[Route, Route]]
"""A client, and its routes up and down."""


def classes(kinds: RunLengthSequence[ClientConfig], links: Topology) -> RunLengthSequence[Class]:
    """Return the classes of a fleet in a star, by client.

    Args:
        kinds: for each client one like it.
        links: their routes to the server and from it.
    """
    up, down = (RunLengthSequence.of(routes) for routes in (links.up, links.down))
    return joint(kinds, joint(up, down))


def plan_links(
    kinds: RunLengthSequence[ClientConfig], links: Topology
) -> tuple[LinkPlan, list[tuple[int, RoutedLane]]]:
    """Return which links limit which lanes of a fleet in a star, and how many there are of which.

    Args:
        kinds: for each client one like it.
        links: their routes to the server and from it.
    """
    up, down = (kinds.map(lambda kind: kind.rates.up), kinds.map(lambda kind: kind.rates.down))
    both = route_lanes(links, up, down, RunLengthSequence([(len(kinds), False)]))
    lanes = [*both[0].runs, *both[1].runs]
    return LinkPlan(links, lanes), lanes


class ClassTable:
    """The constants of each class, as columns.

    Args:
        kinds: for each client one like it.
        links: their routes to the server and from it.

    Attributes:
        capacities: of the links, bit/s; infinite for those that vary.
        shares_links: whether messages of some client are limited by a link.
    """

    def __init__(self, kinds: RunLengthSequence[ClientConfig], links: Topology) -> None:
        members, (plan, _) = classes(kinds, links), plan_links(kinds, links)
        rows = [_constants(*item, plan) for _, item in members.runs]
        self.capacities = [link.capacity.peak for link in links.links]
        self.shares_links = any(row[f"link{up}"] >= 0 for row in rows for up in (0, 1))
        self._columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        sizes = [size for size, _ in members.runs]
        self._class = None if len(rows) == 1 else np.repeat(np.arange(len(rows)), sizes)

    def any(self, name: str) -> bool:
        """Return whether a constant is not zero for some class."""
        return bool(self._columns[name].any())

    def alike(self, clients: Ids) -> list[Ids]:
        """Return the places of those of some clients that are of one class, for each class."""
        if self._class is None:
            return [np.arange(len(clients))]
        own = self._class[clients]
        order = np.argsort(own, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(own[order])) + 1)

    def of(self, name: str, clients: Ids) -> NDArray[Any]:
        """Return a constant of some clients, shape (n,), or () where all have the same."""
        column = self._columns[name]
        return column[0] if self._class is None else column[self._class[clients]]


def _constants(member: ClientConfig, routes: Sequence[Route], plan: LinkPlan) -> dict[str, float]:
    """Return the constants of a class; those of a direction end in 0 for down, in 1 for up."""
    radio, device, both = member.radio, member.device, (member.rates.down, member.rates.up)
    kind, stages = RadioKind.of(radio, member.rates), radio.states.stages
    framing = radio.packaging
    row = {
        "extra": device.working() - device.idle,
        "held": kind.powers.held,
        "stateful": kind.stateful,
        "tail_time": stages[0].time,
        "tail_power": stages[0].power,
        "wake_time": stages[-1].wake_time,
        "wake_power": stages[-1].wake_power,
        "overhead": framing.overhead,
        "packet": framing.packet,
    }
    for up, (rate, route) in enumerate(zip(both, reversed(routes), strict=True)):
        row[f"cap{up}"] = rate.peak  # which is constant
        row[f"latency{up}"] = radio.latency + route.latency
        row[f"per_bit{up}"] = kind.per_bit[up]
        shared = plan.links(RoutedLane(0, bool(up), rate, route, watched=False))
        row[f"link{up}"] = shared[0] if shared else -1
        timed = kind.stateful or row[f"latency{up}"] or rate.peak < np.inf or shared
        row[f"instant{up}"] = not timed
    return row
