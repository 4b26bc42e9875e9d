"""Transmission: the bearer of a lane's messages, chosen once for each lane."""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, TypeVar

from fedsim.physics.cells import CellSharing
from fedsim.physics.radios import RateLaw
from fedsim.physics.run_length import RunLengthSequence
from fedsim.physics.signals import Signal
from fedsim.physics.topology import Topology
from fedsim.ports import ClientId
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.lazy import ComputedSequence
from fedsim.sim.network import routing
from fedsim.sim.network.air import AirBearer, AirLink, CellRadios
from fedsim.sim.network.cells import CellBearers
from fedsim.sim.network.flows import Changed, Link, Path
from fedsim.sim.network.fluid import Fluid
from fedsim.sim.network.lanes import Bearer, OpenBearer, TracedBearer, Transfer
from fedsim.sim.network.processor_sharing import FairLink
from fedsim.sim.network.routing import LinkPlan, RoutedLane, route_lanes
from fedsim.sim.network.tcp.bearers import Connections, TcpBearers, TcpLanes

T = TypeVar("T")

Sharing = Literal["fluid", "lv08", "tcp"]
"""Plain max-min fairness, SimGrid's validated model of TCP, or TCP's windows in queues."""

RateChanged = Callable[[ClientId, bool, float], None]
"""Called with a client, whether its bits flow up, and their rate from now on, bit/s."""

Both = tuple[Sequence[Bearer], Sequence[Bearer]]
"""The bearers of uplinks and of downlinks, by client."""

OwnLaw = Callable[[ClientId, bool], RateLaw]
"""Returns a client's own rate law, up or down: in a fleet it may stand for many that are alike
but for where their traces start."""


@lru_cache
def delay(latency: float, sharing: Sharing = "fluid") -> float:
    """Return how long a message takes before its bits contend for links, s.

    Args:
        latency: of route and radio together, one way, s.
        sharing: the model of the network.
    """
    if sharing == "tcp":  # its bearer knows the way
        return 0.0
    return routing.LATENCY_FACTOR * latency if sharing == "lv08" else latency


class FairBearer:
    """Messages of constant caps share one link with others of their kind."""

    open = False

    def __init__(self, link: FairLink) -> None:
        # The link's own method, for this runs once a message: the code that declared the lane's
        # rate to be constant gives a number.
        self.start: Any = link.add


