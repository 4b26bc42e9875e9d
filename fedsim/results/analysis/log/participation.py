"""Participation: what became of each client in each round, spells of silence, and staleness."""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.results.analysis.log.frames import (
    SERVER,
    check_columns,
    clients_in,
    is_event,
    numbers_of,
    sums,
)
from fedsim.results.analysis.log.runs import by_run

OUTCOMES = ("no message", "replied", "silent", "late", "lost", "skipped")
"""What became of a client in a round; of several things at once the last one here counts."""

_NEEDED = ("event", "node", "peer", "round", "payload_bits", "detail")


def updates(events: pd.DataFrame) -> "pd.Series[bool]":
    """Return which rows are of messages of clients that carry something and arrived."""
    up = (events["event"] == "send") & (events["node"] != SERVER)
    return up & (events["payload_bits"] > 0) & events["detail"].isna()


def round_outcomes(events: pd.DataFrame) -> pd.DataFrame:
    """Return what became of each client in each round: replied, silent, late, lost or skipped.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per round and client of which the log says any of these, by round and client:
        variant and seed, where the log has them; round, client, outcome (of `OUTCOMES`: "replied"
        sent a message that carries something and arrived, "lost" has lost a message in either
        direction).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = round_outcomes(log.events)
        >>> print(answer.groupby("variant", observed=True)["outcome"].value_counts().to_string())
        variant  outcome
        chb      replied    46
                 skipped    11
                 silent      4
                 lost        3
        gd       replied    50
                 skipped    11
                 lost        3
    """
    check_columns(events, "events", _NEEDED)
    return by_run(events, _round_outcomes)


def _round_outcomes(events: pd.DataFrame) -> pd.DataFrame:
    names = clients_in(events)
    outcome = np.zeros(len(events), dtype=np.int8)
    outcome[updates(events).to_numpy()] = 1
    for number, name in enumerate(OUTCOMES[2:], start=2):
        outcome[is_event(events, name)] = number
    node = numbers_of(events["node"], names)
    client = np.where(node < 0, numbers_of(events["peer"], names), node)
    rounds = events["round"].to_numpy(np.int64)
    kept = (outcome > 0) & (client >= 0) & (rounds > 0)
    outcome, client, rounds = outcome[kept], client[kept], rounds[kept]
    # The last row of each round and client then has the outcome that counts.
    order = np.lexsort((outcome, client, rounds))
    outcome, client, rounds = outcome[order], client[order], rounds[order]
    cell = rounds * max(len(names), 1) + client
    last = np.append(cell[1:] != cell[:-1], True)[: len(cell)]
    return pd.DataFrame(
        {
            "round": rounds[last],
            "client": np.array(names, dtype=object)[client[last]],
            "outcome": np.array(OUTCOMES, dtype=object)[outcome[last]],
        }
    )


def participation(events: pd.DataFrame) -> pd.DataFrame:
    """Return in how many rounds each client replied, was silent, late, lost or skipped.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per client that the log mentions: variant and seed, where the log has them; client,
        a count of rounds for each of `OUTCOMES` ("no message" as no_message: rounds, of those that
        ended, in which the log has none of the others), and share (of the rounds that ended in
        which it replied; NaN where none has ended).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = participation(log.events)
        >>> print(answer.tail(4).round(2).to_string(index=False))
        variant  seed   client  no_message  replied  silent  late  lost  skipped  share
            chb     2 client-0           0        6       1     0     1        0   0.75
            chb     2 client-1           0        8       0     0     0        0   1.00
            chb     2 client-2           0        3       0     0     0        5   0.38
            chb     2 client-3           0        8       0     0     0        0   1.00
    """
    check_columns(events, "events", _NEEDED)
    return by_run(events, _participation)


