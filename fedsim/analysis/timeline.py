"""The timeline: what every client was doing, and when, from the event log.

A row of the log stands at the end of its span. What was sent again of a message stands in a
row of its own, which ends when the message's does; here it follows the first transmission, so
that both together fill the time in which the message's bits flowed.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.analysis.log.runs import by_run
from fedsim.ports import Array

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
"""What a client can be doing: the event whose row ends it, and the lane that it occupies.

Of several states at once `time_in_states` counts the first of them here. Within a lane nothing
overlaps; but a client may compute, send and receive at once, or compute during a tail.
"""

IDLE = "idle"
"""What a client does that does none of these."""

SERVER = "server"

_OF_EVENT = {event: state for state, (event, _) in STATES.items()}
_ENDLESS = {"offline": "online", "depleted": "charged"}  # what may last until the run ends
_LANES = list(dict.fromkeys(lane for _, lane in STATES.values()))
_LANE_OF = np.array([_LANES.index(lane) for _, lane in STATES.values()])
_BITS = ["payload_bits", "header_bits", "transport_bits"]


def spans(events: pd.DataFrame) -> pd.DataFrame:
    """Return what the clients were doing, a row a span, in the order of the log.

    A client that was offline or empty when its run ended has a span until then. A download that was
    not delivered has a span without bits. What takes no time is here as well.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        The columns variant and seed, where the log has them; node, state (of `STATES`), lane,
        begin and end (s), round, message, bits, joules and detail.
    """
    return by_run(events, _spans)


def time_in_states(events: pd.DataFrame) -> pd.DataFrame:
    """Return how long each client was in each state, s; a row adds up to the run's length.

    Of what a client does at once the first of `STATES` counts: a tail that goes on while the
    client computes is time of computing here. The client table has the seconds of each alone.

    Args:
        events: as for `spans`.

    Returns:
        A row a client that the log mentions: variant and seed, where the log has them, node,
        a column for each of `STATES`, and `IDLE`.
    """
    return by_run(events, _time_in_states)


def repeats(events: pd.DataFrame) -> Array:
    """Return how long the packets of each message took that were sent again, s, shape (rows,).

    It is 0 where no such row follows, and in the rows of other events than `send`.
    """
    again = np.where(events["event"] == "retransmit", events["duration"], 0.0)
    return np.append(again[1:], 0.0)[: len(events)]


def _spans(events: pd.DataFrame) -> pd.DataFrame:
    unsaid, names = _unsaid(events), _names(events)
    nodes = events["node"].astype(names).where(~unsaid, events["peer"].astype(names))
    state = np.where(unsaid, list(STATES).index("download"), _codes(events["event"]))
    kept = (state >= 0) & (nodes != SERVER).to_numpy()
    rows, state = events[kept], state[kept]
    ends = rows["t"] - repeats(events)[kept]
    frame = pd.DataFrame(
        {
            "node": nodes[kept],
            "state": pd.Categorical.from_codes(state, pd.Index([*STATES])),
            "lane": pd.Categorical.from_codes(_LANE_OF[state], pd.Index(_LANES)),
            "begin": np.maximum(ends - rows["duration"], 0.0),
            "end": ends,
            "round": rows["round"],
            "message": rows["message"],
            "bits": rows[_BITS].sum(axis=1).mask(unsaid[kept], 0),
            "joules": rows["joules"],
            "detail": rows["detail"],
        }
    )
    last = _endless(events).astype(frame.dtypes[["node", "state", "lane"]].to_dict())
    return (
        pd.concat([frame, last], ignore_index=True) if len(last) else frame.reset_index(drop=True)
    )


def _codes(event: pd.Series) -> NDArray[np.intp]:
    """Return which of `STATES` each row's event ends, by number; -1 for none."""
    kinds = event.astype("category").cat
    numbers = [_OF_EVENT.get(str(name)) for name in kinds.categories]
    places = [-1 if name is None else list(STATES).index(name) for name in numbers]
    return np.array([*places, -1], dtype=np.intp)[kinds.codes]


def _unsaid(events: pd.DataFrame) -> NDArray[np.bool_]:
    """Say which rows are of downloads that are in no row of their receivers.

    Those that were not delivered and cost nothing: the sender's row and, perhaps, that of what
    was sent again is all there is of them.
    """
    kind, fates = events["event"], events["detail"].notna() & events["peer"].notna()
    lost = ((kind == "send") & (events["node"] == SERVER) & fates).to_numpy()
    nothing = [False, False]  # what follows the last rows
    received = np.append((kind == "receive").to_numpy(), nothing)
    again = np.append((kind == "retransmit").to_numpy(), nothing)
    said = received[1:-1] | (again[1:-1] & received[2:])
    return np.asarray(lost & ~said, dtype=np.bool_)


def _names(events: pd.DataFrame) -> pd.CategoricalDtype:
    """Return the type of a column of nodes."""
    nodes, peers = (events[name].astype("category").cat.categories for name in ("node", "peer"))
    return pd.CategoricalDtype(nodes.union(peers, sort=False))


