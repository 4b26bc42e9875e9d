"""Laws of streams: the rest of a long message, if its share of one link is its only limit."""

from math import inf
from typing import Any

from fedsim.addons.tcp.congestion import utilisation
from fedsim.addons.tcp.queue import join
from fedsim.addons.tcp.receiver import count_arrived
from fedsim.core.laws import law

WINDOWS, WIDEST = 24, 6
"""A stream has at least WINDOWS windows of WIDEST segments. Below that, timeouts are common."""

LEAST = 5000
"""Minimum segments of a stream. In shorter ones, single timeouts make up a good part."""

LATE = 1.1
"""Ratio of the round trip to that of empty links above which a queue limits the message."""

APART = 1.5
"""Minimum ratio between the shares of other links and that of the only bottleneck."""


@law
def may_flow(window: Any, left: int, path: Any) -> bool:
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
    late: bool = window.trip > LATE * path.trip
    return late


@law
def narrow_link(path: Any) -> int:
    """Return the index of the only bottleneck of a path.

    Returns -1 if several links limit the path. It also does so if all windows together exceed the
    queue, since timeouts dominate then.
    """
    stages, any_shared = path.stages, False
    for k in range(len(stages)):
        # A rate that varies may move the bottleneck.
        if stages[k].queue.signal is not None:
            return -1
        # If some links are shared, only these are candidates.
        any_shared = any_shared or bool(stages[k].shared)
    least, lowest, other = -1, inf, inf
    for k in range(len(stages)):
        share = stages[k].queue.rate / max(stages[k].queue.flows, 1)
        if any_shared and not stages[k].shared:
            continue
        if least < 0 or share < lowest:
            # The narrowest one so far is another one from now on.
            if least >= 0 and any_shared:
                other = min(other, lowest)
            least, lowest = k, share
        elif any_shared:
            other = min(other, share)
    # Not clearly the narrowest: its share alone would not describe the flow.
    if lowest == inf or other < APART * lowest:
        return -1
    q = stages[least].queue
    # Queue and pipe together have to hold a reasonable window per flow.
    room = q.limit + q.rate * path.trip / path.segment
    return least if q.managed or room >= WIDEST * q.flows else -1


@law
def begin_stream(t: Any, number: int, left: int) -> None:
    """Start a flow of segments over a link, at the fair share that windows can fill.

    Args:
        t: the message.
        number: the index of the link on its path.
        left: the number of segments.
    """
    path, window = t.path, t.window
    stages, q = path.stages, path.stages[number].queue
    pipe = q.rate * path.trip / path.segment
    # Losses cut the window, and the link idles meanwhile: the bits are scaled up by the unused
    # share. FQ-CoDel keeps the link busy.
    filled = 1.0 if q.managed else utilisation(window, q.limit / pipe)
    # The other links bound the rate of the stream.
    cap = inf
    for k in range(len(stages)):
        if k != number:
            cap = min(cap, stages[k].queue.rate)
    join(q, t.calendar, window.size, pipe)
    t.stream, t.stream_at, t.stream_window, t.streamed = True, number, window.size, left
    t.add_flow(left * t.each / filled, cap, left)


@law
def end_stream(t: Any, _: None = None) -> None:
    """Complete a stream, after retransmissions of segments lost before it."""
    # Segments lost before the stream began have not arrived: they follow as a further stream,
    # without a scaling, as they are few.
    missing = t.total - t.streamed - count_arrived(t.receiver)
    if missing > 0:
        t.segments_sent += missing
        t.streamed += missing
        t.add_flow(missing * t.each, inf, missing)
        return
    now = t.calendar.now
    t.window.last_sent = now
    # The end is certain now.
    t.ends = now + rest(t.path, t.stream_at, t.each)
    t.calendar.call(t.ends, t.finish, None)


@law
def rest(path: Any, number: int, bits: float) -> float:
    """Return how long a segment takes from the end of a stage to its receiver, s."""
    stages, delays, behind = path.stages, 0.0, 0.0
    for k in range(number, len(stages)):
        delays += stages[k].delay
        if k > number:
            behind += stages[k].queue.lasts(bits)
    return delays + behind
