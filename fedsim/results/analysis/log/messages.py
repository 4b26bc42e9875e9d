"""Messages: bits by kind and by layer, what was lost or sent again, and queues at the server."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.results.analysis.log.frames import (
    BITS,
    SERVER,
    Codes,
    check_columns,
    clients_in,
    covered,
    is_event,
    numbers_of,
    sums,
    total_bits,
)
from fedsim.results.analysis.log.runs import by_run
from fedsim.results.analysis.timeline import BROKEN_OFF, repeats

_DIRECTIONS = ("up", "down", "peer")
_LAYERS = {
    "payload": "payload_bits",
    "header": "header_bits",
    "transport": "transport_bits",
    "retransmission": "retransmitted_bits",
}
_MESSAGES = ("event", "node", "peer", "message", *BITS)


def bits_by_message(events: pd.DataFrame) -> pd.DataFrame:
    """Return how many bits were sent of each kind of message, and in which layer.

    A broadcast counts once in every cell. Bits that a relay forwards for others are left out: they
    are the column `bits_forwarded` of the client table.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per direction and kind, in order of first appearance: variant and seed, where the
        log has them; direction ("up" to the server or a gateway, "down" from it, or "peer" between
        clients), message, messages (a count), payload_bits, header_bits, transport_bits (first
        transmissions), retransmitted_bits, and bits, the sum of these four. All bits of a run
        together are the bits that its ledger has as sent.

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = bits_by_message(log.events)
        >>> print(answer.head(2).T.to_string(header=False))
        variant                  gd          gd
        seed                      1           1
        direction              down          up
        message             iterate  innovation
        messages                 26          25
        payload_bits          17888       17200
        header_bits            3952        3800
        transport_bits        12960       12480
        retransmitted_bits     3960        5280
        bits                  38760       38760
    """
    check_columns(events, "events", _MESSAGES)
    return by_run(events, _bits_by_message)


def _bits_by_message(events: pd.DataFrame) -> pd.DataFrame:
    own = events[is_event(events, "send", "retransmit")]
    first = is_event(own, "send")
    columns = {name: np.where(first, own[name], 0) for name in BITS}
    table = pd.DataFrame(
        {
            "direction": np.array(_DIRECTIONS, dtype=object)[directions(own)],
            "message": own["message"].astype(object).to_numpy(),
            "messages": first.astype(np.int64),
            **columns,
            "retransmitted_bits": np.where(first, 0, total_bits(own)),
            "bits": total_bits(own),
        }
    )
    groups = table.groupby(["direction", "message"], sort=False, dropna=False)
    return groups.sum().reset_index()


def directions(rows: pd.DataFrame) -> NDArray[np.intp]:
    """Return in which of `_DIRECTIONS` the message of each row went, by number.

    A gateway has a larger number than the nodes below it, whose server it is.
    """
    down, up = ((rows[name] == SERVER).to_numpy() for name in ("node", "peer"))
    (sender, sends), (receiver, receives) = (_gateways(rows[name]) for name in ("node", "peer"))
    down = down | (sends & (sender > receiver))
    up = up | (receives & (receiver > sender))
    return np.where(down, 1, np.where(up, 0, 2))


def _gateways(nodes: "pd.Series[Any]") -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the numbers of nodes in a column, the server's the largest, and which are gateways."""
    own = nodes.astype("category").cat
    names = [str(name).rpartition("-") for name in own.categories]
    most = np.iinfo(np.int64).max
    numbers = [int(number) if number.isdecimal() else most for _, _, number in names]
    gateways = [kind == "gateway" for kind, _, _ in names]
    codes = own.codes.to_numpy()  # -1 for a row without this end
    return np.append(numbers, -1)[codes].astype(np.int64), np.append(gateways, False)[codes] > 0


