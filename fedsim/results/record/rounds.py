"""The round table: the start model, and then one row per round with its cost and its results."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from types import MappingProxyType

import pyarrow as pa

from fedsim.core import table_columns as columns
from fedsim.core.errors import OutputError
from fedsim.results.record.parts import PartWriter

_FIRST_CHUNK, _LARGEST_CHUNK, _GROWTH = 64, 4096, 4

_COUNTS, _FIGURES = (columns.of_kind(kind, "rounds") for kind in ("count", "number"))
COLUMNS = frozenset(columns.names("rounds"))
"""The columns of every round table; measures are further ones."""

OWN = COLUMNS.union(*(columns.names("rounds", only=only) for only in ("carbon", "infrastructure")))
"""The same, with the columns of runs that count emissions, or the energy of server and network."""

NOTHING_AFTER: Mapping[str, float] = MappingProxyType({columns.JOULES_AFTER: 0.0})
"""What a fleet takes after a round if its radios sleep."""

_NO_ROUNDS = pa.table(
    {
        "variant": pa.array([], pa.string()),
        **{name: pa.array([], pa.int64()) for name in _COUNTS},
        **{name: pa.array([], pa.float64()) for name in _FIGURES},
    }
)
"""The table of a run that ended before its first round was committed."""


@dataclass(slots=True)
class Traffic:
    """Running totals of a run's cost, charged when a message is passed to the network.

    Attributes:
        cohort: sampled clients, counted per exchange of the round.
        transmissions: uplink messages that carry something.
        beacons: uplink messages that carry nothing.
        bits_up: uplink bits, payload, header and transport.
        bits_down: downlink bits, one copy per receiver.
        joules: energy of the fleet, idle power included.
        grams: CO2 emitted for it; None if not tracked.
        server_joules, network_joules: energy of server and network; None if not counted.
    """

    cohort: int = 0
    transmissions: int = 0
    beacons: int = 0
    bits_up: int = 0
    bits_down: int = 0
    joules: float = 0.0
    grams: float | None = None
    server_joules: float | None = None
    network_joules: float | None = None

    def charge_up(self, bits: int, messages: int, payload_bits: int) -> None:
        """Charge `count` equal uplink messages of these bits; without payload they are beacons."""
        self.bits_up += bits * messages
        if payload_bits:
            self.transmissions += messages
        else:
            self.beacons += messages

    def as_dict(self) -> dict[str, float]:
        """Return the totals by name."""
        totals = {name: getattr(self, name) for name in _TOTALS}
        return {name: total for name, total in totals.items() if total is not None}


_TOTALS = tuple(field.name for field in fields(Traffic))
"""The names of the totals, in the order of the table."""


class RoundTable:
    """The writer of `rounds.parquet`: it receives round 0, then one row per round, and is closed.

    Attributes:
        rounds: the number of the last round.

    Costs are per round; their cumulative sums are costs so far. The first
    chunks are small so that a slow run shows early, as in the event log.
    """

    def __init__(self, parts: PartWriter, variant: str, seed: int) -> None:
        self.rounds = 0
        self._parts = parts
        self._head: dict[str, float | int | str | None] = {"variant": variant, "seed": seed}
        self._rows: list[dict[str, float | int | str | None]] = []
        self._before = Traffic().as_dict()
        self._limit = _FIRST_CHUNK
        self._complete = self._begun = False

    def add(
        self,
        number: int,
        t: float,
        traffic: Traffic,
        after: Mapping[str, float] = NOTHING_AFTER,
        *,
        objective: float,
        gap: float,
        measures: Mapping[str, float | None],
        complete: bool = True,
    ) -> None:
        """Add the round that ends at the time `t` with these running totals; 0 is the start.

        `after` has what the fleet would take after it, by column, if the run ended with it.
        Rounds before the first complete one may lack columns: measures that nothing has evaluated
        yet, and figures of the method. They are early rows of the table.
        """
        if len(self._rows) >= self._limit:
            self.flush()  # before the row is added: `amend` may still change the last one
        self._complete = self._complete or complete
        self.rounds = number
        results = {"objective": objective, "gap": gap, **measures}
        totals, before = traffic.as_dict(), self._before
        cost = {name: total - before.get(name, 0) for name, total in totals.items()}
        self._before = totals
        self._begun = True
        row: dict[str, float | int | str | None] = {
            **self._head,
            "round": self.rounds,
            "t": t,
            **results,
            **cost,
            **after,
        }
        for column in columns.ROUNDS:
            if column.of is not None:
                row[column.name] = column.of(row)
        self._rows.append(row)

    def amend(self, *, objective: float, gap: float, measures: Mapping[str, float]) -> None:
        """Add the results of the last round, which were not evaluated when it was added."""
        self._rows[-1] |= {"objective": objective, "gap": gap, **measures}
        self._complete = True

    def flush(self) -> None:
        """Write the rows in memory as a part."""
        if self._rows:
            fullest = sorted(
                self._rows, key=len, reverse=True
            )  # the longest row has all columns in order
            names = dict.fromkeys(name for row in fullest for name in row)
            rows = [{name: row.get(name) for name in names} for row in self._rows]
            self._rows.clear()  # first: an interrupted part is not written twice
            self._parts.write(pa.Table.from_pylist(rows), early=not self._complete)
            self._limit = min(_GROWTH * self._limit, _LARGEST_CHUNK)

    def close(self) -> None:
        """Write the rest and join the parts into `rounds.parquet`, which may have no rows."""
        self._complete = True  # no row that follows has further columns
        self.flush()
        if not self._begun:
            self._parts.write(_NO_ROUNDS)
        self._parts.close()

    def abandon(self) -> None:
        """Write the remaining rows of a run that ends early, if possible; see `PartWriter`."""
        with suppress(OutputError):  # the reason of the run's end is reported already
            self.flush()
        self._parts.abandon()
