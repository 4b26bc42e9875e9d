"""Waiting: what each client waited for, by what the log has of its messages."""

import numpy as np
import pandas as pd

from fedsim.core.ports import Array
from fedsim.results.analysis.log.frames import (
    check_columns,
    clients_in,
    is_event,
    numbers_of,
    opened_by_server,
    sums,
    total_bits,
)
from fedsim.results.analysis.log.messages import flows, highest_rates
from fedsim.results.analysis.log.runs import by_run
from fedsim.results.analysis.timeline import STATES, ClientSpans, client_spans, seconds_in_first

CAUSES = ("server", "radio", "link", "share", "close")
"""What a client waits for; see `waiting_by_cause`."""

_NEEDED = ("t", "duration", "event", "node", "peer", "round", "detail")
_LAYERS = ("payload_bits", "header_bits", "transport_bits")

_NUMBER = {name: number for number, name in enumerate(STATES)}
_TRANSFERS = ("upload", "retransmit", "download")
_AWAY = ("empty", "offline")
# What a client that does nothing else waits for follows the states in their order; a tail is no
# state of its own, since a client waits during tails.
_LINK, _CLOSE, _SERVER = range(len(STATES), len(STATES) + 3)


def waiting_by_cause(events: pd.DataFrame) -> pd.DataFrame:
    """Return how long each client waited for the server, its radio, its link and the round's close.

    A client that is there waits while it neither computes, sends nor receives. Before its next
    download it waits for the close of the exchange that it was in, then for the server to open one
    that asks it, then for the first bit; before its next transmission for the first bit alone.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per client that the log mentions: variant and seed, where the log has them; client;
        and what it waited for, s: server (for an exchange that asks it, at last for the run's end),
        radio (promotion), link (for the first bit when the radio is connected: latency, a queue, a
        duty cycle), share (what its bits took beyond the time at the highest rate that a message of
        its own had in that direction: others shared the link, or its channel was slower), close
        (for replies of others, or a deadline); busy (computing, and bits at that highest rate) and
        away (offline, or its battery empty). All of these add up to the run's length. Where clients
        reply to each other, close is the wait for others.

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = waiting_by_cause(log.events).drop(columns=["variant", "seed"])
        >>> print(answer.head(4).round(3).to_string(index=False))
          client  server  radio  link  share  close  busy  away
        client-0   0.000   0.26  0.45    0.0  2.178 0.003 0.000
        client-1   0.000   0.26  0.48    0.0  2.148 0.003 0.000
        client-2   0.458   0.08  0.02    0.0  1.196 0.000 1.137
        client-3   0.000   0.16  0.08    0.0  1.946 0.705 0.000
    """
    check_columns(events, "events", (*_NEEDED, *_LAYERS))
    return by_run(events, _waiting_by_cause)


def _waiting_by_cause(events: pd.DataFrame) -> pd.DataFrame:
    clients = clients_in(events)
    length = float(events["t"].max()) if len(events) else 0.0
    found = client_spans(events, clients, [name for name in STATES if name != "tail"])
    transfers = found.where(np.isin(found.state, [_NUMBER[name] for name in _TRANSFERS]))
    spans = found.and_those(_waits(events, transfers, len(clients), length))
    seconds = seconds_in_first(spans, len(clients), len(STATES) + 3, length).T
    time = {name: seconds[number] for name, number in _NUMBER.items()}
    sending, receiving = time["upload"] + time["retransmit"], time["download"]
    slower = (_share_beyond_best(events, name, clients) for name in ("node", "peer"))
    up, down = (own * share for own, share in zip((sending, receiving), slower, strict=True))
    return pd.DataFrame(
        {
            "client": clients,
            "server": seconds[_SERVER],
            "radio": time["promotion"],
            "link": seconds[_LINK],
            "share": up + down,
            "close": seconds[_CLOSE],
            "busy": time["compute"] + (sending - up) + (receiving - down),
            "away": sum(time[name] for name in _AWAY),
        }
    )


