"""Choice of the bearer of each lane."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from fedsim.core.ports import ClientId
from fedsim.core.ports.bearers import Bearer, Transfer
from fedsim.physics.network_models import Bearers, OwnLaw, RateChanged, Site
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.signals import Signal
from fedsim.physics.topology import Topology
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.lazy import ComputedSequence
from fedsim.sim.network.flows import Changed, Link, Path
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.lanes import OpenBearer, TracedBearer
from fedsim.sim.network.processor_sharing import FairLink
from fedsim.sim.network.routing import LinkPlan, RoutedLane, route_lanes

T = TypeVar("T")


class FairBearer:
    """Messages of constant caps that share one link fairly."""

    open = False

    def __init__(self, link: FairLink) -> None:
        # The method of the link itself, as this runs once per message.
        self.start: Any = link.add


class WatchedBearer:
    """A radio whose rate follows a trace, with a callback for changes of the rate."""

    open = True

    def __init__(self, fluid: Fluid, signal: Signal, changed: Changed) -> None:
        self._fluid = fluid
        self._signal = signal
        self._path = fluid.path(())
        self._changed = changed

    def start(self, bits: float, cap: float, finished: Callable[[T], None], token: T) -> Transfer:
        """See `Bearer.start`."""
        fluid = self._fluid
        return fluid.add(self._path, bits, cap, finished, token, self._changed, self._signal)


class FluidBearer:
    """Flows of a fluid network, for messages that no simpler bearer carries.

    Args:
        fluid: the fluid network.
        path: the links on the path.
        changed: callback for changes of the rate, if any.
        signal: the signal of the radio's rate, if it varies.
        factor: the factor on that rate, and on the cap of a message.
    """

    open = False

    def __init__(
        self,
        fluid: Fluid,
        path: Path,
        changed: Changed | None,
        signal: Signal | None = None,
        factor: float = 1.0,
    ) -> None:
        self._fluid = fluid
        self._path = path
        self._factor = factor
        self._changed = changed
        self._signal = signal

    def start(self, bits: float, cap: float, finished: Callable[[T], None], token: T) -> Transfer:
        """See `Bearer.start`."""
        # The signal has its factor already; only the constant cap lacks it.
        most, signal = cap * self._factor, self._signal
        return self._fluid.add(self._path, bits, most, finished, token, self._changed, signal)


class FluidPlan:
    """The cheapest exact bearers of a fluid network.

    A lane carries one message at a time, so a link with capacity for all of its lanes is never
    contended. A lane without contended links is open. Lanes whose only contended link is the same
    share it in O(log n) per message. All others are flows of a network.

    Args:
        site: the radios and the links. Rates are reported at the end of an instant, except constant
            rates of open bearers.
        alone: whether links that several lanes share have to belong to the fluid network, because
            the clients of a cell share them with others.

    Attributes:
        fluid: the network.
        lanes: the uplinks and the downlinks.
        bearers: the bearers of both directions.
    """

    def __init__(self, site: Site, *, alone: bool = False) -> None:
        calendar = calendar_of(site)
        self.fluid, self._site = Fluid(calendar), site
        self.lanes = lanes_of(site)
        runs = [*self.lanes[0].runs, *self.lanes[1].runs]
        self._chooser = _Chooser(calendar, self.fluid, site.topology, runs, fluid_alone=alone)

    @property
    def bearers(self) -> Bearers:
        """The bearers of each client, uplink and downlink."""
        site = self._site
        up, down = (_Lanes(lane, self._chooser, site.changed, site.own) for lane in self.lanes)
        return up, down

    def links(self, lane: RoutedLane) -> list[Link]:
        """Return the links of the fluid network that can limit a lane."""
        return self._chooser.fluid_links(lane)

    def callback(self, lane: RoutedLane) -> Changed | None:
        """Return the rate callback of a lane's flows."""
        return rate_callback(lane, self._site.changed)


def calendar_of(site: Site) -> Calendar:
    """Return the calendar of a site in the simulated world."""
    return cast("Calendar", site.calendar)


