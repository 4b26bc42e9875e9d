"""Sender of Linux: losses are detected by the order of sending, and at the tail by a probe.

RFC 8985 (RACK-TLP): a segment is lost if a segment sent after it has arrived, and the latest round
trip has passed since it was sent. This covers retransmissions, too. As long as fewer than three
segments are out of order, a quarter of the minimum round trip is added. If no acknowledgement
arrives for two round trips, or for a timeout if that is less, the sender sends one more segment as
a probe. Its acknowledgement reveals losses before the timer expires.

A spurious timeout is undone. The echo of an earlier timestamp shows it (RFC 3522), or the arrival
of segments that were not retransmitted (F-RTO, RFC 5682). Losses are repaired at the pace of PRR
(RFC 6937).
"""

from collections.abc import Callable
from math import inf

from fedsim.addons.tcp.boards import DUPLICATES, IS_AGAIN
from fedsim.addons.tcp.receiver import Acknowledgement
from fedsim.addons.tcp.sender import CLOSE, Congestion, Sender
from fedsim.addons.tcp.window import Window

REORDERING = 1 / 4
"""Reordering window, in minimum round trips: RFC 8985."""

PROBE = 2.0
"""Time to a probe, in round trips: RFC 8985."""

GRAIN = 0.002
"""Added to the time of a probe, s: Linux's shortest timer. If a single segment is in flight, whose
acknowledgement may be delayed, the least timeout is added instead."""

_UNHARMED = (Congestion.OPEN, Congestion.DISORDER)


