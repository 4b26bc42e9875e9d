"""Edges: what went over each pair of sender and receiver, and what it cost both."""

import networkx as nx
import numpy as np
import pandas as pd

from fedsim.core.ports import Array
from fedsim.results.analysis.log.frames import SERVER, check_columns, total_bits
from fedsim.results.analysis.log.runs import RUN

_COLUMNS = ("event", "node", "peer", "duration", "joules", "detail")

_SENT = ("send", "retransmit")

_TRIED = ("collision", "missed")
"""Details of a reception that has failed, and is tried again."""


def edges(events: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each pair of a sender and a receiver, and each run.

    Tails and promotions of radios, which no message alone causes, are on no edge. A message that
    several receive at once counts as one to each of them; what it costs its sender is on no edge.

    Args:
        events: the log of one run, or of several as `Result.events` gives them.

    Returns:
        Columns variant and seed if the log has them, source, target (names of nodes), messages
        (sent, lost ones included), lost, silent (rounds without a message on purpose), bits (of all
        layers, repeated packets included), busy (time on the air at the sender, s), joules_sent and
        joules_received (at the two ends).

    Raises:
        DataError: the log lacks a column.

    Example:
        >>> answer = edges(log.events)
        >>> answer.columns[-8:].tolist()
        ['target', 'messages', 'lost', 'silent', 'bits', 'busy', 'joules_sent', 'joules_received']
    """
    check_columns(events, "events", _COLUMNS)
    broadcast = _is_broadcast(events)
    kept = events["event"].isin([*_SENT, "receive", "lost", "silent"]) & events["peer"].notna()
    rows = events[kept]
    kind, sent = rows["event"], rows["event"].isin(_SENT)
    came, broadcast = kind == "receive", broadcast[kept]
    nodes, peers = rows["node"].astype(str), rows["peer"].astype(str)
    keys = [name for name in RUN if name in rows]
    table = rows[keys].astype({name: str for name in keys if name == "variant"})
    table = table.assign(
        source=nodes.where(~came, peers),
        target=peers.where(~came, nodes),
        messages=((kind == "send") | (broadcast & ~rows["detail"].isin(_TRIED))).astype(int),
        lost=(kind == "lost").astype(int),
        silent=(kind == "silent").astype(int),
        bits=total_bits(rows) * (sent | broadcast).to_numpy(),
        busy=rows["duration"].where(sent | broadcast, 0.0),
        joules_sent=rows["joules"].where(sent, 0.0),
        joules_received=rows["joules"].where(came, 0.0),
    )
    sums = table.groupby([*keys, "source", "target"], sort=False, observed=True).sum()
    return sums.reset_index()


def _is_broadcast(events: pd.DataFrame) -> pd.Series:
    """Return whether a row is the reception of a message that has been sent to several at once."""
    sent = (events["event"] == "send") & events["peer"].isna()
    came = events["event"] == "receive"
    if not sent.any():
        return sent
    # The row of a broadcast names no receiver, so that its receptions are found by round, kind and
    # sender.
    keys = [name for name in (*RUN, "round", "message") if name in events]
    sending = pd.MultiIndex.from_frame(events.loc[sent, [*keys, "node"]])
    receiving = pd.MultiIndex.from_frame(events.loc[came, [*keys, "peer"]])
    several = pd.Series(receiving.isin(sending), events.index[came])
    return several.reindex(events.index, fill_value=False)


def node_number(node: str) -> int:
    """Return the number of a client or a gateway; -1 for the server.

    >>> node_number("client-3"), node_number("gateway-12"), node_number("server")
    (3, 12, -1)
    """
    return -1 if node == SERVER else int(node.rpartition("-")[2])


def set_disagreement(graph: "nx.Graph[str]", models: Array) -> "nx.Graph[str]":
    """Set the `value` of edges and nodes to how far the nodes' models are apart.

    Of an edge it is the Euclidean norm of the difference of its ends' models, of a node that of its
    own to the mean of all. Nodes that have left have no models: 0.

    Args:
        graph: whose nodes are clients.
        models: of all clients, shape (M, ...); NaN of those that have left.

    >>> graph = nx.Graph([("client-0", "client-1")])
    >>> set_disagreement(graph, np.array([[0.0, 0.0], [3.0, 4.0]])).edges(data="value")
    EdgeDataView([('client-0', 'client-1', 5.0)])
    """
    rows = models.reshape(len(models), -1)
    left = np.isnan(rows).all(axis=1)
    mean = rows[~left].mean(axis=0)

    def norm(difference: Array) -> float:
        return float(np.nan_to_num(np.linalg.norm(difference), nan=0.0))

    for node, own in graph.nodes(data=True):
        own["value"] = norm(rows[node_number(node)] - mean)
    for one, other, own in graph.edges(data=True):
        own["value"] = norm(rows[node_number(one)] - rows[node_number(other)])
    return graph
