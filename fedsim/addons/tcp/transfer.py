"""A message over TCP: windows of segments that compete in the queues of links; see `transfers`."""

from collections.abc import Callable
from math import inf
from typing import Any

from fedsim.addons.tcp import handshake, receiving, transfers
from fedsim.addons.tcp.arrivals import TcpArrivals
from fedsim.addons.tcp.kept import KeptWindow
from fedsim.addons.tcp.path import TcpLane
from fedsim.addons.tcp.queue import claim_path
from fedsim.addons.tcp.receiver import GROWS, QUICK, Receiver
from fedsim.addons.tcp.sender import RackSender, Sender
from fedsim.addons.tcp.stream import end_stream
from fedsim.addons.tcp.window import Window
from fedsim.sim.engine.calendar import Timer
from fedsim.sim.network.processor_sharing import SharedTransfer


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
        over: whether all bits have arrived or the message was stopped.
        lane, path, calendar, window, sender, receiver, log: its parts.
        linux: whether the stack is Linux's.
        listens: whether acknowledgements after the last segment matter: to later messages of the
            connection.
        total: the number of segments.
        each, short: the bits of a segment, and of the last one.
        segments_sent: the segments that were sent, including retransmissions.
        claim: the segments that are claimed in queues.
        ends: the time of the last bit, s; infinite if it is not known.
        waits: whether a check for a delayed acknowledgement is scheduled.
        timer_when: the time at which the timer expires, s; infinite if it does not run.
        stream, stream_at, stream_window, streamed: whether the rest flows as a stream, the link
            that limits it, the window it stands for, and its segments.
        confirmed, answered, syn_over, begun, syn_timeout, linear: the state of the handshake:
            whether the confirmation has arrived, whether the SYN was answered, whether the sender
            is done with it, when the last SYN was sent, s, the time to its repetition, s, and the
            repetitions left before this time doubles.
    """

    __slots__ = (
        "_finished",
        "_flow",
        "_timer",
        "_token",
        "answered",
        "begun",
        "calendar",
        "claim",
        "confirmed",
        "each",
        "ends",
        "lane",
        "linear",
        "linux",
        "listens",
        "log",
        "over",
        "passed",
        "path",
        "receiver",
        "segments_sent",
        "sender",
        "short",
        "stream",
        "stream_at",
        "stream_window",
        "streamed",
        "syn_over",
        "syn_timeout",
        "timer_when",
        "total",
        "waits",
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
        self.lane, self.calendar, self.path = lane, lane.calendar, lane.path
        self._finished, self._token, self.window = finished, token, window
        segment = lane.path.segment
        self.total = total = max(1, int(-(-bits // segment)))
        self.each = segment if total > 1 else bits or lane.path.header
        self.short = bits - (total - 1) * segment if total > 1 else self.each
        self.log = TcpArrivals(lane.calendar, bits, total, lane.changed, token)
        self.passed: Callable[[float], float] = self.log.bits_at
        self.linux, self.listens = lane.law.stack == "linux", lane.law.connections == "kept"
        self.over = self.waits = self.stream = False
        self.segments_sent = self.streamed = self.stream_at = 0
        self.ends, self.stream_window = inf, 0.0
        self._timer: Timer | None = None
        self.timer_when = inf
        self._flow: SharedTransfer | None = None
        idle = opened and isinstance(window, KeptWindow) and window.is_idle(lane.calendar.now)
        # A new connection acknowledges its first segment at once.
        self.receiver = Receiver(
            lane.law.delayed_ack,
            total,
            quick=not opened,
            alone=QUICK if idle else 0,
            grows=GROWS if self.linux and not self.listens else 0,
        )
        self.sender = (RackSender if self.linux else Sender)(window, total, self.launch)
        # Claims tell the queues how many segments could come, so that they know when drops are
        # possible.
        self.claim = total
        claim_path(self.path, total, 1)
        if opened:
            self.confirmed = self.syn_over = True
            transfers.send(self, self.calendar.now, 0.0)
        else:
            handshake.begin_handshake(self)

    @property
    def again_bits(self) -> int:
        """The bits that were retransmitted so far."""
        return round(max(0, self.segments_sent - self.sender.board.next) * self.each)

    def stop(self) -> None:
        """Cancel the transfer; its completion callback is not called."""
        self.listens = False
        if not self.over:
            transfers.close(self, 0)

    def forget(self) -> None:
        """Stop listening: the window belongs to the next message of the connection."""
        self.listens = False

    launch = transfers.launch

    # Events.

    send_syn = handshake.send_syn
    end_handshake = handshake.end_handshake
    take_acknowledgement = transfers.take_acknowledgement
    take_acknowledgements = transfers.take_acknowledgements
    look_for_late = receiving.look_for_late
    look = transfers.look
    end_stream = end_stream

    def finish(self, _: None) -> None:
        """Report that all bits have arrived."""
        if not self.over:
            transfers.close(self, 1)
            self._finished(self._token)

    # The timer.

    def move_timer(self, when: float) -> None:
        """Set the timer anew."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer = self.calendar.at(when, self.look)
        self.timer_when = timer.when()  # not in the past

    def forget_timer(self) -> None:
        """Note that the timer has expired."""
        self._timer, self.timer_when = None, inf

    def cancel_timer(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self.forget_timer()

    # The stream.

    def add_flow(self, bits: float, cap: float, count: int) -> None:
        """Let segments flow over the link that limits the stream, at a rate of at most `cap`."""
        link = self.path.stages[self.stream_at].queue.streams
        if link is not None:
            self._flow = link.add(bits, cap, self.end_stream, None)
            self.log.follow(self._flow, count)

    def end_flow(self, whole: int) -> None:
        """Stop the flow, unless the whole message has arrived."""
        if not whole and self._flow is not None:
            self._flow.stop()
