"""The timeline: the states of every client over time, from the event log.

A row of the log is written at the end of its span. The retransmitted part of a message has its own
row, which ends with the message; here its span follows the first transmission, so that both
together fill the time in which the message's bits flowed.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.results.analysis.log.frames import (
    BITS,
    SERVER,
    check_columns,
    clients_in,
    numbers_of,
    total_bits,
)
from fedsim.results.analysis.log.runs import by_run

STATES: Mapping[str, tuple[str, str]] = {
    "empty": ("charged", "power"),
    "offline": ("online", "presence"),
    "compute": ("compute", "processor"),
    "upload": ("send", "up"),
    "retransmit": ("retransmit", "up"),
    "download": ("receive", "down"),
    "promotion": ("promotion", "radio"),
    "tail": ("tail", "radio"),
}
"""The states of a client: the event whose row ends the state, and its lane.

Of several states at once `time_in_states` counts the first of them here. Within a lane nothing
overlaps; but a client may compute, send and receive at once, or compute during a tail.
"""

IDLE = "idle"
"""The state of a client in none of `STATES`."""

Integers = NDArray[np.signedinteger[Any]]

_OF_EVENT = {event: state for state, (event, _) in STATES.items()}
_ENDLESS = {"offline": "online", "depleted": "charged"}  # states that may last until the end
_LANES = list(dict.fromkeys(lane for _, lane in STATES.values()))
_DOWNLOAD = list(STATES).index("download")
_LANE_OF = np.array([_LANES.index(lane) for _, lane in STATES.values()])
_TIMES = ("t", "duration", "event", "node", "peer", "round", "detail")


def spans(events: pd.DataFrame) -> pd.DataFrame:
    """Return the states of clients, one row per span, in the order of the log.

    A client that was offline or empty when its run ended has a span until then. A download that was
    not delivered has a span without bits. Spans of zero length are included.

    Args:
        events: the log of one or several runs; see `Result.events`.

    Returns:
        The columns variant and seed, if the log has them; node, state (of `STATES`), lane, begin
        and end (s), round, message, bits, joules and detail.

    Raises:
        DataError: the log lacks a column.
    """
    check_columns(events, "events", (*_TIMES, "message", "joules", *BITS))
    return by_run(events, _spans)


def time_in_states(events: pd.DataFrame) -> pd.DataFrame:
    """Return the time of each client in each state, s; a row adds up to the run's length.

    Of simultaneous states the first of `STATES` counts: a tail while the client computes is time of
    computing here. The client table has the full time of each state.

    Args:
        events: as for `spans`.

    Returns:
        One row per client that the log mentions: variant and seed, where the log has them, node, a
        column for each of `STATES`, and `IDLE`.

    Raises:
        DataError: the log lacks a column.
    """
    check_columns(events, "events", _TIMES)
    return by_run(events, _time_in_states)


def shares_of_time(events: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the run that each client was in each state; see `time_in_states`.

    Args:
        events: as for `time_in_states`.

    Returns:
        As `time_in_states`, but client for node, and shares from 0 to 1 for seconds; NaN of a run
        without length.

    Raises:
        DataError: the log lacks a column.
    """
    seconds = time_in_states(events).rename(columns={"node": "client"})
    states = [*STATES, IDLE]
    length = seconds[states].sum(axis=1)
    seconds[states] = seconds[states].div(length.where(length > 0), axis=0)
    return seconds


def repeats(events: pd.DataFrame) -> Array:
    """Return the time of retransmitted packets of each message, s, shape (rows,).

    It is 0 where no such row follows, and in the rows of other events than `send`.
    """
    # Such a row directly follows that of its message.
    again = np.where(events["event"] == "retransmit", events["duration"], 0.0)
    return np.append(again[1:], 0.0)[: len(events)]


def _spans(events: pd.DataFrame) -> pd.DataFrame:
    unsaid, names = _unsaid(events), _names(events)
    nodes = events["node"].astype(names).where(~unsaid, events["peer"].astype(names))
    state = np.where(unsaid, _DOWNLOAD, _codes(events["event"]))
    included = (state >= 0) & (nodes != SERVER).to_numpy()
    rows, state = events[included], state[included]
    ends = rows["t"] - repeats(events)[included]
    frame = pd.DataFrame(
        {
            "node": nodes[included],
            "state": pd.Categorical.from_codes(state, pd.Index([*STATES])),
            "lane": pd.Categorical.from_codes(_LANE_OF[state], pd.Index(_LANES)),
            "begin": np.maximum(ends - rows["duration"], 0.0),
            "end": ends,
            "round": rows["round"],
            "message": rows["message"],
            "bits": np.where(unsaid[included], 0, total_bits(rows)),
            "joules": rows["joules"],
            "detail": rows["detail"],
        }
    )
    last = _endless(events).astype(frame.dtypes[["node", "state", "lane"]].to_dict())
    return (
        pd.concat([frame, last], ignore_index=True) if len(last) else frame.reset_index(drop=True)
    )


