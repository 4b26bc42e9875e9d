"""What the rounds of one run spent their time, energy and bits on, up to one of its rounds.

These are the figures that `fedsim.results.analysis.causes` compares between two runs. Each function
takes the log of one run and returns totals over the rounds up to the last one asked for.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.results.analysis.energy import ENERGY_PARTS
from fedsim.results.analysis.log.frames import (
    Codes,
    clients_in,
    is_event,
    numbers_of,
    opened_by_server,
    total_bits,
)
from fedsim.results.analysis.log.messages import directions, highest_rates
from fedsim.results.analysis.log.rounds import Paths, paths_in
from fedsim.results.analysis.timeline import (
    STATES,
    ClientSpans,
    client_spans,
    repeats,
    seconds_in_first,
)

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "t": (
        *("t", "duration", "event", "node", "peer", "round", "detail"),
        *("payload_bits", "header_bits", "transport_bits"),
    ),
    "joules": ("t", "duration", "event", "node", "peer", "round", "joules"),
    "bits": (
        *("event", "node", "peer", "round"),
        *("payload_bits", "header_bits", "transport_bits"),
    ),
}
"""The columns of the log that are read for each cost."""

TIME_PARTS = (
    *("promotion", "download", "computing", "upload", "sending again", "slower link"),
    *("latency and queues", "absence", "after the last reply", "before an exchange"),
)
"""What the critical path of a round consists of, in the order of a table."""

REST = "other"
"""What a cost has beyond its parts."""


class Spending(NamedTuple):
    """What a run spent over some rounds.

    Attributes:
        parts: totals of a cost by part; with `REST` they add up to the cost.
        counts: totals of what happened in these rounds, by name.
        last: in how many exchanges each client's reply was the last one; only of time.
    """

    parts: Mapping[str, float]
    counts: Mapping[str, float]
    last: Mapping[str, int] = MappingProxyType({})


def _until(events: pd.DataFrame, last: int) -> pd.DataFrame:
    """Return the rows up to the commit of a round.

    Raises:
        DataError: the log has no such round.
    """
    numbers = events["round"].to_numpy()
    row = np.flatnonzero(is_event(events, "round") & (numbers == last))
    if not len(row):
        raise DataError("events", f"the log has no commit of round {last}")
    return events.iloc[: row[-1] + 1]


# Energy: a row of the log has the joules of its span, and every event is a part of its own.


def energy_until(events: pd.DataFrame, last: int) -> Spending:
    """Return the energy of the fleet up to a round, J, by the parts of `ENERGY_PARTS`.

    A row that begins before the end of the round counts with the share of its span before it.

    Args:
        events: the log of one run.
        last: the round.

    Raises:
        DataError: the log has no such round.
    """
    own = _until(events, last)
    events, counts = (
        events.assign(event=events["event"].astype(object)),
        own["event"].value_counts(),
    )
    spans = events["duration"].to_numpy()
    with np.errstate(divide="ignore", invalid="ignore"):  # rows without a duration
        shares = np.clip((own["t"].iloc[-1] - events["t"].to_numpy() + spans) / spans, 0.0, 1.0)
    shares[spans == 0.0] = 0.0
    shares[: len(own)] = 1.0
    joules = (events["joules"] * shares).groupby(events["event"]).sum()
    parts = dict.fromkeys(ENERGY_PARTS.values(), 0.0)
    for event, amount in joules.items():
        # The log has the idle energy of the fleet in the rows of commits and of the end.
        column = "idle_joules" if event in {"round", "stop"} else f"{event}_joules"
        part = ENERGY_PARTS.get(column, REST)
        parts[part] = parts.get(part, 0.0) + float(amount)
    sent = is_event(own, "send") & (directions(own) != 1)
    return Spending(
        parts,
        {
            "promotions": float(counts.get("promotion", 0)),
            "messages": float(np.count_nonzero(sent)),
        },
    )


# Bits: those that are charged when a message is passed to the network, less those of messages that
# are still in flight when the last round is committed, which are in the rest.


def bits_until(events: pd.DataFrame, last: int) -> Spending:
    """Return the uplink bits up to a round by layer, and how many messages had them.

    Among peers all bits are uplink bits. Downlink bits and the clients that are asked are in the
    round table.

    Args:
        events: the log of one run.
        last: the round.

    Raises:
        DataError: the log has no such round.
    """
    own = _until(events, last)
    own = own[is_event(own, "send", "retransmit")]
    own = own[directions(own) != 1]
    bits, payload = total_bits(own), own["payload_bits"].to_numpy(np.int64)
    first = is_event(own, "send")
    full, empty = first & (payload > 0), first & (payload == 0)
    return Spending(
        {
            "payload": float(payload[full].sum()),
            "headers": float((bits - payload)[full].sum()),
            "beacons": float(bits[empty].sum()),
            "sending again": float(bits[~first].sum()),
        },
        {"messages": float(np.count_nonzero(full))},
    )


# Time: the stages of the critical path, each cut by what its client did.

_ON_PATH = ("empty", "offline", "compute", "promotion")


def time_until(events: pd.DataFrame, last: int) -> Spending:
    """Return the time up to a round, s, by what the critical path of each round consists of.

    The path is that of `critical_path`. Before the download, and between download and upload, the
    time is that of absence, computing and promotion of the client whose reply came last, in this
    order where several go on at once; the rest is latency and queues. What a transfer takes beyond
    the time at the highest rate of that client in that direction is due to a slower link: others
    shared it, or its channel was worse.

    Args:
        events: the log of one run.
        last: the round.

    Raises:
        DataError: the log has no such round, or no critical path, since there is no server.
    """
    events = events.reset_index(drop=True)
    if not opened_by_server(events).any():
        raise DataError("events", "the rounds of these runs have no critical path: no server")
    names = clients_in(events)
    paths = paths_in(events, names)
    numbers = events["round"].to_numpy()[paths.ends]
    if last not in numbers:
        raise DataError("events", f"the log has no commit of round {last}")
    kept = numbers[paths.number] <= last
    stages = np.diff(paths.borders, axis=0)
    node = numbers_of(events["node"], names)
    up = _transfers(events, paths.sent, stages[3], node, "send")
    down = _transfers(events, paths.download, stages[1], node, "receive")
    away, computing, promotion, rest = _doing(events, names, paths)
    after, latency = stages[5], rest + stages[4]
    parts = {
        "promotion": promotion,
        "download": down[0],
        "computing": computing,
        "upload": up[0],
        "sending again": up[1] + down[1],
        "slower link": up[2] + down[2],
        "latency and queues": latency,
        "absence": away,
        "after the last reply": np.where(paths.closes, after, 0.0),
        "before an exchange": np.where(paths.closes, 0.0, after),
    }
    there = kept & (paths.sent >= 0)
    bits = total_bits(events)
    last_replies = np.bincount(paths.client[there], minlength=len(names))
    waited = np.bincount(paths.number, parts["after the last reply"] * kept) > 0
    return Spending(
        {name: float(parts[name][kept].sum()) for name in TIME_PARTS},
        {
            "exchanges": float(np.count_nonzero(there)),
            "awake": float(np.count_nonzero(there & (promotion <= 0))),
            "upload bits": float(bits[paths.sent[there]].sum()),
            "waits": float(np.count_nonzero(waited)),
        },
        {names[number]: count for number, count in enumerate(last_replies.tolist()) if count},
    )


def _transfers(
    events: pd.DataFrame, rows: Codes, spent: Array, client: Codes, event: str
) -> tuple[Array, Array, Array]:
    """Return what transfers of paths took at the highest rate, for packets again, and beyond it.

    Args:
        events: the log of one run.
        rows: of the transfers, -1 for none, shape (pieces,).
        spent: on them, s, shape (pieces,).
        client: of each row of the log, by number.
        event: of the rows.
    """
    own = np.where(is_event(events, event), client, -1)
    best = highest_rates(events, own, int(client.max(initial=-1)) + 1)
    there = rows >= 0
    row = np.where(there, rows, 0)
    again = np.where(there, np.minimum(repeats(events)[row], spent), 0.0)
    rate = np.where(there & (own[row] >= 0), best[own[row]], 0.0)
    whole = spent - again
    least = np.divide(total_bits(events)[row], rate, out=whole.copy(), where=rate > 0)
    least = np.minimum(least, whole)
    return least, again, whole - least


def _doing(
    events: pd.DataFrame, names: list[str], paths: Paths
) -> tuple[Array, Array, Array, Array]:
    """Return the seconds of absence, computing, promotion and of none, each of shape (pieces,).

    They are those of the client of each path before its download and between download and upload.
    """
    pieces = len(paths.client)
    # The stages `before_download` and `work`; see `STAGES`.
    begins = paths.borders[[0, 2]].ravel()
    ends = paths.borders[[1, 3]].ravel()
    client = np.tile(paths.client, 2)
    spans = client_spans(events, names, _ON_PATH)
    of_span, of_interval = _overlaps(spans, client, begins, ends)
    # Each interval takes the place of a client whose run begins at 0, so that `seconds_in_first`
    # can count its states.
    first = np.maximum(spans.begins[of_span], begins[of_interval]) - begins[of_interval]
    until = np.minimum(spans.ends[of_span], ends[of_interval]) - begins[of_interval]
    cut = ClientSpans(of_interval, spans.state[of_span], first, until, np.zeros_like(of_interval))
    length = float((ends - begins).max(initial=0.0))
    seconds = seconds_in_first(cut, 2 * pieces, len(STATES), length).T
    place = {name: number for number, name in enumerate(STATES)}
    away = seconds[place["empty"]] + seconds[place["offline"]]
    computing, promotion = seconds[place["compute"]], seconds[place["promotion"]]
    rest = ends - begins - away - computing - promotion
    both = (each.reshape(2, pieces).sum(axis=0) for each in (away, computing, promotion, rest))
    first_part, second, third, none = both
    return first_part, second, third, none


def _overlaps(spans: ClientSpans, client: Codes, begins: Array, ends: Array) -> tuple[Codes, Codes]:
    """Return all pairs of a span and an interval of the same client that overlap, by number.

    Args:
        spans: those of one client and state do not overlap each other.
        client: of each interval; -1 for none, shape (intervals,).
        begins: of the intervals, s.
        ends: of the intervals, s.
    """
    found = [(np.zeros(0, np.intp), np.zeros(0, np.intp))]
    for state in np.unique(spans.state):
        mine = np.flatnonzero((spans.state == state) & (spans.ends > spans.begins))
        mine = mine[np.lexsort((spans.begins[mine], spans.node[mine]))]
        node, begun, ended = spans.node[mine], spans.begins[mine], spans.ends[mine]
        # Ranks of times instead of times: a client and a rank make one whole number.
        every = np.unique(np.concatenate([begun, ended, begins, ends]))
        width = len(every) + 1

        def key(owner: Codes, time: Array, every: Array = every, width: int = width) -> Codes:
            return np.asarray(owner.astype(np.int64) * width + np.searchsorted(every, time))

        low = np.searchsorted(key(node, ended), key(client, begins), side="right")
        high = np.searchsorted(key(node, begun), key(client, ends), side="left")
        count = np.where((client >= 0) & (ends > begins), np.maximum(high - low, 0), 0)
        # The spans of an interval are those from `low` up to `high`, which are enumerated here for
        # all intervals at once.
        interval = np.repeat(np.arange(len(client)), count)
        step = np.arange(len(interval)) - np.repeat(np.cumsum(count) - count, count)
        found.append((mine[np.repeat(low, count) + step], interval))
    one, other = (np.concatenate(each) for each in zip(*found, strict=True))
    return one, other
