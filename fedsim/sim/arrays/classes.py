"""Classes of clients with equal constants in everything that affects times and energy."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.radios.stages import stage_records
from fedsim.physics.run_length import RunLengthSequence, joint
from fedsim.physics.topology import Route, Topology
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.routing import LinkPlan, RoutedLane, route_lanes
from fedsim.sim.power.radio_kind import RadioKind

Ids = NDArray[np.int64]
"""Numbers of clients."""

Class = tuple[ClientConfig, tuple[Route, Route]]
"""A client's configuration, and its routes up and down."""


def classes(kinds: RunLengthSequence[ClientConfig], links: Topology) -> RunLengthSequence[Class]:
    """Return the classes of a fleet in a star, by client.

    Args:
        kinds: the configuration of each client.
        links: the routes of clients to the server and back.
    """
    up, down = (RunLengthSequence.of(routes) for routes in (links.up, links.down))
    return joint(kinds, joint(up, down))


def plan_links(
    kinds: RunLengthSequence[ClientConfig], links: Topology
) -> tuple[LinkPlan, list[tuple[int, RoutedLane]]]:
    """Return the links that limit the lanes of a fleet in a star, and runs of equal lanes.

    Args:
        kinds: the configuration of each client.
        links: the routes of clients to the server and back.
    """
    up, down = (kinds.map(lambda kind: kind.rates.up), kinds.map(lambda kind: kind.rates.down))
    # Watched lanes report their rates to a battery.
    both = route_lanes(links, up, down, kinds.map(lambda kind: kind.battery is not None))
    lanes = [*both[0].runs, *both[1].runs]
    return LinkPlan(links, lanes), lanes


class ClassTable:
    """The constants of each class, as columns.

    Args:
        kinds: the configuration of each client.
        links: the routes of clients to the server and back.
        least_charge: the state of charge that participation requires beside the battery's mark.

    Attributes:
        capacities: the capacities of links, bit/s; infinite for those that vary.
        shares_links: whether a link limits the messages of some client.
        stages: of the radio of each class, as records of shape (classes, stages).
        names: the names of radio stages.
    """

    def __init__(
        self,
        kinds: RunLengthSequence[ClientConfig],
        links: Topology,
        least_charge: float = 0.0,
    ) -> None:
        members, (plan, _) = classes(kinds, links), plan_links(kinds, links)
        rows = [
            _constants(*item, plan) | _battery_constants(item[0], least_charge)
            for _, item in members.runs
        ]
        self.capacities = [link.capacity.peak for link in links.links]
        self.shares_links = any(row[f"link{up}"] >= 0 for row in rows for up in (0, 1))
        radios = [kind.radio.states.stages for _, (kind, _) in members.runs]
        self.stages = stage_records(radios)
        # In the order of first use, and without the empty name of unnamed stages.
        self.names = [*dict.fromkeys(stage.name for one in radios for stage in one if stage.name)]
        self._names = np.full(self.stages.shape, -1)
        for row, stages in zip(self._names, radios, strict=True):
            for place, stage in enumerate(stages):
                row[place] = self.names.index(stage.name) if stage.name else -1
        self._columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        sizes = [size for size, _ in members.runs]
        self._count = len(members)
        # One class needs no labels: constants stay scalars, which NumPy broadcasts.
        self._class = None if len(rows) == 1 else np.repeat(np.arange(len(rows)), sizes)

    def any(self, name: str) -> bool:
        """Return whether a constant is nonzero for some class."""
        return bool(self._columns[name].any())

    def alike(self, clients: Ids) -> list[Ids]:
        """Return the indices of the clients of each class, among some clients."""
        if self._class is None:
            return [np.arange(len(clients))]
        labels = self._class[clients]
        # Stable, so that clients of a class stay in their order.
        order = np.argsort(labels, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)

    def of(self, name: str, clients: Ids) -> NDArray[Any]:
        """Return a constant of some clients, shape (n,), or () if there is one class."""
        column = self._columns[name]
        return column[0] if self._class is None else column[self._class[clients]]

    def every(self, name: str) -> NDArray[Any]:
        """Return a constant of all clients, shape (M,), broadcast if there is one class."""
        column = self._columns[name]
        return np.broadcast_to(column, self._count) if self._class is None else column[self._class]

    def of_stage(self, name: str, clients: Ids, stages: NDArray[np.integer]) -> NDArray[Any]:
        """Return a constant of the stages that the radios of some clients are in, shape (n,)."""
        labels = 0 if self._class is None else self._class[clients]
        constants: NDArray[Any] = self.stages[name][labels, stages]
        return constants

    def stage_names(self, clients: Ids, stages: NDArray[np.integer]) -> NDArray[np.intp]:
        """Return the index in `names` of the stage that each radio is in; -1 without a name."""
        names: NDArray[np.intp] = self._names[self.labels(clients), stages]
        return names

    def labels(self, clients: Ids) -> NDArray[np.intp]:
        """Return the class of each of some clients, shape (n,)."""
        return np.zeros(len(clients), int) if self._class is None else self._class[clients]


