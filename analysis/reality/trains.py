"""A model of TCP as trains of segments: the windows of all flows meet in the queues of links.

A train is a few segments of one flow that were sent together. It passes a link as one: behind what
waits there, at the link's rate, and without the segments that find the queue full. Its
acknowledgements let the next train go. So there are a few events for each round trip and link,
however long the window is.

Slow start and congestion avoidance are those of RFC 5681 (NewReno) and RFC 9438 (Cubic, which
leaves slow start early by HyStart); the initial window is that of RFC 6928; losses are found by
SACK (RFC 6675) and repaired at a proportional rate (RFC 6937), or after a timeout (RFC 6298).

It is not a `network.model` of scenarios yet; `run.py` prints its errors beside those of the models
that are.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf, nan

import numpy as np
from packets import HOURS, Case

from fedsim.sim.engine.calendar import Calendar

SEGMENT = 1448
"""The bytes of a segment's payload."""

HEADERS = 54
"""What IP, TCP with timestamps, and PPP add to each, bytes."""

SPLIT = 8
"""The trains of a window, at least, where it is long."""

INITIAL_WINDOW = 10.0
LEAST_TIMEOUT = 1.0
DELAYED = 0.2  # of an acknowledgement, while no second segment comes, s
DUPLICATES = 3
TARGET, INTERVAL = 0.005, 0.1  # of CoDel, s: RFC 8289


@dataclass(slots=True, eq=False)
class Queue:
    """One direction of a link, with the queue in front of it.

    Attributes:
        rate: bit/s.
        delay: one way, s.
        room: of the queue, packets; what waits beyond it, where `managed`, waits for CoDel.
        managed: whether it never fills, and CoDel drops of what waits too long instead.
        loss: the probability that a segment is lost behind it.
        free: when all that has come is through, s.
        above: by flow, when CoDel drops its next segment, how many it has dropped in a row, and
            when its last one leaves the queue.
    """

    rate: float
    delay: float
    room: int
    managed: bool = False
    loss: float = 0.0
    free: float = 0.0
    above: dict["Flow", tuple[float, int, float]] = field(default_factory=dict)

    def carry(self, first: float, last: float, count: int, bits: float) -> tuple[int, float, float]:
        """Take a train; return how many segments pass, and when the first and the last do, s."""
        slot = bits / self.rate
        waits = max(self.free - first, 0.0)
        taken = count
        if not self.managed:
            room = self.room + 1 - waits / slot + (last - first) / slot
            taken = max(0, min(count, int(room + 1e-9)))
        if not taken:
            return 0, first, last
        start = first + waits
        self.free = start + taken * slot
        return taken, start + slot, max(self.free, last + slot)

    def drops(self, flow: "Flow", now: float, bits: float) -> bool:
        """Return whether CoDel drops the first segment of a train that comes now."""
        waits = max(self.free - now, 0.0)
        leaves = now + waits
        due, count, until = self.above.get(flow, (inf, 0, -inf))
        if waits - self.room * bits / self.rate < TARGET:
            self.above.pop(flow, None)
            return False
        if now > until:  # the flow had nothing in the queue any more
            due, count = leaves + INTERVAL, 0
        if leaves < due:
            self.above[flow] = due, count, leaves
            return False
        self.above[flow] = leaves + INTERVAL / (count + 1) ** 0.5, count + 1, leaves
        return True


@dataclass(slots=True, eq=False)
class Train:
    """Segments of one flow that travel together.

    Attributes:
        index: how many segments the flow had sent before it.
        sent: when its first one was sent, s.
        again: whether they are retransmissions.
        hop: the next queue on its path.
        first, last: when its first and last segment come there, s.
        end: the index behind its last segment, as it was sent; 0 before it has left.
    """

    flow: "Flow"
    index: int
    count: int
    sent: float
    again: bool
    hop: int = 0
    first: float = 0.0
    last: float = 0.0
    end: int = 0


@dataclass(slots=True)
class Hole:
    """A segment that was lost.

    Attributes:
        index: how many segments the flow had sent before it.
        again: whether it was a retransmission, which only a timeout repairs.
        after: how many segments that were sent after it are known to have arrived.
    """

    index: int
    again: bool
    after: int = 0


