"""What a run has left, as its files say it: all that an auditor looks at."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from fedsim.protocol.participation import Participation
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

    def at_top(self, event: str) -> list[Row]:
        """Return the rows of one event of the server: a gateway's rounds are none of the run's."""
        return [row for row in self.of_kind(event) if row["node"] == "server"]

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
        """The group of every client, then the tier of every gateway."""
        groups = self.scenario.fleet or (Group(count=self.below),)
        return [each for each in (*groups, *self.scenario.tiers) for _ in range(each.count)]

    @property
    def below(self) -> int:
        """The number of clients, without gateways."""
        return int(self.summary["clients"])

    @property
    def servers(self) -> Iterator[tuple[str, Participation, int]]:
        """Yield every server: its name, whom it asks, and how many there are below it."""
        above = (tier.participation for tier in self.scenario.tiers)
        policies = [self.scenario.participation, *above]
        levels = [self.below, *(tier.count for tier in self.scenario.tiers)]
        below, first = Counter(self.above.values()), 0
        for policy, count in zip(policies, levels, strict=True):
            for name in dict.fromkeys(
                self.above[node] for node in self.names[first : first + count]
            ):
                yield name, policy, below[name]
            first += count

    @property
    def policy(self) -> Participation:
        """Whom the server at the top asks."""
        *_, (_, policy, _) = self.servers
        return policy

    @cached_property
    def above(self) -> dict[str, str]:
        """Return the server of each client and gateway, by name; blocks differ by one at most."""
        found: dict[str, str] = {}
        names, lower = self.names, self.names[: self.below]
        first = len(lower)
        for tier in self.scenario.tiers:
            for place, node in enumerate(lower):
                # Gateway k has the nodes from floor(k n/g) on, up to those of the next one.
                k = max(k for k in range(tier.count) if k * len(lower) // tier.count <= place)
                found[node] = names[first + k]
            lower, first = names[first : first + tier.count], first + tier.count
        return found | dict.fromkeys(lower, "server")

    def goes_down(self, row: Row) -> bool:
        """Say whether the row of a message is one of the server's, or of a gateway's as one."""
        node: str = row["node"]
        return node == "server" or self.above.get(row["peer"]) == node

    def resting_power(self, group: Group) -> float:
        """Return the idle power of a client, W; a radio that shares a medium never rests."""
        first = group.radio.states.stages[0].power if group.radio.states.stateful else 0.0
        awake = 0.0 if self.scenario.network.medium is None else first
        return group.device.idle + group.radio.resting + awake

    @property
    def names(self) -> list[str]:
        """What the log calls the clients, and then the gateways."""
        kinds = (
            "client" if number < self.below else "gateway" for number in range(len(self.clients))
        )
        return [f"{kind}-{number}" for number, kind in enumerate(kinds)]


def close(one: float, other: float, scale: float = 0.0, share: float = 1e-9) -> bool:
    """Say whether two numbers agree but for what rounding does to sums of this scale."""
    return abs(one - other) <= share * max(abs(one), abs(other), abs(scale))
