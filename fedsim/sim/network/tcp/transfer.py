"""A message over TCP: windows of segments that meet others in the queues of links.

A message is sent as trains of segments. A train passes a link as one: behind what waits there, at
the link's rate, and without the segments that find the queue full. Its acknowledgements let the
next train go. While the queues have room for all that is in flight, a window is a train or two;
where some of it may be dropped, trains are short. A flow whose window fills its bottleneck's queue
is held up by its share of the link alone, and what is left of it flows as a stream, at once.
So the events of a message grow with the number of its windows: O(log size) in slow start, and
none in a stream.
"""

from collections.abc import Callable
from math import inf
from typing import Any

from fedsim.physics.packet_loss import LossProcess
from fedsim.sim.engine.calendar import Timer
from fedsim.sim.network.processor_sharing import SharedTransfer
from fedsim.sim.network.tcp.arrivals import TcpArrivals
from fedsim.sim.network.tcp.handshake import Handshake
from fedsim.sim.network.tcp.path import TcpLane, TcpStage
from fedsim.sim.network.tcp.queue import Hole, SegmentTrain
from fedsim.sim.network.tcp.window import Window

DUPLICATES = 3
"""Segments that must arrive after one before it counts as lost: RFC 6675."""

LEAST_TRAIN = 2
"""The segments of a train, where the window has them."""

PARTS, LOSSY_PARTS = 4, 8
"""The trains of a window of which a queue, or a radio, may lose some, at least where it is long."""

SAFE_SHARE, RISKY_SHARE = 16, 32
"""A train is no longer than this part of the shortest queue, where none of it can be dropped; and
need be no shorter where it can. What comes while a train passes finds all of it in the queue."""

LONG, WIDE = 4, 6
"""A stream is this many windows at least, of this many segments: with less, timeouts are common."""

LONG_ALONE = 16
"""The windows of a stream where no other lane has the link."""

FULL, LATE = 0.25, 1.1
"""A queue is full, as streams go, from this part of its limit on, and where the round trip is this
many times that of empty links."""


