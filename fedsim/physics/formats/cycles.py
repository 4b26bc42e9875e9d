"""Who is there when, again and again: the pattern of a user whose trace starts again at its end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar, TypeVar

import numpy as np

from fedsim.physics.signals import Steps

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cycle:
    """There from begins[i] to ends[i] of every cycle.

    Attributes:
        begins, ends: rising within 0 and the period, s; none overlaps another.
        period: of a cycle, s.
        offset: where in the cycle the run begins, s.

    Raises:
        ValueError: intervals are reversed, overlap, or reach beyond the cycle.
    """

    begins: tuple[float, ...]
    ends: tuple[float, ...]
    period: float
    offset: float = 0.0
    always: ClassVar[bool] = False
    chance: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        edges = [edge for pair in zip(self.begins, self.ends, strict=True) for edge in pair]
        if not all(begin < end for begin, end in zip(self.begins, self.ends, strict=True)):
            raise ValueError("every interval ends after it begins")
        if edges != sorted(edges):
            raise ValueError("intervals follow each other without an overlap")
        if not (0 < self.period < inf and all(0 <= edge <= self.period for edge in edges)):
            raise ValueError("intervals are within a cycle of more than 0 s, and finite")

    @property
    def share(self) -> float:
        """The share of time in which it is there."""
        return (sum(self.ends) - sum(self.begins)) / self.period

    def _edges(self) -> list[float]:
        """Return where it toggles within a cycle, rising, below the period."""
        toggles: set[float] = set()
        for edge in (*self.begins, *self.ends):  # what toggles twice does not toggle
            toggles ^= {0.0 if edge == self.period else edge}
        return sorted(toggles)

    def _there(self, place: float) -> bool:
        pairs = zip(self.begins, self.ends, strict=True)
        return any(begin <= place < end for begin, end in pairs)

    def timeline(self, rng: np.random.Generator) -> tuple[bool, Iterator[float]]:  # noqa: ARG002
        """Return whether it is there at time 0, and the times at which that toggles."""
        offset = self.offset % self.period
        return self._there(offset), self._toggles(self._edges(), offset)

    def _toggles(self, edges: Sequence[float], offset: float) -> Iterator[float]:
        cycle = 0
        while edges:
            for edge in edges:
                time = cycle * self.period + (edge - offset)
                if time > 0:
                    yield time
            cycle += 1

    def signal(self, value: float) -> Steps:
        """Return what is so much while it is there, and nothing else."""
        times = sorted({0.0, *self._edges()})
        values = [value if self._there(time) else 0.0 for time in times]
        return Steps(times, values, self.period).shifted(self.offset)


class Users(Mapping[int, T]):
    """What each client follows: the users of a file in their order, and again from the first.

    Args:
        users: at least one.
    """

    def __init__(self, users: Sequence[T]) -> None:
        self.users = tuple(users)

    def __getitem__(self, client: int) -> T:
        return self.users[client % len(self.users)]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.users)))

    def __len__(self) -> int:
        return len(self.users)
