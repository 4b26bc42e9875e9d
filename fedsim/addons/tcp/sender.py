"""Sender of a message's segments: order of sending, recovery, timeouts."""

from collections.abc import Callable
from enum import Enum, auto
from math import inf

from fedsim.addons.tcp.boards import DUPLICATES, IS_AGAIN
from fedsim.addons.tcp.receiver import Acknowledgement, TrainAcknowledgement
from fedsim.addons.tcp.scoreboard import Scoreboard
from fedsim.addons.tcp.window import Window

CLOSE = 1e-9
"""Tolerance for rounding when the window is compared with whole segments."""


class Congestion(Enum):
    """Congestion states of a sender: RFC 5681, RFC 6675."""

    OPEN = auto()
    """No loss is known."""
    DISORDER = auto()
    """Segments have arrived out of order, too few of them to infer a loss."""
    RECOVERY = auto()
    """Losses are repaired as later segments arrive."""
    LOSS = auto()
    """All that was in flight when the timer expired counts as lost."""


_REPAIRS = (Congestion.RECOVERY, Congestion.LOSS)


class Sender:
    """The sender of one message.

    Args:
        window: the congestion window of the connection.
        total: the number of segments of the message.
        launch: sends the segment of a number, at a time, s.

    Attributes:
        board: the scoreboard of segments.
        deadline: the time at which the timer expires, s; infinite if it is not set.
    """

    __slots__ = (
        "_duplicates",
        "_first_partial",
        "_launch",
        "_recover",
        "_state",
        "_timed",
        "_total",
        "_window",
        "board",
        "deadline",
    )

    linux = False
    """Whether losses are detected by the order of sending."""

    def __init__(self, window: Window, total: int, launch: Callable[[int, float], None]) -> None:
        self._window, self._total, self._launch = window, total, launch
        self.board = Scoreboard(total, linux=self.linux)
        self.deadline = inf
        self._state = Congestion.OPEN
        self._duplicates = 0
        self._recover = 0  # a repair ends once all segments before this one are acknowledged
        self._first_partial = True
        self._timed = 0  # retransmitted after a timeout below this: no RTT samples (Karn)

    @property
    def steady(self) -> bool:
        """Whether no loss is known and no repair is pending."""
        return self._state is Congestion.OPEN and self.board.clean

    @property
    def done(self) -> bool:
        """Whether all segments are acknowledged."""
        return self.board.first >= self._total

    # Sending.

    def begin(self, count: int, now: float) -> None:
        """Record new segments that are sent at once."""
        self.board.next += count
        self.arm(now)

    def send(self, now: float) -> None:
        """Send what the window allows: lost segments first, then new ones (NextSeg, RFC 6675)."""
        board, window = self.board, self._window
        while window.size - board.flight >= 1 - CLOSE:
            number = board.first_lost()
            if number < 0 and board.next < self._total:
                number = board.next
            # RFC 6675, NextSeg rule 3: without new data, a segment of unknown fate is sent again.
            elif number < 0 and self._state is Congestion.RECOVERY:
                number = board.first_unknown()
            if number < 0:
                return
            self._send_one(number, now)

    def _send_one(self, number: int, now: float) -> None:
        board = self.board
        if number < board.next:
            board.send_again(number, now)
        else:
            board.next = number + 1
        self.arm(now)
        # Counted for proportional rate reduction: prr_out.
        if self._state is Congestion.RECOVERY:
            self._window.count_sent()
        self._launch(number, now)

    def _retransmit(self, now: float) -> None:
        """Send the first lost segment at once; if none is known, a new or the first one."""
        board = self.board
        number = board.first_lost()
        if number < 0:
            number = board.next if board.next < self._total else board.first
        self._send_one(number, now)

    def arm(self, now: float) -> None:
        """Start the timer unless it is running."""
        if self.deadline == inf:
            self.deadline = now + self._window.timeout

    # Acknowledgements.

    def acknowledge(self, acknowledgement: Acknowledgement, now: float) -> None:
        """Process an acknowledgement."""
        board, window = self.board, self._window
        number, early, echo = acknowledgement
        first = board.first
        if number < first:
            return
        if number > first:
            # Karn: no sample from a retransmitted segment. The first newly acknowledged one
            # decides.
            timed = max(first, self._timed)
            if timed < number and not board.has(timed, IS_AGAIN):
                window.measure(echo, now)
                window.restore_timeout()
        # The report of a segment out of order first, and then the acknowledgement, which removes
        # segments from the board.
        news = early >= 0 and board.take(early, now)
        delivered, repaired = int(news), 0
        if number > first:
            more, repaired = board.acknowledge(number, now)
            delivered += more
        if news:
            self._take_duplicate(delivered, now, repaired=repaired)
        # No progress: the acknowledgement only reports a segment out of order, or nothing.
        if number == first:
            if number < board.next:
                window.note_acknowledgement(board.first, board.next, now)
        elif number < self._recover and self._state in _REPAIRS:
            self._repair(number - first, delivered, now, repaired=repaired)
        else:
            self._advance(number - first, now, news=news)

    def acknowledge_in_order(self, acknowledgement: Acknowledgement, now: float) -> None:
        """Process an acknowledgement in a steady state, with nothing out of order.

        It does the same as `acknowledge`, without the steps that have no effect there.
        """
        board, window = self.board, self._window
        number, _, echo = acknowledgement
        first = board.first
        if number <= first:
            if number == first and number < board.next:
                window.note_acknowledgement(board.first, board.next, now)
            return
        if number > self._timed:
            window.measure(echo, now)
        board.first = number
        window.note_acknowledgement(board.first, board.next, now)
        window.grow(number - first, number, board.next, now)
        self._restart_timer(now)

    def acknowledge_train(self, acknowledgement: TrainAcknowledgement, now: float) -> None:
        """Process several acknowledgements, the first of which arrives now."""
        board, window = self.board, self._window
        number, sent, steady = acknowledgement.number, acknowledgement.sent, self.steady
        for nth in range(acknowledgement.times):
            if not steady:
                self.acknowledge(Acknowledgement(number, -1, sent), now)
            else:  # the same without the steps that have no effect here
                if number > self._timed:
                    window.measure(sent, now)
                window.note_acknowledgement(number, board.next, now)
                window.grow(number - board.first, number, board.next, now)
                board.first = number
            sent = acknowledgement.next_sent + nth * acknowledgement.pace
            number, now = number + acknowledgement.every, now + acknowledgement.between
        if steady:
            # `now` is one interval beyond the last acknowledgement.
            self._restart_timer(now - acknowledgement.between)

    def _take_duplicate(self, delivered: int, now: float, repaired: int) -> None:
        """Process a report of a segment out of order."""
        if self._state is Congestion.LOSS:
            return
        if self._state is Congestion.RECOVERY:
            self._window.recover(delivered, self.board.flight, repaired=repaired)
            return
        self._duplicates += 1
        self._state = Congestion.DISORDER
        # RFC 6582 prevents a second reduction for losses before `_recover`. Until that is reached,
        # the sender is repairing and does not come here.
        if self._duplicates == DUPLICATES or self.board.outruns_second():
            self._enter_recovery(delivered, now)

    def _enter_recovery(self, delivered: int, now: float) -> None:
        board = self.board
        # The first segment counts as lost even if fewer than three arrived after it.
        board.lose_first()
        self._recover = board.next
        self._state = Congestion.RECOVERY
        self._window.enter_recovery(board.flight, board.next - board.first, delivered)
        self._retransmit(now)

    def _repair(self, count: int, delivered: int, now: float, repaired: int) -> None:
        """Process an acknowledgement during a repair."""
        board, window = self.board, self._window
        if self._state is Congestion.LOSS:
            window.note_acknowledgement(board.first, board.next, now)
            window.grow(count, board.first, board.next, now)
            self._restart_timer(now)
            return
        window.recover(delivered, board.flight, repaired=repaired)
        if not board.is_repaired(board.first):
            self._retransmit(now)
        window.note_acknowledgement(board.first, board.next, now)
        if self._first_partial:  # RFC 6582's impatient variant: only the first one restarts it
            self._restart_timer(now)
        self._first_partial = False

    def _advance(self, count: int, now: float, *, news: bool) -> None:
        """Process an acknowledgement that completes any repair."""
        board, window, number, state = self.board, self._window, self.board.first, self._state
        # After mere reordering, HyStart ignores acknowledgements of few segments, as ns-3 does.
        if state is not Congestion.DISORDER or count >= self._duplicates:
            window.note_acknowledgement(board.first, board.next, now)
        if state is Congestion.RECOVERY:
            window.leave_recovery()
        elif state is Congestion.LOSS:
            # After a timeout only segments beyond the recovery point grow the window.
            count = number - self._recover
        if state in _REPAIRS:
            self._first_partial = True
        if state is Congestion.RECOVERY or not news:
            self._duplicates = 0
        if state is not Congestion.DISORDER or not news:
            self._state = Congestion.OPEN
            window.grow(count, number, board.next, now)
            self._restart_timer(now)

    # The timer.

    def _restart_timer(self, now: float) -> None:
        window = self._window
        window.restore_timeout()
        self.deadline = inf if self.done else now + window.timeout

    def time_out(self, now: float) -> None:
        """Mark all segments in flight as lost, and send the first one."""
        board = self.board
        # Read before all segments count as lost.
        flight = board.flight
        board.lose_all()
        self._duplicates = 0
        # Everything so far may be retransmitted: no RTT samples below (Karn).
        self._recover = self._timed = board.next
        self._window.time_out(flight, board.next, now)
        self._state = Congestion.LOSS
        self.deadline = inf
        self.send(now)
