"""What a sender does with acknowledgements: see `Sender.acknowledge` and `RackSender`."""

from math import inf

from fedsim.sim.network.tcp.compiled import boards, senders, windows
from fedsim.sim.network.tcp.compiled import layout as at
from fedsim.sim.network.tcp.compiled.compiler import part, piece
from fedsim.sim.network.tcp.compiled.kinds import Integers, Reals
from fedsim.sim.network.tcp.rack import REORDERING
from fedsim.sim.network.tcp.receiver import EVERY


@part
def acknowledge(
    W: Integers, F: Reals, m: int, number: int, early: int, echo: float, now: float
) -> None:
    """Take an acknowledgement; one of what was sent before a timeout shows that it was late."""
    late = echo < F[m + at.SENT_AGAIN_AT] and number > W[m + at.UNKNOWN]
    if late and W[m + at.STATE] == at.LOSS:  # never where it is not noted when it sends again
        boards.lose_none(W, m)
        W[m + at.STRICT] = 0
        windows.undo_time_out(W, F, m)
        W[m + at.STATE] = at.OPEN
        W[m + at.RECOVERS] = W[m + at.TIMED] = 0
        W[m + at.UNSURE] = W[m + at.NEXT]
    _acknowledge(W, F, m, number, early, echo, now)
    unharmed = F[m + at.OVERTAKEN_BY] == inf and W[m + at.STATE] <= at.DISORDER
    if W[at.LINUX] and unharmed and boards.is_overtaken(W, m):
        F[m + at.OVERTAKEN_BY] = now + REORDERING * F[m + at.LEAST_TRIP]
        F[m + at.DEADLINE] = min(F[m + at.DEADLINE], F[m + at.OVERTAKEN_BY])


@piece
def _acknowledge(
    W: Integers, F: Reals, m: int, number: int, early: int, echo: float, now: float
) -> None:
    first = W[m + at.UNKNOWN]
    if number < first:
        return
    if number > first:
        timed = max(first, W[m + at.TIMED])
        if timed < number and not boards.has(W, m, timed, at.IS_AGAIN):
            windows.measure(F, m, echo, now)
            windows.restore_timeout(W, F, m)
    news = 1 if early >= 0 and boards.take(W, m, early) else 0
    delivered, repaired = news, 0
    if number > first:
        more, repaired = boards.acknowledge(W, m, number)
        delivered += more
    if news:
        senders.take_duplicate(W, F, m, delivered, now, repaired)
    if number == first:
        if number < W[m + at.NEXT]:
            windows.note_acknowledgement(W, F, m, now)
    elif number < W[m + at.RECOVER] and W[m + at.STATE] >= at.RECOVERY:
        senders.repair(W, F, m, number - first, delivered, now, repaired, news)
    else:
        _advance(W, F, m, number - first, now, news)


@piece
def _advance(W: Integers, F: Reals, m: int, count: int, now: float, news: int) -> None:
    """Take the acknowledgement of some segments, with which any repair is at its end."""
    if W[at.LINUX]:
        W[m + at.STRICT] = 0
    number, state = W[m + at.UNKNOWN], W[m + at.STATE]
    if state != at.DISORDER or count >= W[m + at.DUPLICATES]:
        windows.note_acknowledgement(W, F, m, now)
    if state == at.RECOVERY:
        F[m + at.SIZE] = F[m + at.THRESHOLD]
    elif state == at.LOSS:
        count = number - W[m + at.RECOVER]
    if state >= at.RECOVERY:
        W[m + at.PARTIAL] = 1
    if state == at.RECOVERY or not news:
        W[m + at.DUPLICATES] = 0
    if number >= W[m + at.RECOVER]:
        W[m + at.RECOVERS] = 0
    if state != at.DISORDER or not news:
        W[m + at.STATE] = at.OPEN
        windows.grow(W, F, m, count, number, W[m + at.NEXT], now)
        senders.restart_timer(W, F, m, now)


@piece
def _acknowledge_in_order(
    W: Integers, F: Reals, m: int, number: int, echo: float, now: float
) -> None:
    """Do what `acknowledge` does where it is steady, and nothing arrived out of order."""
    first = W[m + at.UNKNOWN]
    if number <= first:
        if number == first and number < W[m + at.NEXT]:
            windows.note_acknowledgement(W, F, m, now)
        return
    if number > W[m + at.TIMED]:
        windows.measure(F, m, echo, now)
    boards.advance(W, m, number)
    windows.note_acknowledgement(W, F, m, now)
    W[m + at.DUPLICATES] = 0
    if number >= W[m + at.RECOVER]:
        W[m + at.RECOVERS] = 0
    windows.grow(W, F, m, number - first, number, W[m + at.NEXT], now)
    senders.restart_timer(W, F, m, now)


@piece
def take_acknowledgement(W: Integers, F: Reals, m: int, node: int) -> None:
    """Take an acknowledgement, and send what it allows."""
    if W[m + at.OVER] or W[m + at.STREAM]:
        return
    now, number, early = F[at.NOW], W[node + at.NUMBER], W[node + at.EARLY]
    if early < 0 and senders.is_steady(W, m):
        _acknowledge_in_order(W, F, m, number, F[node + at.ECHO], now)
        senders.send_new(W, F, m, now, 0.0)
    else:
        acknowledge(W, F, m, number, early, F[node + at.ECHO], now)
        senders.send(W, F, m, now, 0.0)


@piece
def take_acknowledgements(W: Integers, F: Reals, m: int, node: int) -> None:
    """Take several acknowledgements, the first of which comes now, and send what they allow."""
    if W[m + at.OVER] or W[m + at.STREAM]:
        return
    begun = now = F[at.NOW]
    number, sent, steady = W[node + at.NUMBER], F[node + at.ECHO], senders.is_steady(W, m)
    times, between = W[node + at.TIMES], F[node + at.BETWEEN]
    for nth in range(times):
        if not steady:
            acknowledge(W, F, m, number, at.IN_ORDER, sent, now)
        else:  # the same, of which most is not to be done
            if number > W[m + at.TIMED]:
                windows.measure(F, m, sent, now)
            windows.note_acknowledgement(W, F, m, now)
            count = number - W[m + at.UNKNOWN]
            windows.grow(W, F, m, count, number, W[m + at.NEXT], now)
            W[m + at.UNKNOWN] = number
        sent = F[node + at.ECHO_NEXT] + nth * F[node + at.PACE]
        number, now = number + EVERY, now + between
    if steady:
        senders.restart_timer(W, F, m, now - between)
    senders.send(W, F, m, begun, between * (times - 1))
