"""Usage: how much of the time clients and links were busy."""

import numpy as np
import pandas as pd

from fedsim.results.analysis.log.frames import (
    BITS,
    SERVER,
    check_columns,
    clients_in,
    covered,
    is_event,
    numbers_of,
    sums,
    total_bits,
)
from fedsim.results.analysis.log.messages import flows
from fedsim.results.analysis.log.runs import RUN, by_run
from fedsim.results.analysis.timeline import shares_of_time

_BUSY = {
    "computing": ["compute"],
    "sending": ["upload", "retransmit"],
    "receiving": ["download"],
}


def client_utilisation(events: pd.DataFrame) -> pd.DataFrame:
    """Return which share of the run each client computed, sent and received.

    Of what a client does at once the first of `STATES` counts, as in `time_in_states`, so that
    the shares add up.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per client that the log mentions: variant and seed, where the log has them; client,
        computing, sending, receiving, and busy, their sum: shares of the run's length, from 0 to 1;
        NaN of a run without length.

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = client_utilisation(log.events)
        >>> print(answer.head(4).round(4).to_string(index=False))
        variant  seed   client  computing  sending  receiving   busy
             gd     1 client-0     0.0000   0.0006     0.0004 0.0010
             gd     1 client-1     0.0000   0.0008     0.0003 0.0011
             gd     1 client-2     0.0000   0.0000     0.0000 0.0001
             gd     1 client-3     0.2435   0.0002     0.0001 0.2438
    """
    shares = shares_of_time(events)
    keys = [name for name in (*RUN, "client") if name in shares]
    table = shares[keys].assign(
        **{name: shares[states].sum(axis=1, skipna=False) for name, states in _BUSY.items()}
    )
    return table.assign(busy=table[list(_BUSY)].sum(axis=1, skipna=False).clip(upper=1.0))


def link_utilisation(events: pd.DataFrame) -> pd.DataFrame:
    """Return how busy the links of clients and of the server were, in each direction.

    A link is busy while the bits of at least one message flow over it, with packets that are sent
    again. Messages that were broken off are busy time whose bits the log has in full.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        One row per node and direction with a message: variant and seed, where the log has them;
        node, direction ("out" of the node or "in"), busy (share of the run, from 0 to 1; NaN of a
        run without length), bits, and rate (bits over the busy time, bit/s; NaN without any). A
        broadcast is in no row of its receivers.

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = link_utilisation(log.events)
        >>> print(answer.head(4).round(5).to_string(index=False))
        variant  seed     node direction    busy  bits         rate
             gd     1 client-0       out 0.00061 10560 6.000000e+06
             gd     1 client-1       out 0.00084 14520 6.000000e+06
             gd     1 client-2       out 0.00005  2736 2.000000e+07
             gd     1 client-3       out 0.00019 10944 2.000000e+07
    """
    check_columns(events, "events", ("t", "duration", "event", "node", "peer", *BITS))
    return by_run(events, _link_utilisation)


def _link_utilisation(events: pd.DataFrame) -> pd.DataFrame:
    nodes = [*clients_in(events), SERVER]
    length = float(events["t"].max()) if len(events) else 0.0
    sent, lasting = flows(events)
    # Rows of repeated packets add bits but no time, which `flows` has added to their message.
    there = sent | is_event(events, "retransmit")
    ends, bits = events["t"].to_numpy(np.float64), total_bits(events)
    begins = np.maximum(ends - lasting, 0.0)
    tables = []
    for direction, column in (("out", "node"), ("in", "peer")):
        owner = numbers_of(events[column], nodes)
        own = sent & (owner >= 0)
        busy = covered(owner[own], begins[own], ends[own], len(nodes))
        carried = sums(owner[there], len(nodes), bits[there])
        share = np.minimum(busy / length, 1.0) if length else np.full(len(nodes), np.nan)
        rate = np.divide(carried, busy, out=np.full(len(nodes), np.nan), where=busy > 0)
        columns = {"node": nodes, "direction": direction, "busy": share}
        table = pd.DataFrame({**columns, "bits": carried.astype(np.int64), "rate": rate})
        tables.append(table[sums(owner[own], len(nodes)) > 0])
    return pd.concat(tables, ignore_index=True)
