"""The sender of a message's segments: which one goes next, recovery, timeouts."""

from collections.abc import Callable
from enum import Enum, auto
from math import inf

from fedsim.sim.network.tcp.receiver import Acknowledgement, TrainAcknowledgement
from fedsim.sim.network.tcp.scoreboard import DUPLICATES, Scoreboard
from fedsim.sim.network.tcp.window import Window

CLOSE = 1e-9
"""What a window may lack to a whole segment, by rounding."""


class Congestion(Enum):
    """What a sender knows of losses: RFC 5681, RFC 6675."""

    OPEN = auto()
    """Of none."""
    DISORDER = auto()
    """Segments have arrived out of order, not enough of them for a loss."""
    RECOVERY = auto()
    """Of some, which it repairs as later segments arrive."""
    LOSS = auto()
    """All that was in flight when its timer ran out."""


_REPAIRS = (Congestion.RECOVERY, Congestion.LOSS)


class Sender:
    """The sender of one message.

    Args:
        window: of its connection.
        total: the segments of the message.
        launch: sends a segment of this number, at this time, s.

    Attributes:
        board: what it knows of its segments.
        deadline: when its timer runs out, s; infinite where that is not set.
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

    make_board: type[Scoreboard] = Scoreboard
    """What it notes its segments on."""

    def __init__(self, window: Window, total: int, launch: Callable[[int, float], None]) -> None:
        self._window, self._total, self._launch = window, total, launch
        self.board = self.make_board()
        self.deadline = inf
        self._state = Congestion.OPEN
        self._duplicates = 0
        self._recover = 0  # a repair ends once all segments before this one are acknowledged
        self._first_partial = True
        self._timed = 0  # segments before this one show no round trip

    @property
    def steady(self) -> bool:
        """Whether it knows of no loss, and waits for no repair."""
        return self._state is Congestion.OPEN and self.board.clean

    @property
    def done(self) -> bool:
        """Whether all segments are acknowledged."""
        return self.board.first >= self._total

    # Sending.

    def begin(self, count: int, now: float) -> None:
        """Note new segments that are sent at once."""
        self.board.next += count
        self.arm(now)

    def send(self, now: float) -> None:
        """Send what the window allows: what is lost, then what is new (RFC 6675's NextSeg)."""
        board, window = self.board, self._window
        while window.size - board.flight >= 1 - CLOSE:
            number = board.first_lost()
            if number is None and board.next < self._total:
                number = board.next
            elif number is None and self._state is Congestion.RECOVERY:
                number = board.first_unknown()
            if number is None:
                return
            self._send_one(number, now)

    def _send_one(self, number: int, now: float) -> None:
        board = self.board
        if number < board.next:
            board.send_again(number)
        else:
            board.next = number + 1
        self.arm(now)
        if self._state is Congestion.RECOVERY:
            self._window.count_sent()
        self._launch(number, now)

    def _retransmit(self, now: float) -> None:
        """Send the first lost segment at once; where none is known, a new one, or the first."""
        board = self.board
        number = board.first_lost()
        if number is None:
            number = board.next if board.next < self._total else board.first
        self._send_one(number, now)

    def arm(self, now: float) -> None:
        """Start the timer, unless it runs."""
        if self.deadline == inf:
            self.deadline = now + self._window.timeout

    # Acknowledgements.

    def acknowledge(self, said: Acknowledgement, now: float) -> None:
        """Take an acknowledgement."""
        board, window = self.board, self._window
        number, early, echo = said
        first = board.first
        if number < first:
            return
        if number > first:
            timed = max(first, self._timed)
            if timed < number and timed not in board.again:
                window.measure(echo, now)
                window.restore_timeout()
        news = early >= 0 and board.take(early)
        delivered, repaired = int(news), False
        if number > first:
            more, repaired = board.acknowledge(number)
            delivered += more
        if news:
            self._take_duplicate(delivered, now, repaired=repaired)
        if number == first:
            if number < board.next:
                window.note_acknowledgement(board.first, board.next, now)
        elif number < self._recover and self._state in _REPAIRS:
            self._repair(number - first, delivered, now, repaired=repaired)
        else:
            self._advance(number - first, now, news=news)

    def acknowledge_in_order(self, said: Acknowledgement, now: float) -> None:
        """Do what `acknowledge` does where it is steady, and nothing arrived out of order."""
        board, window = self.board, self._window
        number, _, echo = said
        first = board.first
        if number <= first:
            if number == first and number < board.next:
                window.note_acknowledgement(board.first, board.next, now)
            return
        if number > self._timed:
            window.measure(echo, now)
        board.advance(number)
        window.note_acknowledgement(board.first, board.next, now)
        window.grow(number - first, number, board.next, now)
        self._restart_timer(now)

    def acknowledge_train(self, said: TrainAcknowledgement, now: float) -> None:
        """Take several acknowledgements, the first of which comes now."""
        board, window = self.board, self._window
        number, sent, steady = said.number, said.sent, self.steady
        for nth in range(said.times):
            if not steady:
                self.acknowledge(Acknowledgement(number, -1, sent), now)
            else:  # the same, of which most is not to be done
                if number > self._timed:
                    window.measure(sent, now)
                window.note_acknowledgement(number, board.next, now)
                window.grow(number - board.first, number, board.next, now)
                board.first = number
            sent = said.next_sent + nth * said.pace
            number, now = number + said.every, now + said.between
        if steady:
            self._restart_timer(now - said.between)

    def _take_duplicate(self, delivered: int, now: float, *, repaired: bool) -> None:
        """Take the news that a segment has arrived out of order."""
        if self._state is Congestion.LOSS:
            return
        if self._state is Congestion.RECOVERY:
            self._window.recover(delivered, self.board.flight, repaired=repaired)
            return
        self._duplicates += 1
        self._state = Congestion.DISORDER
        # Before `_recover` is reached it repairs: RFC 6582 need not be asked about it here.
        if self._duplicates == DUPLICATES or self.board.outruns_second():
            self._enter_recovery(delivered, now)

    def _enter_recovery(self, delivered: int, now: float) -> None:
        board = self.board
        board.lose_first()
        self._recover = board.next
        self._state = Congestion.RECOVERY
        self._window.enter_recovery(board.flight, board.next - board.first, delivered)
        self._retransmit(now)

    def _repair(self, count: int, delivered: int, now: float, *, repaired: bool) -> None:
        """Take the acknowledgement of some segments, and repair what is still lost."""
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
        if self._first_partial:  # only this one restarts the timer: RFC 6582's impatient kind
            self._restart_timer(now)
        self._first_partial = False

    def _advance(self, count: int, now: float, *, news: bool) -> None:
        """Take the acknowledgement of some segments, with which any repair is at its end."""
        board, window, number, state = self.board, self._window, self.board.first, self._state
        if state is not Congestion.DISORDER or count >= self._duplicates:
            window.note_acknowledgement(board.first, board.next, now)
        if state is Congestion.RECOVERY:
            window.leave_recovery()
        elif state is Congestion.LOSS:
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
        """Take all that is in flight for lost, and send the first segment."""
        board = self.board
        flight = board.flight
        board.lose_all()
        self._duplicates = 0
        self._recover = self._timed = board.next
        self._window.time_out(flight, board.next, now)
        self._state = Congestion.LOSS
        self.deadline = inf
        self.send(now)
