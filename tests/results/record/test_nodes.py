"""Nodes of chunks of the log: which there are, and their names."""

from math import inf

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import node_name
from fedsim.results.record.nodes import NodeNames, number_nodes
from fedsim.results.record.schema import NO_PEER, ROW_DTYPE, RowColumns
from tests.tiers import every, examples

CLIENTS = 10**6


def of_nodes(nodes: list[int], peers: list[int]) -> RowColumns:
    """Return rows of those nodes."""
    rows = np.zeros(len(nodes), ROW_DTYPE)
    rows["node"], rows["peer"] = nodes, peers
    return RowColumns(rows)


near = st.integers(500_000, 500_040)
anywhere = st.integers(0, CLIENTS - 1)


@examples(60)
@given(st.sampled_from([3, 200, CLIENTS]), st.sampled_from([near, anywhere]), st.data())
def test_nodes_are_numbered_in_order_near_each_other_or_far_apart(
    clients: int, among: st.SearchStrategy[int], data: st.DataObject
) -> None:
    some = st.one_of(st.sampled_from([NO_PEER, -1]), among.map(lambda node: node % clients))
    column = data.draw(st.lists(some, min_size=1, max_size=40))
    rows = of_nodes([0] * len(column), column)
    nodes, numbers = number_nodes(rows, "peer", clients)
    assert nodes.tolist() == sorted(set(column))
    assert nodes[numbers].tolist() == column
    assert number_nodes(rows, "peer", clients)[0] is nodes  # they are looked for once
    packed = number_nodes(rows.pack(), "peer", clients)
    assert [each.tolist() for each in packed] == [nodes.tolist(), numbers.tolist()]


@every("gateways", [inf, 2500, 1500])
@every("count", [3000, 10])
def test_names_of_many_are_those_of_each(gateways: float, count: int) -> None:
    nodes = [-1, *range(count)]
    rows = of_nodes(nodes, [NO_PEER, *nodes[:-1]])
    node, peer = NodeNames(CLIENTS).columns(rows, gateways)
    assert node.to_pylist() == [node_name(each, gateways) for each in nodes]
    assert peer.to_pylist() == [None, *node.to_pylist()[:-1]]
    kept = NodeNames(count).columns(rows, gateways)  # of all that there are
    assert [each.to_pylist() for each in kept] == [node.to_pylist(), peer.to_pylist()]
    assert pa.types.is_string(node.type.value_type)