class RackSender(Sender):
    """The Linux sender of one message; see the base class."""

    __slots__ = (
        "_doubts",
        "_late_at",
        "_only_new",
        "_overtaken_by",
        "_probe",
        "_probed",
        "_retries",
        "_sent_again_at",
        "_unsure",
    )

    linux = True

    def __init__(self, window: Window, total: int, launch: Callable[[int, float], None]) -> None:
        super().__init__(window, total, launch)
        self._late_at = inf  # expiry of the timer of RFC 6298, s
        self._probe = inf  # time of the next probe, s
        self._unsure = 0  # a timeout was undone: segments below may be lost after all
        self._probed = False  # whether a probe was sent since the last acknowledgement
        self._sent_again_at = -inf  # start of the present repair, s
        self._overtaken_by = inf  # time at which overtaken segments count as lost, s
        self._retries = 0  # timeouts since the last new acknowledgement
        self._doubts = False  # whether the last timeout may have been spurious (F-RTO)
        self._only_new = False  # whether only new segments are sent now, to find out

    @property
    def steady(self) -> bool:
        """Whether no loss is known, no repair is pending, and no loss was dismissed."""
        board = self.board
        return self._state is Congestion.OPEN and board.clean and board.first >= self._unsure

    # Sending.

    def begin(self, count: int, now: float) -> None:
        """Record new segments that are sent at once."""
        self.board.sent += [now] * count
        super().begin(count, now)

    def send(self, now: float) -> None:
        """Send what the window allows: lost segments first, then new ones."""
        board, window = self.board, self._window
        while window.size - board.flight >= 1 - CLOSE:
            # F-RTO sends two new segments before it retransmits more.
            number = -1 if self._only_new else board.first_lost()
            if number < 0:
                if board.next >= self._total:
                    break
                number = board.next
            self._send_one(number, now)
        self._only_new = False

    def _send_one(self, number: int, now: float) -> None:
        board = self.board
        if number == board.next:
            board.sent.append(now)
        elif number == board.first and self._state is not Congestion.OPEN:
            self.deadline = inf  # a retransmission of the first segment restarts the timer
        super()._send_one(number, now)

    def arm(self, now: float) -> None:
        """Start the timer, or postpone the probe, which follows the last sent segment."""
        board, timeout = self.board, self._window.timeout
        if self.deadline == inf:
            self._late_at = now + timeout
        elif self._probe < inf and self._state is Congestion.OPEN:
            self._late_at = board.sent[board.first] + timeout
        else:
            return
        self._set_timer(now)

    # Acknowledgements.

    def acknowledge(self, acknowledgement: Acknowledgement, now: float) -> None:
        """Process an acknowledgement."""
        board, window = self.board, self._window
        number, early, echo = acknowledgement
        first, losses_before = board.first, board.found_lost
        if number < first:
            return
        board.least_trip = window.least_trip
        if number > first:
            timed = max(first, self._timed)
            if timed < number and not board.has(timed, IS_AGAIN):
                window.measure(echo, now)
                window.restore_timeout()
        was_early = self._was_early(acknowledgement)
        news = early >= 0 and board.take(early, now)
        delivered = int(news)
        if number > first:
            delivered += board.acknowledge(number, now)[0]
            self._retries = 0
        if was_early:
            self._undo()
        self._change_state(advanced=number > first, news=news)
        due = self._look_for_losses(now)
        if self._state in _UNHARMED and board.first_lost() >= 0:
            self._begin_repair(delivered, now)
            return
        self._pace(number - first, delivered, now, more=board.found_lost > losses_before)
        if due < inf:
            self._overtaken_by = self.deadline = min(due + GRAIN, now + window.timeout)
            self._probe = inf
        elif number > first or (news and board.sent[early] < board.sent[number]):
            self._restart_timer(now)

    def _was_early(self, acknowledgement: Acknowledgement) -> bool:
        """Return whether an acknowledgement shows that the last timeout was spurious.

        It acknowledges what was sent before the timeout, or what was not retransmitted since.
        """
        board = self.board
        number, early, echo = acknowledgement
        if self._state is not Congestion.LOSS:
            return False
        # RFC 3522: the echoed timestamp is older than the retransmission.
        if number > board.first and echo < self._sent_again_at:
            return True
        if not self._doubts:
            return False
        end = min(number, self._timed)
        arrived = [*range(board.first, end), *([early] if 0 <= early < self._timed else ())]
        return any(board.is_first_news(index) for index in arrived)

    def _undo(self) -> None:
        """Restore the state before a spurious timeout."""
        self.board.lose_none()
        self._window.undo_time_out()
        self._state = Congestion.OPEN
        self._timed, self._doubts = 0, False
        # Losses among earlier segments are forgotten here, so the simple path has to wait until all
        # are acknowledged.
        self._unsure = self.board.next

    def _change_state(self, *, advanced: bool, news: bool) -> None:
        """Leave a finished recovery, and detect reordering."""
        board = self.board
        if self._state not in _UNHARMED and board.first >= self._recover:
            if self._state is Congestion.RECOVERY:
                self._window.leave_recovery()
            self._state = Congestion.OPEN
        if self._state in _UNHARMED:
            self._state = Congestion.DISORDER if board.arrived else Congestion.OPEN
        elif self._state is Congestion.LOSS and self._doubts:
            if board.next > self._recover:
                self._doubts = not news
            elif advanced:  # two new segments reveal whether the others have arrived: RFC 5682
                self._only_new = self._doubts = board.next < self._total

    def _look_for_losses(self, now: float) -> float:
        """Mark losses; return when further overtaken segments count as lost, s."""
        board = self.board
        if board.clean:
            return inf
        # RFC 8985: no reordering window in recovery, or after three segments out of order.
        sure = self._state not in _UNHARMED or board.arrived >= DUPLICATES
        return board.find_lost(0.0 if sure else REORDERING * self._window.least_trip, now)

    def _begin_repair(self, delivered: int, now: float) -> None:
        board = self.board
        self._overtaken_by = self._probe = inf
        self._sent_again_at = now
        self._recover = board.next
        self._state = Congestion.RECOVERY
        self._window.enter_recovery(board.flight, board.next - board.first, delivered)
        self._retransmit(now)
        self._restart_timer(now)

    def _pace(self, count: int, delivered: int, now: float, *, more: bool) -> None:
        """Adapt the window; `more` is whether the acknowledgement has revealed losses."""
        board, window = self.board, self._window
        if count:
            window.note_acknowledgement(board.first, board.next, now)
        if self._state is Congestion.RECOVERY:
            window.recover(delivered, board.flight, repaired=count > 0 and not more)
        elif count:
            window.grow(delivered, board.first, board.next, now)

    # The timer.

    def _set_timer(self, now: float) -> None:
        window, board = self._window, self.board
        self.deadline, self._probe = self._late_at, inf
        # No probe after a probe, before the first RTT sample, or during a repair.
        if self._probed or not window.trip or self._state is not Congestion.OPEN:
            return
        # The acknowledgement of a single segment may be delayed by its receiver.
        later = window.least_timeout if board.next - board.first <= 1 else GRAIN
        probe = now + PROBE * window.trip + later
        self._probe = self.deadline = min(probe, self._late_at) if self._late_at > now else probe

    def _restart_timer(self, now: float) -> None:
        self._window.restore_timeout()
        self._probed, self._overtaken_by = False, inf
        if self.done:
            self.deadline = self._probe = inf
        else:
            self._late_at = now + self._window.timeout
            self._set_timer(now)

    def time_out(self, now: float) -> None:
        """Repair overtaken segments, send a probe, or retransmit after a timeout."""
        # One timer serves three purposes: reordering, tail probe, retransmission.
        if now >= self._overtaken_by:
            self._overtaken_by = inf
            self._look_for_losses(now)
            if self.board.first_lost() >= 0 and self._state in _UNHARMED:
                self._begin_repair(1, now)
            else:
                self._restart_timer(now)
        elif now >= self._probe:
            self._send_probe(now)
        else:
            self._begin_anew(now)

    def _send_probe(self, now: float) -> None:
        """Send a new segment, or the last one again."""
        board = self.board
        self._probe, self._probed, self.deadline = inf, True, inf
        number = board.next if board.next < self._total else board.next - 1
        self._send_one(number, now)

    def _begin_anew(self, now: float) -> None:
        """Mark segments as lost that had the time to arrive, and send the first one."""
        board, window, flight = self.board, self._window, self.board.flight
        harmed, retries = self._state not in _UNHARMED, self._retries
        again = self._state is Congestion.LOSS and not retries
        # The threshold is reduced once per episode of losses.
        reduces = not harmed or board.first >= self._recover or again
        if not harmed:
            self._sent_again_at = now
        self._probe = self._overtaken_by = self.deadline = inf
        self._doubts, self._only_new = not harmed or retries > 0, False
        self._retries, self._probed = retries + 1, False
        board.lose_late(now)
        self._recover = self._timed = board.next
        window.time_out(flight, board.next, now, reduces=reduces, left=board.flight)
        self._state = Congestion.LOSS
        self.send(now)