def _endless(events: pd.DataFrame) -> pd.DataFrame:
    """Return the spans of clients that were still away when the run ended."""
    away = []
    for begins, ends in _ENDLESS.items():
        own = events[events["event"].isin([begins, ends])].drop_duplicates("node", keep="last")
        own = own[own["event"] == begins]
        state = _OF_EVENT[ends]
        facts = {"state": state, "lane": STATES[state][1]}
        away.append(own[["node", "t", "round"]].rename(columns={"t": "begin"}).assign(**facts))
    end = events["t"].max()
    return pd.concat(away).assign(end=end, bits=0, joules=0.0)


def _time_in_states(events: pd.DataFrame) -> pd.DataFrame:
    names = pd.concat([events["node"].astype(object), events["peer"].astype(object)]).unique()
    clients = sorted(
        (name for name in names if isinstance(name, str) and name != SERVER),
        key=lambda name: int(name.rpartition("-")[2]),
    )
    busy = _spans(events)
    clients_of = pd.Index(clients).get_indexer(pd.Index(busy["node"].astype(object)))
    which = np.asarray(busy["state"].cat.codes, dtype=np.intp)
    borders = busy["begin"].to_numpy(), busy["end"].to_numpy()
    seconds = _seconds(clients_of, which, borders, len(clients), float(events["t"].max()))
    table = pd.DataFrame(seconds, columns=[*STATES, IDLE])
    table.insert(0, "node", clients)
    return table


def _seconds(
    clients_of: NDArray[np.intp],
    which: NDArray[np.intp],
    borders: tuple[Array, Array],
    clients: int,
    length: float,
) -> Array:
    """Return the seconds of each client in each state and in none, shape (clients, states + 1).

    Args:
        clients_of: the client of each span, shape (spans,).
        which: its state.
        borders: when it begins and ends, s.
        clients: how many there are.
        length: of the run, s.
    """
    states, every_client = len(STATES), np.arange(clients)
    times = np.concatenate([*borders, np.zeros(clients), np.full(clients, length)])
    owners = np.concatenate([clients_of, clients_of, every_client, every_client])
    steps = np.zeros((len(times), states), dtype=np.int32)
    places = np.arange(len(clients_of))
    steps[places, which] = 1
    steps[places + len(clients_of), which] = -1
    order = np.lexsort((times, owners))
    busy = steps[order].cumsum(axis=0) > 0  # from each border to the next one
    first = np.where(busy.any(axis=1), busy.argmax(axis=1), states)
    owners, times = owners[order], times[order]
    last = np.append(owners[1:] != owners[:-1], True)
    lasting = np.where(last, 0.0, np.append(times[1:], 0.0) - times)
    cells = np.bincount(owners * (states + 1) + first, lasting, clients * (states + 1))
    return np.asarray(cells.reshape(clients, states + 1), dtype=np.float64)


# Loads: how many bits a second go through the server, from the event log.

_BROKEN_OFF = ["aborted", "in flight"]


def link_load(events: pd.DataFrame) -> pd.DataFrame:
    """Return the bits a second that flow to the server and from it.

    Every message counts with its mean rate, from when its bits began to flow until they had
    arrived or were lost, with what was sent again; so the load is piecewise constant, and its
    integral is the bits. A broadcast counts once in every cell. Left out are messages that
    were broken off, for the log does not say how much of them had flowed, and those that took
    no time.

    Args:
        events: the log of one run.

    Returns:
        The columns t (s, rising), up and down (bit/s, from t until the next row's).
    """
    again = repeats(events)
    seconds = events["duration"].to_numpy() + again
    bits = events[_BITS].sum(axis=1).to_numpy(np.float64)
    bits += np.where(again > 0, np.append(bits[1:], 0.0)[: len(bits)], 0.0)
    flowed = (events["event"] == "send") & ~events["detail"].isin(_BROKEN_OFF) & (seconds > 0)
    rates = bits[flowed] / seconds[flowed]
    ends = events["t"].to_numpy()[flowed]
    begins = np.maximum(ends - seconds[flowed], 0.0)
    down = (events["node"] == SERVER).to_numpy()[flowed]
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    times = times[order]
    columns = {"t": times}
    for name, own in (("up", ~down), ("down", down)):
        steps = np.concatenate([np.where(own, rates, 0.0), -np.where(own, rates, 0.0)])
        counts = np.concatenate([own, -1 * own])
        columns[name] = _sums(steps[order], counts[order].cumsum())
    return pd.DataFrame(columns).drop_duplicates("t", keep="last", ignore_index=True)


def _sums(steps: Array, flowing: Array) -> Array:
    """Return the sums so far, and 0 wherever nothing flows: rounding does not gather."""
    sums = steps.cumsum()
    places = np.arange(len(sums))
    resting = np.maximum.accumulate(np.where(flowing == 0, places, -1))
    return np.asarray(sums - np.where(resting < 0, 0.0, sums[resting]))