class WatchedBearer:
    """A radio alone, at a rate that follows a trace, with a callback for changes of the rate."""

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
    """The bearer of messages that no simpler one carries: flows of a fluid network.

    Args:
        fluid: where it flows.
        path: over which links.
        changed: callback for changes of its rate, if any.
        signal: what the radio's rate follows, if it varies.
        factor: what is left of that rate, and of the cap of a message.
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
        most, signal = cap * self._factor, self._signal
        return self._fluid.add(self._path, bits, most, finished, token, self._changed, signal)


def choose_bearers(
    calendar: Calendar,
    topology: Topology,
    up: Sequence[RateLaw],
    down: Sequence[RateLaw],
    *,
    model: Sharing = "fluid",
    radio_latency: Sequence[float] = (),
    watched: Sequence[bool] = (),
    changed: RateChanged | None = None,
    own: OwnLaw | None = None,
    connections: Connections | None = None,
    radios: CellRadios | None = None,
    cell: CellSharing | None = None,
    cellular: Sequence[bool] = (),
) -> Both:
    """Choose the cheapest exact bearer for every client's uplink and downlink.

    A lane carries one message at a time, so a link with room for what all of its lanes can reach is
    never contended. A lane without any other link is open. Lanes that meet at one contended link
    alone share it at O(log n) a message. All others, and all under LV08, are flows of a network.

    Args:
        calendar: the time.
        topology: links and routes.
        up: by client: the rate of its radio.
        down: the same for its downlink.
        model: of the network.
        radio_latency: by client, one way, s; only LV08 and TCP ask for it.
        watched: by client: whether changes of its rates are reported.
        changed: callback of rates at the end of an instant, but constant ones of open bearers.
        own: see `OwnLaw`; not needed where `up` and `down` have each client's own.
        connections: under TCP, what they are.
        radios: in Wi-Fi cells, what these are.
        cell: how cells of LTE and 5G are shared; None where there are none.
        cellular: by client: whether it is in one, and not in one of Wi-Fi.
    """
    fluid, clients = Fluid(calendar), len(up)
    seen = RunLengthSequence.of(watched) if watched else RunLengthSequence([(clients, False)])
    both = route_lanes(topology, RunLengthSequence.of(up), RunLengthSequence.of(down), seen)
    if connections is not None:
        callback = partial(_rate_callback, changed=changed)
        made = TcpBearers(calendar, topology, both, radio_latency, connections, callback, own)
        return TcpLanes(made, clients, up=True), TcpLanes(made, clients, up=False)
    if model == "lv08":
        return _choose_lv08(fluid, topology, both, radio_latency, changed)
    chooser = _Chooser(calendar, fluid, topology, [*both[0].runs, *both[1].runs])
    chooser.fluid_alone = cell is not None or radios is not None
    one, other = (Bearers(each, chooser, changed, own) for each in both)
    bearers: Both = (one, other)
    if cell is not None:
        bearers = _share_cells(fluid, cell, cellular, both, chooser, bearers, changed)
    if radios is not None:
        return _AirCells(calendar, fluid, both, chooser, radios, changed).lanes(cellular, bearers)
    return bearers


def _share_cells(
    fluid: Fluid,
    cell: CellSharing,
    cellular: Sequence[bool],
    both: Sequence[RunLengthSequence[RoutedLane]],
    chooser: "_Chooser",
    others: Both,
    changed: RateChanged | None,
) -> Both:
    """Return the bearers of uplinks and downlinks in cells of LTE and 5G, and all others' own."""
    callback = partial(_rate_callback, changed=changed)
    one, other = (
        CellBearers(fluid, cell, cellular, lanes, chooser.fluid_links, callback, each)
        for lanes, each in zip(both, others, strict=True)
    )
    return one, other


def _choose_lv08(
    fluid: Fluid,
    topology: Topology,
    both: Sequence[RunLengthSequence[RoutedLane]],
    radio_latency: Sequence[float],
    changed: RateChanged | None,
) -> Both:
    """Return the bearers of uplinks and downlinks under LV08: flows of the fluid network."""
    lanes = [way._replace(client=n) for each in both for n, way in enumerate(each)]
    paths = routing.paths(fluid, topology, lanes, radio_latency)
    factor, clients = routing.BANDWIDTH_FACTOR, len(lanes) // 2
    made: list[Bearer] = []
    for path, lane in zip(paths, lanes, strict=True):
        signal = lane.rate.with_factor(factor).signal
        made.append(FluidBearer(fluid, path, _rate_callback(lane, changed), signal, factor))
    return made[:clients], made[clients:]


def _rate_callback(lane: RoutedLane, changed: RateChanged | None) -> Changed | None:
    """Return the rate callback of a lane's flows.

    A battery follows every rate; and where a radio's own rate varies, its time on air does.
    """
    if changed is None or not (lane.watched or lane.rate.signal is not None):
        return None
    client, up = lane.client, lane.up
    return lambda _, rate: changed(client, up, rate)


class Bearers(ComputedSequence[Bearer]):
    """The bearers of one direction by client, each chosen at its lookup."""

    def __init__(
        self,
        route_lanes: RunLengthSequence[RoutedLane],
        chooser: "_Chooser",
        changed: RateChanged | None,
        own: OwnLaw | None,
    ) -> None:
        self._ways = route_lanes
        self._chooser = chooser
        self._changed = changed
        self._own = own

    def item(self, index: ClientId) -> Bearer:
        """Return the bearer of a client."""
        way = self._ways[index]._replace(client=index)
        if self._own is not None and way.rate.signal is not None:
            way = way._replace(rate=self._own(index, way.up))
        return self._chooser.bearer(way, _rate_callback(way, self._changed))

    def __len__(self) -> int:
        return len(self._ways)


