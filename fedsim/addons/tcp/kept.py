"""Congestion window of a kept Linux connection, whose state carries over to later messages."""

from math import inf

from fedsim.addons.tcp.congestion import begin_round, update_rtt
from fedsim.addons.tcp.window import PAYLOAD, Window
from fedsim.physics.tcp import Tcp


class KeptWindow(Window):
    """A window that tracks its use, and deviations of the RTT across messages.

    An underused window does not grow, and it shrinks after a timeout of underuse, as in RFC 2861
    and Linux's `tcp_cwnd_validate`. The deviation term of the timeout is the largest mean deviation
    within a round trip, and decays by a quarter per round trip, so that it outlasts a message
    (`tcp_rtt_estimator`). The cubic curve excludes pauses (`cubictcp_cwnd_event`).

    Args:
        law: TCP's parameters.
        payload: the payload of a full segment, bytes.
    """

    __slots__ = (
        "_late",
        "_late_most",
        "_limited",
        "_mark",
        "_most_out",
        "_shrinks",
        "_stamp",
        "_used",
        "_used_end",
    )

    def __init__(self, law: Tcp, payload: int = PAYLOAD) -> None:
        super().__init__(law, payload)
        self._shrinks = law.idle_restart
        # As `is_cwnd_limited`, `max_packets_out` and `cwnd_usage_seq` of Linux.
        self._limited, self._most_out, self._used_end = False, 0, 0
        # As `snd_cwnd_used` and `snd_cwnd_stamp`: the most segments in use since a time, s.
        self._used, self._stamp = 0, 0.0
        # As `rttvar_us`, `mdev_max_us` and `rtt_seq`: the deviation term of the timeout, the
        # largest mean deviation since a time, and this time, s.
        self._late, self._late_most, self._mark = 0.0, 0.0, 0.0

    def begin_message(self, now: float) -> None:
        """Start counting the segments of another message."""
        super().begin_message(now)
        self._used_end = 0
        # The pause shifts the start of the cubic curve, so that the window does not jump.
        if self.epoch >= 0:
            self.epoch = min(self.epoch + now - self.last_sent, now)

    def restart(self, initial: int, now: float) -> None:
        """Shrink if the connection has been idle for longer than a timeout."""
        epoch = self.epoch
        super().restart(initial, now)
        # `super` ends the curve; Linux keeps it.
        self.epoch = epoch
        if self.is_idle(now):
            self._used, self._stamp = 0, now

    # The timer.

    def _add_rtt_sample(self, trip: float) -> None:
        super()._add_rtt_sample(trip)
        self._mark = -inf  # the next sample closes a round trip

    def measure(self, sent: float, now: float) -> None:
        """Take the round trip of a segment; falling ones count less in deviations."""
        trip, first, deviation = self.trip, not self.trip, self.variation
        update_rtt(self, now - sent)  # Linux keeps send times in microseconds
        if first:
            self._late = self._late_most = max(4 * self.variation, self.least_timeout)
            self._mark = now
            return
        error = self.last_trip - trip
        more = abs(error) - deviation
        # A fall of the RTT is no congestion: if it increased the deviation, it counts an eighth
        # (`tcp_rtt_estimator`).
        self.variation = deviation + (more / 8 if error < 0 < more else more) / 4
        self._late_most = max(self._late_most, 4 * self.variation)
        self._late = max(self._late, self._late_most)
        # A round trip has passed since the last decay.
        if sent >= self._mark:
            self._late -= (self._late - self._late_most) / 4
            self._late_most, self._mark = self.least_timeout, now

    def restore_timeout(self) -> None:
        """Set the timeout as the round trips have it, however often it ran out before."""
        self.timeout = self.trip + self._late

    # Use and growth.

    def note_acknowledgement(self, acknowledged: int, sent: int, now: float) -> None:
        """Start a round if due, also without growth (`hystart_update`); see the base class."""
        if acknowledged > self.round_end:
            begin_round(self, sent, now)
        super().note_acknowledgement(acknowledged, sent, now)

    def note_use(self, flight: int, out: int, numbers: tuple[int, int], now: float) -> None:
        """Record how much of the window is in use after segments were sent.

        Args:
            flight: the segments in flight.
            out: the unacknowledged segments.
            numbers: the numbers of the first unacknowledged segment, and of the next one to be
                sent.
            now: the time, s.
        """
        limited = flight >= int(self.size)
        more = not self._limited and out > self._most_out
        # A new window of segments has begun, or the use is larger than any so far.
        if numbers[0] >= self._used_end or limited or more:
            self._limited, self._most_out, self._used_end = limited, out, numbers[1]
        if self._filled:
            self._used, self._stamp = 0, now
            return
        self._used = max(self._used, out)
        if self._shrinks and now - self._stamp >= self.timeout:
            used = max(self._used, self.initial)
            if used < self.size:
                self.threshold = max(self.threshold, 0.75 * self.size)
                self.size = float((int(self.size) + used) // 2)
            self._used, self._stamp = 0, now

    @property
    def _filled(self) -> bool:
        """Whether the sent segments fill the window; in slow start, half of it."""
        return self._limited or (self.size < self.threshold and self.size < 2 * self._most_out)

    def grow(self, count: int, acknowledged: int, sent: int, now: float) -> None:
        """Take the acknowledgement of some segments; see the base class."""
        if self._filled:
            super().grow(count, acknowledged, sent, now)
