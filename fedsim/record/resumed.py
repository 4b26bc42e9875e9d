"""A book that is kept once more from the beginning: what stands in it already is not written twice.

A run is a function of its scenario. So where it has to be made again in another way, its first
rows are those that are there, and the rest follows them.
"""

from collections.abc import Callable
from typing import Any

from fedsim.ports import Array
from fedsim.record.emissions import Emissions
from fedsim.record.ledger import Meters
from fedsim.record.log import EventLog, Rows
from fedsim.record.models import CheckpointWriter, Figure
from fedsim.record.recorder import RunRecorder
from fedsim.record.rounds import RoundTable


class _ResumedEmissions(Emissions):
    """Prices of a log whose first records are written, and priced, already.

    Args:
        emissions: of that log, which go on.
        written: returns whether the next record is one of those.
    """

    def __init__(self, emissions: Emissions, written: Callable[[], bool]) -> None:
        vars(self).update(vars(emissions))
        self._written = written

    def rest(self, grams: float) -> None:
        """Add idle emissions, unless the row that reports them is written."""
        if not self._written():
            super().rest(grams)


class _ResumedLog(EventLog):
    """A log whose first records are written already."""

    def __init__(self, log: EventLog, skipped: int, grams: float | None) -> None:
        self._log = log
        self._left = skipped
        self._grams_then = grams
        own = log.emissions
        self.emissions = None if own is None else _ResumedEmissions(own, lambda: self._left > 0)
        self.word = log.word

    def append(self, *values: Any, **named: Any) -> None:
        """Add a row, or pass over one that is there."""
        if self._left:
            self._left -= 1
        else:
            self._log.append(*values, **named)

    def append_message(self, *values: Any) -> None:
        """Add a message, or pass over one that is there."""
        if self._left:
            self._left -= 1
        else:
            self._log.append_message(*values)

    def extend(self, records: Rows) -> None:
        """Add records, or pass over those that are there."""
        new = records[self._left :]
        self._left -= len(records) - len(new)
        self._log.extend(new)

    def total_emissions(self) -> float | None:
        """Return the emissions of what is written; while records are passed over, those then."""
        return self._grams_then if self._left else self._log.total_emissions()

    def flush(self) -> None:
        """Write the rows in memory."""
        self._log.flush()


class _ResumedRounds(RoundTable):
    """A table whose first rounds are written already."""

    def __init__(self, rounds: RoundTable) -> None:
        self._all, self._written = rounds, rounds.rounds
        self.rounds = 0

    def add(self, number: int, *values: Any, **named: Any) -> None:
        """Add a round, or pass over one that is there."""
        self.rounds = number
        if number > self._written:
            self._all.add(number, *values, **named)

    def amend(self, **named: Any) -> None:
        """Complete the last round."""
        self._all.amend(**named)


class _ResumedModels:
    """A writer whose first models are written already."""

    def __init__(self, models: CheckpointWriter, seen: int) -> None:
        self._models, self._seen = models, seen
        self.nodes = models.nodes

    def see(self, number: int, model: Array, figure: Figure) -> None:
        """See the model of a round, unless it was seen already."""
        if number > self._seen:
            self._models.see(number, model, figure)

    def close(self) -> None:
        """Do nothing: the book itself is closed."""

    def abandon(self) -> None:
        """Do nothing, alike."""


class ResumedRecorder(RunRecorder):
    """Passes over what a recorder has written already, and then writes to that.

    Args:
        book: the recorder.
        opening: how many records its log had before the world began.
        grams: the emissions as of the last round that is written; None if not tracked.
    """

    def __init__(self, book: RunRecorder, opening: int, grams: float | None = None) -> None:
        self._book = book
        self.log = _ResumedLog(book.log, book.log.records - opening, grams)
        self.rounds = _ResumedRounds(book.rounds)
        self.models = _ResumedModels(book.models, book.rounds.rounds)
        self.ledger = book.ledger

    def end(self, meters: Meters) -> None:
        """Register the meter readings of the world at its end."""
        self._book.end(meters)
