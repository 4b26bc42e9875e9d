"""The history: messages and work of a run, in order, without times and costs.

A row of the log belongs to the last exchange that its server has opened before it, since a round
waits for all sampled clients. In an exchange, a client receives a message (its `receive` row),
computes (`compute` rows), and then replies (the server's `receive` row) or stays silent (`silent`).

Rows of different clients are interleaved by time, and time is what may change. So the history sorts
rows by exchange and client, and keeps only the order within a client, which does not depend on
time: one message received, the work in its order, one reply.

Where there are tiers, a gateway is a server and a client: its exchanges are its own, and its task
in an exchange of the server above is a visit, the exchanges between that message and the next one.
Exchanges of several servers are open at once, so they are sorted by server, the top one's first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError
from fedsim.core.ports import SERVER, ClientId
from fedsim.core.text import quantity
from fedsim.physics.hierarchy import Hierarchy, hierarchy
from fedsim.protocol.privacy.wrapper import EPSILON
from fedsim.protocol.secrecy.server import ALONE
from fedsim.results.record.folder import SCENARIO, check_run
from fedsim.results.record.manifest import read_manifest
from fedsim.results.record.parts import read_table
from fedsim.results.record.read import read_run
from fedsim.results.record.rounds import OWN
from fedsim.results.record.schema import NO_PEER
from fedsim.results.record.summary import is_whole
from fedsim.scenario import Plan, Scenario, load
from fedsim.scenario.located import path_of
from fedsim.scenario.tiers import hierarchy_of
from fedsim.sim.worlds.main_task import ENDED

_DECISIONS: Mapping[str, str] = {
    "late": "a reply of {node} came too late",
    "lost": "a message of {node} was lost",
    "skipped": "{node} was left out",
    "offline": "{node} went offline",
    "depleted": "the battery of {node} was empty",
    "abandoned": "a round was abandoned",
}
"""Events after which a run depends on time, with their descriptions for errors."""

Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The exchanges of a run, one entry each: those of the server, then those of each gateway.

    Attributes:
        shared: whether the whole cohort received the same message.
        sampled: whether the policy sampled the cohort.
        first: the number of the first task of each, and at the end that of all tasks.
        replies: the number of clients that replied.
    """

    shared: Sequence[bool]
    sampled: Sequence[bool]
    first: Sequence[int]
    replies: Sequence[int]


@dataclass(frozen=True, slots=True)
class Tasks:
    """The actions of clients: one entry for each client of each exchange, in that order.

    Attributes:
        client: its number; that of a gateway in an exchange of the server above it.
        received: the label of the message that it received.
        received_bits: the payload of that message, bits.
        begin, end: the range of its pieces of work in the next two columns.
        operations, samples: of all pieces of work of the run.
        message: the label of its reply; empty if it stayed silent.
        bits: the payload of the reply, bits.
    """

    client: Sequence[int]
    received: Sequence[str]
    received_bits: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    operations: Sequence[float]
    samples: Sequence[float]
    message: Sequence[str]
    bits: Sequence[int]


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The messages and the work of a run.

    Attributes:
        exchanges, tasks: up to the last committed round, or to the end if the algorithm ended.
        commits: the number of the server's exchanges before each commit.
        objective: of the start and after each round; None if not evaluated.
        measures: further figures of the start and of each round.
        opening: the detail of the log's first row.
        reason: why the run ended.
        visits: the exchanges of each visit of each gateway, by its number.
    """

    exchanges: Exchanges
    tasks: Tasks
    commits: Sequence[int]
    objective: Sequence[float | None]
    measures: Sequence[Mapping[str, Any]]
    opening: str
    reason: str
    visits: Mapping[ClientId, Sequence[range]] = field(default_factory=dict)

    def exchanges_until(self, number: int) -> int:
        """Return the number of the server's exchanges before the end of a round; 0 is the start."""
        return self.commits[number - 1] if number else 0

    @property
    def served(self) -> int:
        """The number of exchanges of the server at the top, which are the first ones."""
        visits = [visit for each in self.visits.values() for visit in each]
        return len(self.exchanges.shared) - sum(map(len, visits))


def read_history(folder: Path, clients: int, tree: Hierarchy | None = None) -> RunHistory:
    """Read the history of a run that has ended from its log.

    Args:
        folder: of the run.
        clients: the number of clients, of which some may have no rows.
        tree: the server of each client and gateway; None if all have the same.

    Raises:
        DataError: some round did not wait for all recipients.
    """
    events = read_run(folder, "events")
    reason = str(events["detail"].iloc[-1])
    ends = np.flatnonzero(events["event"] == "round")
    # Rows after the last commit belong to a round that has not ended, unless the algorithm itself
    # has ended: then they are its last exchanges.
    whole = events if reason == ENDED else events.iloc[: ends[-1] + 1 if len(ends) else 0]
    _check(whole, folder)
    rows = _Rows(whole, hierarchy(clients, ()) if tree is None else tree)
    exchanges, tasks = rows.read()
    figures = read_table(folder, "rounds")
    measures = [name for name in figures.column_names if name not in OWN]
    return RunHistory(
        exchanges,
        tasks,
        # The number of exchanges that were opened before each commit. The server at the top has the
        # first places, so its openings come first.
        np.searchsorted(rows.openings, ends).tolist(),
        [None if isnan(value) else value for value in figures["objective"].to_pylist()],
        figures.select(measures).to_pylist(),
        str(events["detail"].iloc[0]),
        reason,
        rows.visits(),
    )