def _participation(events: pd.DataFrame) -> pd.DataFrame:
    names = clients_in(events)
    ended = int(is_event(events, "round").sum())
    found = _round_outcomes(events)
    found = found[found["round"] <= ended]
    client = pd.Index(names).get_indexer(pd.Index(found["client"]))
    counts = {
        name: sums(client[found["outcome"].to_numpy() == name], len(names)).astype(np.int64)
        for name in OUTCOMES[1:]
    }
    none = ended - np.sum(list(counts.values()), axis=0)
    share = counts["replied"] / ended if ended else np.full(len(names), np.nan)
    return pd.DataFrame({"client": names, "no_message": none, **counts, "share": share})


def silences(events: pd.DataFrame) -> pd.DataFrame:
    """Return which client was silent when: its spells of consecutive silent rounds.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per spell, by client and round: variant and seed, where the log has them; client,
        first and last (rounds), and rounds (its length).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> print(silences(log.events).to_string(index=False))
        variant  seed   client  first  last  rounds
            chb     1 client-0      7     7       1
            chb     1 client-1      7     7       1
            chb     1 client-3      7     7       1
            chb     2 client-0      7     7       1
    """
    check_columns(events, "events", _NEEDED)
    return by_run(events, _silences)


def _silences(events: pd.DataFrame) -> pd.DataFrame:
    names = clients_in(events)
    own = events[is_event(events, "silent")]
    client = numbers_of(own["node"], names)
    rounds = own["round"].to_numpy(np.int64)
    pairs = np.unique(np.stack([client, rounds], axis=1), axis=0)
    client, rounds = pairs[:, 0], pairs[:, 1]
    starts = (np.diff(client, prepend=-1) != 0) | (np.diff(rounds, prepend=-1) != 1)
    begins = np.flatnonzero(starts)
    ends = np.append(begins[1:], len(rounds))[: len(begins)] - 1
    first, last = rounds[begins], rounds[ends]
    return pd.DataFrame(
        {
            "client": np.array(names, dtype=object)[client[begins]],
            "first": first,
            "last": last,
            "rounds": last - first + 1,
        }
    )


def staleness(events: pd.DataFrame) -> pd.DataFrame:
    """Return how many rounds old the replies were that reached the server.

    The staleness of a reply is the number of rounds that were committed between the model that it
    answers and its arrival: 0 in a synchronous round, more where servers are asynchronous or
    replies late.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per client whose reply reached the server: variant and seed, where the log has them;
        client, replies, fresh (replies of staleness 0), mean and most (staleness, rounds).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = staleness(log.events)
        >>> print(answer.head(4).to_string(index=False))
        variant  seed   client  replies  fresh  mean  most
             gd     1 client-0        7      7   0.0     0
             gd     1 client-1        7      7   0.0     0
             gd     1 client-2        2      2   0.0     0
             gd     1 client-3        8      8   0.0     0
    """
    check_columns(events, "events", ("event", "node", "peer", "round"))
    return by_run(events, _staleness)


def _staleness(events: pd.DataFrame) -> pd.DataFrame:
    names = clients_in(events)
    arrived = is_event(events, "receive") & (events["node"] == SERVER).to_numpy()
    committed = is_event(events, "round").cumsum()[arrived]
    age = _ages(committed, events["round"].to_numpy(np.int64)[arrived])
    client = numbers_of(events["peer"], names)[arrived]
    count = len(names)
    replies = sums(client, count)
    most = np.zeros(count, dtype=np.int64)
    np.maximum.at(most, client[client >= 0], age[client >= 0])
    table = pd.DataFrame(
        {
            "client": names,
            "replies": replies.astype(np.int64),
            "fresh": sums(client[age == 0], count).astype(np.int64),
            "mean": sums(client, count, age) / np.maximum(replies, 1),
            "most": most,
        }
    )
    return table[replies > 0].reset_index(drop=True)


def _ages(committed: NDArray[np.int64], answered: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how many rounds each reply is old; that of round r answers the model after r - 1."""
    return np.asarray(np.maximum(committed - (answered - 1), 0), dtype=np.int64)
