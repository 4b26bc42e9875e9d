"""The recorder of a run: log, round table, models and ledger, opened, closed and audited together.

A world writes to the recorder and, when it has ended, passes in its meters' readings:

    with Book(folder, clients) as book:
        world = World(setup, book)
        world.close(world.run())

Leaving the block then joins and audits the tables. A run that is interrupted leaves the readable
parts written so far.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.memory import trim
from fedsim.ports import Array, node_name
from fedsim.record.emissions import Emissions
from fedsim.record.ledger import Ledger, Meters, Stores
from fedsim.record.log import EventLog
from fedsim.record.models import CheckpointWriter, Figure
from fedsim.record.parts import PartWriter
from fedsim.record.rounds import RoundTable
from fedsim.record.schema import GRAMS, Event, RowColumns

# The client table: attributes, activity and cost of each client over a whole run.


def client_table(
    ledger: Ledger,
    facts: Mapping[str, Sequence[object]],
    meters: Meters,
    emissions: Emissions | None = None,
    name: Callable[[int], str] = node_name,
) -> pd.DataFrame:
    """Return one row per client, and per gateway.

    Args:
        ledger: the sums of the run's log.
        facts: leading columns with the clients' attributes.
        meters: the world's meter readings at its end.
        emissions: the pricing of the log, if any.
        name: returns the name of a node.
    """
    of, number = ledger.of, ledger.of_number
    idle = meters.idle_joules
    transmissions = number("payload_count", Event.SEND)
    table = pd.DataFrame(
        {
            "client": pd.Series([name(client) for client in range(ledger.clients)]),
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
            **_relay_columns(ledger),
            "joules": ledger.joules_by_node()[1:] + idle,
            **_carbon(meters, emissions),
            **_batteries(ledger.clients, meters.stores),
        },
        copy=not meters.metered,  # some thirty columns of ten million clients
    )
    if not meters.metered:
        table.loc[:, table.columns.str.endswith("joules")] = np.nan
    return table


def _relay_columns(ledger: Ledger) -> dict[str, Array | NDArray[np.int64]]:
    """Return the columns of relays, if any client has forwarded a message."""
    if not ledger.of("count", Event.FORWARD).any():
        return {}
    return {
        "bits_forwarded": ledger.of_number("bits", Event.FORWARD),
        "forward_joules": ledger.of("joules", Event.FORWARD),
    }


def _carbon(meters: Meters, emissions: Emissions | None) -> dict[str, Array]:
    """Return the columns of carbon, if any; clients on unknown electricity have NaN."""
    if emissions is None or meters.idle_grams is None:
        return {}
    idle = np.where(emissions.known, meters.idle_grams, np.nan)
    return {"idle_grams": idle, GRAMS: emissions.grams[1:] + idle}


def _batteries(clients: int, stores: Stores) -> dict[str, Array]:
    """Return the columns of the batteries; clients without one have NaN."""
    columns = {
        "initial_joules": stores.initial,
        "charged_joules": stores.charged,
        "drained_joules": stores.drained,
        "final_joules": stores.final,
        "depletions": stores.depletions.astype(np.float64),
    }
    if not len(stores.clients):
        return dict.fromkeys(columns, np.full(clients, np.nan))  # one array for all of them
    return {name: _spread(clients, stores.clients, held) for name, held in columns.items()}


def _spread(clients: int, whose: NDArray[np.intp], held: Array) -> Array:
    column = np.full(clients, np.nan)
    column[whose] = held
    return column


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

    def clients(self, facts: Mapping[str, Sequence[object]], meters: Meters) -> pd.DataFrame:
        """Return the client table of the log so far.

        Args:
            facts: leading columns with the clients' attributes.
            meters: the world's current meter readings.
        """
        self.log.flush()
        trim()
        return client_table(self.ledger, facts, meters, self.log.emissions, self.log.name)
