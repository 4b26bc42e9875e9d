"""Congestion window and retransmission timer of a TCP connection."""

from math import ceil, floor

from fedsim.addons.tcp import congestion
from fedsim.addons.tcp.congestion import MOST_TIMEOUT, WindowState
from fedsim.physics.tcp import Tcp

PAYLOAD = 1448
"""Default payload of a segment, bytes."""

SERVER_RTT_SAMPLES = 3
"""RTT samples of a server when a connection opens: the SYN and two messages."""

CLIENT_RTT_SAMPLES = 4
"""RTT samples of a client, which sends one message more; see fedsim/addons/live/handshake.py."""


class Window(WindowState):
    """The congestion window of a connection: see `congestion`.

    Args:
        law: the parameters of TCP.
        payload: the payload of a full segment, bytes.
    """

    __slots__ = ()

    def __init__(self, law: Tcp, payload: int = PAYLOAD) -> None:
        self.cubic, self.linux = law.variant == "cubic", law.stack == "linux"
        self.payload, self.least_timeout = payload, law.min_rto
        self.initial = law.initial_window
        congestion.open_window(self)

    reopen = congestion.reopen
    measure = congestion.measure
    restore_timeout = congestion.restore_timeout
    note_acknowledgement = congestion.note_acknowledgement
    grow = congestion.grow
    enter_recovery = congestion.enter_recovery
    recover = congestion.recover
    count_sent = congestion.count_sent
    leave_recovery = congestion.leave_recovery
    time_out = congestion.time_out
    undo_time_out = congestion.undo_time_out

    def begin_message(self, now: float) -> None:
        """Start counting the segments of another message."""
        self.round_end = -1

    def note_use(self, flight: int, out: int, numbers: tuple[int, int], now: float) -> None:
        """Record how much of the window is in use; only a kept window of Linux reads it."""

    def seed_rtt(self, trip: float, times: int = SERVER_RTT_SAMPLES) -> None:
        """Initialise the RTT estimate from the handshake and the messages after it.

        Args:
            trip: the round trip of each sample, s.
            times: the number of samples.
        """
        for _ in range(times):
            self._add_rtt_sample(trip)
        self.restore_timeout()
        # The handshake counts as long past: the first message finds an idle connection.
        self.shortest, self.last_sent = self.last_trip, -MOST_TIMEOUT

    def _add_rtt_sample(self, trip: float) -> None:
        """Add one of these RTT samples, s."""
        self.measure(0.0, trip)

    def is_idle(self, now: float) -> bool:
        """Return whether nothing was sent for longer than a timeout."""
        return now - self.last_sent > self.timeout

    def restart(self, initial: int, now: float) -> None:
        """Shrink the window if the connection has been idle for longer than a timeout.

        RFC 5681 returns to the initial window. Linux halves the window per timeout, down to the
        initial one, as RFC 2861 does.
        """
        idle = now - self.last_sent
        if idle <= self.timeout:
            return
        if self.size > initial:
            self.threshold = max(self.threshold, 0.75 * self.size)
            # The threshold keeps 3/4 of the window, so that slow start soon recovers it (RFC 2861).
            shares = 0.5 ** (ceil(idle / self.timeout) - 1) if self.linux else 0.0
            self.size = max(floor(self.size * shares), float(initial))
        self.epoch = -1.0
