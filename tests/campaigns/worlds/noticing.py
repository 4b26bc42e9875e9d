"""The auditor's check of when a server goes on: what it waits for, and when it notices departures.

A client that is asked is waited for until its reply has arrived, or the server notices that it has
gone: at once, at the next beat, or never, as `participation.noticed` says. From that, from the
deadline, the quorum and the patience it follows when each exchange of a round is over.
"""

from collections import defaultdict
from collections.abc import Iterator
from math import ceil, floor, inf
from typing import NamedTuple

from fedsim.protocol.participation import AsynchronousParticipation, Participation, Rounds, Sample
from fedsim.protocol.silence import DeadlineSilence

from .books import ROUNDING
from .evidence import Evidence, Row

_GONE = ("offline", "depleted")


class Asked(NamedTuple):
    """One exchange: when it was opened, by which row, for which clients."""

    row: Row
    clients: frozenset[str]


def closings(run: Evidence) -> Iterator[str]:
    """A round is over once no client is waited for, or enough have reported, and not before."""
    policy = run.scenario.participation
    if not isinstance(policy, Rounds) or run.peers or run.scenario.tiers:
        return  # a gateway without clients is waited for no more, and no row of its own says so
    replies, left = _replies(run), _departures(run)
    closed = {row["round"]: row["t"] for row in run.of_kind("round")}
    given_up = {row["round"] for row in run.of_kind("abandoned")}
    for number, exchange in _single(run).items():
        began = exchange.row["t"]
        came = sorted(t for client in exchange.clients for t in replies.get((client, number), ()))
        waits = max(
            (
                min(
                    *replies.get((client, number), [inf]),
                    _noticed(policy, left.get(client, ()), exchange.row),
                    inf,
                )
                for client in exchange.clients
            ),
            default=began,
        )
        over = min(waits, _enough(run, policy, exchange, came))
        until = closed.get(number, inf)
        if policy.give_up is not None:
            over = min(over, began + policy.give_up)
        elif number in given_up and until < over:
            continue  # a patience that is found, not written; see `building.round_completion`
        if number in closed and abs(until - over) > ROUNDING * until:
            yield f"round {number}, begun at {began}, ends at {until}, and should at {over}"
        if number not in closed and over < run.end * (1 - ROUNDING):
            yield f"round {number}, begun at {began}, should end at {over}, and has not"


def _enough(run: Evidence, policy: Rounds, exchange: Asked, came: list[float]) -> float:
    """Return when enough have reported: the quorum at once, or after the deadline, if any."""
    asked = len(exchange.clients)
    needed = ceil((policy.quorum or 0.0) * asked * (1 - 1e-12))
    silence = run.scenario.silence
    spans = [silence.after] if isinstance(silence, DeadlineSilence) else []
    spans += [] if policy.deadline is None else [policy.deadline]
    first = inf if policy.quorum is None or policy.deadline is not None else needed
    if isinstance(policy, Sample) and policy.over > 1:
        first = min(_wanted(policy, len(run.clients)), asked)
    began: float = exchange.row["t"]
    late = max(began + min(spans, default=inf), _nth(came, needed))
    return min(late, _nth(came, first))


def _wanted(policy: Sample, clients: int) -> int:
    return policy.count or max(1, floor((policy.share or 1.0) * clients + 0.5))


def _nth(came: list[float], number: float) -> float:
    """Return when so many replies have come, s; infinite where there are fewer."""
    if number > len(came):
        return inf
    return came[int(number) - 1] if number else -inf


def _single(run: Evidence) -> dict[int, Asked]:
    """Return the exchanges of rounds that have one, whose messages go to each client apart."""
    if run.scenario.network.broadcast != "unicast":
        return {}
    rows = defaultdict[int, list[Row]](list)
    for row in run.of_kind("exchange"):
        rows[row["round"]].append(row)
    clients = defaultdict[int, set[str]](set)
    for row in run.of_kind("send"):
        if row["node"] == "server":
            clients[row["round"]].add(row["peer"])
    return {
        number: Asked(some[0], frozenset(clients[number]))
        for number, some in rows.items()
        if len(some) == 1
    }


def _replies(run: Evidence) -> dict[tuple[str, int], list[float]]:
    """Return when each client's replies to each round have arrived."""
    arrived = defaultdict[tuple[str, int], list[float]](list)
    for row in run.of_kind("receive"):
        if row["node"] == "server" and row["detail"] is None:
            arrived[row["peer"], row["round"]].append(row["t"])
    return arrived


def _departures(run: Evidence) -> dict[str, list[Row]]:
    """Return the rows in which each client goes, in order."""
    left = defaultdict[str, list[Row]](list)
    for row in run.events:
        if row["event"] in _GONE:
            left[row["node"]].append(row)
    return left


def _noticed(policy: Participation, left: list[Row] | tuple[()], asked: Row) -> float:
    """Return when the server notices that a client has gone since it was asked, s."""
    gone = next((row["t"] for row in left if row["seq"] > asked["seq"]), inf)
    return inf if gone == inf else notice(policy, gone)


def notice(policy: Participation, gone: float) -> float:
    """Return when the server notices that a client went at the time `gone`, s."""
    beat = policy.heartbeat
    if beat is not None:
        return (floor(gone / beat) + 1) * beat
    return gone if policy.noticed == "at-once" else inf


def at_work(run: Evidence) -> Iterator[str]:
    """Without rounds, a client is not asked again while the server takes it to be at work."""
    policy = run.scenario.participation
    if not isinstance(policy, AsynchronousParticipation):
        return
    exchanges, replies, left = _single(run), _replies(run), _departures(run)
    given_up = {row["seq"]: row["t"] for row in run.of_kind("abandoned")}
    drawn = {row["round"] for row in run.of_kind("sampled")}
    busy: dict[str, tuple[int, Row]] = {}
    for number, (row, clients) in sorted(exchanges.items(), key=lambda each: each[1].row["seq"]):
        now = row["t"] * (1 + ROUNDING)
        for client, (before, asked) in list(busy.items()):
            free = min(
                *replies.get((client, before), [inf]),
                _noticed(policy, left.get(client, ()), asked),
                *(t for seq, t in given_up.items() if asked["seq"] < seq < row["seq"]),
                inf,
            )
            if free <= now:
                del busy[client]
        for client in sorted(clients & set(busy)):
            since = busy[client][1]["t"]
            yield f"{client} is asked in round {number}, and is at work since {since}"
        busy.update((client, (number, row)) for client in clients)
        # A method that names clients asks them all the same.
        if number in drawn and len(busy) > (policy.concurrency or inf):
            yield f"{len(busy)} clients are at work in round {number}, of {policy.concurrency}"
