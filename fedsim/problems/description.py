"""Descriptions of samples: the names of clients, labels and features, if the data has names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Feature(NamedTuple):
    """A column of raw features.

    Attributes:
        name: the name of the column in the data.
        role: number, category or date.
        texts: the texts of a category, in the order of their numbers in the features.
    """

    name: str
    role: str
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """The meaning of the numbers in samples, in the words of the data.

    Attributes:
        clients: the name of each client, by its number.
        labels: the text of each label, by its number.
        target: the name of the column of labels.
        client: the name of the column of clients.
        features: the columns of raw features.
        notes: sentences on what was detected, left out or is doubtful.
        columns: name, type, role, missing cells and reason of every column of the data.
        decimal: the decimal sign of its texts; empty if columns differ.
    """

    clients: tuple[str, ...] = ()
    labels: Mapping[float, str] = field(default_factory=dict)
    target: str = ""
    client: str = ""
    features: tuple[Feature, ...] = ()
    notes: tuple[str, ...] = ()
    columns: tuple[tuple[str, str, str, int, str], ...] = ()
    decimal: str = ""


@dataclass(frozen=True)
class Naming:
    """The names of a problem's clients and labels, and what was missing.

    Attributes:
        clients: the name of each client, in the order of the fleet; empty if they have none.
        labels: the text of each label, by its number.
        missing: the share of missing cells of each client, shape (M,); None if unknown.
        notes: sentences about the data.
        fitted: on which rows preprocessing is fitted; empty if there is nothing to note.
    """

    clients: tuple[str, ...] = ()
    labels: Mapping[float, str] = field(default_factory=dict)
    missing: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()
    fitted: str = ""

    def label(self, value: float) -> str:
        """Return the text of a label in the data, and its number.

        >>> Naming(labels={-1.0: "well", 1.0: "at risk"}).label(1.0), Naming().label(2.0)
        ('at risk -> +1', '2')
        """
        if value not in self.labels:
            return f"{value:g}"
        sign = "+" if value > 0 and -1.0 in self.labels else ""
        return f"{self.labels[value]} -> {sign}{value:g}"


def names_of_clients(
    client: NDArray[np.int64] | None, names: Sequence[str], rows: Sequence[NDArray[np.intp]]
) -> tuple[str, ...]:
    """Return the name of each client of a split.

    The result is empty unless each client has the rows of exactly one client of the data.

    Args:
        client: the client of the data that each row belongs to, shape (n,).
        names: the names of the clients of the data, by number.
        rows: the indices of each client's rows.
    """
    if client is None or not names:
        return ()
    firsts = [int(client[own[0]]) for own in rows]
    # The names apply only if each client of the split is exactly one client of the data.
    whole = all(bool((client[own] == one).all()) for own, one in zip(rows, firsts, strict=True))
    return (
        tuple(names[name] for name in firsts) if whole and len(set(firsts)) == len(firsts) else ()
    )
