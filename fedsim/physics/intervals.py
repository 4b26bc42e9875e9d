"""When clients are there, from a file: columns client, start, end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedsim.physics.traces import read_table


@dataclass(frozen=True, slots=True)
class Intervals:
    """Online from begins[i] to ends[i], offline between and after.

    Attributes:
        begins, ends: rising, s; the last end may be infinite.

    Raises:
        ValueError: intervals are reversed, overlap, or begin before 0.
    """

    begins: tuple[float, ...]
    ends: tuple[float, ...]
    always: ClassVar[bool] = False
    chance: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        edges = [edge for pair in zip(self.begins, self.ends, strict=True) for edge in pair]
        if not all(begin < end for begin, end in zip(self.begins, self.ends, strict=True)):
            raise ValueError("every interval ends after it begins")
        if edges != sorted(edges) or (edges and edges[0] < 0):
            raise ValueError("intervals follow each other from 0 on, without an overlap")

    def timeline(self, rng: np.random.Generator) -> tuple[bool, Iterator[float]]:  # noqa: ARG002 - nothing is drawn
        """Return the edges; where one interval ends as the next begins, nothing happens."""
        edges = set(self.begins) ^ set(self.ends)
        online = 0.0 in self.begins
        return online, iter(sorted(edges - {0.0, inf}))


NEVER = Intervals((), ())


def read_intervals(path: Path) -> Mapping[int, Intervals]:
    """Read when clients are online: CSV with columns client, start, end, in seconds.

    Rows come in any order; clients without one are never online. A start or an end counts
    from the beginning of the run; an end of "inf" is never.

    Returns:
        The intervals of each client that has some, by client number.

    Raises:
        DataError: the file cannot be read, a line is malformed, or intervals of one client
            overlap; the text names the lines.
    """
    table = read_table(path, ("client", "start", "end"), "intervals")
    client, start, end = table.columns
    numbered = (client >= 0) & (client < 2**53) & (client == np.floor(client))
    table.refuse(~numbered, "a client is a whole number of at least 0")
    table.refuse(~((start >= 0) & (start < inf)), "a start is a number of seconds of at least 0")
    table.refuse(~(end > start), "an interval ends after it starts")
    order = np.lexsort((start, client))
    same = client[order[1:]] == client[order[:-1]]
    overlaps = same & (start[order[1:]] < end[order[:-1]])
    if overlaps.any():
        at = int(np.argmax(overlaps))
        before, after = order[at : at + 2]
        table.fail(after, f"it begins before the interval of line {table.numbers[before]} ends")
    first = np.flatnonzero(np.diff(client[order], prepend=-1.0))
    return {
        int(client[rows[0]]): Intervals(tuple(start[rows].tolist()), tuple(end[rows].tolist()))
        for rows in np.split(order, first[1:])
    }
