"""Attributes of each client for the client table: group, device, radio, samples and place."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import node_name
from fedsim.physics.hierarchy import Hierarchy
from fedsim.physics.run_length import RunLengthSequence
from fedsim.results.record.client_table import Facts
from fedsim.scenario import Group


def facts_of(
    groups: Sequence[Group],
    members: RunLengthSequence[int],
    samples: NDArray[np.int64],
    names: Sequence[str] = (),
    tree: Hierarchy | None = None,
) -> dict[str, Facts]:
    """Return the attributes of each client, and then of each gateway, for the client table.

    Args:
        groups: the groups of the fleet, then the tiers.
        members: the number of the group of each client and gateway.
        samples: the number of samples of each client, shape (M,).
        names: the names of the clients in the data; empty if there are none.
        tree: the server of each node; None if all have one server.
    """
    places: dict[str, Facts] = {}
    if tree is not None:
        nodes, clients = range(len(tree.above)), tree.clients
        samples = np.concatenate([samples, np.zeros(len(nodes[clients:]), np.int64)])
        names = names and [*names, *(node_name(node, clients) for node in nodes[clients:])]
        places["tier"] = [tree.level(node) for node in nodes]
        places["server"] = [node_name(server, clients) for server in tree.above]
    named: dict[str, Facts] = {"name": names} if names else {}
    return {
        **named,
        "group": members,
        "device": members.map(lambda number: groups[number].device.kind),
        "radio": members.map(lambda number: groups[number].radio.kind),
        "samples": samples,
        **places,
    }
