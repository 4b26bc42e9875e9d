"""Per-lane TCP path: links and connection parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np

from fedsim.addons.tcp.fair_queue import FairQueue
from fedsim.addons.tcp.queue import LinkQueue, SegmentTrain
from fedsim.addons.tcp.ways import Segment, Train, forward, forward_one, swifter
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

    def holds(self) -> bool:
        """Return whether a packet has to wait in its per-flow queue."""
        return self.fair is not None and bool(self.fair.waiting or not self.fair.bypass)


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
        self.trip = sum(there) - swifter(self, header, alone=True) + self.back
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

    # The way of segments: see `ways`.

    move_train = forward
    move_segment = forward_one

    def forward(self, packet: SegmentTrain) -> None:
        """Move a packet on that a per-flow queue has held."""
        p = packet
        forward_one(self, (p.owner, p.number, p.bits, p.sent, p.first, p.hop))

    def pass_alone(self, segment: Segment) -> float:
        """Move a segment over a link with packet loss or with per-flow queues.

        Returns:
            When it arrives behind the link, s; negative if it does not, or waits.
        """
        owner, number, bits, sent, first, hop = segment
        stage = self.path.stages[hop]
        packet = SegmentTrain(owner, number, 1, bits, sent, 0.0, first, first, hop)
        if not (stage.fair is not None and stage.holds()):
            if stage.queue.room(first, self.path.leads[hop]) >= 1:
                return packet.first if self.pass_stage(packet) else -1.0
            if stage.fair is None:
                return -1.0  # tail drop
        stage.fair.put(self, packet)
        return -1.0

    def pass_stage(self, packet: SegmentTrain) -> bool:
        """Move a packet over a link that has room for it; return whether it arrives behind it."""
        stage = self.path.stages[packet.hop]
        through, _ = stage.queue.carry(packet.first, packet.last, 1, packet.bits)
        packet.first = packet.last = through + stage.delay
        on_air = packet.hop == self.path.radio
        packet.hop += 1
        return self.loss is None or not on_air or self._draw_lost(1) is None

    def loses(self, train: Train) -> bool:
        """Draw the losses of a train that has passed a link; if there are any, forward the rest."""
        owner, number, count, bits, sent, pace, first, last, hop = train
        lost = self._draw_lost(count) if hop - 1 == self.path.radio else None
        if lost is None:
            return False
        between = (last - first) / max(count - 1, 1)
        for n in range(count):
            if n not in lost:
                at, then = first + n * between, sent + n * pace
                forward_one(self, (owner, number + n, bits, then, at, hop))
        return True

    def _draw_lost(self, count: int) -> set[int] | None:
        """Return which of some packets are lost; None if none is.

        Their number comes from the loss process; which ones is drawn uniformly.
        """
        lost = 0 if self.loss is None else self.loss.losses(count)
        return set(self.rng.choice(count, lost, replace=False).tolist()) if lost else None