def _waits(
    events: pd.DataFrame, transfers: ClientSpans, clients: int, length: float
) -> ClientSpans:
    """Return what clients waited for between their transfers, if they did nothing else.

    The time between the last end of a client's transfers and the next begin of one, or an end of
    the run, is cut at the first commit or opening of an exchange after the earlier transfer (the
    close of what that was part of), and at the last opening of an exchange before the first bit of
    the later one.

    Args:
        events: the log of one run.
        transfers: its transfers.
        clients: how many there are.
        length: of the run, s.
    """
    times = np.append(events["t"].to_numpy(np.float64), length)
    rows, every_client = len(events), np.arange(clients, dtype=np.int32)
    node = np.append(transfers.node, every_client)  # what follows the last transfer is the end
    row = np.append(transfers.row, np.full(clients, rows, np.int32))
    end = np.append(transfers.begins, np.full(clients, length))
    # What begins at one instant may differ by rounding: of these, what was logged first.
    order = np.lexsort((row, np.round(end, 9), node))
    node, row, end = node[order], row[order], end[order]
    sends = np.append(transfers.state != _NUMBER["download"], np.zeros(clients, bool))[order]
    first = np.append(True, node[1:] != node[:-1])[: len(node)]
    # Of the transfers that began before, the one that ended last: they may overlap.
    ends = pd.Series(np.append(transfers.ends, np.zeros(clients))[order])
    latest = ends.groupby(node).cummax()
    # The row of the transfer that has this latest end.
    last_row = pd.Series(row).where(ends == latest).groupby(node).ffill()
    begin = np.where(first, 0.0, latest.shift(fill_value=0.0))
    earlier = np.where(first, -1, last_row.shift(fill_value=-1)).astype(np.int64)
    opened = np.flatnonzero(opened_by_server(events))
    cuts = np.union1d(opened, np.flatnonzero(is_event(events, "round")))
    # Row number `rows`, one beyond the log, stands for the end of the run; see `times`.
    closed = times[np.append(cuts, rows)[np.searchsorted(cuts, earlier, side="right")]]
    closed = np.where(first | sends, begin, closed)
    opened = times[opened]
    asked = np.append(0.0, opened)[np.searchsorted(opened, end, side="right")]
    asked = np.where(sends, begin, np.where(row == rows, length, asked))
    closed = np.minimum(np.maximum(closed, begin), end)
    asked = np.minimum(np.maximum(asked, closed), end)
    waits = [
        ClientSpans(node, np.full(len(node), kind, np.int8), since, until, row).where(until > since)
        for kind, since, until in (
            (_CLOSE, begin, closed),
            (_SERVER, closed, asked),
            (_LINK, asked, end),
        )
    ]
    return waits[0].and_those(waits[1]).and_those(waits[2])


def _share_beyond_best(events: pd.DataFrame, end: str, clients: list[str]) -> Array:
    """Return which share of the time of each client's bits was beyond that at its highest rate.

    Args:
        events: the log of one run.
        end: whose messages: "node" for those that a client sends, "peer" for those to it.
        clients: of the log.
    """
    sent, flowing = flows(events)
    client = numbers_of(events[end], clients)
    lasting = events["duration"].to_numpy(np.float64)
    there = sent & (client >= 0) & (lasting > 0)
    best = highest_rates(events, np.where(sent, client, -1), len(clients))[client[there]]
    client, lasting, flowing = client[there], lasting[there], flowing[there]
    bits = total_bits(events)[there] * 1.0
    least = np.minimum(lasting, np.divide(bits, best, out=lasting.copy(), where=best > 0))
    beyond = sums(client, len(clients), lasting - least)
    whole = sums(client, len(clients), flowing)
    return np.divide(beyond, whole, out=np.zeros(len(clients)), where=whole > 0).clip(0, 1)
