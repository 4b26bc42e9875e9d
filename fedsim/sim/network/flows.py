"""Components of the fluid network: links of three disciplines, paths and flows."""

from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Protocol

from fedsim.physics.radios import RateLaw
from fedsim.physics.signals import Signal
from fedsim.sim.engine.calendar import Timer

# Rate limits of a single transfer, independent of other transfers.


class Limit(Protocol):
    """A rate limit of a transfer that varies, bit/s."""

    @property
    def peak(self) -> float:
        """The largest value."""
        ...

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        ...

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may differ."""
        ...


class Least:
    """The minimum of a constant and of several signals at every moment."""

    # It has a value and a next change, but no integral ahead. Two traces may be 0 alternately for
    # ever, so that nothing passes although both have a mean above 0. A search for the time at which
    # some bits have passed would then not end, whereas a timer per change yields to other events.

    __slots__ = ("_constant", "_signals", "peak")

    def __init__(self, constant: float, signals: Sequence[Signal]) -> None:
        self._constant = constant
        self._signals = tuple(signals)
        self.peak = min(constant, *[signal.peak for signal in self._signals])

    def at(self, t: float) -> float:
        """Return the value at `t`."""
        return min(self._constant, *[signal.at(t) for signal in self._signals])

    def next_change(self, t: float) -> float:
        """Return the first time after `t` at which the value may differ."""
        return min([signal.next_change(t) for signal in self._signals])


def least(most: float, signals: Sequence[Signal]) -> tuple[Limit, Signal | None]:
    """Return the limit that a constant and at least one signal impose.

    The second value is the limit again if it is a single signal, which can be integrated ahead;
    otherwise None.
    """
    if len(signals) == 1 and signals[0].peak <= most:
        return signals[0], signals[0]
    return Least(most, signals), None


# Interfaces between the parts of the fluid network, and their callbacks.

Finished = Callable[[Any], None]
"""Called with the token of a completed transfer."""

Changed = Callable[[Any, float], None]
"""Called with the token of a transfer and its rate from now on, bit/s."""


class FlowOwner(Protocol):
    """The owner of flows: `fedsim.sim.network.fluid.Fluid`."""

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        ...

    def stop(self, flow: Any) -> None:
        """Cancel a flow."""
        ...


class ComponentView(Protocol):
    """The interface of `fedsim.sim.network.sharing.Component` to its flows."""

    def rate(self, slot: int) -> float:
        """Return the rate of a flow."""
        ...

    def remaining(self, slot: int, now: float) -> float:
        """Return the bits of a flow that have not passed by the time `now`."""
        ...


class SharedLink:
    """A link shared max-min fairly.

    While the limits of its flows add up to at most its capacity, it is open and delays none of
    them. Once they add up to more, it belongs to a component.

    Attributes:
        signal: the signal of its capacity, if it varies.
        capacity: the present capacity.
        most: the largest capacity.
        flows: the flows on it, each with the index of the hop.
        demand: the sum of the flows' possible rates on it.
        component: its component, if any.
        index: its index in the component.
        timer: the timer of the next change of its capacity; set only while it is used.
    """

    __slots__ = ("capacity", "component", "demand", "flows", "index", "most", "signal", "timer")

    def __init__(self, law: RateLaw) -> None:
        self.signal = law.signal
        self.most = self.capacity = law.peak
        self.flows: dict[Flow, int] = {}
        self.demand = 0.0
        self.component: ComponentView | None = None
        self.index = 0
        self.timer: Timer | None = None

    @property
    def contended(self) -> bool:
        """Whether its flows could exceed its capacity."""
        return self.demand > self.capacity

    # The demand is a running sum, so that a flow enters and leaves in O(1). Its rounding is
    # harmless: it decides whether the link is solved for, not what the rates are. An unused link
    # is reset to exactly 0, so that rounding does not accumulate over a run.

    def enter(self, flow: "Flow", hop: int) -> None:
        """Admit a flow."""
        self.flows[flow] = hop
        self.demand += self._demand(flow, hop)

    def leave(self, flow: "Flow") -> None:
        """Remove a flow."""
        hop = self.flows.pop(flow)
        self.demand = self.demand - self._demand(flow, hop) if self.flows else 0.0

    def _demand(self, flow: "Flow", hop: int) -> float:
        """Return the possible rate of a flow on this link, bit/s, cut off above the capacity."""
        # Anything above the largest capacity makes the link contended; how far above does not
        # matter. An infinite peak must not be added: it could never be subtracted (inf - inf is
        # NaN).
        return min(flow.path.usage[hop] * flow.peak, 2.0 * self.most + 1.0)


class ContendedLink(SharedLink):
    """A fair link on which the terms of a flow depend on the other flows.

    It is always contended, and is the first link of every path over it.
    """

    __slots__ = ()

    @property
    def contended(self) -> bool:
        """Whether it limits a flow: always, if there is one."""
        return bool(self.flows)

    @abstractmethod
    def terms(self) -> Mapping[Any, tuple[float, float]]:
        """Return, by kind of flow, the capacity that a bit takes, and the weight of a flow."""

    @abstractmethod
    def kind(self, flow: "Flow") -> object:
        """Return the kind of a flow, the key of its terms."""


class FifoLink:
    """A link that carries one transfer at a time, first in, first out.

    Attributes:
        law: the rate law of its capacity.
        queue: the flow on it, and the waiting flows.
    """

    __slots__ = ("law", "queue")

    def __init__(self, law: RateLaw) -> None:
        self.law = law
        self.queue: OrderedDict[Flow, None] = OrderedDict()

    @property
    def first(self) -> "Flow | None":
        """The flow at the head of the queue."""
        return next(iter(self.queue), None)


class SlottedLink:
    """A link divided into equal shares, each reserved for one lane, used or not.

    Attributes:
        law: the rate law of one share.
    """

    __slots__ = ("law",)

    def __init__(self, law: RateLaw) -> None:
        self.law = law


Link = SharedLink | FifoLink | SlottedLink


class Path:
    """A path over links.

    Attributes:
        shared_links: the fair links of finite capacity.
        usage: the share of a flow's rate on each of these.
        queues: the links at which a flow queues.
        most: the smallest other constant limit, bit/s.
        signals: the other limits that vary.
        weight: the weight of a flow on a fair link.
    """

    __slots__ = ("most", "queues", "shared_links", "signals", "usage", "weight")

    def __init__(
        self, links: Sequence[Link], usage: Sequence[float], weight: float, limit: float = inf
    ) -> None:
        used = list(zip(links, usage, strict=True))
        fair = [
            (link, use) for link, use in used if isinstance(link, SharedLink) and link.most < inf
        ]
        self.shared_links = tuple([link for link, _ in fair])
        self.usage = tuple([use for _, use in fair])
        self.queues = tuple([link for link in links if isinstance(link, FifoLink)])
        laws = [link.law for link in links if not isinstance(link, SharedLink)]
        self.most = min([limit, *[law.peak for law in laws]])
        self.signals = tuple([law.signal for law in laws if law.signal is not None])
        self.weight = weight


class Flow:
    """A transfer: it waits in queues, then flows, then is over.

    Attributes:
        serial: the number of the flow, in the order of arrival.
        bits: all of its bits.
        left: the bits that had not passed at `since`; once it is over, those that never pass.
        pace: if it runs alone, its rate since then.
        reported: the last rate passed to `changed`, if there is a callback; 0 before the first.
        peak: its largest possible rate, with the limits of links that are not fair.
        limit: its largest possible rate if that varies; None if it is always the peak.
        signal: this limit if it is a single signal, which can be integrated ahead.
        entered: whether it has been first in all its queues.
        over: whether it has completed or was stopped.
        component: its component; None if it runs alone.
        slot: its slot in the component.
        timer: the timer of its end, or of an earlier change of its limit.
        trace: the signal that its rate follows up to its end, without rate callbacks.
    """

    # Where the remaining bits of a flow are kept depends on its state:
    #
    # - alone at a constant rate: `left` at `since`, and `pace` from then on;
    # - alone along a trace: the same, with the integral of `trace` in place of `pace`;
    # - in a component: in the component's table, at `slot`, where a whole column is advanced at
    #   once; `left`, `since` and `pace` are stale until `pause`, or the component's `remove`,
    #   updates them;
    # - waiting for its queues, or over: `left` alone.
    #
    # So a flow is paused before it changes its state.

    __slots__ = (
        "_fluid",
        "bits",
        "changed",
        "component",
        "entered",
        "finished",
        "left",
        "limit",
        "over",
        "pace",
        "path",
        "peak",
        "reported",
        "serial",
        "signal",
        "since",
        "slot",
        "timer",
        "token",
        "trace",
    )

    def __init__(
        self,
        fluid: FlowOwner,
        serial: int,
        path: Path,
        bits: float,
        cap: float,
        finished: Finished,
        token: object,
        changed: Changed | None,
        signal: Signal | None,
    ) -> None:
        self._fluid = fluid
        self.serial = serial
        self.path = path
        self.bits = self.left = bits
        self.peak = min(path.most, cap)
        self.limit: Limit | None = None
        self.signal: Signal | None = None
        # The cap of a message bounds the signals, too: the limit is the least of all of them.
        if signal is not None or path.signals:
            followed = (*(() if signal is None else (signal,)), *path.signals)
            self.limit, self.signal = least(self.peak, followed)
            self.peak = self.limit.peak
        self.finished = finished
        self.token = token
        self.changed = changed
        self.entered = self.over = False
        self.pace = self.since = self.reported = 0.0
        self.component: ComponentView | None = None
        self.slot = 0
        self.timer: Timer | None = None
        self.trace: Signal | None = None

    def rate_bound(self, now: float) -> float:
        """Return the largest possible rate at `now`, bit/s."""
        return self.peak if self.limit is None else self.limit.at(now)

    @property
    def instant(self) -> bool:
        """Whether it takes no time."""
        return not self.left or (self.peak == inf and not self.path.shared_links)

    @property
    def first(self) -> bool:
        """Whether it is first in all its queues."""
        return all(queue_link.first is self for queue_link in self.path.queues)

    @property
    def negligible(self) -> float:
        """A number of bits that is rounding, and must not delay the end."""
        return 1e-12 * self.bits

    @property
    def rate(self) -> float:
        """The rate, bit/s, as of the end of the last instant."""
        if self.over:
            return 0.0
        if self.component is not None:
            return self.component.rate(self.slot)
        return self.pace if self.trace is None else self.trace.at(self._fluid.now)

    def remaining(self, now: float) -> float:
        """Return the bits that have not passed by the time `now`."""
        if self.component is not None:
            return self.component.remaining(self.slot, now)
        if self.over:
            return self.left
        if self.trace is not None:
            return self.left - self.trace.integral(self.since, now)
        return self.left - self.pace * (now - self.since)

    def passed(self, now: float) -> float:
        """Return the bits that have passed by the time `now`, the present or a recent one."""
        return self.bits - self.remaining(now)

    def pause(self, now: float) -> None:
        """Bring `left` up to date; from now on the flow runs neither alone nor in a component."""
        self.left, self.since = self.remaining(now), now
        self.pace, self.trace = 0.0, None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        self._fluid.stop(self)