class TcpTransfer:
    """One message over a connection.

    Args:
        lane: that sends it.
        window: of the connection, as it is now.
        bits: of all packets.
        finished, token: called when the last bit has arrived, with what.
        opened: whether the connection is open already.

    Attributes:
        passed: returns the bits that have arrived by a time.
        window: see above.
    """

    __slots__ = (
        "_arrived",
        "_at",
        "_bits",
        "_calendar",
        "_deadline",
        "_finished",
        "_fresh",
        "_gap",
        "_handshake",
        "_holes",
        "_known",
        "_lane",
        "_latest",
        "_log",
        "_odd",
        "_over",
        "_owed",
        "_path",
        "_pipe",
        "_resend",
        "_sent",
        "_stream",
        "_timer",
        "_token",
        "_total",
        "passed",
        "window",
    )

    def __init__(
        self,
        lane: TcpLane,
        window: Window,
        bits: float,
        finished: Callable[[Any], None],
        token: object,
        *,
        opened: bool,
    ) -> None:
        self._lane, self._calendar, self._path = lane, lane.calendar, lane.path
        self._finished, self._token, self.window = finished, token, window
        self._total = total = max(1, int(-(-bits // lane.path.segment)))
        self._bits = bits / total if bits else lane.path.header
        self._log = TcpArrivals(lane.calendar, bits, total, lane.changed, token)
        self.passed = self._log.bits_at
        self._over = False
        self._fresh = self._sent = 0  # segments sent for the first time, and at all
        self._pipe = 0
        self._latest, self._gap = 0, True  # the last train that arrived; a loss before it
        self._odd = 0  # segments that have arrived, and whose acknowledgement is delayed
        self._arrived = self._known = 0  # segments; those whose arrival the sender knows of
        self._resend = 0
        self._holes: list[Hole] = []
        self._deadline = inf
        self._timer: Timer | None = None
        self._stream: SharedTransfer | None = None
        self._at = self._owed = 0  # of a stream: its bottleneck's stage, and losses before it
        self._handshake = None if opened else Handshake(lane, self._open)
        if opened:
            self._begin()

    @property
    def again_bits(self) -> int:
        """The bits that were sent again so far."""
        return max(0, round((self._sent - self._fresh) * self._bits))

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        if not self._over:
            self._close(whole=False)

    def _close(self, *, whole: bool) -> None:
        """Leave the queues to the others."""
        self._over = True
        self._log.close(whole=whole)
        self._fly(-self._pipe)
        if self._handshake is not None:
            self._handshake.give_up()
        if self._stream is not None:
            if not whole:
                self._stream.stop()
            self._path.stages[self._at].queue.leave(self.window.size)
        for queue in self._path.shared:
            queue.above.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fly(self, count: int) -> None:
        """Count packets into what is in flight, or out of it."""
        self._pipe += count
        for queue in self._path.shared:
            queue.claimed += count

    def _open(self, trip: float) -> None:
        self.window.measure(trip)
        self._begin()

    def _begin(self) -> None:
        """Send the first window."""
        now = self._calendar.now
        self._deadline = now + self.window.timeout
        self._send(now, now)

    # The sender.

    def _send(self, first: float, last: float) -> None:
        """Send what the window allows, spread over the time of the acknowledgements."""
        window = self.window
        todo = min(int(window.size + 1e-9) - self._pipe, self._resend + self._total - self._fresh)
        if todo <= 0:
            return
        self._fly(todo)
        if window.recovering:
            window.count_sent(todo)
        size = self._train_size()
        step, waits = (last - first) / todo, self._path.stages[0].shared
        now, start = self._calendar.now, first
        while todo > 0:
            again = self._resend > 0
            count = min(size, todo, self._resend if again else todo)
            index = self._sent
            self._sent = end = index + count
            train = SegmentTrain(index, count, start, again, start, start + step * (count - 1), end)
            if again:
                self._resend -= count
            else:
                self._fresh += count
            todo -= count
            if waits and start > now:
                self._calendar.call(start, self._hop, train)
            else:
                self._hop(train)
            start += step * count

    def _train_size(self) -> int:
        """Return how many segments travel together: few where some of them may be dropped."""
        window, path = int(self.window.size), self._path
        if self._lane.loss is not None:
            return max(LEAST_TRAIN, window // LOSSY_PARTS)
        risky = self._pipe > path.own.limit + 1
        for queue in path.shared:
            risky = risky or queue.claimed > queue.limit + 1
        if risky:
            return max(LEAST_TRAIN, window // PARTS, path.narrow // RISKY_SHARE)
        return max(LEAST_TRAIN, min(window, path.narrow // SAFE_SHARE))

    def _hop(self, train: SegmentTrain) -> None:
        """Take a train over the links to the next queue that it meets others in."""
        if self._over:
            return
        stages, hop, bits, loss = self._path.stages, train.hop, self._bits, self._lane.loss
        while True:
            stage = stages[hop]
            queue, delay = stage.queue, stage.delay
            if queue.managed and train.count > 1 and queue.drops(self, train.first, bits):
                self._lose(train, train.index, 1)
            count, first, last = queue.carry(train.first, train.last, train.count, bits)
            if count < train.count:
                self._lose(train, train.index + count, train.count - count)
            if loss is not None and hop == self._path.radio and count:
                self._lose_at_random(loss, train)
            if not train.count:
                return
            train.first, train.last = first + delay, last + delay
            hop += 1
            if hop == len(stages):
                break
            if stages[hop].shared:
                train.hop = hop
                self._calendar.call(train.first, self._hop, train)
                return
        self._deliver(train)

    def _lose(self, train: SegmentTrain, index: int, count: int) -> None:
        """Lose some segments of a train; the last few are found one after another."""
        train.count -= count
        if self._stream is not None:  # a stream sends them behind the others
            self._owed += count
            return
        many = count - DUPLICATES
        if many > 1:
            self._holes.append(Hole(index, many, train.again))
            index, count = index + many, DUPLICATES
        for number in range(count):
            self._holes.append(Hole(index + number, 1, train.again))
        if self._timer is None:
            self._timer = self._calendar.at(self._deadline, self._look)

    def _lose_at_random(self, loss: LossProcess, train: SegmentTrain) -> None:
        lost = loss.losses(train.count)
        if lost:
            size = train.end - train.index
            for place in self._lane.rng.choice(size, lost, replace=False):
                self._lose(train, train.index + int(place), 1)

    def _deliver(self, train: SegmentTrain) -> None:
        """Let a train arrive."""
        count, first, last = train.count, train.first, train.last
        self._arrived += count
        self._latest = max(self._latest, train.index)
        # `first` is when its first segment is there in full, which has begun to arrive before.
        slot = (last - first) / (count - 1) if count > 1 else self._path.own.lasts(self._bits)
        self._log.note(first - slot, last, count)
        if self._arrived == self._total:
            self._calendar.call(last, self._finish, None)
        else:
            self._calendar.call(first + self._path.back, self._acknowledge, train)

    def _finish(self, _: None) -> None:
        if not self._over:
            self._close(whole=True)
            self._finished(self._token)

    # Acknowledgements.

    def _acknowledge(self, train: SegmentTrain) -> None:
        """Take the acknowledgements of a train, and send as they allow."""
        if self._over or self._stream is not None:
            return
        if self._arrived == self._total and self._known + train.count >= self._total:
            return
        window, now = self.window, self._calendar.now
        window.measure(now - train.sent)  # also of retransmissions, by timestamps
        count = train.count + self._odd
        self._odd = 0
        if count % 2 and not (window.recovering or self._out_of_order(train)):
            count -= 1
            self._odd = 1
        if count:
            self._known += count
            self._fly(-min(count, self._pipe))
            self._take(train, count, now)
        if self._odd:
            self._delay_acknowledgement(now)

    def _take(self, train: SegmentTrain, count: int, now: float) -> None:
        """Adjust the window to acknowledgements, and send."""
        window, span, trip = self.window, train.last - train.first, now - train.sent
        if self._holes:
            self._find_holes(train)
        if window.recovering:
            window.count_acknowledged(count)
            if train.index >= window.until and not self._awaits_repair():
                window.leave_recovery()
        if window.recovering:
            window.recover(count, self._pipe)
        else:
            window.grow(count, now)
            if window.watches:
                window.leave_early((train.index, train.count, trip, span), self._sent, now)
        if not self._holes or not any(hole.again for hole in self._holes):
            self._deadline = now + window.timeout
        if not self._flows_on(now, trip):
            self._send(now, now + span)

    def _out_of_order(self, train: SegmentTrain) -> bool:
        """Return whether the receiver of a train knows that segments are missing."""
        if train.again:
            return self._gap
        return any(hole.index < train.index for hole in self._holes)

    def _delay_acknowledgement(self, now: float) -> None:
        """Acknowledge an odd segment later, if no other comes before."""
        delay = self._lane.law.delayed_ack
        waits = self._resend + self._total > self._fresh
        if waits and (self._pipe == 1 or self._path.trip > delay):
            self._calendar.call(now + delay, self._acknowledge_odd, self._arrived)

    def _acknowledge_odd(self, arrived: int) -> None:
        """Take the acknowledgement of a segment that no other has followed."""
        if self._over or self._stream is not None:
            return
        if self._odd and self._arrived == arrived < self._total:
            self._odd = 0
            self._known += 1
            self._fly(-min(1, self._pipe))
            now = self._calendar.now
            if not self.window.recovering:
                self.window.grow(1, now)
            self._deadline = now + self.window.timeout
            self._send(now, now)

    # Losses.

    def _find_holes(self, train: SegmentTrain) -> None:
        """Find losses that enough later segments have outrun."""
        kept, last = [], train.end - 1
        for hole in self._holes:
            if hole.index < last and not hole.again:
                hole.after += min(train.count, last - hole.index)
                if hole.after >= DUPLICATES:
                    self._fly(-min(hole.count, self._pipe))
                    self._resend += hole.count
                    if not self.window.recovering:
                        self.window.enter_recovery(self._pipe, self._resend, self._sent)
                    continue
            kept.append(hole)
        self._holes = kept

    def _awaits_repair(self) -> bool:
        """Return whether a loss from before this recovery is not repaired yet."""
        until = self.window.until
        return self._resend > 0 or any(hole.index < until or hole.again for hole in self._holes)

    def _look(self) -> None:
        """Time out, or wait on: the timer has been restarted meanwhile."""
        self._timer = None
        if self._over or not self._holes:
            return
        now = self._calendar.now
        if now < self._deadline - 1e-12:
            self._timer = self._calendar.at(self._deadline, self._look)
            return
        lost = sum([hole.count for hole in self._holes])
        self.window.time_out(self._pipe, lost)
        self._gap = any(hole.index < self._latest for hole in self._holes)
        self._holes = []
        self._resend += lost
        self._fly(-min(lost, self._pipe))
        self._deadline = now + self.window.timeout
        self._send(now, now)

    # The rest of a long message, as a stream.

    def _flows_on(self, now: float, trip: float) -> bool:
        """Let the rest flow as a stream, where the share of a link is all that holds it up."""
        window, left = self.window, self._total - self._fresh
        if self._holes or self._resend or window.recovering or window.size < window.threshold:
            return False
        if window.size < WIDE or left < LONG * window.size or trip < LATE * self._path.trip:
            return False
        number = None if self._log.watched else self._bottleneck(now)
        if number is None:
            return False
        stage = self._path.stages[number]
        if not stage.shared and left < LONG_ALONE * window.size:
            return False
        self._at = number
        self._fresh += left
        self._sent += left
        self._flow(stage, left)
        return True

    def _bottleneck(self, now: float) -> int | None:
        """Return the stage of the full queue in which segments wait longest, if there is one."""
        longest, found = 0.0, None
        for number, stage in enumerate(self._path.stages):
            queue = stage.queue
            if queue.signal is not None or queue.rate == inf:
                continue
            if not stage.shared and queue.rate > self._path.slowest:
                continue  # bursts wait there, and no more
            waits = queue.waiting(now, self._bits)
            seconds = waits * self._bits / queue.rate
            if waits > max(LONG, FULL * queue.limit) and seconds > longest:
                longest, found = seconds, number
        return found

    def _flow(self, stage: TcpStage, left: int) -> None:
        """Let segments flow over a link, at the fair share of it that windows can fill."""
        queue, window = stage.queue, self.window
        pipe = queue.rate * self._path.trip / self._bits
        filled = 1.0 if queue.managed else window.utilisation(queue.limit / pipe)
        others = [each.queue.rate for each in self._path.stages if each is not stage]
        link = queue.join(self._calendar, window.size, pipe)
        bits = left * self._bits / filled
        self._stream = link.add(bits, min(others, default=inf), self._end_stream, None)
        self._log.follow(self._stream, left)

    def _end_stream(self, _: None) -> None:
        """Send what trains before the stream have lost, or end."""
        path, owed = self._path, self._owed
        link = path.stages[self._at].queue.streams
        if owed and link is not None:
            self._owed = 0
            self._sent += owed
            self._stream = link.add(owed * self._bits, inf, self._end_stream, None)
            return
        self._calendar.call(
            self._calendar.now + path.rest(self._at, self._bits), self._finish, None
        )
