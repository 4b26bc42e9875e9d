"""What a rule of aggregation had to do beside combining vectors: counts by round, and notes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from fedsim.core.ports import Array
from fedsim.protocol.clip_counts import ClipCounts

COUNTS = ("replaced", "dropped", "unreadable")
"""The counts that the round table may have: vectors for which the median of all was taken, as there
were too few for the rule; vectors that were not finite; and replies that could not be read."""


class Tally:
    """Counts of vectors that were left out or replaced, in the open round and in closed ones.

    Args:
        columns: the counts that the round table has, by name.

    Attributes:
        totals: how often each has happened.
        rounds: the number of rounds in which each has happened.
        closed: the number of closed rounds.
        short: which rule had too few vectors, and how many it needs.
        clipped: the vectors that the rule has clipped; None if it clips none.
    """

    def __init__(self, columns: Iterable[str] = ()) -> None:
        self._open: dict[str, float] = dict.fromkeys(columns, 0)
        self.totals, self.rounds = Counter[str](), Counter[str]()
        self.closed = 0
        self.short = ""
        self.clipped: ClipCounts | None = None

    def clip(self, largest: float, lengths: Array) -> None:
        """Count the vectors that the rule clips to `largest`; `lengths` are those before."""
        if self.clipped is None:
            self.clipped = ClipCounts(largest)
        self.clipped.add(lengths)

    def add_columns(self, *names: str) -> None:
        """Add counts that the round table has from now on."""
        self._open |= dict.fromkeys(names, 0)

    def count(self, name: str, number: float = 1) -> None:
        """Count something that has happened in the open round."""
        self.totals[name] += number  # type: ignore[assignment]  # operations are not whole numbers
        if name in self._open:
            self._open[name] += number

    def close(self) -> dict[str, float]:
        """Close the round; return its counts by column."""
        closed = {name: float(number) for name, number in self._open.items()}
        self.rounds.update(name for name, number in self._open.items() if number)
        self._open = dict.fromkeys(self._open, 0)
        self.closed += 1
        return closed

    def add(self, other: "Tally") -> None:
        """Add the closed rounds of another tally."""
        self.totals += other.totals
        self.rounds += other.rounds
        self.closed += other.closed
        self.short = self.short or other.short

    def notes(
        self, unit: str = "rounds", skipped: str = "were abandoned"
    ) -> Iterator[tuple[str, str]]:
        """Yield notes of the run, each with the key that it concerns.

        Args:
            unit: what was closed, in the plural.
            skipped: what became of those with too few vectors, under the policy `skip`.
        """

        def often(name: str) -> str:
            return f"in {self.rounds[name]} of {self.closed} {unit}"

        if self.rounds["replaced"]:
            text = f"{often('replaced')} {self.short}, and the median was taken instead"
            yield "aggregation.otherwise", text
        if number := self.totals["skipped"]:
            yield "aggregation.otherwise", f"{number} {unit} {skipped}: {self.short}"
        if self.clipped is not None and self.clipped.shortened:
            text = f"{self.clipped}, as differences to the last result"
            enough = (
                f"a radius of {self.clipped.sufficient:g} keeps all as they are, false ones too"
            )
            yield "aggregation.radius", f"{text}; {enough}"
        if self.rounds["dropped"]:
            text = f"{often('dropped')} vectors that are not finite were left out"
            yield "aggregation.kind", f"{text}, {self.totals['dropped']} in all"
        if self.rounds["unreadable"]:
            text = f"{often('unreadable')} replies could not be read, and were left out"
            yield "fleet.attack", f"{text}, {self.totals['unreadable']} in all"
