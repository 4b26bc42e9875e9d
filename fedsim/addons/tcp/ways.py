"""Laws of the way of segments: through the queues of their path, one by one or as trains.

A segment is a tuple: the message that owns it, its number, its bits, the time it was sent, the time
it reaches the next queue, s, and the index of that queue on the path. Numbers of a handshake's
packets are negative. A train has, in place of the number and the bits of one segment, the number of
the first one, their count and the bits of each; it also has the time between two segments as they
were sent, and the times at which the first and the last one reach the next queue, s.
"""

from typing import Any

from fedsim.addons.tcp.queue import carry, carry_one, room
from fedsim.addons.tcp.receiving import SYN, deliver, deliver_one, deliver_packet
from fedsim.core.laws import law, step

Segment = tuple[Any, int, float, float, float, int]
Train = tuple[Any, int, int, float, float, float, float, float, int]


@law
def forward(lane: Any, train: Train) -> None:
    """Move a train to the next queue that others use, or to its receiver."""
    owner, number, count, bits, sent, pace, first, last, hop = train
    # A message that is over would ignore what arrives.
    if owner.over:
        return
    stages, now = lane.path.stages, lane.calendar.now
    while hop < len(stages):
        stage = stages[hop]
        # Where others may come first, the train is an event of its own at its arrival. A queue that
        # no other lane uses is computed ahead of time.
        if first > now and (stage.shared or stage.fair is not None):
            moved = (owner, number, count, bits, sent, pace, first, last, hop)
            lane.calendar.call(first, lane.move_train, moved)
            return
        fitting = _count_fitting(stage, lane.path.leads[hop], count, first, last)
        if fitting < 0:
            split(lane, (owner, number, count, bits, sent, pace, first, last, hop))
            return
        if not fitting:
            return  # tail drop
        count = fitting
        first, last = carry(stage.queue, first, last, count, bits)
        first, last = first + stage.delay, last + stage.delay
        hop += 1
        if lane.loss is not None:
            passed = (owner, number, count, bits, sent, pace, first, last, hop)
            if lane.loses(passed):
                return
    if count > 1:
        deliver(owner, number, count, sent, pace, first, last)
    else:  # the others were tail-dropped
        deliver_one(owner, number, bits, sent, first)


@step
def _count_fitting(stage: Any, lead: float, count: int, first: float, last: float) -> int:
    """Return how many segments of a train pass a link as one; -1 if each goes on for itself."""
    at_once, managed = first == last, stage.fair is not None
    # Packets of different times may be dropped one by one.
    if stage.queue.crowded and not at_once:
        return -1
    space = room(stage.queue, first, lead)
    if space >= count and not (managed and stage.holds()):
        return count
    # If all arrive at one instant, the tail of the train is dropped.
    return max(int(space), 0) if at_once and not managed else -1


@law
def split(lane: Any, train: Train) -> None:
    """Forward the segments of a train one by one."""
    owner, number, count, bits, sent, pace, first, last, hop = train
    between = (last - first) / max(count - 1, 1)
    for n in range(count):
        segment = (owner, number + n, bits, sent + n * pace, first + n * between, hop)
        forward_one(lane, segment)


@law
def forward_one(lane: Any, segment: Segment) -> None:
    """Move a segment to the next queue that others use, or to its receiver."""
    owner, number, bits, sent, first, hop = segment
    # The confirmation of a handshake is never given up.
    if owner.over if number >= 0 else number == SYN and owner.syn_over:
        return
    stages, leads, now = lane.path.stages, lane.path.leads, lane.calendar.now
    while hop < len(stages):
        stage = stages[hop]
        managed = stage.fair is not None
        if first > now and (stage.shared or managed):
            moved = (owner, number, bits, sent, first, hop)
            lane.calendar.call(first, lane.move_segment, moved)
            return
        if managed or lane.loss is not None:
            first = lane.pass_alone((owner, number, bits, sent, first, hop))
            if first < 0:
                return
        else:
            through = carry_one(stage.queue, first, bits, leads[hop])
            if through < 0:
                return  # tail drop
            first = through + stage.delay
        hop += 1
    # Delays include the transmission of a full segment on links without a queue.
    if bits < lane.path.segment:
        # Not before now: the delivery may schedule events at this time.
        first = max(first - swifter(lane.path, bits, number <= 0), now)
    if number >= 0:
        deliver_one(owner, number, bits, sent, first)
    else:
        deliver_packet(owner, number, first)


@law
def swifter(path: Any, bits: float, alone: int) -> float:
    """Return how much earlier than a full segment a shorter one arrives, s.

    Args:
        path: the path.
        bits: the bits of the segment.
        alone: whether no other segment precedes it; otherwise it queues behind that one at the
            radio.
    """
    gain: float = (path.segment - bits) * path.free_bit
    if alone:
        return gain
    # Behind a full segment, what is gained on free links is lost again at the radio, as far as that
    # is slower.
    if path.radio:
        return min(gain, 0.0)
    lost: float = max(path.own.lasts(bits) - bits * path.free_bit, 0.0)
    return min(gain, lost)
