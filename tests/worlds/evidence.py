"""What a run has left, as its files say it: all that an auditor looks at."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fedsim.scenario import Group, Scenario

Row = dict[str, Any]
_BITS = ("payload_bits", "header_bits", "transport_bits")


def bits(row: Row) -> int:
    """Return all bits of a row of the log."""
    return sum(int(row[column]) for column in _BITS)


@dataclass
class Evidence:
    """The tables of one run, and the scenario that it was made from.

    Attributes:
        events, rounds, clients: a mapping a row.
        summary: what `summary.json` says.
    """

    scenario: Scenario
    events: list[Row]
    rounds: list[Row]
    clients: list[Row]
    summary: Row
    _by: dict[str, list[Row]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, scenario: Scenario) -> "Evidence":
        """Read the folder of a run."""
        tables = {
            name: pq.read_table(folder / f"{name}.parquet", partitioning=None).to_pylist()
            for name in ("events", "rounds", "clients")
        }
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        return cls(scenario, **tables, summary=summary)

    def of_kind(self, event: str) -> list[Row]:
        """Return the log's rows of one event, in order."""
        if not self._by:
            for row in self.events:
                self._by.setdefault(row["event"], []).append(row)
        return self._by.get(event, [])

    @property
    def end(self) -> float:
        """The time of the log's last row, s."""
        return float(self.events[-1]["t"]) if self.events else 0.0

    @property
    def reason(self) -> str:
        """Why the run ended."""
        return str(self.summary["reason"])

    @property
    def peers(self) -> bool:
        """Whether there is no server: a message has two legs then, and comes later than it went."""
        return self.scenario.network.peers is not None

    @property
    def groups(self) -> list[Group]:
        """The group of every client."""
        groups = self.scenario.fleet or (Group(count=len(self.clients)),)
        return [group for group in groups for _ in range(group.count)]

    def resting_power(self, group: Group) -> float:
        """Return the idle power of a client, W; a radio that shares a medium never rests."""
        first = group.radio.states.stages[0].power if group.radio.states.stateful else 0.0
        awake = 0.0 if self.scenario.network.medium is None else first
        return group.device.idle + group.radio.resting + awake

    @property
    def names(self) -> list[str]:
        """What the log calls the clients."""
        return [f"client-{number}" for number in range(len(self.clients))]


def close(one: float, other: float, scale: float = 0.0, share: float = 1e-9) -> bool:
    """Say whether two numbers agree but for what rounding does to sums of this scale."""
    return abs(one - other) <= share * max(abs(one), abs(other), abs(scale))
