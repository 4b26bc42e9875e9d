"""Names of clients in figures and traces: from the data if it has names, else numbers.

The log and all tables name nodes by number, such as client-3; the client table also has their names
in the data. Figures show the latter.
"""

from collections.abc import Iterable

import pandas as pd

_LONGEST = 24
"""Largest length of a name in a figure; a longer name is cut, and preceded by the number."""


def client_names(clients: pd.DataFrame) -> dict[str, str]:
    """Return the names of clients that have a name in the data, by node.

    A client keeps its number if its name differs between runs, for example if each seed has
    another split.

    Args:
        clients: client tables of one or several runs.

    Example:
        >>> table = pd.DataFrame({"client": ["client-0", "client-1"], "name": ["St Mary", None]})
        >>> client_names(table)
        {'client-0': 'St Mary'}
    """
    if "name" not in clients:
        return {}
    known = clients[["client", "name"]].dropna().astype(str).drop_duplicates()
    known = known[~known["client"].duplicated(keep=False)]
    names = {node: _short(node, name) for node, name in known.itertuples(index=False, name=None)}
    twice = pd.Series(names, dtype=object).duplicated(keep=False)
    return {node: name for node, name in names.items() if not twice[node]}


def display_names(nodes: Iterable[object], clients: pd.DataFrame) -> list[str]:
    """Return the names of these nodes in figures: from the data, or such as client-3."""
    names = client_names(clients)
    return [names.get(str(node), str(node)) for node in nodes]


def has_groups(clients: pd.DataFrame) -> bool:
    """Return whether a client table has clients of several groups of the fleet."""
    return "group" in clients and len(set(clients["group"])) > 1


def names_with_groups(nodes: Iterable[object], clients: pd.DataFrame) -> list[str]:
    """Return the names of these nodes, with the group of each if the fleet has several.

    >>> table = pd.DataFrame({"client": ["client-0", "client-1"], "group": [0, 1]})
    >>> names_with_groups(["client-1", "client-0"], table)
    ['client-1 (group 1)', 'client-0 (group 0)']
    """
    nodes = list(map(str, nodes))
    names = display_names(nodes, clients)
    if not has_groups(clients):
        return names
    groups = dict(zip(clients["client"].astype(str), clients["group"], strict=True))
    return [
        f"{name} (group {groups[node]})" if node in groups else name
        for node, name in zip(nodes, names, strict=True)
    ]


def kinds_of(clients: pd.DataFrame) -> list[str]:
    """Return what people call the group of each row of a client table: its device and radio.

    >>> table = pd.DataFrame({"client": ["client-0"], "group": 2, "device": "pi-4", "radio": "lte"})
    >>> kinds_of(table)
    ['2: pi-4, lte']
    """
    facts = (clients[name] for name in ("client", "group", "device", "radio"))
    return [
        f"{group}: {'gateway, ' * str(node).startswith('gateway-')}{device}, {radio}"
        for node, group, device, radio in zip(*facts, strict=True)
    ]


def _short(node: str, name: str) -> str:
    """Return a name; a long one is replaced by its number and its beginning."""
    if len(name) <= _LONGEST:
        return name
    number = node.rpartition("-")[2]
    return f"{number}: {name[: _LONGEST - len(number) - 5].rstrip()}..."
