"""The recorder of a run: log, round table, models and ledger, opened, closed and audited together.

A world writes to the recorder and, when it has ended, passes in its meters' readings:

    with Book(folder, clients) as book:
        world = World(setup, book)
        world.close(world.run())

Leaving the block then joins and audits the tables. A run that is interrupted leaves the readable
parts written so far.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType

import pandas as pd

from fedsim.core.memory import trim
from fedsim.core.ports import Array
from fedsim.results.record.client_table import Facts, client_blocks, client_table
from fedsim.results.record.ledger import Ledger, Meters
from fedsim.results.record.log import EventLog
from fedsim.results.record.models import CheckpointWriter, Figure
from fedsim.results.record.parts import PartWriter
from fedsim.results.record.rounds import RoundTable
from fedsim.results.record.schema import RowColumns


class NullCheckpointWriter:
    """A `CheckpointWriter` that keeps no models."""

    nodes: None = None

    def see(self, number: int, model: Array, figure: Figure) -> None:
        """Ignore the model."""

    def close(self) -> None:
        """Write no table."""

    def abandon(self) -> None:
        """Leave no files."""


def _unseen(rows: RowColumns) -> None:
    """Ignore a chunk of the log."""


class RunRecorder:
    """The recorder of one run; a context manager, which closes and audits it.

    Args:
        folder: the run's.
        clients: how many there are.
        variant, seed: of the run.
        models: the writer of the run's models; none are kept if None.
        look: called with every chunk of the log, after the ledger.

    Attributes:
        log, rounds, models: the tables of the run.
        ledger: the sums of the log's written rows.
        meters: the world's meter readings at its end; None before.
    """

    def __init__(
        self,
        folder: Path,
        clients: int,
        variant: str = "base",
        seed: int = 1,
        models: CheckpointWriter | None = None,
        look: Callable[[RowColumns], None] = _unseen,
    ) -> None:
        self._look = look
        self.ledger = Ledger(clients)
        self.log = EventLog(folder, clients, self._absorb)
        self.rounds = RoundTable(PartWriter(folder, "rounds"), variant, seed)
        self.models: CheckpointWriter = NullCheckpointWriter() if models is None else models
        self.meters: Meters | None = None

    def _absorb(self, rows: RowColumns) -> None:
        self.ledger.absorb(rows)
        self._look(rows)

    def __enter__(self) -> "RunRecorder":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close and audit the tables, or abandon them if the world has not ended.

        Raises:
            AuditError: log and meters do not agree; the tables are whole.
            OutputError: something cannot be written.
        """
        if kind is not None or self.meters is None:
            self._abandon()
            return
        try:
            for table in (self.log, self.rounds, self.models):
                table.close()
        except BaseException:
            self._abandon()
            raise
        self.ledger.audit(self.meters, self.log.emissions)

    def _abandon(self) -> None:
        """Keep the readable parts of a run that an interrupt or an error has ended."""
        for table in (self.log, self.rounds, self.models):
            table.abandon()

    def end(self, meters: Meters) -> None:
        """Register the meter readings of a world that has written its last row."""
        self.meters = meters

    def clients(self, facts: Mapping[str, Facts], meters: Meters) -> pd.DataFrame:
        """Return the client table of the log so far.

        Args:
            facts: leading columns with the clients' attributes.
            meters: the world's current meter readings.
        """
        self.log.flush()
        return client_table(self.ledger, facts, meters, self.log.emissions, self.log.name)

    def client_blocks(self, facts: Mapping[str, Facts], meters: Meters) -> Iterator[pd.DataFrame]:
        """Return the same in blocks of clients, one after the other."""
        self.log.flush()
        trim()
        return client_blocks(self.ledger, facts, meters, self.log.emissions, self.log.name)
