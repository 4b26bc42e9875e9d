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

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.ports import Array, node_name
from fedsim.record.emissions import Emissions
from fedsim.record.ledger import Ledger, Meters, Stores
from fedsim.record.log import EventLog, Rows
from fedsim.record.models import Keeper
from fedsim.record.parts import Parts
from fedsim.record.rounds import RoundTable
from fedsim.record.schema import GRAMS, Event

# The client table: what each client is, did and spent over a whole run.


def client_table(
    ledger: Ledger,
    facts: Mapping[str, Sequence[object]],
    meters: Meters,
    emissions: Emissions | None = None,
) -> pd.DataFrame:
    """Return one row a client.

    Args:
        ledger: the sums of the run's log.
        facts: further columns of what each client is, in front.
        meters: what the physical world showed at its end.
        emissions: what the log has been priced with, if anything.
    """
    of, number = ledger.of, ledger.of_number
    idle = meters.idle_joules
    transmissions = number("payload_count", Event.SEND)
    return pd.DataFrame(
        {
            "client": [node_name(client) for client in range(ledger.clients)],
            **facts,
            "transmissions": transmissions,
            "beacons": number("count", Event.SEND) - transmissions,
            "silent": number("count", Event.SILENT),
            "late": number("count", Event.LATE),
            "lost": number("count", Event.LOST),
            "skipped": number("count", Event.SKIPPED),
            "bits_up": number("bits", Event.SEND),
            "bits_down": number("bits", Event.RECEIVE),
            "bits_again": number("bits", Event.RETRANSMIT),
            "compute_s": of("seconds", Event.COMPUTE),
            "send_s": of("seconds", Event.SEND),
            "receive_s": of("seconds", Event.RECEIVE),
            "tail_s": of("seconds", Event.TAIL),
            "offline_s": of("seconds", Event.ONLINE),
            "off_s": of("seconds", Event.CHARGED),
            "compute_joules": of("joules", Event.COMPUTE),
            "send_joules": of("joules", Event.SEND),
            "receive_joules": of("joules", Event.RECEIVE),
            "retransmit_joules": of("joules", Event.RETRANSMIT),
            "promotion_joules": of("joules", Event.PROMOTION),
            "tail_joules": of("joules", Event.TAIL),
            "idle_joules": idle,
            **_forwarded(ledger),
            "joules": ledger.spent()[1:] + idle,
            **_carbon(meters, emissions),
            **_batteries(ledger.clients, meters.stores),
        }
    )


def _forwarded(ledger: Ledger) -> dict[str, Array | NDArray[np.int64]]:
    """Return the columns of relays, if a client has forwarded anything."""
    if not ledger.of("count", Event.FORWARD).any():
        return {}
    return {
        "bits_forwarded": ledger.of_number("bits", Event.FORWARD),
        "forward_joules": ledger.of("joules", Event.FORWARD),
    }


def _carbon(meters: Meters, emissions: Emissions | None) -> dict[str, Array]:
    """Return the columns of carbon, if any; whose electricity is unknown has NaN there."""
    if emissions is None or meters.idle_grams is None:
        return {}
    idle = np.where(emissions.known, meters.idle_grams, np.nan)
    return {"idle_grams": idle, GRAMS: emissions.grams[1:] + idle}


def _batteries(clients: int, stores: Stores) -> dict[str, Array]:
    """Return the columns of the batteries; who has none has NaN there."""
    columns = {
        "initial_joules": stores.initial,
        "charged_joules": stores.charged,
        "drained_joules": stores.drained,
        "final_joules": stores.final,
        "depletions": stores.depletions.astype(np.float64),
    }
    return {name: _spread(clients, stores.clients, held) for name, held in columns.items()}


def _spread(clients: int, whose: NDArray[np.intp], held: Array) -> Array:
    column = np.full(clients, np.nan)
    column[whose] = held
    return column


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
