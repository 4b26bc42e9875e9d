"""A recorder that replays a run from its start and skips rows already written.

A run is a function of its scenario. So a run that is repeated by another execution path begins with
the existing rows, and appends the others.
"""

from collections.abc import Callable
from typing import Any

from fedsim.core.ports import Array
from fedsim.results.record.emissions import Emissions
from fedsim.results.record.ledger import Meters
from fedsim.results.record.log import EventLog, Rows
from fedsim.results.record.models import CheckpointWriter, Figure
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import RoundTable


class _ResumedEmissions(Emissions):
    """Emissions of a log whose first records are written and priced already.

    Args:
        emissions: the emissions of that log, which continue.
        written: returns whether the next record is written already.
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
        self._to_skip = skipped
        self._grams_before = grams
        emissions = log.emissions
        self.emissions = (
            None if emissions is None else _ResumedEmissions(emissions, lambda: self._to_skip > 0)
        )
        self.word = log.word

    def append(self, *values: Any, **named: Any) -> None:
        """Add a row, or skip one that is written."""
        if self._to_skip:
            self._to_skip -= 1
        else:
            self._log.append(*values, **named)

    def append_message(self, *values: Any) -> None:
        """Add a message, or skip one that is written."""
        if self._to_skip:
            self._to_skip -= 1
        else:
            self._log.append_message(*values)

    def extend(self, records: Rows) -> None:
        """Add records, or skip those that are written."""
        new = records[self._to_skip :]
        self._to_skip -= len(records) - len(new)
        self._log.extend(new)

    def total_emissions(self) -> float | None:
        """Return the emissions so far; while records are skipped, those before the replay."""
        return self._grams_before if self._to_skip else self._log.total_emissions()

    def flush(self) -> None:
        """Write the rows in memory."""
        self._log.flush()


class _ResumedRounds(RoundTable):
    """A round table whose first rounds are written already."""

    def __init__(self, rounds: RoundTable) -> None:
        self._rounds, self._written = rounds, rounds.rounds
        self.rounds = 0

    def add(self, number: int, *values: Any, **named: Any) -> None:
        """Add a round, or skip one that is written."""
        # Counted from the start, as the method and stop rules of the replayed run see it.
        self.rounds = number
        if number > self._written:
            self._rounds.add(number, *values, **named)

    def amend(self, **named: Any) -> None:
        """Complete the last round."""
        self._rounds.amend(**named)


class _ResumedModels:
    """A writer of models that has seen the first rounds already."""

    def __init__(self, models: CheckpointWriter, seen: int) -> None:
        self._models, self._seen = models, seen
        self.nodes = models.nodes

    def see(self, number: int, model: Array, figure: Figure) -> None:
        """Pass on the model of a round, unless it was seen already."""
        if number > self._seen:
            self._models.see(number, model, figure)

    def close(self) -> None:
        """Do nothing: the original recorder closes its writer."""

    def abandon(self) -> None:
        """Do nothing, for the same reason."""


class ResumedRecorder(RunRecorder):
    """Skips what a recorder has written already, and then writes to it.

    Args:
        book: the recorder.
        opening: the number of records in its log before the world began.
        grams: the emissions at the last written round; None if they are not tracked.
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
