"""Links that messages of one direction share fairly: each plays a leg of an exchange by itself.

All of a leg's messages are known as it begins, and nothing else uses its links. So a link's own
law, `FairLink`, runs on a calendar of its own, with equal messages that begin together as one
transfer; what it schedules there becomes events of the exchange.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import Array
from fedsim.sim.arrays.order import EventOrder, Numbers, ReactionError
from fedsim.sim.engine.calendar import NORMAL, SETTLE, Calendar, Timer
from fedsim.sim.network.processor_sharing import FairLink, PartedError


class _Event(NamedTuple):
    """What a link has scheduled; its parent is one of these, or ~n for the n-th class to begin."""

    time: float
    settles: bool
    parent: int


class _LinkCalendar(Calendar):
    """A calendar that writes down what happens, and during what it was scheduled.

    Attributes:
        events: what has happened.
        ended: for each class of transfers the event in which it ended, in the order of the ends.
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

        def happen(*given: Any) -> None:
            self._current = len(self.events)
            self.events.append(_Event(self.now, priority == SETTLE, parent))
            callback(*given)

        return super().at(when, happen, *args, priority=priority)

    def begin(self, number: int) -> None:
        """Enter the beginning of a class of transfers."""
        self._current = ~number

    def end(self, number: int) -> None:
        """Write down that a class has ended."""
        self.ended.append((self._current, number))


class LinkLeg(NamedTuple):
    """The messages of one direction that pass links, in the order in which they begin, shape (n,).

    Attributes:
        began: when their bits begin to flow, s, ascending.
        bits: how many.
        caps: the radios' rates, bit/s.
        events: in which they begin.
    """

    began: Array
    bits: Array
    caps: Array
    events: Numbers

    def take(self, places: NDArray[np.intp]) -> "LinkLeg":
        """Return some of them."""
        began, bits, caps, events = (each[places] for each in self)
        return LinkLeg(began, bits, caps, events)  # type: ignore[arg-type]


def pass_link(capacity: float, leg: LinkLeg, order: EventOrder) -> tuple[Array, Numbers]:
    """Let messages share a link; return when each has passed, s, and in which event.

    Args:
        capacity: of the link, bit/s.
        leg: the messages.
        order: takes the events.

    Raises:
        ReactionError: two things happen at one instant, whose order depends on all others.
    """
    leg = leg._replace(caps=_binding(capacity, leg))
    alike = np.stack([leg.began, leg.bits, leg.caps])
    begins = np.flatnonzero(np.concatenate([[True], (alike[:, 1:] != alike[:, :-1]).any(axis=0)]))
    sizes = np.diff(np.concatenate([begins, [len(leg.began)]]))
    calendar = _play(capacity, leg.take(begins), sizes)
    return _events(calendar, leg, begins, sizes, order)


def _binding(capacity: float, leg: LinkLeg) -> Array:
    """Return the rates of radios, bit/s, infinite where a fair share never reaches them."""
    fair = capacity
    equal = all((each == each[0]).all() for each in (leg.began, leg.bits))
    if equal and leg.caps.min() > capacity / len(leg.caps):
        fair = 0.0  # all end together, and the share stays as it is
    return np.where(leg.caps > fair, np.inf, leg.caps)


def _play(capacity: float, classes: LinkLeg, sizes: NDArray[np.intp]) -> _LinkCalendar:
    """Let classes of equal messages share a link; return the calendar of what has happened."""
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
    """Add what a link has done to the events; return as `pass_link` does."""
    times = np.array([each.time for each in calendar.events])
    settles = np.array([each.settles for each in calendar.events], bool)
    parents = np.array([each.parent for each in calendar.events], np.int64)
    ended, whose = np.array(calendar.ended, np.int64).T
    counts = sizes[whose]
    _check_instants(times, settles, parents, leg.began[begins])
    if len(set(ended.tolist())) != np.count_nonzero(~settles):
        raise ReactionError("a link has waited for an end in vain")
    # An event in which messages arrive is one for each of these, of one parent: so they stay
    # together, in this order, and what the event schedules is scheduled by the first of them.
    number = np.empty(len(times), np.int64)
    number[settles] = order.following + np.arange(np.count_nonzero(settles))
    starts = order.following + np.count_nonzero(settles) + np.cumsum(counts) - counts
    number[ended[::-1]] = starts[::-1]
    came = np.where(
        parents < 0,
        leg.events[begins[np.maximum(~parents, 0)]],
        number[np.maximum(parents, 0)],
    )
    order.add(times[settles], came[settles], priority=SETTLE)
    arrived = order.add(np.repeat(times[ended], counts), np.repeat(came[ended], counts))
    members = np.repeat(begins[whose] - (np.cumsum(counts) - counts), counts) + np.arange(
        counts.sum()
    )
    over, events = np.empty(len(leg.began)), np.empty(len(leg.began), np.int64)
    over[members], events[members] = np.repeat(times[ended], counts), arrived
    return over, events


def _check_instants(
    times: Array, settles: NDArray[np.bool_], parents: Numbers, began: Array
) -> None:
    """Check that no message ends as another begins, or as it begins itself.

    Raises:
        ReactionError: one does.
    """
    ends = times[~settles]
    at = np.where(parents < 0, -np.inf, times[np.maximum(parents, 0)])[~settles]
    if not set(ends.tolist()).isdisjoint(began.tolist()) or (ends == at).any():
        raise ReactionError("a message ends at the very instant at which another begins")
