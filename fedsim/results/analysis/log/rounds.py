"""Rounds: their critical path, the clients that decided their duration, and stragglers."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.results.analysis.log.frames import (
    SERVER,
    Codes,
    check_columns,
    clients_in,
    is_event,
    numbers_of,
    opened_by_server,
    sums,
)
from fedsim.results.analysis.log.messages import flows
from fedsim.results.analysis.log.runs import by_run

STAGES = ("before_download", "download", "work", "upload", "transit", "after")
"""The parts of a reply's way, in order; see `critical_path`."""

_NEEDED = ("t", "duration", "event", "node", "peer", "round")

_INSTANT = 1e-9
"""Messages that arrive within this time are tied, s: rounding alone sets them apart."""


def critical_path(events: pd.DataFrame) -> pd.DataFrame:
    """Return the critical path of each round: what the last reply spent its time on.

    The path runs back from the commit of the round to the last message that arrived before it, to
    its transmission, to the client's last download before that, and to the begin of the round. A
    round of several exchanges has a path for each of them, which are added up.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per round that ended: variant and seed, where the log has them; round, client (whose
        message arrived last; None where none did), tied (clients whose message arrived at that
        instant, itself included), duration (s, since the round before), and its parts, s, which add
        up to it: before_download (promotion, latency, queue), download, work (from the download to
        the first bit of the reply: computing, the wait for the radio), upload (with packets that
        were sent again), transit (between sender and receiver, where these are not one link), after
        (the wait for a deadline, or for replies that never came). Without a reply all of the time
        is in after.

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = critical_path(log.events).drop(columns=["variant", "seed", "transit"])
        >>> print(answer.head(3).round(3).to_string(index=False))
         round   client  tied  duration  before_download  download  work  upload  after
             1 client-1     2     0.320            0.290       0.0 0.030     0.0  0.000
             2 client-3     1     1.000            0.005       0.0 0.093     0.0  0.902
             3 client-3     1     0.178            0.085       0.0 0.093     0.0  0.000
    """
    check_columns(events, "events", _NEEDED)
    return by_run(events, _critical_path)


def deciding_clients(events: pd.DataFrame) -> pd.DataFrame:
    """Return how many rounds each client decided the duration of.

    A client decides a round if the round is committed the moment its message arrives. Where the
    messages of n clients arrive at that moment, each of them has decided 1/n of the round, so that
    the sum over clients is the number of rounds that clients decided. Rounds that end by a
    deadline, or without a message, are decided by no client.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per client that the log mentions: variant and seed, where the log has them; client,
        decided (rounds, ties shared), tied (rounds that it decided together with others), share (of
        the rounds that ended; NaN where none has), and seconds (the duration of the rounds that it
        decided, ties shared, s).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = deciding_clients(log.events)
        >>> print(answer.head(4).round(3).to_string(index=False))
        variant  seed   client  decided  tied  share  seconds
             gd     1 client-0      0.5     1  0.062    0.160
             gd     1 client-1      0.5     1  0.062    0.160
             gd     1 client-2      0.0     0  0.000    0.000
             gd     1 client-3      5.0     0  0.625    0.571
    """
    check_columns(events, "events", _NEEDED)
    return by_run(events, _deciding_clients)


def stragglers(events: pd.DataFrame) -> pd.DataFrame:
    """Return how late each client replies, compared with the rest of its round.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per client whose message reached the server, the slowest first: variant and seed,
        where the log has them; client, replies, mean_s and longest_s (from the begin of the round
        in which it arrived, s), slowdown (mean over rounds of that time over the median of the
        round's messages; NaN where that is 0 in all of them), last (rounds in which none arrived
        after it; of several that arrive at the last instant all count).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = stragglers(log.events)
        >>> print(answer.head(4).round(3).to_string(index=False))
        variant  seed   client  replies  mean_s  longest_s  slowdown  last
             gd     1 client-3        8   0.118      0.178     1.627     7
             gd     1 client-1        7   0.098      0.320     1.006     1
             gd     1 client-0        7   0.098      0.320     1.040     1
             gd     1 client-2        2   0.050      0.090     0.265     0
    """
    check_columns(events, "events", _NEEDED)
    return by_run(events, _stragglers)


