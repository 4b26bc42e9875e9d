"""The rest of a long message as a stream: where the share of one link is all that holds it up."""

from collections.abc import Callable
from math import inf
from typing import NamedTuple

from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.processor_sharing import FairLink, SharedTransfer
from fedsim.sim.network.tcp.path import TcpPath
from fedsim.sim.network.tcp.queue import LinkQueue
from fedsim.sim.network.tcp.window import Window

WINDOWS, WIDEST = 24, 6
"""A stream is this many windows at least, of this many segments: with less, timeouts are common."""

LEAST = 5000
"""The segments of a stream, at least: of less, single timeouts are a good part."""

LATE = 1.1
"""A queue holds segments up where the round trip is this many times that of empty links."""

APART = 1.5
"""A link alone is narrow where the shares of all others are this many times its own."""


class Stream(NamedTuple):
    """Segments that flow at the fair share of a link.

    Attributes:
        number: of the link on the path.
        queue: in front of it.
        window: what it keeps in flight, segments.
        link: as streams share it.
        flow: its bits there.
    """

    number: int
    queue: LinkQueue
    window: float
    link: FairLink
    flow: SharedTransfer

    def again(self, bits: float, ended: Callable[[None], None]) -> "Stream":
        """Return a stream of some more bits, in its place."""
        return self._replace(flow=self.link.add(bits, inf, ended, None))

    def leave(self) -> None:
        """Leave the link to the others."""
        self.queue.leave(self.window)


def may_flow(window: Window, left: int, path: TcpPath) -> bool:
    """Return whether what is left of a message may flow as a stream, for all its window shows.

    Args:
        window: of its connection, which knows of no loss.
        left: the segments that were not sent yet.
        path: its way.
    """
    size = window.size
    if size < WIDEST or size < window.threshold or left < WINDOWS * size:
        return False
    return window.trip > LATE * path.trip


def narrow_link(path: TcpPath) -> int | None:
    """Return which link of a path alone holds its messages up.

    None where no single one does, or where all windows together have no room: timeouts decide then.
    """
    shares = []
    for stage in path.stages:
        queue = stage.queue
        if queue.signal is not None:
            return None
        shares.append(queue.rate / max(queue.flows, 1))
    shared = [number for number, stage in enumerate(path.stages) if stage.shared]
    numbers = shared or range(len(shares))
    least = min(numbers, key=lambda number: shares[number])
    others = [shares[number] for number in shared if number != least]
    if shares[least] == inf or min(others, default=inf) < APART * shares[least]:
        return None
    queue = path.stages[least].queue
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
    """Let bits flow over a link, at the fair share of it that windows can fill.

    Args:
        calendar: the time.
        path: of the message.
        number: of the link on it.
        window: of the connection.
        bits: to flow.
        ended: called when they have.
    """
    queue = path.stages[number].queue
    pipe = queue.rate * path.trip / path.segment
    filled = 1.0 if queue.managed else window.utilisation(queue.limit / pipe)
    others = [stage.queue.rate for stage in path.stages if stage.queue is not queue]
    link = queue.join(calendar, window.size, pipe)
    flow = link.add(bits / filled, min(others, default=inf), ended, None)
    return Stream(number, queue, window.size, link, flow)
