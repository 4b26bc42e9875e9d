"""Sender of a message's segments: acknowledgements, and the timer."""

from collections.abc import Callable

from fedsim.addons.tcp import boards, rack, senders
from fedsim.addons.tcp.boards import IS_AGAIN, flight, has, lose_all, take
from fedsim.addons.tcp.receiver import Acknowledgement, TrainAcknowledgement
from fedsim.addons.tcp.scoreboard import Scoreboard
from fedsim.addons.tcp.senders import (
    RECOVERY,
    SenderState,
    advance,
    begin_anew,
    is_steady,
    repair,
    restart_timer,
    take_duplicate,
)
from fedsim.addons.tcp.window import Window
from fedsim.core.laws import law, step


@law
def acknowledge(s: SenderState, number: int, early: int, echo: float, now: float) -> None:
    """Process an acknowledgement: see `Acknowledgement`."""
    board, window = s.board, s.window
    first, losses_before = board.first, board.found_lost
    if number < first:
        return
    if s.linux:
        board.least_trip = window.least_trip
    if number > first:
        _take_sample(s, number, echo, now)
    was_early = rack.was_early(s, number, early, echo)
    # The report of a segment out of order first, and then the acknowledgement, which removes
    # segments from the board.
    news = 1 if early >= 0 and take(board, early, now) else 0
    count, delivered, repaired = number - first, news, 0
    if count:
        more, repaired = boards.acknowledge(board, number, now)
        delivered += more
        s.retries = 0
    if s.linux:
        if was_early:
            rack.undo(s)
        rack.find_and_repair(s, count, delivered, early if news else -1, losses_before, now)
    else:
        if news:
            take_duplicate(s, delivered, repaired, now)
        _follow(s, count, delivered, repaired, news, now)


@step
def _follow(
    s: SenderState, count: int, delivered: int, repaired: int, news: int, now: float
) -> None:
    """Go on by RFC 6675, as the scoreboard has taken an acknowledgement of `count` segments."""
    board = s.board
    if not count:
        # No progress: the acknowledgement only reports a segment out of order, or nothing.
        if board.first < board.next:
            s.window.note_acknowledgement(board.first, board.next, now)
    elif board.first < s.recovery_point and s.state >= RECOVERY:
        repair(s, count, delivered, repaired, now)
    else:
        advance(s, count, news, now)


@step
def _take_sample(s: SenderState, number: int, echo: float, now: float) -> None:
    """Measure the round trip of a newly acknowledged segment."""
    # Karn: no sample from a retransmitted segment. The first newly acknowledged one decides.
    timed = max(s.board.first, s.timed)
    if timed < number and not has(s.board, timed, IS_AGAIN):
        s.window.measure(echo, now)
        s.window.restore_timeout()


@step
def acknowledge_in_order(s: SenderState, number: int, echo: float, now: float) -> None:
    """Process an acknowledgement in a steady state, with nothing out of order.

    It does the same as `acknowledge`, without the steps that have no effect there.
    """
    board, window = s.board, s.window
    first = board.first
    if number <= first:
        # No progress: only HyStart sees the acknowledgement.
        if number == first and number < board.next:
            window.note_acknowledgement(number, board.next, now)
        return
    if number > s.timed:
        window.measure(echo, now)
    board.first = number
    window.note_acknowledgement(number, board.next, now)
    window.grow(number - first, number, board.next, now)
    restart_timer(s, now)


@law
def acknowledge_train(s: SenderState, acknowledgement: TrainAcknowledgement, now: float) -> None:
    """Process several acknowledgements, the first of which arrives now."""
    board, window, steady = s.board, s.window, is_steady(s)
    number, times, between, sent, next_sent, pace, every = acknowledgement
    for nth in range(times):
        if not steady:
            acknowledge(s, number, -1, sent, now)
        else:  # the same without the steps that have no effect here
            if number > s.timed:
                window.measure(sent, now)
            window.note_acknowledgement(number, board.next, now)
            window.grow(number - board.first, number, board.next, now)
            board.first = number
        sent = next_sent + nth * pace
        number, now = number + every, now + between
    # The loop has advanced `now` one interval beyond the last acknowledgement.
    if steady:
        restart_timer(s, now - between)


@law
def time_out(s: SenderState, now: float) -> None:
    """Mark all segments in flight as lost, and send the first one; Linux: see `rack.expire`."""
    if s.linux:
        rack.expire(s, now)
        return
    # Read before all segments count as lost.
    in_flight = flight(s.board)
    lose_all(s.board)
    begin_anew(s, in_flight, 1, now)


class Sender(SenderState):
    """The sender of one message: see `senders`.

    Args:
        window: the congestion window of the connection.
        total: the number of segments of the message.
        launch: sends the segment of a number, at a time, s.
    """

    __slots__ = ()

    by_order = False
    """Whether losses are detected by the order of sending."""

    def __init__(self, window: Window, total: int, launch: Callable[[int, float], None]) -> None:
        self.linux, self.window, self.total, self.launch = self.by_order, window, total, launch
        self.board = Scoreboard(total, linux=self.by_order)
        senders.start_sender(self)

    send = senders.send
    time_out = time_out

    def acknowledge(self, acknowledgement: Acknowledgement, now: float) -> None:
        """Process an acknowledgement."""
        acknowledge(self, *acknowledgement, now)


class RackSender(Sender):
    """The sender of one message in Linux: see `rack`."""

    __slots__ = ()

    by_order = True