def bits_by_layer(events: pd.DataFrame) -> pd.DataFrame:
    """Return how many bits each layer has cost in each direction.

    Args:
        events: as for `bits_by_message`, whose bits these are.

    Returns:
        One row per direction and layer: variant and seed, where the log has them; direction, layer
        ("payload": the encoding of what the message carries; "header": the application's;
        "transport": framing; "retransmission": all that was sent again), bits, and share (of all
        bits of that direction; NaN where there are none).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = bits_by_layer(log.events)
        >>> print(answer.head(4).round(3).to_string(index=False))
        variant  seed direction          layer  bits  share
             gd     1      down        payload 17888  0.462
             gd     1      down         header  3952  0.102
             gd     1      down      transport 12960  0.334
             gd     1      down retransmission  3960  0.102
    """
    check_columns(events, "events", _MESSAGES)
    return by_run(events, _bits_by_layer)


def _bits_by_layer(events: pd.DataFrame) -> pd.DataFrame:
    by_direction = _bits_by_message(events).groupby("direction", sort=False)
    wide = by_direction[list(_LAYERS.values())].sum().set_axis([*_LAYERS], axis=1)
    table = wide.reset_index().melt("direction", var_name="layer", value_name="bits")
    order = table["direction"].map({name: place for place, name in enumerate(wide.index)})
    table = table.loc[order.sort_values(kind="stable").index].reset_index(drop=True)
    whole = table.groupby("direction")["bits"].transform("sum")
    return table.assign(share=table["bits"] / whole.where(whole > 0))


def lost_messages(events: pd.DataFrame) -> pd.DataFrame:
    """Return what was lost, broken off or sent again, by client and direction.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per client and direction in which it has a message: variant and seed, where the log
        has them; client (of an upload and between clients the sender, of a download the receiver;
        broadcasts, which have no single receiver, are left out), direction, messages, lost (for
        good), aborted (an end could not go on), in_flight (at the end of the run), retransmissions
        (messages of which packets were sent again), retransmitted_bits, and share_retransmitted (of
        the bits sent).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = lost_messages(log.events)
        >>> shown = answer[(answer["lost"] > 0) | (answer["retransmissions"] > 0)]
        >>> print(shown.head(1).round(3).T.to_string(header=False))
        variant                    gd
        seed                        1
        client               client-0
        direction                  up
        messages                    7
        lost                        0
        aborted                     0
        in_flight                   0
        retransmissions             1
        retransmitted_bits       1320
        share_retransmitted     0.125
    """
    check_columns(events, "events", (*_MESSAGES, "detail"))
    return by_run(events, _lost_messages)


def _lost_messages(events: pd.DataFrame) -> pd.DataFrame:
    names = clients_in(events)
    own = events[is_event(events, "send", "retransmit")]
    direction = directions(own)
    down = direction == 1
    node, peer = (numbers_of(own[name], names) for name in ("node", "peer"))
    client = np.where(down, peer, node)
    cell = np.where(client >= 0, 3 * client + direction, -1)
    count = 3 * len(names)
    first, bits = is_event(own, "send"), total_bits(own)
    fates = {
        "lost": own["detail"] == "lost",
        "aborted": own["detail"] == "aborted",
        "in_flight": own["detail"] == "in flight",
    }
    messages = sums(cell[first], count)
    again = sums(cell[~first], count, bits[~first])
    whole = sums(cell, count, bits)
    columns = {
        "client": np.repeat(np.array(names, dtype=object), 3),
        "direction": np.tile(np.array(_DIRECTIONS, dtype=object), len(names)),
        "messages": messages.astype(np.int64),
        **{
            name: sums(cell, count, (fate.to_numpy() & first).astype(np.float64)).astype(np.int64)
            for name, fate in fates.items()
        },
        "retransmissions": sums(cell[~first], count).astype(np.int64),
        "retransmitted_bits": again.astype(np.int64),
        "share_retransmitted": np.divide(again, whole, out=np.zeros(count), where=whole > 0),
    }
    return pd.DataFrame(columns)[messages > 0].reset_index(drop=True)


