"""The history: messages and work of a run, in order, without times and costs.

A row of the log belongs to the last exchange opened before it, since a round waits for all sampled
clients. In an exchange, a client receives a message (its `receive` row), computes (`compute` rows),
and then replies (the server's `receive` row) or stays silent (`silent`).

Rows of different clients are interleaved by time, and time is what may change. So the history sorts
rows by exchange and client, and keeps only the order within a client, which does not depend on
time: one message received, the work in its order, one reply.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.blocks.spec import Spec
from fedsim.errors import DataError
from fedsim.ports import SERVER
from fedsim.record.folder import SCENARIO, check_run
from fedsim.record.manifest import read_manifest
from fedsim.record.parts import read_table
from fedsim.record.read import read_run
from fedsim.record.rounds import OWN
from fedsim.record.schema import NO_PEER
from fedsim.record.summary import is_whole
from fedsim.scenario import Plan, Scenario, load
from fedsim.scenario.located import path_of
from fedsim.worlds.main_task import ENDED

_BROKEN = ("late", "lost", "skipped", "offline", "depleted", "abandoned")
"""The events of runs in which time has decided something."""

Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The exchanges of a run, one entry each.

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
        client: its number.
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
        commits: the number of exchanges before each commit.
        objective: after each round; None if not evaluated.
        measures: further figures of each round.
        opening: the detail of the log's first row.
        reason: why the run ended.
    """

    exchanges: Exchanges
    tasks: Tasks
    commits: Sequence[int]
    objective: Sequence[float | None]
    measures: Sequence[Mapping[str, Any]]
    opening: str
    reason: str


def read_history(folder: Path, clients: int) -> RunHistory:
    """Read the history of a run that has ended from its log.

    Args:
        folder: of the run.
        clients: the number of clients, of which some may have no rows.

    Raises:
        DataError: some round did not wait for every recipient.
    """
    events = read_run(folder, "events")
    reason = str(events["detail"].iloc[-1])
    ends = np.flatnonzero(events["event"] == "round")
    whole = events if reason == ENDED else events.iloc[: ends[-1] + 1 if len(ends) else 0]
    _check(whole, folder)
    rows = _Rows(whole, clients)
    exchanges, tasks = rows.read()
    figures = read_table(folder, "rounds")
    measures = [name for name in figures.column_names if name not in OWN]
    return RunHistory(
        exchanges,
        tasks,
        np.searchsorted(rows.openings, ends).tolist(),
        [None if isnan(value) else value for value in figures["objective"].to_pylist()],
        figures.select(measures).to_pylist(),
        str(events["detail"].iloc[0]),
        reason,
    )


def _check(events: pd.DataFrame, folder: Path) -> None:
    """Check that no event of the log shows a decision by time.

    Raises:
        DataError: one does.
    """
    broken = np.flatnonzero(events["event"].isin(_BROKEN))
    if len(broken):
        row = events.iloc[broken[0]]
        text = f"{folder}: at {row['t']:g} s there is a row {row['event']} of {row['node']}"
        raise DataError("events", f"{text}, so that time has decided the events after it")


