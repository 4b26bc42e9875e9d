"""A message over TCP: windows of segments that compete in the queues of links.

A message is sent as trains of segments. If the queues have room for all segments in flight, a train
is a large part of a window, passes links as one and is acknowledged as one: a few events per round
trip. If segments may be dropped, each travels alone, by RFC 5681, RFC 6675 (selective
acknowledgements), RFC 6937 and RFC 6298.

If the window of a long message fills the queue of its bottleneck, only the share of that link
limits the message. Its rest then flows as one stream.
"""

from collections.abc import Callable
from math import inf
from typing import Any

from fedsim.addons.tcp import stream
from fedsim.addons.tcp.arrivals import TcpArrivals
from fedsim.addons.tcp.congestion import looks
from fedsim.addons.tcp.handshake import Handshake
from fedsim.addons.tcp.kept import KeptWindow
from fedsim.addons.tcp.path import TcpLane
from fedsim.addons.tcp.queue import SegmentTrain
from fedsim.addons.tcp.receiver import (
    GROWS,
    QUICK,
    Acknowledgement,
    Receiver,
    TrainAcknowledgement,
    count_arrived,
    every,
    take_train,
)
from fedsim.addons.tcp.sender import (
    RackSender,
    Sender,
    acknowledge,
    acknowledge_in_order,
    acknowledge_train,
)
from fedsim.addons.tcp.senders import CLOSE, begin, is_steady
from fedsim.addons.tcp.window import Window
from fedsim.sim.engine.calendar import Timer

AHEAD = 3
"""Number of windows for which a stream claims room in queues."""

LEAST_TRAIN = 2
"""Minimum segments of a train, if the window allows them and none can be dropped."""

LOOKED_AT = 4
"""Segments per train if round trips may end slow start: longer trains of others would hide the
delay."""

BLOCK, BLOCKS = 64.0, 3
"""Additional bits of an acknowledgement per block out of order, and the largest number of such
blocks: RFC 2018, with timestamps."""

SHARE = 16
"""A train is at most 1/SHARE of the shortest queue. A packet that arrives while a train passes
finds all of the train in the queue."""