def _codes(event: pd.Series) -> NDArray[np.intp]:
    """Return the number of the state that each row's event ends; -1 for none."""
    kinds = event.astype("category").cat
    numbers = [_OF_EVENT.get(str(name)) for name in kinds.categories]
    places = [-1 if name is None else list(STATES).index(name) for name in numbers]
    return np.array([*places, -1], dtype=np.intp)[kinds.codes]


def _unsaid(events: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which rows are downloads without a row of their receiver, shape (rows,).

    These were not delivered and cost their receiver nothing: the log has the sender's row, and
    perhaps a row of its retransmission.
    """
    kind, fates = events["event"], events["detail"].notna() & events["peer"].notna()
    lost = ((kind == "send") & (events["node"] == SERVER) & fates).to_numpy()
    nothing = [False, False]  # what follows the last rows
    received = np.append((kind == "receive").to_numpy(), nothing)
    again = np.append((kind == "retransmit").to_numpy(), nothing)
    # The receiver's row follows that of the sender, or that of the repeated packets between them.
    reported = received[1:-1] | (again[1:-1] & received[2:])
    return np.asarray(lost & ~reported, dtype=np.bool_)


def _names(events: pd.DataFrame) -> pd.CategoricalDtype:
    """Return the type of a column of nodes."""
    nodes, peers = (events[name].astype("category").cat.categories for name in ("node", "peer"))
    return pd.CategoricalDtype(nodes.union(peers, sort=False))


def _endless(events: pd.DataFrame) -> pd.DataFrame:
    """Return the spans of clients that were still away when the run ended."""
    away = []
    for begins, ends in _ENDLESS.items():
        last = events[events["event"].isin([begins, ends])].drop_duplicates("node", keep="last")
        last = last[last["event"] == begins]
        state = _OF_EVENT[ends]
        facts = {"state": state, "lane": STATES[state][1]}
        away.append(last[["node", "t", "round"]].rename(columns={"t": "begin"}).assign(**facts))
    end = events["t"].max()
    return pd.concat(away).assign(end=end, bits=0, joules=0.0)


class ClientSpans(NamedTuple):
    """The spans of the clients of one run: arrays of shape (spans,).

    Integers have the smallest type that holds them, for logs of many millions of rows.
    """

    node: Integers
    """The index of the client among the clients of the log."""
    state: Integers
    """The index of the state in `STATES`."""
    begins: Array
    """s."""
    ends: Array
    """s."""
    row: Integers
    """The row of the log that ends the span; the number of rows where the run ends it."""

    def where(self, mask: NDArray[np.bool_]) -> "ClientSpans":
        """Return the selected spans."""
        node, state, begins, ends, row = self
        return ClientSpans(node[mask], state[mask], begins[mask], ends[mask], row[mask])

    def and_those(self, others: "ClientSpans") -> "ClientSpans":
        """Return these spans followed by others of the same clients."""
        return ClientSpans(
            np.concatenate([self.node, others.node]),
            np.concatenate([self.state, others.state]),
            np.concatenate([self.begins, others.begins]),
            np.concatenate([self.ends, others.ends]),
            np.concatenate([self.row, others.row]),
        )


def client_spans(
    events: pd.DataFrame, clients: Sequence[str], states: Sequence[str] = tuple(STATES)
) -> ClientSpans:
    """Return the spans of the clients of one run; like `spans`, in less memory.

    Args:
        events: the log of one run, its rows numbered from 0.
        clients: the clients in the log.
        states: the states to include.
    """
    unsaid, state = _unsaid(events), _codes(events["event"])
    node, peer = (numbers_of(events[name], clients) for name in ("node", "peer"))
    state[unsaid] = _DOWNLOAD
    node[unsaid] = peer[unsaid]
    included = np.array([*(name in states for name in STATES), False])  # the last is that of -1
    row = np.flatnonzero(included[state] & (node >= 0)).astype(np.int32)
    ends = (events["t"].to_numpy(np.float64) - repeats(events))[row]
    # A span from the start may begin below 0 by rounding.
    begins = np.maximum(ends - events["duration"].to_numpy(np.float64)[row], 0.0)
    last = _endless(events)
    last = last[last["state"].isin(states)]
    places = np.array([list(STATES).index(name) for name in last["state"]], dtype=np.int8)
    all_spans = ClientSpans(
        node[row].astype(np.int32), state[row].astype(np.int8), begins, ends, row
    )
    until_the_end = ClientSpans(
        numbers_of(last["node"], clients).astype(np.int32),
        places,
        last["begin"].to_numpy(np.float64),
        last["end"].to_numpy(np.float64),
        np.full(len(last), len(events), np.int32),
    )
    return all_spans.and_those(until_the_end)


def _time_in_states(events: pd.DataFrame) -> pd.DataFrame:
    clients = clients_in(events)
    length = float(events["t"].max()) if len(events) else 0.0
    seconds = seconds_in_first(client_spans(events, clients), len(clients), len(STATES), length)
    table = pd.DataFrame(seconds, columns=[*STATES, IDLE])
    table.insert(0, "node", clients)
    return table


def seconds_in_first(found: ClientSpans, clients: int, states: int, length: float) -> Array:
    """Return the seconds of each client in each state and in none, shape (clients, states + 1).

    Of several states at once the one of the lowest number counts.

    Args:
        found: the spans; none is longer than the run.
        clients: the number of clients.
        states: the number of states.
        length: the length of the run, s.
    """
    node, state, begins, ends, _ = found.where(found.ends > found.begins)
    # Each client has borders at both ends of the run, so that its time in no state is counted.
    every_client = np.arange(clients, dtype=np.int32)
    times = np.concatenate([begins, ends, np.zeros(clients), np.full(clients, length)])
    owners = np.concatenate([node, node, every_client, every_client], dtype=np.int32)
    steps = np.zeros(len(times), dtype=np.int8)
    steps[: len(node)], steps[len(node) : 2 * len(node)] = 1, -1
    order = np.lexsort((times, owners))
    times, owners, steps = times[order], owners[order], steps[order]
    none = np.full(2 * clients, states, np.int8)
    which = np.concatenate([state, state, none], dtype=np.int8)[order]
    # Between each two borders, the first state with a span counts: states are handled in reverse,
    # and lower numbers overwrite higher ones. They are handled one at a time, since a table of all
    # states would be several times as large as the log.
    first = np.full(len(times), states, dtype=np.int8)
    for number in reversed(range(states)):
        first[np.where(which == number, steps, 0).cumsum(dtype=np.int32) > 0] = number
    last = np.append(owners[1:] != owners[:-1], True)
    lasting = np.where(last, 0.0, np.append(times[1:], 0.0) - times)
    cells = np.bincount(
        owners.astype(np.intp) * (states + 1) + first, lasting, clients * (states + 1)
    )
    return np.asarray(cells.reshape(clients, states + 1), dtype=np.float64)


# Loads: bits per second through the server, from the event log.

BROKEN_OFF = ["aborted", "in flight"]
"""The details of messages of which only some bits flowed."""


def link_load(events: pd.DataFrame) -> pd.DataFrame:
    """Return the bit rates to and from the server over time.

    Every message counts with its mean rate, from the start of its bits until they arrived or were
    lost, retransmissions included. So the load is piecewise constant, and its integral is the
    number of bits. A broadcast counts once in every cell. Aborted messages are left out, since
    the log lacks the number of bits that had flowed; so are messages that took no time.

    Args:
        events: the log of one run.

    Returns:
        The columns t (s, rising), up and down (bit/s, from t until the next row's).
    """
    again = repeats(events)
    seconds = events["duration"].to_numpy() + again
    bits = total_bits(events).astype(np.float64)
    bits += np.where(again > 0, np.append(bits[1:], 0.0)[: len(bits)], 0.0)
    flowed = (events["event"] == "send") & ~events["detail"].isin(BROKEN_OFF) & (seconds > 0)
    rates = bits[flowed] / seconds[flowed]
    ends = events["t"].to_numpy()[flowed]
    begins = np.maximum(ends - seconds[flowed], 0.0)
    down = (events["node"] == SERVER).to_numpy()[flowed]
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    times = times[order]
    columns = {"t": times}
    for name, direction in (("up", ~down), ("down", down)):
        steps = np.concatenate([np.where(direction, rates, 0.0), -np.where(direction, rates, 0.0)])
        counts = np.concatenate([direction, -1 * direction])
        columns[name] = _sums(steps[order], counts[order].cumsum())
    # All changes of one instant are one step.
    return pd.DataFrame(columns).drop_duplicates("t", keep="last", ignore_index=True)


def _sums(steps: Array, flowing: Array) -> Array:
    """Return cumulative sums, reset to 0 wherever nothing flows: rounding errors do not grow."""
    sums = steps.cumsum()
    places = np.arange(len(sums))
    resting = np.maximum.accumulate(np.where(flowing == 0, places, -1))
    return np.asarray(sums - np.where(resting < 0, 0.0, sums[resting]))