class _AirCells:
    """Makes the bearers of clients in Wi-Fi cells, and the air of each cell once."""

    def __init__(
        self,
        calendar: Calendar,
        fluid: Fluid,
        lanes: tuple[RunLengthSequence[RoutedLane], RunLengthSequence[RoutedLane]],
        chooser: "_Chooser",
        radios: CellRadios,
        changed: RateChanged | None,
    ) -> None:
        self._calendar, self._fluid, self._both = calendar, fluid, lanes
        self._chooser, self._radios, self._changed = chooser, radios, changed
        self._air: dict[int, AirLink] = {}

    def lanes(self, cellular: Sequence[bool], others: Both) -> Both:
        """Return the bearers of both directions: of LTE and 5G radios, their own."""
        one, other = others
        return (
            _AirBearers(self, cellular, one, up=True),
            _AirBearers(self, cellular, other, up=False),
        )

    def bearer(self, client: ClientId, *, up: bool) -> AirBearer:
        """Return the bearer of one direction of a client."""
        sent, received = [lanes[client]._replace(client=client) for lanes in self._both]
        lane, law = sent if up else received, self._radios.law
        cell = self._radios.cell(client, len(self._both[0]))
        if cell not in self._air:
            self._air[cell] = AirLink(self._calendar)
        return AirBearer(
            self._calendar,
            self._fluid,
            self._air[cell],
            self._chooser.fluid_links(lane),
            self._radios,
            client,
            (law.timing(sent.rate.peak), law.timing(received.rate.peak)),
            _rate_callback(lane, self._changed),
            up=up,
        )


class _AirBearers(ComputedSequence[Bearer]):
    """The bearers of one direction by client: of Wi-Fi cells, and those of LTE and 5G radios."""

    def __init__(
        self, cells: _AirCells, cellular: Sequence[bool], others: Sequence[Bearer], *, up: bool
    ) -> None:
        self._cells, self._cellular, self._others, self._up = cells, cellular, others, up

    def __len__(self) -> int:
        return len(self._others)

    def item(self, index: ClientId) -> Bearer:
        """Return the bearer of a client."""
        if self._cellular and self._cellular[index]:
            return self._others[index]
        return self._cells.bearer(index, up=self._up)


class _Chooser:
    """Chooses bearers, and creates the links that they need, each of them once."""

    def __init__(
        self,
        calendar: Calendar,
        fluid: Fluid,
        topology: Topology,
        lanes: Sequence[tuple[int, RoutedLane]],
    ) -> None:
        self._calendar = calendar
        self._fluid = fluid
        self._links = topology.links
        self._plan = LinkPlan(topology, lanes)
        self._plain = OpenBearer(calendar)  # shared by all lanes that need no more
        self._fair: dict[int, FairBearer] = {}
        self._fluid_links: dict[int, Link] = {}
        # A link that a cell's clients share with others has to be one link, of the fluid network.
        self.fluid_alone = False

    def bearer(self, lane: RoutedLane, changed: Changed | None) -> Bearer:
        """Return the cheapest exact bearer of a lane."""
        kept = self._plan.links(lane)
        if not kept:
            return self._open(lane, changed)
        if self._plan.simple(lane) and not self.fluid_alone:
            return self._fair_bearer(kept[0])
        path = self._fluid.path(self.fluid_links(lane))
        return FluidBearer(self._fluid, path, changed, lane.rate.signal)

    def fluid_links(self, lane: RoutedLane) -> list[Link]:
        """Return the links of the fluid network that can limit a lane."""
        return [self._fluid_link(link) for link in self._plan.links(lane)]

    def _open(self, lane: RoutedLane, changed: Changed | None) -> Bearer:
        if (signal := lane.rate.signal) is None:
            return self._plain
        if changed is None or not lane.watched:
            return TracedBearer(self._calendar, signal)
        return WatchedBearer(self._fluid, signal, changed)

    def _fair_bearer(self, number: int) -> FairBearer:
        if number not in self._fair:
            capacity = self._links[number].capacity.peak  # it does not vary
            self._fair[number] = FairBearer(FairLink(self._calendar, capacity))
        return self._fair[number]

    def _fluid_link(self, number: int) -> Link:
        if number not in self._fluid_links:
            plan, capacity = self._plan, self._links[number].capacity
            link = self._fluid.link(capacity, plan.discipline(number), plan.users(number))
            self._fluid_links[number] = link
        return self._fluid_links[number]
