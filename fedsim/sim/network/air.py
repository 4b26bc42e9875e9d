"""The air of Wi-Fi cells: a link whose capacity is time, shared by uplink and downlink.

It is a link of the fluid network (`fedsim.sim.network.flows.ContendedLink`) with variable terms:
the time that a bit takes, and the weight of a flow, depend on the other senders, by the law of
`fedsim.physics.airtime`. The fluid network does the rest: it shares rates anew whenever a message
starts or ends.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from fedsim.core.ports import ClientId
from fedsim.core.ports.bearers import Transfer
from fedsim.physics.airtime import TURNS, AirPlan, CellAir, air, plan
from fedsim.physics.network_models import Site
from fedsim.physics.radios import ConstantRate
from fedsim.physics.wifi import FrameTiming, Wifi
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.flows import Changed, ContendedLink, Flow, Link, Path
from fedsim.sim.network.fluid import Fluid

T = TypeVar("T")

_KEPT = 64
"""Number of plans that a bearer keeps: messages have few different sizes."""


class AirPath(Path):
    """The path of one message: through a cell's air, and over other links.

    Attributes:
        plan: the frame exchanges of the message.
    """

    __slots__ = ("plan",)

    def __init__(self, cell: "AirLink", links: Sequence[Link], exchanges: AirPlan) -> None:
        # The usage is set at each sharing, so any positive number serves as a placeholder.
        super().__init__((cell, *links), [1.0] * (1 + len(links)), 1.0)
        self.plan = exchanges


class AirLink(ContendedLink):
    """The air of one cell: a capacity of one second per second.

    Args:
        calendar: the calendar.
    """

    __slots__ = ("_air", "_calendar", "_plans", "_since", "_wasted")

    def __init__(self, calendar: Calendar) -> None:
        super().__init__(ConstantRate(1.0))
        self._calendar = calendar
        self._plans: dict[AirPlan, int] = {}
        self._air: CellAir | None = None
        self._since = 0.0
        self._wasted = 0.0

    def enter(self, flow: Flow, hop: int) -> None:
        """Admit a message."""
        super().enter(flow, hop)
        # The account is closed with the plans as they were, so `_change` comes before the update.
        plan = cast("AirPath", flow.path).plan
        self._change()
        self._plans[plan] = self._plans.get(plan, 0) + 1

    def leave(self, flow: Flow) -> None:
        """Remove a message."""
        super().leave(flow)
        plan = cast("AirPath", flow.path).plan
        self._change()
        self._plans[plan] -= 1
        if not self._plans[plan]:
            del self._plans[plan]

    def _change(self) -> None:
        """Close the account of the present state, which is about to change."""
        self._wasted, self._since, self._air = self.waste(), self._calendar.now, None

    def state(self) -> CellAir:
        """Return the terms of the present messages."""
        if self._air is None:
            self._air = air(self._plans)
        return self._air

    def terms(self) -> Mapping[Any, tuple[float, float]]:
        """Return, by plan, the time that a bit takes, s, and the bits of a turn."""
        return self.state().terms

    def kind(self, flow: Flow) -> AirPlan:
        """Return the plan of a message."""
        return cast("AirPath", flow.path).plan

    def waste(self) -> float:
        """Return the integral of failed transmissions per success until now, s."""
        elapsed = self._calendar.now - self._since
        # Without messages there is nothing to integrate.
        if not (self._plans and elapsed):
            return self._wasted
        return self._wasted + (self.state().attempts - 1.0) * elapsed


class AirBearer:
    """The bearer of one direction of a client in a cell.

    Args:
        law: the law of the cells.
        site: the site of the radios.
        fluid: the fluid network.
        cell: the air of the client's cell.
        links: the links beyond the cell.
        client: the number of the client.
        timings: the frame timing of what it sends, and of what it receives.
        up: whether its messages go to the access point.
        changed: callback for changes of its rate, if any.
    """

    open = False

    def __init__(
        self,
        law: Wifi,
        site: Site,
        fluid: Fluid,
        cell: AirLink,
        links: Sequence[Link],
        client: ClientId,
        timings: tuple[FrameTiming, FrameTiming],
        changed: Changed | None,
        *,
        up: bool,
    ) -> None:
        self._law, self._site, self._fluid = law, site, fluid
        self._cell, self._links, self._client, self._up = cell, links, client, up
        self._there, self._back = timings if up else timings[::-1]
        self._changed = changed
        self._packet = site.framing(client).packet
        self._paths: dict[float, AirPath] = {}

    def start(self, bits: float, cap: float, finished: Callable[[T], None], token: T) -> Transfer:
        """See `Bearer.start`."""
        path = self._path(bits)
        exchanges, site = path.plan, self._site
        if bits:
            # Answers while the message is in progress: the last one comes after its arrival.
            times, answer = exchanges.answers(TURNS, 1.0)
            site.on_air(self._client, self._up, exchanges.sent / bits, times * answer / bits)
        if not self._up:
            return self._fluid.add(path, bits, cap, finished, token, self._changed)
        # The sender pays for collisions. Their rate depends on the other senders, and is averaged
        # over the time of the message.
        began, wasted = site.calendar.now, self._cell.waste()

        def finish(message: T) -> None:
            elapsed = site.calendar.now - began
            if elapsed:
                mean = (self._cell.waste() - wasted) / elapsed
                site.collided(self._client, mean * exchanges.sent)
            finished(message)

        return self._fluid.add(path, bits, cap, finish, token, self._changed)

    def _path(self, bits: float) -> AirPath:
        """Return the path of messages of this many bits."""
        if bits not in self._paths:
            if len(self._paths) == _KEPT:
                # The oldest entry. A path that is in use stays alive through its flows.
                del self._paths[next(iter(self._paths))]
            exchanges = plan(self._law, bits, self._packet, self._there, self._back, up=self._up)
            self._paths[bits] = AirPath(self._cell, self._links, exchanges)
        return self._paths[bits]
