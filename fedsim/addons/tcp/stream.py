"""Streams: the rest of a long message, if its share of one link is its only limit."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from fedsim.addons.tcp.congestion import utilisation
from fedsim.addons.tcp.path import TcpPath
from fedsim.addons.tcp.queue import LinkQueue
from fedsim.addons.tcp.window import Window
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink, SharedTransfer

WINDOWS, WIDEST = 24, 6
"""A stream has at least WINDOWS windows of WIDEST segments. Below that, timeouts are common."""

LEAST = 5000
"""Minimum segments of a stream. In shorter ones, single timeouts make up a good part."""

LATE = 1.1
"""Ratio of the round trip to that of empty links above which a queue limits the message."""

APART = 1.5
"""Minimum ratio between the shares of other links and that of the only bottleneck."""


class Stream(NamedTuple):
    """Segments that flow at the fair share of a link.

    Attributes:
        number: the index of the link on the path.
        queue: the queue in front of the link.
        window: the segments in flight.
        link: the sharing of the link by streams.
        flow: the transfer of the bits.
    """

    number: int
    queue: LinkQueue
    window: float
    link: FairLink
    flow: SharedTransfer

    def again(self, bits: float, ended: Callable[[None], None]) -> "Stream":
        """Return a stream of additional bits that replaces this one."""
        return self._replace(flow=self.link.add(bits, inf, ended, None))

    def leave(self) -> None:
        """Remove the window of the stream from the link."""
        self.queue.leave(self.window)


def may_flow(window: Window, left: int, path: TcpPath) -> bool:
    """Return whether the rest of a message may flow as a stream, judged by its window.

    Args:
        window: the window of the connection, which knows of no loss.
        left: the segments not yet sent.
        path: the path of the message.
    """
    size = window.size
    # Below the threshold the window still doubles, and is no measure of what the link allows.
    if size < WIDEST or size < window.threshold or left < WINDOWS * size:
        return False
    return window.trip > LATE * path.trip


def narrow_link(path: TcpPath) -> int | None:
    """Return the index of the only bottleneck of a path.

    Returns None if several links limit the path. It also does so if all windows together exceed the
    queue, since timeouts dominate then.
    """
    shares = []
    for stage in path.stages:
        queue = stage.queue
        # A rate that varies may move the bottleneck.
        if queue.signal is not None:
            return None
        shares.append(queue.rate / max(queue.flows, 1))
    shared = [number for number, stage in enumerate(path.stages) if stage.shared]
    numbers = shared or range(len(shares))
    least = min(numbers, key=lambda number: shares[number])
    others = [shares[number] for number in shared if number != least]
    # Not clearly the narrowest: its share alone would not describe the flow.
    if shares[least] == inf or min(others, default=inf) < APART * shares[least]:
        return None
    queue = path.stages[least].queue
    # Queue and pipe together have to hold a reasonable window per flow.
    room = queue.limit + queue.rate * path.trip / path.segment
    return least if queue.managed or room >= WIDEST * queue.flows else None


def begin(
    calendar: Calendar,
    path: TcpPath,
    number: int,
    window: Window,
    bits: float,
    ended: Callable[[None], None],
) -> Stream:
    """Start a flow of bits over a link, at the fair share that windows can fill.

    Args:
        calendar: the calendar.
        path: the path of the message.
        number: the index of the link on it.
        window: the window of the connection.
        bits: the bits to transfer.
        ended: called when they have passed.
    """
    queue = path.stages[number].queue
    pipe = queue.rate * path.trip / path.segment
    # Losses cut the window, and the link idles meanwhile: the bits are scaled up by the unused
    # share. FQ-CoDel keeps the link busy.
    filled = 1.0 if queue.managed else utilisation(window, queue.limit / pipe)
    others = [stage.queue.rate for stage in path.stages if stage.queue is not queue]
    # `again` adds bits without this scaling: they follow losses, and are few.
    link = queue.join(calendar, window.size, pipe)
    flow = link.add(bits / filled, min(others, default=inf), ended, None)
    return Stream(number, queue, window.size, link, flow)