def lanes_of(site: Site) -> tuple[RunLengthSequence[RoutedLane], RunLengthSequence[RoutedLane]]:
    """Return the uplinks and the downlinks of a site, by client."""
    of = RunLengthSequence.of
    watched = of(site.watched) if site.watched else RunLengthSequence([(site.clients, False)])
    return route_lanes(site.topology, of(site.up), of(site.down), watched)


def rate_callback(lane: RoutedLane, changed: RateChanged | None) -> Changed | None:
    """Return the rate callback of a lane's flows.

    A battery needs every change of rate. So does the time on air of a radio whose own rate varies.
    """
    if changed is None or not (lane.watched or lane.rate.signal is not None):
        return None
    client, up = lane.client, lane.up
    return lambda _, rate: changed(client, up, rate)


class _Lanes(ComputedSequence[Bearer]):
    """The bearers of one direction by client, each chosen at its lookup."""

    def __init__(
        self,
        route_lanes: RunLengthSequence[RoutedLane],
        chooser: "_Chooser",
        changed: RateChanged | None,
        own: OwnLaw | None,
    ) -> None:
        self._lanes = route_lanes
        self._chooser = chooser
        self._changed = changed
        self._own = own

    def item(self, index: ClientId) -> Bearer:
        """Return the bearer of a client."""
        lane = self._lanes[index]._replace(client=index)
        # Clients of a run may start their trace at different times: the law of this client.
        if self._own is not None and lane.rate.signal is not None:
            lane = lane._replace(rate=self._own(index, lane.up))
        return self._chooser.bearer(lane, rate_callback(lane, self._changed))

    def __len__(self) -> int:
        return len(self._lanes)


class _Chooser:
    """Chooses bearers, and creates each link that they need once."""

    def __init__(
        self,
        calendar: Calendar,
        fluid: Fluid,
        topology: Topology,
        lanes: Sequence[tuple[int, RoutedLane]],
        *,
        fluid_alone: bool,
    ) -> None:
        self._calendar = calendar
        self._fluid = fluid
        self._links = topology.links
        self._plan = LinkPlan(topology, lanes)
        self._plain = OpenBearer(calendar)  # shared by all open lanes
        self._fair: dict[int, FairBearer] = {}
        self._fluid_links: dict[int, Link] = {}
        self._fluid_alone = fluid_alone

    def bearer(self, lane: RoutedLane, changed: Changed | None) -> Bearer:
        """Return the cheapest exact bearer of a lane."""
        limiting = self._plan.links(lane)
        if not limiting:
            return self._open(lane, changed)
        if self._plan.simple(lane) and not self._fluid_alone:
            return self._fair_bearer(limiting[0])
        # Several links bind, a link has a trace or a queue, a rate is watched, or cells share the
        # link: `FairLink` covers none of these.
        path = self._fluid.path(self.fluid_links(lane))
        return FluidBearer(self._fluid, path, changed, lane.rate.signal)

    def fluid_links(self, lane: RoutedLane) -> list[Link]:
        """Return the links of the fluid network that can limit a lane."""
        return [self._fluid_link(link) for link in self._plan.links(lane)]

    def _open(self, lane: RoutedLane, changed: Changed | None) -> Bearer:
        if (signal := lane.rate.signal) is None:
            return self._plain
        if changed is None or not lane.watched:
            # Nobody has to know the rate along the way, so one integral gives the end.
            return TracedBearer(self._calendar, signal)
        return WatchedBearer(self._fluid, signal, changed)

    def _fair_bearer(self, number: int) -> FairBearer:
        if number not in self._fair:
            capacity = self._links[number].capacity.peak  # constant, by the choice of bearer
            self._fair[number] = FairBearer(FairLink(self._calendar, capacity))
        return self._fair[number]

    def _fluid_link(self, number: int) -> Link:
        if number not in self._fluid_links:
            plan, capacity = self._plan, self._links[number].capacity
            link = self._fluid.link(capacity, plan.discipline(number), plan.users(number))
            self._fluid_links[number] = link
        return self._fluid_links[number]