class _Rows:
    """The rows of a log, by exchange and client."""

    def __init__(self, events: pd.DataFrame, clients: int) -> None:
        self._events = events
        self._clients = clients
        self._node, self._peer = _nodes(events["node"]), _nodes(events["peer"])
        self.openings = self._at("exchange")

    def _at(self, event: str) -> Numbers:
        return np.flatnonzero(self._events["event"] == event)

    def _keys(self, rows: Numbers, clients: Numbers) -> Numbers:
        """Return a number for the exchange and the client of each row."""
        exchange = np.searchsorted(self.openings, rows, side="right") - 1
        return np.asarray(exchange * self._clients + clients, dtype=np.intp)

    def _by_key(self, rows: Numbers, clients: NDArray[np.intp]) -> tuple[Numbers, Numbers]:
        """Return the rows sorted by exchange and client, and their keys."""
        keys = self._keys(rows, clients[rows])
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]

    def read(self) -> tuple[Exchanges, Tasks]:
        """Return the exchanges and the tasks.

        Raises:
            DataError: not every client has replied to each message, or stayed silent.
        """
        receive = self._at("receive")
        received, asked = self._by_key(receive[self._node[receive] != SERVER], self._node)
        _, silent = self._by_key(self._at("silent"), self._node)
        replies, replied = self._by_key(receive[self._node[receive] == SERVER], self._peer)
        is_reply = ~np.isin(replied, silent)  # a message of a silent client is a beacon
        replies, replied = replies[is_reply], replied[is_reply]
        ends = np.sort(np.concatenate([silent, replied]))
        once = len(np.unique(asked)) == len(asked)
        if not (once and np.array_equal(asked, ends) and self._all_have_recipients(asked)):
            raise DataError("events", "some client has not replied to a message that it received")
        return self._exchanges(asked, replied), self._tasks(received, asked, replies, replied)

    def _all_have_recipients(self, asked: Numbers) -> bool:
        """Return whether every exchange has at least one recipient."""
        return np.array_equal(np.unique(asked // self._clients), np.arange(len(self.openings)))

    def _exchanges(self, asked: Numbers, replied: Numbers) -> Exchanges:
        count = len(self.openings)
        borders = np.arange(count + 1) * self._clients
        first = np.searchsorted(asked, borders)
        drawn = np.zeros(count + 1, dtype=bool)
        drawn[np.searchsorted(self.openings, self._at("sampled"))] = True
        return Exchanges(
            self._events["message"].iloc[self.openings].notna().tolist(),
            drawn[:-1].tolist(),
            first.tolist(),
            np.diff(np.searchsorted(replied, borders)).tolist(),
        )

    def _tasks(
        self, received: Numbers, asked: Numbers, replies: Numbers, replied: Numbers
    ) -> Tasks:
        labels = self._events["message"].astype(object).to_numpy()
        payloads = self._events["payload_bits"].to_numpy()
        works, worked = self._by_key(self._at("compute"), self._node)
        task_of_reply = np.searchsorted(asked, replied)
        message = np.full(len(asked), "", dtype=object)
        message[task_of_reply] = labels[replies]
        bits = np.zeros(len(asked), dtype=np.int64)
        bits[task_of_reply] = payloads[replies]
        return Tasks(
            (asked % self._clients).tolist(),
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
    """Return the numbers of the nodes that a column names."""
    numbers = [*_numbers(column.cat.categories), NO_PEER]
    return np.array(numbers, dtype=np.intp)[column.cat.codes]


def _numbers(names: pd.Index) -> Iterator[int]:
    for name in names:
        yield SERVER if name == "server" else int(str(name).removeprefix("client-"))


# The original: a completed run, read from its folder.


@dataclass(frozen=True)
class Original:
    """A run that has ended.

    Attributes:
        folder: of the run.
        summary, manifest: their contents.
        samples: the number of samples of each client.
        names: of the clients in the data; empty if they have none.
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

    @classmethod
    def of(cls, folder: Path, blocks: tuple[type[Spec], ...]) -> "Original":
        """Read a run, except for its log.

        Raises:
            DataError: it has not ended, has failed, or is of another version.
        """
        summary = check_run(folder)
        if not is_whole(summary["status"]):
            raise DataError("folder", f"{folder}: the run has failed: {summary['reason']}")
        manifest = read_manifest(folder)
        table = read_table(folder, "clients")
        names = table["name"].to_pylist() if "name" in table.column_names else ()
        scenario = load(folder / SCENARIO, blocks=blocks).variants[0].scenario
        samples = tuple(table["samples"].to_pylist())
        return cls(folder, summary, manifest, samples, scenario, blocks, tuple(names))

    @property
    def name(self) -> str:
        """The name of its variant."""
        return str(self.summary["variant"])

    def plan(self, overrides: Sequence[str]) -> Plan:
        """Return the scenario of the run with overrides.

        A scenario without a fleet gets a group of as many ideal clients if an override changes a
        value within the fleet.

        Raises:
            ScenarioError: the result is invalid.
        """
        within = any(_is_within_fleet(text) for text in overrides)
        if within and not self.scenario.fleet:
            overrides = [f"fleet=[{{count: {len(self.samples)}}}]", *overrides]
        return load(self.folder / SCENARIO, overrides=overrides, blocks=self.blocks)


def _is_within_fleet(override: str) -> bool:
    """Return whether an override changes a value within the fleet, as fleet.0.radio=wifi does."""
    path = path_of(override.partition("=")[0])
    return path[0] == "fleet" and len(path) > 1
