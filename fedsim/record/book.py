"""The book of a run: its log, round table, models and ledger, opened, closed and audited together.

A world writes into the book and, when it has ended, hands over what its meters show:

    with Book(folder, clients) as book:
        world = World(setup, book)
        world.close(world.run())

Leaving the block then makes the tables whole and audits them. A run that does not come to its
end leaves what it has written, in parts that can be read.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import pandas as pd

from fedsim.ports import Array
from fedsim.record.clients import client_table
from fedsim.record.ledger import Ledger, Meters
from fedsim.record.log import EventLog, Rows
from fedsim.record.models import Keeper
from fedsim.record.parts import Parts
from fedsim.record.rounds import RoundTable


class Forgetful:
    """Implements `Keeper`: keeps no models."""

    def see(self, number: int, model: Array) -> None:
        """Take no note."""

    def close(self) -> None:
        """Make no table."""

    def abandon(self) -> None:
        """Leave nothing."""


def _unseen(rows: Rows) -> None:
    """Nobody looks."""


class Book:
    """The book of one run; a context manager, which closes and audits it.

    Args:
        folder: the run's.
        clients: how many there are.
        variant, seed: of the run.
        models: what keeps its models; none are kept if None.
        look: shown every chunk of the log, once the ledger has it.

    Attributes:
        log, rounds, models: what the run is written into.
        ledger: the sums of the log, as far as it is on disk.
        meters: what the world showed when it ended; None before.
    """

    def __init__(
        self,
        folder: Path,
        clients: int,
        variant: str = "base",
        seed: int = 1,
        models: Keeper | None = None,
        look: Callable[[Rows], None] = _unseen,
    ) -> None:
        self._look = look
        self.ledger = Ledger(clients)
        self.log = EventLog(folder, clients, self._absorb)
        self.rounds = RoundTable(Parts(folder, "rounds"), variant, seed)
        self.models: Keeper = Forgetful() if models is None else models
        self.meters: Meters | None = None

    def _absorb(self, rows: Rows) -> None:
        self.ledger.absorb(rows)
        self._look(rows)

    def __enter__(self) -> "Book":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        """Close the book and audit it, or abandon it where the world has not ended.

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
        """Keep what can be read of a run that an interrupt or an error has ended."""
        for table in (self.log, self.rounds, self.models):
            table.abandon()

    def end(self, meters: Meters) -> None:
        """Take what the meters of a world show that has written its last row."""
        self.meters = meters

    def clients(self, facts: Mapping[str, Sequence[object]], meters: Meters) -> pd.DataFrame:
        """Return the client table of what is in the log so far.

        Args:
            facts: further columns of what each client is, in front.
            meters: what the world shows now.
        """
        self.log.flush()
        return client_table(self.ledger, facts, meters, self.log.emissions)
