"""Messages over TCP: windows of segments that meet in the queues of links.

A message is sent as trains of segments. A train passes a link as one: behind what waits there, at
the link's rate, and without the segments that find the queue full. Its acknowledgements let the
next train go. A window is one train or two while the queues on its way have room for all that is in
flight, and more of them where some of it may be dropped. So a message that is not held up by drops
has a few events for each window, and its windows grow with its size: O(log size).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedsim.physics.packet_loss import LossProcess
from fedsim.physics.radios.base import Framing
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar, Timer
from fedsim.sim.network.flows import Changed
from fedsim.sim.network.tcp_queue import Hole, LinkQueue, Train
from fedsim.sim.network.tcp_window import Window

T = TypeVar("T")

DUPLICATES = 3
"""Segments that must arrive after one before it counts as lost: RFC 6675."""

FIRST_TIMEOUT = 1.0
"""Of a handshake, s; doubled each time: RFC 6298."""

RISKY_TRAINS = 4
"""The trains of a window of which some may be dropped, at least where it is long."""

LEAST = 2
"""The segments of a train, where the window has them."""

FINE = 32
SHARE = 16
"""A train is no longer than this part of the queue: what comes during it finds it queued whole."""


STREAM, LONG, WIDE, SATURATED = True, 2, 6, 0.25
KEPT = 16
"""The trains that are remembered one by one for `TcpTransfer.passed`."""


class Stage(NamedTuple):
    """A link on the way of a lane's messages.

    Attributes:
        queue: in front of it.
        delay: behind it, s.
        shared: whether other lanes' messages pass it.
    """

    queue: LinkQueue
    delay: float
    shared: bool


@dataclass(slots=True)
class Knock:
    """A SYN on its way.

    Attributes:
        begun: when it was sent, s.
        timeout: after which it is sent again, s.
        at: when it comes to the next queue, s.
        hop: the next stage.
    """

    begun: float
    timeout: float
    at: float
    hop: int = 0


class TcpPath(NamedTuple):
    """The way of a lane's segments, and that of their acknowledgements.

    Attributes:
        stages: the links, in order.
        shared: those queues of them that others use too.
        own: the radio's.
        radio: the number of its stage.
        back: how long an acknowledgement takes, s.
        packets: how messages are cut into segments.
        crowded: whether the handshakes of all that share a queue may be too many for it.
    """

    stages: Sequence[Stage]
    shared: Sequence[LinkQueue]
    own: LinkQueue
    radio: int
    back: float
    packets: Framing
    crowded: bool

    @property
    def least(self) -> float:
        return min([stage.queue.rate for stage in self.stages])

    @property
    def narrow(self) -> float:
        return min([stage.queue.limit for stage in self.stages])

    @property
    def header(self) -> float:
        """The bits of a segment without payload."""
        return 8.0 * self.packets.overhead

    def trip(self) -> float:
        """Return the round trip of a segment without payload on empty links, s."""
        there = [stage.delay + stage.queue.lasts(self.header) for stage in self.stages]
        return sum(there) + self.back


class TcpBearer:
    """The bearer of one lane: a connection of its own for each message, or one for all.

    Args:
        calendar: the simulated time.
        law: the parameters.
        path: the way.
        changed: callback for changes of the rate at which bits arrive, if any.
        loss: of packets at the radio, if any.
        rng: tells which packets of a train these are.
    """

    open = False

    def __init__(
        self,
        calendar: Calendar,
        law: Tcp,
        path: TcpPath,
        changed: Changed | None = None,
        loss: LossProcess | None = None,
        rng: Callable[[], np.random.Generator] | None = None,
    ) -> None:
        self.calendar, self.law, self.path, self.changed = calendar, law, path, changed
        self.loss = loss
        self.segment = 8.0 * path.packets.packet
        self.back = path.back
        self.trip = path.trip()
        self._make_rng = rng
        self._rng: np.random.Generator | None = None
        self._kept: Window | None = None
        self._used = 0.0
        self._follows = path.own.signal is not None

    @property
    def rng(self) -> np.random.Generator:
        """The stream that tells which packets are lost, made for the first of them."""
        if self._rng is None:
            self._rng = np.random.default_rng(0) if self._make_rng is None else self._make_rng()
        return self._rng

    def start(
        self, bits: float, cap: float, finished: Callable[[T], None], token: T
    ) -> "TcpTransfer":
        """See `Bearer.start`."""
        if not self._follows:
            self.path.own.rate = cap
        made = TcpTransfer(self, bits, finished, token)
        window = self._kept
        if window is None:
            made.window = Window(self.law)
            made.shake_hands(FIRST_TIMEOUT)
            return made
        window.begin_message()
        if self.law.idle_restart and self.calendar.now - self._used > window.timeout:
            window.restart(self.law.initial_window)
        made.window = window
        made.begin()
        return made

    def keep(self, window: Window) -> None:
        """Remember the window of a message that has arrived, for the next one."""
        if self.law.connections == "kept":
            self._kept, self._used = window, self.calendar.now


class TcpTransfer:
    """One message over a connection.

    Attributes:
        bits: of all packets.
        over: whether its last bit has arrived, or it was stopped.
        window: of the connection.
    """

    __slots__ = (
        "_arrived",
        "_bearer",
        "_bits",
        "_calendar",
        "_deadline",
        "_finished",
        "_fresh",
        "_gap",
        "_holes",
        "_known",
        "_latest",
        "_odd",
        "_passed",
        "_path",
        "_pipe",
        "_rate",
        "_recent",
        "_resend",
        "_sent",
        "_timer", "_streaming", "_owed", "_at", "_streamed_segments",
        "_token",
        "_total",
        "bits",
        "over",
        "window",
    )

    window: Window

    def __init__(
        self, bearer: TcpBearer, bits: float, finished: Callable[[Any], None], token: object
    ) -> None:
        self._bearer, self._calendar, self._path = bearer, bearer.calendar, bearer.path
        self._finished, self._token = finished, token
        self.bits, self.over = bits, False
        self._total = total = max(1, int(-(-bits // bearer.segment)))
        self._bits = bits / total if bits else bearer.path.header
        self._fresh = self._sent = 0  # segments sent for the first time, and at all
        self._pipe = 0
        self._latest, self._gap = 0, True  # the last train that arrived; a loss before it
        self._odd = 0  # segments that have arrived, and whose acknowledgement is delayed
        self._arrived = self._known = 0  # segments; those whose arrival the sender knows of
        self._resend = 0
        self._holes: list[Hole] = []
        self._deadline = inf
        self._timer: Timer | None = None
        self._passed = 0
        self._recent: list[tuple[float, float, int]] = []
        self._rate = 0.0
        self._streaming = None
        self._owed = 0

    @property
    def repeated(self) -> int:
        """The bits that were sent again so far."""
        return max(0, round((self._sent - self._fresh) * self._bits))

    def passed(self, now: float) -> float:
        """Return the bits that have arrived by the time `now`."""
        if self._passed == self._total:
            return self.bits
        partly = 0.0
        for first, last, count in self._recent:
            if now >= last:
                partly += count
            elif now > first:
                partly += count * (now - first) / (last - first)
        return self.bits * (self._passed + partly) / self._total

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        if self.over:
            return
        self._passed = int(self.passed(self._calendar.now) / self.bits * self._total) if self.bits else 0
        self._recent = []
        self._close()
        if self._rate and self._bearer.changed is not None:
            self._rate = 0.0
            self._bearer.changed(self._token, 0.0)

    def _close(self) -> None:
        """Leave the queues to the others."""
        self.over = True
        self._fly(-self._pipe)
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

    # The handshake.

    def shake_hands(self, timeout: float) -> None:
        """Send a SYN, and begin when it is answered; without an answer, try again."""
        now, path, loss = self._calendar.now, self._path, self._bearer.loss
        self._fly(1)
        if loss is not None and loss.losses(1):
            self._calendar.call(now + timeout, self._knock_again, timeout)
        elif path.crowded or any([queue.free > now for queue in path.shared]):
            self._knock(Knock(now, timeout, now))
        else:
            self._calendar.call(now + self._bearer.trip, self._established, now)

    def _knock(self, syn: "Knock") -> None:
        """Take a SYN over the links to the next queue that it may meet others in."""
        if self.over:
            return
        stages, path = self._path.stages, self._path
        while syn.hop < len(stages):
            queue, delay, shared = stages[syn.hop]
            if shared and syn.at > self._calendar.now:
                self._calendar.call(syn.at, self._knock, syn)
                return
            through = queue.knock(syn.at, path.header, self._bearer.segment)
            if through == inf:
                again = max(syn.begun + syn.timeout, self._calendar.now)
                self._calendar.call(again, self._knock_again, syn.timeout)
                return
            syn.at = through + delay
            syn.hop += 1
        self._calendar.call(syn.at + path.back, self._established, syn.begun)

    def _knock_again(self, timeout: float) -> None:
        if not self.over:
            self._fly(-1)
            self.shake_hands(2 * timeout)

    def _established(self, begun: float) -> None:
        if self.over:
            return
        self._fly(-1)
        self.window.measure(self._calendar.now - begun)
        self.begin()

    def begin(self) -> None:
        """Send the first window."""
        self._deadline = self._calendar.now + self.window.timeout
        self._send(self._calendar.now, self._calendar.now)

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
        size = self._train_size(todo)
        step, waits = (last - first) / todo, self._path.stages[0].shared
        now, start = self._calendar.now, first
        while todo > 0:
            again = self._resend > 0
            count = min(size, todo, self._resend if again else todo)
            index = self._sent
            self._sent = end = index + count
            train = Train(index, count, start, again, start, start + step * (count - 1), end)
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

    def _train_size(self, todo: int) -> int:
        """Return how many segments travel together: few where some of them may be dropped."""
        window, path = int(self.window.size), self._path
        risky, own = self._pipe > path.own.limit + 1, path.own.limit
        for queue in path.shared:
            risky = risky or queue.claimed > queue.limit + 1
        if risky:
            return max(LEAST, window // RISKY_TRAINS, int(min(path.narrow, 1e9) / FINE))
        return max(LEAST, min(window, int(min(path.narrow, 1e9) / SHARE)))

    def _hop(self, train: Train) -> None:
        """Take a train over the links to the next queue that it meets others in."""
        if self.over:
            return
        stages, hop, bits = self._path.stages, train.hop, self._bits
        while True:
            queue, delay, _ = stages[hop]
            if queue.managed and train.count > 1 and queue.drops(self, train.first, bits):
                self._lose(train, train.index, 1)
            count, first, last = queue.carry(train.first, train.last, train.count, bits)
            if count < train.count:
                self._lose(train, train.index + count, train.count - count)
            if self._bearer.loss is not None and hop == self._path.radio and count:
                self._lose_at_random(self._bearer.loss, train)
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

    def _lose(self, train: Train, index: int, count: int) -> None:
        """Lose some segments of a train; the last few are found one after another."""
        train.count -= count
        if self._streaming:
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

    def _lose_at_random(self, loss: LossProcess, train: Train) -> None:
        lost = loss.losses(train.count)
        if lost:
            size = train.end - train.index
            for place in self._bearer.rng.choice(size, lost, replace=False):
                self._lose(train, train.index + int(place), 1)

    def _deliver(self, train: Train) -> None:
        """Let a train arrive."""
        count = train.count
        self._arrived += count
        if train.index > self._latest:
            self._latest = train.index
        self._note_arrival(train)
        if self._arrived == self._total:
            self._calendar.call(train.last, self._done, None)
            return
        self._calendar.call(train.first + self._bearer.back, self._acknowledge, train)

    def _note_arrival(self, train: Train) -> None:
        """Remember when the bits of a train arrive."""
        # `first` is when its first segment is there in full, which has begun to arrive before.
        count, last = train.count, train.last
        slot = (last - train.first) / (count - 1) if count > 1 else self._path.own.lasts(self._bits)
        first = train.first - slot
        if len(self._recent) >= KEPT:
            now = self._calendar.now
            self._passed += sum([each for _, end, each in self._recent if end <= now])
            self._recent = [each for each in self._recent if each[1] > now]
        self._recent.append((first, last, count))
        if self._bearer.changed is not None and last > first:
            rate = count * self._bits / (last - first)
            self._calendar.call(max(first, self._calendar.now), self._change, rate)
            self._calendar.call(last, self._change, -rate)

    def _change(self, difference: float) -> None:
        """Report a rate of arrival."""
        if self.over or self._bearer.changed is None:
            return
        self._rate = rate = max(0.0, self._rate + difference)
        self._bearer.changed(self._token, rate)

    def _done(self, _: None) -> None:
        if self.over:
            return
        self._passed = self._total
        self._close()
        self._bearer.keep(self.window)
        if self._rate and self._bearer.changed is not None:
            self._rate = 0.0
            self._bearer.changed(self._token, 0.0)
        self._finished(self._token)

    def _acknowledge(self, train: Train) -> None:
        """Take the acknowledgements of a train, and send as they allow."""
        if self.over or self._streaming or (self._arrived == self._total and self._known + train.count >= self._total):
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

    def _take(self, train: Train, count: int, now: float) -> None:
        """Adjust the window to acknowledgements, and send."""
        window, span = self.window, train.last - train.first
        if self._holes:
            self._find_holes(train)
        if window.recovering:
            window.count_acknowledged(count)
            if train.index >= window.until and not self._unrepaired():
                window.leave_recovery()
        if window.recovering:
            window.recover(count, self._pipe)
        else:
            window.grow(count, now)
            if window.watches:
                told = train.index, train.count, now - train.sent, span
                window.leave_early(told, self._sent, now)
        if not self._holes or not any([hole.again for hole in self._holes]):
            self._deadline = now + window.timeout
        if STREAM and not self._holes and not window.recovering and window.size >= window.threshold and self._stream(now, now - train.sent):
            return
        self._send(now, now + span)

    def _stream(self, now, trip) -> bool:
        window = self.window
        left = self._total - self._fresh
        if self._resend or left < LONG * window.size or window.size < WIDE or self._bearer.changed is not None:
            return False
        if trip < 1.1 * self._bearer.trip: return False
        most, at = 0.0, -1
        stages = self._path.stages
        for number, (queue, _, shared) in enumerate(stages):
            if queue.signal is not None or not queue.rate < inf: continue
            if not shared and queue.rate > self._path.least: continue
            waits = (queue.free - now) * queue.rate / self._bits + (queue.standing() if queue.windows else 0.0)
            if waits > max(4.0, SATURATED * queue.limit) and waits*self._bits/queue.rate > most:
                most, at = waits*self._bits/queue.rate, number
        if at < 0: return False
        queue = stages[at].queue
        if not stages[at].shared and left < 4 * LONG * window.size: return False
        pipe = queue.rate * self._bearer.trip / self._bits
        u = 1.0 if queue.managed else self.window.utilisation(queue.limit / pipe)
        cap = min([s.queue.rate for n, s in enumerate(stages) if n != at], default=inf)
        self._at = at
        self._streaming = (queue.stream(self._calendar, window.size, pipe, left * self._bits / u, cap, self._streamed), u)
        self._fresh = self._total
        self._sent += left
        self._streamed_segments = left
        return True

    def _streamed(self, _) -> None:
        if self.over: return
        stages = self._path.stages
        stages[self._at].queue.windows -= self.window.size
        if self._owed:
            stages[self._at].queue.windows += self.window.size
            owed, self._owed = self._owed, 0
            queue = stages[self._at].queue
            self._streaming = (queue.streams.add(owed * self._bits, inf, self._streamed, None), 1.0)
            return
        rest = sum([s.delay for s in stages[self._at:]]) + sum([s.queue.lasts(self._bits) for s in stages[self._at+1:]])
        self._calendar.call(self._calendar.now + rest, self._done, None)

    def _out_of_order(self, train: Train) -> bool:
        """Return whether the receiver of a train knows that segments are missing."""
        if train.again:
            return self._gap
        return any([hole.index < train.index for hole in self._holes])

    def _delay_acknowledgement(self, now: float) -> None:
        """Acknowledge an odd segment later, if no other comes before."""
        delay = self._bearer.law.delayed_ack
        if self._resend + self._total > self._fresh and (
            self._pipe == 1 or self._bearer.trip > delay
        ):
            self._calendar.call(now + delay, self._acknowledge_odd, self._arrived)

    def _acknowledge_odd(self, arrived: int) -> None:
        """Take the acknowledgement of a segment that no other has followed."""
        if self._odd and self._arrived == arrived < self._total and not self.over and not self._streaming:
            self._odd = 0
            self._known += 1
            self._fly(-min(1, self._pipe))
            now = self._calendar.now
            if not self.window.recovering:
                self.window.grow(1, now)
            self._deadline = now + self.window.timeout
            self._send(now, now)

    # Losses.

    def _find_holes(self, train: Train) -> None:
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

    def _unrepaired(self) -> bool:
        """Return whether a loss from before this recovery is not repaired yet."""
        until = self.window.until
        return self._resend > 0 or any(
            [hole.index < until or hole.again for hole in self._holes]
        )

    def _look(self) -> None:
        """Time out, or wait on: the timer has been restarted meanwhile."""
        self._timer = None
        if self.over or not self._holes:
            return
        if self._calendar.now < self._deadline - 1e-12:
            self._timer = self._calendar.at(self._deadline, self._look)
            return
        lost = sum([hole.count for hole in self._holes])
        self.window.time_out(self._pipe, lost)
        self._gap = any([hole.index < self._latest for hole in self._holes])
        self._holes = []
        self._resend += lost
        self._fly(-min(lost, self._pipe))
        now = self._calendar.now
        self._deadline = now + self.window.timeout
        self._send(now, now)