class Flow:
    """One message over one connection of its own.

    Args:
        calendar: the simulated time.
        path: the queues from the sender to the receiver.
        size: bytes.
        cubic: the variant, else NewReno.
        finished: called as the last byte arrives.
        rng: of random losses.
    """

    def __init__(
        self,
        calendar: Calendar,
        path: list[Queue],
        size: int,
        finished: Callable[[], None],
        rng: np.random.Generator,
        *,
        cubic: bool,
    ) -> None:
        self.calendar, self.path, self.finished, self.rng = calendar, path, finished, rng
        self.cubic = cubic
        self.total = ceil(size / SEGMENT)
        self.bits = 8.0 * (size / self.total + HEADERS)
        self.back = sum([queue.delay + 8 * HEADERS / queue.rate for queue in path])
        self.beta = 0.7 if cubic else 0.5
        self.window, self.threshold = INITIAL_WINDOW, inf
        self.fresh = 0  # segments sent for the first time
        self.sent = 0  # segments sent at all
        self.pipe = 0
        self.latest, self.gap = 0, True  # the last train that arrived; a loss before it
        self.odd = 0  # segments that have arrived, and whose acknowledgement is delayed
        self.arrived = 0
        self.known = 0  # segments acknowledged
        self.resend = 0
        self.holes: list[Hole] = []
        self.recovering = False
        self.recover_until = 0  # in segments sent
        self.flight, self.out, self.got = 1, 0, 0  # of PRR
        self.trip: float | None = None
        self.variation = 0.0
        self.timeout = LEAST_TIMEOUT
        self.deadline = inf
        self.armed = False
        self.least_trip = inf
        self.round_until, self.round_start, self.round_trip, self.samples = 0, 0.0, inf, 0
        self.peak, self.epoch, self.origin, self.inflection = 0.0, -1.0, 0.0, 0.0

    def open(self) -> None:
        """Shake hands: a round trip of small packets; each lost one costs a timeout (RFC 6298)."""
        now = self.calendar.now
        loss = max(queue.loss for queue in self.path)
        wait, timeout = 0.0, 1.0
        while loss and self.rng.random() < loss:
            wait, timeout = wait + timeout, 2 * timeout
        self.calendar.call(now + wait + 2 * self.back, self._begin, None)

    def _begin(self, _: None) -> None:
        self._measure(2 * self.back)
        self._send(self.calendar.now, self.calendar.now)

    # The sender.

    def _send(self, first: float, last: float) -> None:
        """Send what the window allows, spread over the time of the acknowledgements."""
        budget = int(self.window + 1e-9) - self.pipe
        todo = min(budget, self.resend + self.total - self.fresh)
        if todo <= 0:
            return
        size = max(2, int(self.window) // SPLIT)
        step, start = (last - first) / todo, first
        while todo > 0:
            again = self.resend > 0
            count = min(size, todo, self.resend if again else todo)
            end = start + step * (count - 1)
            train = Train(self, self.sent, count, start, again, 0, start, end)
            self.sent += count
            self.pipe += count
            self.out += count
            if again:
                self.resend -= count
            else:
                self.fresh += count
            todo -= count
            if start > self.calendar.now:
                self.calendar.call(start, self._hop, train)
            else:
                self._hop(train)
            start += step * count
        if self.deadline == inf:
            self._arm()

    def _hop(self, train: Train) -> None:
        """Take a train to its next link."""
        queue = self.path[train.hop]
        train.end = train.end or train.index + train.count
        if queue.managed and train.count > 1 and queue.drops(self, train.first, self.bits):
            self._lose(train, train.index)
        taken, first, last = queue.carry(train.first, train.last, train.count, self.bits)
        for number in range(taken, train.count):
            self._lose(train, train.index + number)
        if queue.loss and taken:
            lost = int(self.rng.binomial(taken, queue.loss))
            for place in self.rng.choice(train.end - train.index, lost, replace=False):
                self._lose(train, train.index + int(place))
            taken -= lost
        if not taken:
            return
        train.first, train.last = first + queue.delay, last + queue.delay
        train.hop += 1
        if train.hop < len(self.path):
            self.calendar.call(train.first, self._hop, train)
            return
        self.arrived += taken
        self.latest = max(self.latest, train.index)
        if self.arrived == self.total:
            self.calendar.call(train.last, self._done, None)
        self.calendar.call(train.first + self.back, self._acknowledged, train)

    def _lose(self, train: Train, index: int) -> None:
        self.holes.append(Hole(index, train.again))
        train.count -= 1

    def _done(self, _: None) -> None:
        self.deadline = inf
        self.finished()

    def _acknowledged(self, train: Train) -> None:
        """Take the acknowledgements of a train, and send as they allow."""
        if self.arrived == self.total and self.known + train.count >= self.total:
            return
        self._measure(self.calendar.now - train.sent)  # also of retransmissions, by timestamps
        count = train.count + self.odd
        self.odd = 0
        if count % 2 and not (self.recovering or self._out_of_order(train)):
            count -= 1
            self.odd = 1
            self.calendar.call(self.calendar.now + DELAYED, self._acknowledge_odd, self.arrived)
            if not count:
                return
        self.known += count
        self.pipe = max(0, self.pipe - count)
        self.got += count
        self._find_holes(train)
        if self.recovering and train.index >= self.recover_until and not self._unrepaired():
            self.recovering = False
            self.window = max(self.threshold, 1.0)
        if self.recovering:
            self._recover(count)
        else:
            self._grow(count, train)
        if not any(hole.again for hole in self.holes):
            self._restart_timer()
        self._send(self.calendar.now, self.calendar.now + train.last - train.first)

    def _out_of_order(self, train: Train) -> bool:
        """Return whether the receiver of a train knows that segments are missing."""
        if train.again:
            return self.gap
        return any(hole.index < train.index for hole in self.holes)

    def _acknowledge_odd(self, arrived: int) -> None:
        """Take the acknowledgement of a segment that no other has followed."""
        if self.odd and self.arrived == arrived < self.total:
            self.odd = 0
            self.known += 1
            self.pipe = max(0, self.pipe - 1)
            now = self.calendar.now
            if not self.recovering:
                self._grow(1, Train(self, self.sent, 1, now, again=True))
            self._restart_timer()
            self._send(now, now)

    def _find_holes(self, train: Train) -> None:
        """Find losses that enough later segments have outrun."""
        kept = []
        for hole in self.holes:
            if hole.index < train.end - 1 and not hole.again:
                hole.after += min(train.count, train.end - 1 - hole.index)
                if hole.after >= DUPLICATES:
                    self.pipe = max(0, self.pipe - 1)
                    self.resend += 1
                    if not self.recovering:
                        self._enter_recovery()
                    continue
            kept.append(hole)
        self.holes = kept

    def _unrepaired(self) -> bool:
        """Return whether a loss from before this recovery is not repaired yet."""
        until = self.recover_until
        return self.resend > 0 or any(hole.index < until or hole.again for hole in self.holes)

    def _enter_recovery(self) -> None:
        self.recovering, self.recover_until = True, self.sent
        self.flight, self.out, self.got = max(1, self.pipe + self.resend), 0, 0
        self.threshold = max(2.0, self.beta * self._reduced(self.window))

    def _reduced(self, window: float) -> float:
        """Note a loss for Cubic; return the window that it happened at."""
        if self.cubic:
            less = window < self.peak
            self.peak = window * (1 + self.beta) / 2 if less else window
            self.epoch = -1.0
            return window
        return float(self.flight)

    def _recover(self, count: int) -> None:
        """Set the window by PRR."""
        if self.pipe > self.threshold:
            send = ceil(self.got * self.threshold / self.flight) - self.out
        else:
            send = int(min(max(self.got - self.out, count) + 1, self.threshold - self.pipe))
        self.window = self.pipe + max(send, 0 if self.out else 1)

    # The window.

    def _grow(self, count: int, train: Train) -> None:
        if self.window < self.threshold:
            self.window += count if self.cubic else (count + 1) // 2
            if self.cubic:
                self._leave_early(train)
        elif self.cubic:
            self._follow_cubic(count)
        else:
            self.window += count / 2 / self.window

    def _leave_early(self, train: Train) -> None:
        """Leave slow start where delays or long trains tell of a full pipe (HyStart)."""
        now = self.calendar.now
        if train.index >= self.round_until:
            self.round_until, self.round_start = self.sent, now
            self.round_trip, self.samples = inf, 0
        if self.window < 16:
            return
        if self.samples < 8:
            self.round_trip = min(self.round_trip, now - train.sent)
            self.samples += max(1, train.count // 2)
        late = self.least_trip + min(max(self.least_trip, 0.004), 1.0)
        spacing = 2 * (train.last - train.first) / max(train.count - 1, 1)
        passed = now + train.last - train.first - self.round_start
        long_train = spacing <= 0.002 and passed > self.least_trip
        if (self.samples >= 8 and self.round_trip > late) or long_train:
            self.threshold = self.window

    def _follow_cubic(self, count: int) -> None:
        now = self.calendar.now
        if self.epoch < 0:
            self.epoch = now
            self.origin = max(self.peak, self.window)
            self.inflection = ((self.origin - self.window) / 0.4) ** (1 / 3)
        t = now + self.least_trip - self.epoch
        target = self.origin + 0.4 * (t - self.inflection) ** 3
        per = self.window / (target - self.window) if target > self.window else 100 * self.window
        if not self.peak:
            per = min(per, 20.0)
        self.window += count / max(per, 2.0)

    # The timer.

    def _measure(self, trip: float) -> None:
        self.least_trip = min(self.least_trip, trip)
        if self.trip is None:
            self.trip, self.variation = trip, trip / 2
        else:
            self.variation += (abs(self.trip - trip) - self.variation) / 4
            self.trip += (trip - self.trip) / 8
        self.timeout = max(LEAST_TIMEOUT, self.trip + 4 * self.variation)

    def _arm(self) -> None:
        self.deadline = self.calendar.now + self.timeout
        if not self.armed:
            self.armed = True
            self.calendar.call(self.deadline, self._look, None)

    def _restart_timer(self) -> None:
        self.deadline = self.calendar.now + self.timeout

    def _look(self, _: None) -> None:
        """Time out, or wait on: the timer has been restarted meanwhile."""
        self.armed = False
        if self.deadline == inf:
            return
        if self.calendar.now < self.deadline - 1e-12:
            self.armed = True
            self.calendar.call(self.deadline, self._look, None)
            return
        self.flight = max(self.pipe, 1)
        at = self.window if self.cubic else float(self.pipe)
        self.threshold = max(2.0, self.beta * self._reduced(at))
        if self.cubic:
            self.peak, self.least_trip = 0.0, inf
        lost = len(self.holes)
        self.gap = any(hole.index < self.latest for hole in self.holes)
        self.holes = []
        self.resend += lost
        self.pipe = max(0, self.pipe - lost)
        self.recovering = False
        self.window = self.pipe + 1.0
        self.timeout = min(60.0, 2 * self.timeout)
        self.deadline = inf
        self._send(self.calendar.now, self.calendar.now)
        if self.deadline == inf:
            self._arm()


def by_trains(case: Case, seed: int = 0) -> list[float]:
    """Return when each message has arrived, s from the call to connect; NaN for never.

    Args:
        case: what is sent.
        seed: of the random losses.
    """
    calendar, arrived = Calendar(), [nan] * case.flows
    rng, managed = np.random.default_rng(seed), case.discipline == "fq_codel"
    server = Queue(case.rate, case.delay, case.queue, managed, case.loss)
    gateways = [Queue(case.gateway_rate, 0.0, case.queue, managed) for _ in range(case.gateways)]

    def arrive(number: int) -> None:
        arrived[number] = calendar.now

    for number, delay in enumerate(case.own_delays):
        path = [Queue(case.own_rate, delay, case.queue, managed)]
        if gateways:
            path.append(gateways[number * case.gateways // case.flows])
        path.append(server)
        if case.direction == "down":
            path.reverse()
        finished = partial(arrive, number)
        cubic = case.variant == "cubic"
        Flow(calendar, path, case.bytes, finished, rng, cubic=cubic).open()
    while calendar.peek() < HOURS:
        calendar.step()
    return arrived