def _constants(member: ClientConfig, routes: Sequence[Route], plan: LinkPlan) -> dict[str, float]:
    """Return the constants of a class; a suffix 0 stands for downlink, 1 for uplink."""
    radio, device, both = member.radio, member.device, (member.rates.down, member.rates.up)
    kind, stages = RadioKind.of(radio, member.rates), radio.states.stages
    framing = radio.packaging
    row = {
        "extra": device.working() - device.idle,
        "held": kind.powers.held,
        "stateful": kind.stateful,
        "last_stage": len(stages) - 1,
        "last_cycle": stages[-1].cycle,
        "paged": kind.stateful and any(stage.cycle for stage in stages),
        "named": any(stage.name for stage in stages),
        "overhead": framing.overhead,
        "packet": framing.packet,
    }
    # `both` is (down, up), as the suffixes are, but `routes` is (up, down).
    for up, (rate, route) in enumerate(zip(both, reversed(routes), strict=True)):
        # Constant rate, no silence and no losses: every message has the same terms.
        plain = rate.constant is not None and rate.continuous and not radio.loss.mean
        row[f"varies{up}"] = not plain
        # A client that is not always there, or has a battery, has lanes that could break off.
        stays = member.availability.always and member.battery is None
        # "full": the start of a message's bits is an event of its own. Elsewhere a single timer
        # covers latency and transmission, see `Lane.direct`.
        row[f"full{up}"] = full = not (plain and kind.detached and stays)
        row[f"cap{up}"] = rate.peak  # overwritten per message if the channel varies
        row[f"latency{up}"] = radio.latency + route.latency
        row[f"per_bit{up}"] = kind.per_bit[up]
        shared = plan.links(RoutedLane(0, bool(up), rate, route, watched=False))
        row[f"link{up}"] = shared[0] if shared else -1
        # Neither latency nor transmission take time: the message arrives in the event of sending.
        timed = full or row[f"latency{up}"] or rate.peak < np.inf or shared
        row[f"instant{up}"] = not timed
    return row


def _battery_constants(member: ClientConfig, least_charge: float) -> dict[str, float]:
    """Return the constants of the batteries of a class; zeros and ones on mains."""
    if (battery := member.battery) is None:
        # Neutral values: columns exist for all classes if any has a battery.
        names = ("battery", "rest", "leak", "mark", "initial", "level")
        return {"capacity": 1.0, "efficiency": 1.0} | dict.fromkeys(names, 0.0)
    store = member.store(least_charge)
    return {
        "battery": 1.0,
        "capacity": store.capacity,
        "efficiency": battery.discharge_efficiency,
        "rest": member.device.idle + member.radio.resting,
        "leak": battery.leak(store.capacity),
        "mark": store.lower_mark,
        "initial": store.initial,
        "level": store.level,
    }