def _arrivals(events: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are of messages at the server, or at any peer where there is no server."""
    received = is_event(events, "receive") & events["peer"].notna().to_numpy()
    at_server = received & (events["node"] == SERVER).to_numpy()
    from_server = received & (events["peer"] == SERVER).to_numpy()
    # A message from the server shows that there is one, even if no reply has reached it.
    return at_server if (at_server | from_server).any() else received


def _last_of_rounds(events: pd.DataFrame, names: list[str], ends: Codes) -> tuple[Codes, Codes]:
    """Return the clients whose messages were the last of each round, all of them where they tie.

    Args:
        events: the log of one run.
        names: its clients.
        ends: the row at which each round ends, shape (rounds,).

    Returns:
        Pairs of a round's place in `ends` and a client's in `names`, sorted, each once.
    """
    times = events["t"].to_numpy(np.float64)
    rows = np.flatnonzero(_arrivals(events))
    place = np.searchsorted(ends, rows)
    rows, place = rows[place < len(ends)], place[place < len(ends)]
    latest = np.zeros(len(ends))
    latest[place] = times[rows]  # of several rows of a round the last one stays
    tied = times[rows] >= latest[place] - _INSTANT
    sender = numbers_of(events["peer"], names)[rows]
    pairs = np.unique(np.stack([place[tied], sender[tied]]), axis=1)
    return pairs[0], pairs[1]


def _latest(there: NDArray[np.bool_], keys: Codes, at: Codes, wanted: Codes) -> Codes:
    """Return the last row before each of `at` that is one of `there` and has a key; -1 for none.

    Args:
        there: which rows are looked at, shape (rows,).
        keys: the key of each row, from 0; -1 for none, shape (rows,).
        at: rows, shape (n,).
        wanted: their keys, shape (n,).
    """
    count = len(keys) + 1
    # Key and row make one whole number with the key first, so that bisection finds the last row of
    # a key before another row.
    known = np.flatnonzero(there & (keys >= 0))
    places = np.sort(keys[known] * count + known)
    found = np.searchsorted(places, wanted * count + at) - 1
    if not len(places):
        return np.full(len(at), -1, dtype=np.intp)
    place = places[np.maximum(found, 0)]
    return np.where((found >= 0) & (place // count == wanted), place % count, -1)


class Paths(NamedTuple):
    """The critical paths of one run: time is cut at every exchange and every commit.

    A piece between two cuts has the path of the last message that arrived in it. Its borders only
    rise, from the begin of the piece to its end, so that the stages between them add up to its
    length whatever is missing.

    Attributes:
        ends: the rows of the commits, shape (rounds,).
        number: the place in `ends` of the round that each piece belongs to, shape (pieces,).
        closes: whether a piece ends with its round, shape (pieces,).
        borders: times between `STAGES`, s, shape (7, pieces).
        client: the number of the client whose message arrived last; -1 for none.
        sent: the row of that message's first transmission; -1 for none.
        download: the row of the client's last download before it; -1 for none.
    """

    ends: Codes
    number: Codes
    closes: NDArray[np.bool_]
    borders: Array
    client: Codes
    sent: Codes
    download: Codes


def paths_in(events: pd.DataFrame, names: list[str]) -> Paths:
    """Return the critical paths of one run.

    Args:
        events: its log, rows numbered from 0.
        names: of its clients, in the order of their numbers.
    """
    times = events["t"].to_numpy(np.float64)
    committed = is_event(events, "round")
    cuts = np.flatnonzero(committed | opened_by_server(events))
    ends = np.flatnonzero(committed)
    cuts = cuts[cuts <= ends.max(initial=-1)]
    begins = np.append(-1, cuts[:-1])[: len(cuts)]
    begin = np.where(begins < 0, 0.0, times[begins])
    marks, client, sent, download = _marks(events, names, begins, cuts)
    # From the end back: a mark that is later than its successor, such as a download that ends after
    # the reply began, is clipped to it.
    border = np.minimum.accumulate(np.vstack([times[cuts], marks]), axis=0)
    border = np.vstack([np.maximum(border, begin), begin])
    number = np.searchsorted(ends, cuts)
    return Paths(ends, number, committed[cuts], border[::-1], client, sent, download)


def _critical_path(events: pd.DataFrame) -> pd.DataFrame:
    names = clients_in(events)
    paths = paths_in(events, names)
    ends, times = paths.ends, events["t"].to_numpy(np.float64)
    spent = np.diff(paths.borders, axis=0)
    stages = np.stack([np.bincount(paths.number, row, minlength=len(ends)) for row in spent])
    first = np.append(0.0, times[ends][:-1])[: len(ends)]
    called = np.array([*names, None], dtype=object)
    last = called[paths.client[paths.closes]]
    tied = np.bincount(_last_of_rounds(events, names, ends)[0], minlength=len(ends))
    return pd.DataFrame(
        {
            "round": events["round"].to_numpy()[ends],
            "client": last,
            "tied": np.where(pd.isna(last), 0, tied),
            "duration": times[ends] - first,
            **dict(zip(STAGES, stages, strict=True)),
        }
    )


def _marks(
    events: pd.DataFrame, names: list[str], begins: Codes, cuts: Codes
) -> tuple[Array, Codes, Codes, Codes]:
    """Return the times at which the stages of each piece begin, from the last one, and its path.

    Args:
        events: the log of one run.
        names: its clients.
        begins: the row at which each piece begins; -1 for the begin of the run, shape (pieces,).
        cuts: the row at which it ends, shape (pieces,).

    Returns:
        Times, shape (5, pieces): of arrival, last bit, first bit, end and begin of the download;
        the number of the client, and the rows of transmission and download, -1 for none, each of
        shape (pieces,).
    """
    nodes = [*names, SERVER]
    node, peer = (numbers_of(events[name], nodes) for name in ("node", "peer"))
    times = events["t"].to_numpy(np.float64)
    sending, flowing = flows(events)
    start = np.where(begins < 0, 0.0, times[begins])
    arrival = _latest(_arrivals(events), np.zeros_like(node), cuts, np.zeros_like(cuts))
    arrival = np.where(arrival > begins, arrival, -1)
    there = arrival >= 0
    # A row of -1 indexes the last row of the log; such values are masked here and below.
    sender = np.where(there, peer[arrival], -1)
    pair = node * len(nodes) + peer
    own = sender * len(nodes) + node[arrival]
    sent = _latest(sending, np.where(peer >= 0, pair, -1), arrival, own)
    sent = np.where(there, sent, -1)
    download = _latest(is_event(events, "receive"), node, sent, sender)
    download = np.where((download > begins) & (sent >= 0), download, -1)

    def at(row: Codes, values: Array, otherwise: Array) -> Array:
        return np.asarray(np.where(row >= 0, values[row], otherwise))

    arrived = at(arrival, times, start)
    left = at(sent, times, arrived)
    first_bit = at(sent, times - flowing, left)
    loaded = at(download, times, start)
    lasting = events["duration"].to_numpy(np.float64)
    marks = [arrived, left, first_bit, loaded, at(download, times - lasting, loaded)]
    return np.stack(marks), sender, sent, download


def _deciding_clients(events: pd.DataFrame) -> pd.DataFrame:
    names = clients_in(events)
    paths = _critical_path(events)
    number, client = _last_of_rounds(events, names, np.flatnonzero(is_event(events, "round")))
    # Exactly 0: a commit has the very time of the arrival that caused it.
    decided = ((paths["after"] == 0) & paths["client"].notna()).to_numpy()[number]
    number, client = number[decided], client[decided]
    tied = paths["tied"].to_numpy(np.float64)[number]
    rounds = sums(client, len(names), 1 / tied)
    return pd.DataFrame(
        {
            "client": names,
            "decided": rounds,
            "tied": sums(client, len(names), (tied > 1).astype(np.int64)).astype(np.int64),
            "share": rounds / len(paths) if len(paths) else np.nan,
            "seconds": sums(client, len(names), paths["duration"].to_numpy()[number] / tied),
        }
    )


def _stragglers(events: pd.DataFrame) -> pd.DataFrame:
    ends = np.flatnonzero(is_event(events, "round"))
    times = events["t"].to_numpy(np.float64)
    rows = np.flatnonzero(_arrivals(events))
    number = np.searchsorted(ends, rows)
    rows, number = rows[number < len(ends)], number[number < len(ends)]
    first = np.append(0.0, times[ends])
    table = pd.DataFrame(
        {
            "client": events["peer"].astype(object).to_numpy()[rows],
            "number": number,
            "seconds": times[rows] - first[number],
        }
    )
    middle = table.groupby("number")["seconds"].transform("median")
    table["slowdown"] = table["seconds"] / middle.where(middle > 0)
    names = clients_in(events)
    last = np.bincount(_last_of_rounds(events, names, ends)[1], minlength=len(names))
    groups = table.groupby("client", sort=False)
    found = groups.agg(
        replies=("seconds", "size"),
        mean_s=("seconds", "mean"),
        longest_s=("seconds", "max"),
        slowdown=("slowdown", "mean"),
    )
    found["last"] = pd.Series(last, names).reindex(found.index)
    return found.sort_values("mean_s", ascending=False, kind="stable").reset_index()
