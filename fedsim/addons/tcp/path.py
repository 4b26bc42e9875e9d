"""Per-lane TCP path: links and connection parameters."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from fedsim.addons.tcp.fair_queue import FairQueue
from fedsim.addons.tcp.queue import LinkQueue, SegmentTrain
from fedsim.physics.packet_loss import LossProcess
from fedsim.physics.radios.channel import Framing
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.flows import Changed

HANDED_ON = 2
"""Segments of a connection that Linux lets wait in the queue of its device: twice the memory of one
(`tcp_small_queue_check`)."""


@dataclass(frozen=True, slots=True)
class TcpStage:
    """A link on the path of a lane's segments.

    Attributes:
        queue: the queue in front of the link.
        delay: the propagation delay behind it, s.
        shared: whether messages of other lanes pass it.
        fair: the per-flow queues in front of `queue`, under FQ-CoDel.
    """

    queue: LinkQueue
    delay: float
    shared: bool
    fair: FairQueue | None = None


class PathTimes(NamedTuple):
    """Times of a path beside its queues.

    Attributes:
        back: the time of an acknowledgement to the sender, s.
        back_bit: the additional time per bit of it, s.
        free_bit: the time per bit on links without queue, s; the delays of stages include it for
            full segments.
    """

    back: float
    back_bit: float
    free_bit: float = 0.0


class TcpPath:
    """The links of a lane's segments, and the return path of their acknowledgements.

    Args:
        stages: the links, in order.
        radio: the index of the radio's stage.
        times: times beside the queues.
        packets: the framing that cuts messages into segments.

    Attributes:
        back, back_bit, free_bit: see `PathTimes`.
        own: the radio's queue.
        queues: all queues, in order.
        shared: the queues that other lanes use, too.
        header: the bits of a segment without payload.
        segment: the bits of a full segment.
        payload: the payload of a full segment, bytes.
        leads: by stage: the travel time of a packet from the queue before, s; for the first stage,
            that of an acknowledgement from its own queue.
        narrow: the packets that the shortest queue holds.
        slowest: the rate of the slowest link except the radio, bit/s.
        trip: the round trip of a segment without payload on empty links, s.
    """

    __slots__ = (
        "back",
        "back_bit",
        "free_bit",
        "header",
        "leads",
        "narrow",
        "own",
        "payload",
        "queues",
        "radio",
        "segment",
        "shared",
        "slowest",
        "stages",
        "trip",
    )

    def __init__(
        self,
        stages: Sequence[TcpStage],
        radio: int,
        times: PathTimes,
        packets: Framing,
    ) -> None:
        self.stages, self.radio = stages, radio
        self.back, self.back_bit, self.free_bit = times
        self.own = stages[radio].queue
        self.queues = tuple([stage.queue for stage in stages])
        self.shared = tuple([stage.queue for stage in stages if stage.shared])
        self.header = header = 8.0 * packets.overhead
        self.segment = 8.0 * packets.packet
        self.payload = packets.packet - packets.overhead
        # The bound stands for infinite limits, which have no integer.
        self.narrow = int(min([1e9, *[stage.queue.limit for stage in stages]]))
        self.leads = self._find_leads()
        # Round trip of an empty segment: delays include the transmission of a full one on free
        # links, so `swifter` is subtracted.
        there = [stage.delay + stage.queue.lasts(header) for stage in stages]
        self.trip = sum(there) - self.swifter(header) + self.back
        others = [stage.queue.rate for stage in stages if stage.queue is not self.own]
        self.slowest = min(others, default=inf)

    def _find_leads(self) -> tuple[float, ...]:
        stages, radio = self.stages, self.stages[self.radio]
        there = [stage.delay + stage.queue.lasts(self.segment) for stage in stages]
        route = sum([stage.delay for stage in stages if stage is not radio])
        # The first queue has none before it: its packets are sent as acknowledgements arrive, so
        # the travel time of these takes its place.
        return (route if self.radio else radio.delay, *there[:-1])

    @property
    def parameters(self) -> tuple[object, ...]:
        """The parameters that distinguish a path from others, except for the rate of the radio."""
        stages = [
            (stage.queue.limit, stage.queue.managed, stage.delay, stage.queue.rate)
            for stage in self.stages
            if stage.queue is not self.own
        ]
        radio = self.own.limit, self.own.managed, self.stages[self.radio].delay
        numbers = [
            getattr(self, name)
            for name in self.__slots__
            if name not in {"own", "queues", "shared", "stages"}
        ]
        return radio, tuple(stages), tuple(numbers)

    def surely_takes(self, bits: float, rate: float) -> float:
        """Return a lower bound for the transfer time of a message, s.

        Half the time that its bits take, because a stream flows beside the segments sent before it.

        Args:
            bits: the bits of the message.
            rate: the rate of the radio, bit/s.
        """
        return bits / min(rate, self.slowest) / 2

    def swifter(self, bits: float, *, alone: bool = True) -> float:
        """Return how much earlier than a full segment a shorter one arrives, s.

        Args:
            bits: the bits of the segment.
            alone: whether no other segment precedes it; otherwise it queues behind that one at the
                radio.
        """
        gain = (self.segment - bits) * self.free_bit
        if alone:
            return gain
        # Behind a full segment, what is gained on free links is lost again at the radio, as far as
        # that is slower.
        return min(gain, max(self.own.lasts(bits) - bits * self.free_bit, 0.0) * (not self.radio))

    def rest(self, number: int, bits: float) -> float:
        """Return how long a segment takes from the end of a stage to its receiver, s."""
        behind = [stage.queue.lasts(bits) for stage in self.stages[number + 1 :]]
        return sum([stage.delay for stage in self.stages[number:]]) + sum(behind)

    def clear(self) -> None:
        """Empty all queues for another episode."""
        for stage in self.stages:
            stage.queue.clear()
            if stage.fair is not None:
                stage.fair.clear()

    def empty_at(self, now: float) -> float:
        """Return when all waiting packets have left, if nothing more comes, s."""
        empty = now
        for stage in self.stages:
            waiting = stage.fair.waiting if stage.fair is not None else 0
            # Packets in per-flow queues follow those of the link queue.
            free = max(stage.queue.free, now) if waiting else stage.queue.free
            empty = max(empty, free + waiting * stage.queue.lasts(self.segment))
        return empty


Segment = tuple[Any, int, float, float, float, int]
"""One segment on its way: see `TcpLane`."""


@dataclass(slots=True, eq=False)
class TcpLane:
    """The parameters that the messages of a lane have in common.

    Attributes:
        calendar: the calendar of the run.
        law: the parameters of TCP.
        path: the path of segments.
        changed: callback for changes of the arrival rate, if any.
        loss: the packet losses of the radio, if any.
        make_rng: creates the stream that draws the lost packets of a train.
        bucket: the FQ-CoDel queue of its packets; None if it is drawn.
        holds: whether the sender passes segments to the radio only as the radio sends them.
    """

    calendar: Calendar
    law: Tcp
    path: TcpPath
    changed: Changed | None = None
    loss: LossProcess | None = None
    make_rng: Callable[[], np.random.Generator] = np.random.default_rng
    bucket: int | None = None
    holds: bool = False
    _rng: np.random.Generator | None = None

    @property
    def rng(self) -> np.random.Generator:
        """The stream that draws lost packets, made at its first use."""
        if self._rng is None:
            self._rng = self.make_rng()
        return self._rng

    def sends(self, start: float, pace: float, count: int) -> tuple[float, float]:
        """Return when segments enter the first queue: the time of the first one, and the pace, s.

        Linux lets few segments of a connection wait for its own device. Later ones are not sent
        yet, so their round trips do not include this wait.

        Args:
            start: the time at which the window allows the first segment, s.
            pace: the time from one segment to the next, as the window allows them, s.
            count: the number of segments.
        """
        if not self.holds:
            return start, pace
        queue = self.path.own
        slot = queue.lasts(self.path.segment)
        # The device holds HANDED_ON segments. The next one is sent as the first of them leaves.
        due = max(queue.free, start) - HANDED_ON * slot
        sent, more = max(start, due), count - 1
        if not more:
            return sent, pace
        return sent, (max(start + pace * more, due + slot * more) - sent) / more

    # The way of segments.

    def forward(self, train: SegmentTrain) -> None:
        """Move a train to the next queue that others use, or to its receiver."""
        if train.count == 1:
            self._forward_one(
                (train.owner, train.number, train.bits, train.sent, train.first, train.hop)
            )
            return
        # A message that is over would ignore what arrives.
        if train.owner.over:
            return
        stages, now = self.path.stages, self.calendar.now
        while train.hop < len(stages):
            stage = stages[train.hop]
            queue, fair = stage.queue, stage.fair
            # Where others may come first, the train is an event of its own at its arrival. A queue
            # that no other lane uses is computed ahead of time.
            if train.first > now and (stage.shared or fair is not None):
                self.calendar.call(train.first, self.forward, train)
                return
            if not self._fits(train, queue, fair):
                return
            if self.loss is not None:
                if not self.pass_stage(train):
                    return
                continue
            first, last = queue.carry(train.first, train.last, train.count, train.bits)
            train.first, train.last = first + stage.delay, last + stage.delay
            train.hop += 1
        if train.count > 1:
            train.owner.deliver(train)
        else:  # the others were tail-dropped
            train.owner.deliver_one(train.number, train.bits, train.sent, train.first)

    def _fits(self, train: SegmentTrain, queue: LinkQueue, fair: FairQueue | None) -> bool:
        """Return whether a train continues as one; otherwise split it, or drop segments."""
        at_once = train.first == train.last
        # Packets of different times may be dropped one by one.
        if queue.crowded and not at_once:
            self._split(train, range(train.count))
            return False
        room = queue.room(train.first, self.path.leads[train.hop])
        if room < train.count or (fair is not None and (fair.waiting or not fair.bypass)):
            if fair is not None or not at_once:
                self._split(train, range(train.count))
                return False
            if room < 1:
                return False  # tail drop
            # All arrive at one instant: the tail of the train is dropped.
            train.count = int(room)
        return True

    def _forward_one(self, segment: Segment) -> None:
        """Move a segment to the next queue that others use, or to its receiver.

        Segments are frequent, so this one is a tuple: owner, number, bits, the time it was sent,
        the time it reaches the next queue, s, and the index of that queue on the path.
        """
        owner, number, bits, sent, first, hop = segment
        if owner.over:
            return
        stages, now = self.path.stages, self.calendar.now
        while hop < len(stages):
            stage = stages[hop]
            if first > now and (stage.shared or stage.fair is not None):
                self.calendar.call(
                    first, self._forward_one, (owner, number, bits, sent, first, hop)
                )
                return
            if stage.fair is not None or self.loss is not None:
                train = SegmentTrain(owner, number, 1, bits, sent, 0.0, first, first, hop)
                if not self._pass_alone(train, stage):
                    return
                first = train.first
            else:
                through = stage.queue.carry_one(first, bits, self.path.leads[hop])
                if through < 0:
                    return  # tail drop
                first = through + stage.delay
            hop += 1
        if bits < self.path.segment:
            # Not before now: the delivery may schedule events at this time.
            first = max(first - self.path.swifter(bits, alone=number <= 0), now)
        owner.deliver_one(number, bits, sent, first)

    def _pass_alone(self, train: SegmentTrain, stage: TcpStage) -> bool:
        """Move a segment over a link with packet loss or with per-flow queues."""
        fair = stage.fair
        if fair is not None and (fair.waiting or not fair.bypass):
            fair.put(self, train)
            return False
        if stage.queue.room(train.first, self.path.leads[train.hop]) >= 1:
            return self.pass_stage(train)
        if fair is not None:
            fair.put(self, train)
        return False

    def pass_stage(self, train: SegmentTrain) -> bool:
        """Move a train over a link that has room for it; return whether it stays one train."""
        stage = self.path.stages[train.hop]
        first, last = stage.queue.carry(train.first, train.last, train.count, train.bits)
        train.first, train.last = first + stage.delay, last + stage.delay
        on_air = train.hop == self.path.radio
        train.hop += 1
        if self.loss is None or not on_air:
            return True
        # The number of losses comes from the loss process; which packets are lost is drawn
        # uniformly.
        lost = self.loss.losses(train.count)
        if lost:
            places = set(self.rng.choice(train.count, lost, replace=False).tolist())
            self._split(train, [n for n in range(train.count) if n not in places])
        return not lost

    def _split(self, train: SegmentTrain, numbers: Iterable[int]) -> None:
        """Forward some segments of a train one by one."""
        count = max(train.count - 1, 1)
        between = (train.last - train.first) / count
        for n in numbers:
            at, sent = train.first + n * between, train.sent + n * train.pace
            self._forward_one((train.owner, train.number + n, train.bits, sent, at, train.hop))