def _check(events: pd.DataFrame, folder: Path) -> None:
    """Check that no event of the log depends on time.

    Raises:
        DataError: one does.
    """
    # Whether a masked vector is alone in its sum depends on who is silent, and not on time.
    decisions = np.flatnonzero(events["event"].isin(_DECISIONS) & (events["detail"] != ALONE))
    if len(decisions):
        row = events.iloc[decisions[0]]
        happened = _DECISIONS[row["event"]].format(node=row["node"])
        why = f" ({row['detail']})" if isinstance(row["detail"], str) and row["detail"] else ""
        text = f"cannot re-price: {happened} at {quantity(row['t'], 's')}{why}, which may change"
        raise DataError("events", f"{folder}: {text} with the prices; run the scenario again")


class _Rows:
    """The rows of a log, by exchange and client.

    Attributes:
        openings: the place of the row that opens each exchange, by server and time, the top server
            first; places of a server are beyond all rows of the servers before (see `_places`).
    """

    def __init__(self, events: pd.DataFrame, tree: Hierarchy) -> None:
        self._events = events
        self._size = len(events) + 1
        self._tree = tree
        self._nodes = len(tree.above)  # clients and gateways
        self._node, self._peer = _nodes(events["node"]), _nodes(events["peer"])
        self._above = np.array(
            [*tree.above, NO_PEER], np.intp
        )  # the last entry is for number -1, the server
        opened = self._at("exchange")
        self.openings = np.sort(self._places(opened, self._node[opened]))

    def _at(self, event: str) -> Numbers:
        return np.flatnonzero(self._events["event"] == event)

    def _places(self, rows: Numbers, servers: Numbers) -> Numbers:
        """Return places of rows in the log, shifted per server so that servers do not overlap."""
        # Exchanges of several servers overlap in time. Shifted apart by server, one sorted array
        # finds the exchange of any row.
        rank = np.where(servers == SERVER, 0, servers + 1 - self._tree.clients)
        return np.asarray(rank * self._size + rows, dtype=np.intp)

    def _by_key(self, rows: Numbers, clients: Numbers) -> tuple[Numbers, Numbers]:
        """Return rows sorted by exchange and client, and a combined key of both per row.

        Args:
            rows: of the log.
            clients: the client of each row; a gateway counts as a client.
        """
        places = self._places(rows, self._above[clients])
        # The last exchange that this server has opened before the row.
        exchange = np.searchsorted(self.openings, places, side="right") - 1
        keys = exchange * self._nodes + clients
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]

    def _messages(self) -> tuple[Numbers, Numbers]:
        """Return the rows of messages that arrived from a server above, and of those at one."""
        rows = self._at("receive")
        down = self._above[self._node[rows]] == self._peer[rows]
        return rows[down], rows[~down]

    def visits(self) -> dict[ClientId, list[range]]:
        """Return the exchanges of each visit of each gateway: from one message to the next."""
        down, _ = self._messages()
        visits_of: dict[ClientId, list[range]] = {}
        for gateway in range(self._tree.clients, self._nodes):
            received = down[self._node[down] == gateway]
            ends = np.append(received, len(self._events))
            borders = np.searchsorted(self.openings, self._places(ends, np.array(gateway)))
            visits_of[gateway] = [range(*each) for each in pairwise(borders.tolist())]
        return visits_of

    def read(self) -> tuple[Exchanges, Tasks]:
        """Return the exchanges and the tasks.

        Raises:
            DataError: some client neither replied to a message nor stayed silent.
        """
        down, up = self._messages()
        received, exchange_numbers = self._by_key(down, self._node[down])
        quiet = self._at("silent")
        _, silent = self._by_key(quiet, self._node[quiet])
        replies, replied = self._by_key(up, self._peer[up])
        is_reply = ~np.isin(replied, silent)  # a message from a silent client is a beacon
        replies, replied = replies[is_reply], replied[is_reply]
        ends = np.sort(np.concatenate([silent, replied]))
        # Each client receives one message per exchange, and ends it by one reply or by silence.
        # Anything else cannot be replayed.
        once = len(np.unique(exchange_numbers)) == len(exchange_numbers)
        if not (
            once
            and np.array_equal(exchange_numbers, ends)
            and self._all_have_recipients(exchange_numbers)
        ):
            raise DataError("events", "some client has not replied to a message that it received")
        return self._exchanges(exchange_numbers, replied), self._tasks(
            received, exchange_numbers, replies, replied
        )

    def _all_have_recipients(self, asked: Numbers) -> bool:
        """Return whether every exchange has at least one recipient."""
        return np.array_equal(np.unique(asked // self._nodes), np.arange(len(self.openings)))

    def _exchanges(self, exchange_numbers: Numbers, replied: Numbers) -> Exchanges:
        count = len(self.openings)
        borders = np.arange(count + 1) * self._nodes
        # Keys are exchange x nodes + client, so multiples of the number of nodes separate
        # exchanges.
        first = np.searchsorted(exchange_numbers, borders)
        sampled = np.zeros(count + 1, dtype=bool)
        asked_for = self._at("sampled")
        places = self._places(asked_for, self._above[self._node[asked_for]])
        # `sampled` rows are written before the exchange is opened, so they belong to the next
        # opening; one entry more takes those of a round that was never opened.
        sampled[np.searchsorted(self.openings, places)] = True
        return Exchanges(
            self._events["message"].iloc[self.openings % self._size].notna().tolist(),
            sampled[:-1].tolist(),
            first.tolist(),
            np.diff(np.searchsorted(replied, borders)).tolist(),
        )

    def _tasks(
        self, received: Numbers, asked: Numbers, replies: Numbers, replied: Numbers
    ) -> Tasks:
        labels = self._events["message"].astype(object).to_numpy()
        payloads = self._events["payload_bits"].to_numpy()
        computed = self._at("compute")
        works, worked = self._by_key(computed, self._node[computed])
        task_of_reply = np.searchsorted(asked, replied)
        message = np.full(len(asked), "", dtype=object)
        message[task_of_reply] = labels[replies]
        bits = np.zeros(len(asked), dtype=np.int64)
        bits[task_of_reply] = payloads[replies]
        return Tasks(
            (asked % self._nodes).tolist(),
            labels[received].tolist(),
            payloads[received].tolist(),
            np.searchsorted(worked, asked).tolist(),
            np.searchsorted(worked, asked, side="right").tolist(),
            self._events["operations"].to_numpy()[works].tolist(),
            self._events["samples"].to_numpy()[works].tolist(),
            message.tolist(),
            bits.tolist(),
        )


def _nodes(column: pd.Series) -> Numbers:
    """Return the numbers of the nodes in a column."""
    numbers = [*_numbers(column.cat.categories), NO_PEER]
    return np.array(numbers, dtype=np.intp)[column.cat.codes]


def _numbers(names: pd.Index) -> Iterator[int]:
    for name in names:
        yield SERVER if name == "server" else int(str(name).rpartition("-")[2])


# The original: a completed run, read from its folder.


@dataclass(frozen=True)
class Original:
    """A run that has ended.

    Attributes:
        folder: of the run.
        summary, manifest: their contents.
        samples: the number of samples of each client.
        names: the names of the clients in the data; empty without names.
        epsilons: the epsilon of each client; empty without privacy.
        scenario: of the run.
        blocks: user-defined classes that it may name.
    """

    folder: Path
    summary: dict[str, Any]
    manifest: dict[str, Any]
    samples: tuple[int, ...]
    scenario: Scenario
    blocks: tuple[type[Spec], ...]
    names: tuple[str, ...] = ()
    epsilons: tuple[float, ...] = ()

    @classmethod
    def of(cls, folder: Path, blocks: tuple[type[Spec], ...]) -> "Original":
        """Read a run, except for its log.

        Raises:
            DataError: it has not ended, has failed, or has another version of the schema.
        """
        summary = check_run(folder)
        if not is_whole(summary["status"]):
            raise DataError("folder", f"{folder}: the run has failed: {summary['reason']}")
        manifest = read_manifest(folder)
        table = read_table(folder, "clients").slice(0, summary["clients"])  # without gateways
        names = table["name"].to_pylist() if "name" in table.column_names else ()
        scenario = load(folder / SCENARIO, blocks=blocks).variants[0].scenario
        samples = tuple(table["samples"].to_pylist())
        spent = table[EPSILON].to_pylist() if EPSILON in table.column_names else ()
        own = tuple(names), tuple(spent)
        return cls(folder, summary, manifest, samples, scenario, blocks, *own)

    @property
    def tree(self) -> Hierarchy | None:
        """The server of each client and gateway; None without tiers."""
        return hierarchy_of(self.scenario, len(self.samples)) if self.scenario.tiers else None

    @property
    def name(self) -> str:
        """The name of its variant."""
        return str(self.summary["variant"])

    def plan(self, overrides: Sequence[str], base: Path | None = None) -> Plan:
        """Return the scenario of the run with overrides.

        A scenario without a fleet gets a group of as many ideal clients if an override changes a
        value within the fleet.

        Args:
            overrides: texts "key.path=value".
            base: where relative paths in them start; the current folder if None.

        Raises:
            ScenarioError: the result is invalid.
        """
        within = any(_is_within_fleet(text) for text in overrides)
        if within and not self.scenario.fleet:
            overrides = [f"fleet=[{{count: {len(self.samples)}}}]", *overrides]
        return load(self.folder / SCENARIO, overrides=overrides, blocks=self.blocks, base=base)


def _is_within_fleet(override: str) -> bool:
    """Return whether an override changes a value within the fleet, as fleet.0.radio=wifi does."""
    path = path_of(override.partition("=")[0])
    return path[0] == "fleet" and len(path) > 1