def server_queue(events: pd.DataFrame) -> pd.DataFrame:
    """Return how many messages were at the server's links at once, and for how long.

    A message is there from when its bits begin to flow until they have arrived or were given up,
    with packets that were sent again. Links that are shared serve all at once, each more slowly:
    many in progress are what a queue is elsewhere. With rate, mean number and mean time, Little's
    law holds: mean_in_progress = rate * mean_s (Little, Oper. Res. 9(3), 1961).

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per direction that has a message: variant and seed, where the log has them;
        direction ("up" or "down"), messages, rate (1/s, over the run), mean_s and longest_s (of a
        message, s), mean_in_progress and most_in_progress (messages at once), busy (share of the
        run with at least one). Of a run without length, rate, mean_in_progress and busy are NaN.

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = server_queue(log.events)
        >>> print(answer.head(1).round(4).T.to_string(header=False))
        variant               gd
        seed                   1
        direction             up
        messages              25
        rate              8.6478
        mean_s            0.0002
        longest_s         0.0004
        mean_in_progress  0.0017
        most_in_progress       2
        busy              0.0012
    """
    check_columns(events, "events", ("t", "duration", "event", "node", "peer"))
    return by_run(events, _server_queue)


def flows(events: pd.DataFrame) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return which rows are of first transmissions, and how long each row's bits flowed, s."""
    return is_event(events, "send"), events["duration"].to_numpy(np.float64) + repeats(events)


def highest_rates(events: pd.DataFrame, client: Codes, count: int) -> Array:
    """Return the highest rate that a whole message of each client had, bit/s, shape (count,).

    It is 0 of a client without a message that took time. Messages that were broken off are left
    out, for the log does not have how many of their bits had flowed.

    Args:
        events: the log of one run.
        client: whose message each row is, by number; -1 for rows to leave out, shape (rows,).
        count: the number of clients.
    """
    lasting = events["duration"].to_numpy(np.float64)
    there = (client >= 0) & (lasting > 0) & ~events["detail"].isin(BROKEN_OFF).to_numpy()
    best = np.zeros(count)
    np.maximum.at(best, client[there], total_bits(events)[there] / lasting[there])
    return best


def _server_queue(events: pd.DataFrame) -> pd.DataFrame:
    sent, lasting = flows(events)
    length = float(events["t"].max()) if len(events) else 0.0
    way = directions(events)
    rows = []
    for number, direction in enumerate(_DIRECTIONS[:2]):
        there = sent & (way == number)
        if not there.any():
            continue
        ends = events["t"].to_numpy(np.float64)[there]
        begins = np.maximum(ends - lasting[there], 0.0)
        seconds = ends - begins
        busy = covered(np.zeros(len(ends), np.intp), begins, ends, 1)[0]
        per_second = 1 / length if length else np.nan
        rows.append(
            {
                "direction": direction,
                "messages": len(ends),
                "rate": len(ends) * per_second,
                "mean_s": float(seconds.mean()),
                "longest_s": float(seconds.max()),
                "mean_in_progress": float(seconds.sum()) * per_second,
                "most_in_progress": _most_at_once(begins, ends),
                "busy": min(float(busy) * per_second, 1.0) if length else np.nan,
            }
        )
    names = ("direction", "messages", "rate", "mean_s", "longest_s", "mean_in_progress")
    table = pd.DataFrame(rows, columns=[*names, "most_in_progress", "busy"])
    floats = ("rate", "mean_s", "longest_s", "mean_in_progress", "busy")
    counts = ("messages", "most_in_progress")  # without a message pandas knows no types
    return table.astype(dict.fromkeys(floats, np.float64) | dict.fromkeys(counts, np.int64))


def _most_at_once(begins: NDArray[np.float64], ends: NDArray[np.float64]) -> int:
    """Return how many spans overlap at most; one that ends where another begins does not."""
    # Only at a begin does the number rise. A span of zero length has ended at its own begin, so the
    # maximum is at least 1.
    order = np.sort(begins)
    ended = np.searchsorted(np.sort(ends), order, side="right")
    return max(int((np.arange(1, len(order) + 1) - ended).max()), 1)