class TcpTransfer:
    """One message over a connection: its segments under way, and their acknowledgements.

    Args:
        lane: the lane that sends the message.
        window: of the connection, as it is now.
        bits: the bits of all packets.
        finished, token: callback for the arrival of the last bit, and its argument.
        opened: whether the connection is open.

    Attributes:
        passed: returns the bits that have arrived by a time.
        window: see above.
        over: whether all bits have arrived or the message was stopped.
    """

    __slots__ = (
        "_bits",
        "_calendar",
        "_claimed",
        "_finished",
        "_handshake",
        "_lane",
        "_last_bits",
        "_listens",
        "_log",
        "_path",
        "_receiver",
        "_sender",
        "_sent",
        "_stream",
        "_streamed",
        "_timer",
        "_token",
        "_total",
        "_waits",
        "over",
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
        segment = lane.path.segment
        self._total = total = max(1, int(-(-bits // segment)))
        self._bits = segment if total > 1 else bits or lane.path.header
        self._last_bits = bits - (total - 1) * segment if total > 1 else self._bits
        self._log = TcpArrivals(lane.calendar, bits, total, lane.changed, token)
        self.passed: Callable[[float], float] = self._log.bits_at
        self.over = False
        # Acknowledgements after the last segment only matter to later messages of a connection.
        self._listens = lane.law.connections == "kept"
        self._sent = 0  # segments, including retransmissions
        self._timer: Timer | None = None
        self._stream: stream.Stream | None = None
        self._streamed = 0  # segments
        self._waits = False  # whether a check for a delayed acknowledgement is scheduled
        idle = opened and isinstance(window, KeptWindow) and window.is_idle(lane.calendar.now)
        linux, alone = lane.law.stack == "linux", QUICK if idle else 0
        grows = GROWS if linux and not self._listens else 0
        # A new connection acknowledges its first segment at once.
        self._receiver = Receiver(
            lane.law.delayed_ack, total, quick=not opened, alone=alone, grows=grows
        )
        self._sender = (RackSender if linux else Sender)(window, total, self._launch)
        self._claimed = total
        # Claims tell the queues how many segments could come, so that they know when drops are
        # possible.
        for queue in self._path.queues:
            queue.claim(total, flows=1)
        self._handshake = None if opened else Handshake(lane, self._open)
        if opened:
            self._send(self._calendar.now, 0.0)

    @property
    def _unheard(self) -> bool:
        """Whether ns-3's receiver still repeats the answer of its handshake.

        It has received nothing since. Each repetition resets the sender's window.
        """
        handshake = self._handshake
        if self._lane.law.stack == "linux" or handshake is None:
            return False
        return not (handshake.confirmed or count_arrived(self._receiver))

    @property
    def again_bits(self) -> int:
        """The bits that were retransmitted so far."""
        return round(max(0, self._sent - self._sender.board.next) * self._bits)

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        self._listens = False
        if not self.over:
            self._close(whole=False)

    def forget(self) -> None:
        """Stop listening: the window belongs to the next message of the connection."""
        self._listens = False

    def _close(self, *, whole: bool) -> None:
        """Release the claims on queues and stop all timers."""
        self.over = True
        self._log.close(whole=whole)
        for queue in self._path.queues:
            # Exactly what was claimed, so that claims of a link sum to zero without messages.
            queue.claim(-self._claimed, flows=-1)
        if self._handshake is not None:
            self._handshake.over = True
        if self._stream is not None:
            if not whole:
                self._stream.flow.stop()
            self._stream.leave()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _claim(self, count: int) -> None:
        """Change the claims on the queues of the path to `count` segments."""
        for queue in self._path.queues:
            queue.claim(count - self._claimed)
        self._claimed = count

    @property
    def _crowded(self) -> bool:
        """Whether queues may drop segments of this message because of others."""
        for queue in self._path.queues:  # noqa: SIM110 - `any` takes longer
            if queue.crowded:
                return True
        return False

    def _open(self, begun: float) -> None:
        now = self._calendar.now
        self.window.measure(begun, now)
        self.window.restore_timeout()
        self._send(now, 0.0)

    # The sender.

    def _send(self, now: float, span: float) -> None:
        """Send what the window allows, spread over the time of the acknowledgements."""
        if is_steady(self._sender):
            self._send_new(now, span)
        else:
            self._sender.send(now)
            if self._listens:
                self._note_use(now)
            self._set_timer()

    def _note_use(self, now: float) -> None:
        """Report the use of the window of a kept connection."""
        window, board = self.window, self._sender.board
        if isinstance(window, KeptWindow):
            out = board.next - board.first
            window.note_use(board.flight, out, (board.first, board.next), now)

    def _send_new(self, now: float, span: float) -> None:
        """Send new segments, in a state without known losses."""
        sender, board, size = self._sender, self._sender.board, self.window.size
        left, flight = self._total - board.next, board.next - board.first
        allowed = int(size + CLOSE) - flight
        most = todo = min(allowed, left)
        if todo <= 0:
            if left and self._listens:
                self._note_use(now)
            self._set_timer()  # an acknowledgement may have moved the deadline forward
            return
        # Only a long rest can flow as a stream: checked before anything is sent.
        if left >= stream.LEAST and self._flows_on(left):
            return
        # Claims shrink as segments are acknowledged, which makes room for other messages.
        if left + flight != self._claimed:
            self._claim(left + flight)
        number = board.next
        begin(sender, todo, now)
        self._set_timer()
        if self._listens:
            self._note_use(now)
        if self._crowded:
            # Acknowledged segments are replaced one by one, spread over `span`; a burst leaves as
            # one.
            most = 1 if span else todo
        elif todo > LEAST_TRAIN:
            # Long trains of others would hide the delay that HyStart looks for.
            hidden = looks(self.window) and any(queue.flows > 1 for queue in self._path.shared)
            longest = LOOKED_AT if hidden else int(size)
            most = max(LEAST_TRAIN, min(longest, self._path.narrow // SHARE))
        # New segments leave at the pace of the acknowledgements that have allowed them.
        pace, start = span / allowed, now
        while todo > 0:
            count = min(most, todo)
            self._launch(number, start, count, pace)
            number += count
            todo -= count
            start += pace * count

    def _flows_on(self, left: int) -> bool:
        """Send the rest as a stream, if possible."""
        board, path = self._sender.board, self._path
        # A stream has no rates to report, and no single packets to lose.
        if self._log.watched or self._lane.loss is not None:
            return False
        if not stream.may_flow(self.window, left, path):
            return False
        number = stream.narrow_link(path)
        if number is None:
            return False
        # All segments count as sent: the stream stands for those that were left.
        board.next = self._total
        self._claim(int(AHEAD * self.window.size))
        self._sent += left
        self._streamed = left
        self._sender.deadline = inf
        bits = left * self._bits
        self._stream = stream.begin(
            self._calendar, path, number, self.window, bits, self._end_stream
        )
        self._log.follow(self._stream.flow, left)
        return True

    def _end_stream(self, _: None) -> None:
        """Complete a stream, after retransmissions of segments lost before it."""
        if self._stream is None:
            return
        # Segments lost before the stream began have not arrived: they follow as a further stream.
        missing = self._total - self._streamed - count_arrived(self._receiver)
        if missing > 0:
            self._sent += missing
            self._streamed += missing
            self._stream = self._stream.again(missing * self._bits, self._end_stream)
            self._log.follow(self._stream.flow, missing)
            return
        self.window.last_sent = self._calendar.now
        rest = self._path.rest(self._stream.number, self._bits)
        self._calendar.call(self._calendar.now + rest, self._finish, None)

    def _launch(self, number: int, start: float, count: int = 1, pace: float = 0.0) -> None:
        """Send segments; the last one of the message may be shorter."""
        if self.over:
            return  # all has arrived: the presumed loss is none
        self._sent += count
        bits, end = self._bits, start + pace * (count - 1)
        if number + count == self._total:
            # In a crowded queue packets are dropped one by one, so the shorter last segment travels
            # alone.
            if count > 1 and self._crowded:
                self._sent -= count
                self._launch(number, start, count - 1, pace)
                self._launch(number + count - 1, end)
                return
            bits += (self._last_bits - bits) / count  # mean over a train, exact if none is dropped
        sent, pace = self._lane.sends(start, pace, count)
        self.window.last_sent = sent + pace * (count - 1)
        self._lane.forward(SegmentTrain(self, number, count, bits, sent, pace, start, end))

    # The receiver.

    def deliver(self, train: SegmentTrain) -> None:
        """Receive a train of several segments."""
        receiver, first, last, count = self._receiver, train.first, train.last, train.count
        before = receiver.awaited + receiver.earlies
        if before == self._total:
            return
        due = receiver.due
        # A delayed acknowledgement was due before this train: it is sent at its own time.
        if due < first:
            self._acknowledge(receiver.acknowledge_late(), due)
        alone = receiver.alone or receiver.earlies or self._crowded
        if train.number == receiver.awaited and not alone:
            self._deliver_in_order(train)
        else:
            self._deliver_each(train)
        arrived = receiver.awaited + receiver.earlies
        if arrived > before:
            # `first` is the arrival of the whole first segment; its first bits came one slot
            # earlier.
            self._log.note(first - (last - first) / (count - 1), last, arrived - before)
        self._wait_for_more(arrived, last)

    def deliver_one(self, number: int, bits: float, sent: float, at: float) -> None:
        """Receive a segment.

        Args:
            number: the number of the segment.
            bits: the bits of the segment.
            sent: the time at which it was sent, s.
            at: the time at which it arrives, s.
        """
        receiver = self._receiver
        before = receiver.awaited + receiver.earlies
        if before == self._total:
            return
        due = receiver.due
        if due < at:
            self._acknowledge(receiver.acknowledge_late(), due)
        acknowledgement = receiver.take(number, sent, at)
        if acknowledgement is not None and (acknowledgement.number < self._total or self._listens):
            self._acknowledge(acknowledgement, at)
        arrived = receiver.awaited + receiver.earlies
        if arrived > before:
            self._log.note(at - self._path.own.lasts(bits), at, 1)
        if arrived == self._total or receiver.due < inf:
            self._wait_for_more(arrived, at)

    def _wait_for_more(self, arrived: int, last: float) -> None:
        """Finish with the last segment, or wait to acknowledge a single one."""
        if arrived == self._total:
            self._calendar.call(last, self._finish, None)
            if not self._listens:
                return
            if self._lane.law.stack == "linux" and self._receiver.due < inf:
                self._acknowledge(
                    self._receiver.acknowledge_late(), last
                )  # Linux acknowledges as the end is read
        if self._receiver.due < inf and not self._waits:
            self._waits = True
            self._calendar.call(self._receiver.due, self._look_for_late, None)

    def _deliver_each(self, train: SegmentTrain) -> None:
        """Receive the segments of a train one by one, each with its own acknowledgement."""
        between = (train.last - train.first) / max(train.count - 1, 1)
        for n in range(train.count):
            at = train.first + n * between
            acknowledgement = self._receiver.take(train.number + n, train.sent + n * train.pace, at)
            if acknowledgement is not None and (
                acknowledgement.number < self._total or self._listens
            ):
                self._acknowledge(acknowledgement, at)

    def _deliver_in_order(self, train: SegmentTrain) -> None:
        """Receive a train in order, with none missing before it."""
        first, count, pace = train.first, train.count, train.pace
        skipped, acknowledged, sent, next_sent = take_train(
            self._receiver, train.number, count, train.sent, pace, train.last
        )
        if not acknowledged or (self._receiver.awaited == self._total and not self._listens):
            return
        # One event for all acknowledgements of the train: the sender processes them in a loop.
        between = (train.last - first) / (count - 1)
        number, each = train.number + skipped + 1, every(self._receiver, train.number + count)
        acknowledgement = TrainAcknowledgement(
            number, acknowledged, each * between, sent, next_sent, each * pace, each
        )
        self._calendar.call(
            first + skipped * between + self._path.back,
            self._take_acknowledgements,
            acknowledgement,
        )

    def _acknowledge(self, acknowledgement: Acknowledgement, at: float) -> None:
        """Send an acknowledgement at some time."""
        back = self._path.back
        # Blocks out of order are reported in SACK options, which make the packet longer.
        if self._receiver.earlies:
            back += self._path.back_bit * BLOCK * min(self._receiver.blocks, BLOCKS)
        self._calendar.call(at + back, self._take_acknowledgement, acknowledgement)

    def _look_for_late(self, _: None) -> None:
        """Acknowledge a segment that no other has followed in time."""
        self._waits = False
        due, now = self._receiver.due, self._calendar.now
        if due == inf or (self.over and not self._listens):
            return
        if due <= now:
            self._acknowledge(self._receiver.acknowledge_late(), now)
        else:
            self._waits = True
            self._calendar.call(due, self._look_for_late, None)

    def _finish(self, _: None) -> None:
        if not self.over:
            self._close(whole=True)
            self._finished(self._token)

    # Acknowledgements.

    def _take_acknowledgement(self, acknowledgement: Acknowledgement) -> None:
        if self.over:
            # A kept connection: the window still learns from late acknowledgements.
            if self._listens and self._stream is None:
                acknowledge(self._sender, *acknowledgement, self._calendar.now)
        elif self._stream is None:
            now, sender = self._calendar.now, self._sender
            number, early, echo = acknowledgement
            if early < 0 and is_steady(sender):
                acknowledge_in_order(sender, number, echo, now)
                self._send_new(now, 0.0)
            else:
                acknowledge(sender, number, early, echo, now)
                self._send(now, 0.0)

    def _take_acknowledgements(self, acknowledgement: TrainAcknowledgement) -> None:
        if self.over:
            if self._listens and self._stream is None:
                acknowledge_train(self._sender, acknowledgement, self._calendar.now)
        elif self._stream is None:
            now = self._calendar.now
            acknowledge_train(self._sender, acknowledgement, now)
            self._send(now, acknowledgement.between * (acknowledgement.times - 1))

    # The timer.

    def _set_timer(self) -> None:
        deadline, timer = self._sender.deadline, self._timer
        # A deadline that moves back leaves the timer alone: it expires early, and `_look` waits on.
        # That is far cheaper than to reschedule it per acknowledgement.
        if timer is not None and deadline < timer.when():
            timer.cancel()
            timer = None
        if timer is None and deadline < inf:
            self._timer = self._calendar.at(deadline, self._look)

    def _look(self) -> None:
        """Time out, or keep waiting if the timer was restarted meanwhile."""
        self._timer = None
        now = self._calendar.now
        if self._sender.deadline <= now:
            if self._unheard:
                self.window.reopen()
            self._sender.time_out(now)
        self._set_timer()
