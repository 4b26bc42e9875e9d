"""Links that messages of one direction share fairly, simulated per leg of an exchange.

All messages of a leg are known as it begins, and nothing else uses its links. So each link runs the
law of the event-by-event path, `FairLink`, on a private calendar. Equal messages that begin
together are one transfer there. The events of that calendar are added to those of the exchange.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.sim.arrays.order import EventOrder, Numbers, ReactionError
from fedsim.sim.engine.calendar import NORMAL, SETTLE, Calendar, Timer
from fedsim.sim.network.processor_sharing import FairLink, PartedError


class _Event(NamedTuple):
    """An event of a link; its parent is an index of such events, or ~n for the start of class n."""

    time: float
    settles: bool
    parent: int


class _LinkCalendar(Calendar):
    """A calendar that records its events and their parents.

    Attributes:
        events: the executed events.
        ended: pairs of the event in which a class of transfers ended and the class, in order.
    """

    __slots__ = ("_current", "ended", "events")

    def __init__(self) -> None:
        super().__init__()
        self.events: list[_Event] = []
        self.ended: list[tuple[int, int]] = []
        self._current = 0

    def at(
        self, when: float, callback: Callable[..., object], *args: Any, priority: int = NORMAL
    ) -> Timer:
        """See `Calendar.at`."""
        parent = self._current

        def execute(*values: Any) -> None:
            # What the callback schedules has this event as its parent.
            self._current = len(self.events)
            self.events.append(_Event(self.now, priority == SETTLE, parent))
            callback(*values)

        return super().at(when, execute, *args, priority=priority)

    def begin(self, number: int) -> None:
        """Make the start of a class of transfers the parent of what is scheduled next."""
        self._current = ~number

    def end(self, number: int) -> None:
        """Record the end of a class."""
        self.ended.append((self._current, number))


class LinkLeg(NamedTuple):
    """Messages over links in one direction, in the order in which they begin, shape (n,).

    Attributes:
        began: the time at which bits begin to flow, s, ascending.
        bits: the bits of each message.
        caps: the radios' rates, bit/s.
        events: the events in which they begin.
    """

    began: Array
    bits: Array
    caps: Array
    events: Numbers

    def take(self, places: NDArray[np.intp]) -> "LinkLeg":
        """Return some of the messages."""
        began, bits, caps, events = (column[places] for column in self)
        return LinkLeg(began, bits, caps, events)  # type: ignore[arg-type]


def pass_link(capacity: float, leg: LinkLeg, order: EventOrder) -> tuple[Array, Numbers]:
    """Simulate messages on a shared link; return the time, s, and event of each end.

    Args:
        capacity: the capacity of the link, bit/s.
        leg: the messages.
        order: receives the events.

    Raises:
        ReactionError: two events fall on one instant, and their order depends on the whole fleet.
    """
    leg = leg._replace(caps=_binding(capacity, leg))
    # Only neighbours are merged: messages between two equal ones would lose their place.
    alike = np.stack([leg.began, leg.bits, leg.caps])
    begins = np.flatnonzero(np.concatenate([[True], (alike[:, 1:] != alike[:, :-1]).any(axis=0)]))
    sizes = np.diff(np.concatenate([begins, [len(leg.began)]]))
    calendar = _simulate(capacity, leg.take(begins), sizes)
    return _events(calendar, leg, begins, sizes, order)


def _binding(capacity: float, leg: LinkLeg) -> Array:
    """Return the rates of radios, bit/s; infinite if a fair share never reaches them."""
    fair = capacity
    equal = all((column == column[0]).all() for column in (leg.began, leg.bits))
    # The caps are then replaced, so that messages of different caps become one class. Without this,
    # a fleet with as many rates as clients would be simulated one by one.
    if equal and leg.caps.min() > capacity / len(leg.caps):
        fair = 0.0  # all messages end together, so the share is constant and below every cap
    return np.where(leg.caps > fair, np.inf, leg.caps)


def _simulate(capacity: float, classes: LinkLeg, sizes: NDArray[np.intp]) -> _LinkCalendar:
    """Simulate classes of equal messages on a link; return the calendar with its events."""
    calendar = _LinkCalendar()
    link = FairLink(calendar, capacity)
    terms = list(zip(classes.bits.tolist(), classes.caps.tolist(), sizes.tolist(), strict=True))

    def start(together: tuple[int, int]) -> None:
        calendar.begin(together[0])
        for number in range(*together):
            bits, cap, count = terms[number]
            link.add(bits, cap, calendar.end, number, count)

    firsts = np.flatnonzero(np.concatenate([[True], np.diff(classes.began) != 0]))
    ends = [*firsts[1:].tolist(), len(terms)]
    for first, end in zip(firsts.tolist(), ends, strict=True):
        calendar.call(float(classes.began[first]), start, (first, end))
    try:
        calendar.run()
    except PartedError:
        raise ReactionError("equal messages do not pass a link alike") from None
    return calendar


def _events(
    calendar: _LinkCalendar,
    leg: LinkLeg,
    begins: NDArray[np.intp],
    sizes: NDArray[np.intp],
    order: EventOrder,
) -> tuple[Array, Numbers]:
    """Add the events of a link to those of the exchange; return what `pass_link` does."""
    times = np.array([event.time for event in calendar.events])
    settles = np.array([event.settles for event in calendar.events], bool)
    parents = np.array([event.parent for event in calendar.events], np.int64)
    ended, classes = np.array(calendar.ended, np.int64).T
    counts = sizes[classes]
    _check_instants(times, settles, parents, leg.began[begins])
    # Every event that is not a settlement has to end a class. A timer that expires in vain would be
    # an event without a message, for which there is no number.
    if len(set(ended.tolist())) != np.count_nonzero(~settles):
        raise ReactionError("a link has waited for an end in vain")
    # One event of the link may end several messages. It becomes one event per message, all with
    # the same parent, so that they stay together and in this order. Children of the link's event
    # become children of the first message's.
    numbers = np.empty(len(times), np.int64)
    numbers[settles] = order.following + np.arange(np.count_nonzero(settles))
    starts = order.following + np.count_nonzero(settles) + np.cumsum(counts) - counts
    # Reversed: if an event ends several classes, the first one (assigned last) gives its number.
    numbers[ended[::-1]] = starts[::-1]
    parent_numbers = np.where(
        parents < 0,
        leg.events[begins[np.maximum(~parents, 0)]],
        numbers[np.maximum(parents, 0)],
    )
    order.add(times[settles], parent_numbers[settles], priority=SETTLE)
    arrived = order.add(np.repeat(times[ended], counts), np.repeat(parent_numbers[ended], counts))
    # Expand classes to messages: `begins` is the first message of a class, the rest counts up
    # within it.
    members = np.repeat(begins[classes] - (np.cumsum(counts) - counts), counts) + np.arange(
        counts.sum()
    )
    over, events = np.empty(len(leg.began)), np.empty(len(leg.began), np.int64)
    over[members], events[members] = np.repeat(times[ended], counts), arrived
    return over, events


def _check_instants(
    times: Array, settles: NDArray[np.bool_], parents: Numbers, began: Array
) -> None:
    """Check that no message ends at the instant at which one begins.

    Raises:
        ReactionError: a message does. The order of both then depends on the whole fleet.
    """
    ends = times[~settles]
    scheduled = np.where(parents < 0, -np.inf, times[np.maximum(parents, 0)])[~settles]
    if not set(ends.tolist()).isdisjoint(began.tolist()) or (ends == scheduled).any():
        raise ReactionError("a message ends at the very instant at which another begins")
