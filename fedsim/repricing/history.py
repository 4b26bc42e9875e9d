"""The history: messages and work of a run, in order, without times and costs.

The rows of a log are of the exchange whose `exchange` row came last, since a round waits for
all whom it has asked. In an exchange a client is told something (its `receive` row), computes
(`compute` rows), and then answers (the server's `receive` row) or keeps quiet (`silent`).
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
from fedsim.sim.star import ENDED

_BROKEN = ("late", "lost", "skipped", "offline", "depleted", "abandoned")
"""The events of a run in which the time has decided something."""

Numbers = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Exchanges:
    """The exchanges of a run, one entry each.

    Attributes:
        one: whether one message went to the whole cohort, and not one to each.
        drawn: whether the policy has drawn the cohort.
        first: the number of the first task of each, and, at the end, of all tasks.
        said: how many of the cohort have said something.
    """

    one: Sequence[bool]
    drawn: Sequence[bool]
    first: Sequence[int]
    said: Sequence[int]


@dataclass(frozen=True, slots=True)
class Tasks:
    """What the clients did: one entry for each client of each exchange, in that order.

    Attributes:
        client: that did it.
        told: the label of what it was told.
        told_bits: the payload of that.
        begin, end: the numbers of the first piece of work, and of the first of the next task.
        operations, samples: of all pieces of work.
        message: the label of the answer; empty where there was none.
        bits: its payload.
    """

    client: Sequence[int]
    told: Sequence[str]
    told_bits: Sequence[int]
    begin: Sequence[int]
    end: Sequence[int]
    operations: Sequence[float]
    samples: Sequence[float]
    message: Sequence[str]
    bits: Sequence[int]


@dataclass(frozen=True, slots=True)
class Tape:
    """What was said and done in a run.

    Attributes:
        exchanges, tasks: up to the last round that was committed, or to the end.
        commits: how many exchanges there had been when each round was committed.
        objective: after each round; None if not evaluated.
        measures: further figures of each round.
        opening: what the first row says.
        reason: why the run ended.
    """

    exchanges: Exchanges
    tasks: Tasks
    commits: Sequence[int]
    objective: Sequence[float | None]
    measures: Sequence[Mapping[str, Any]]
    opening: str
    reason: str


def read_tape(folder: Path, clients: int) -> Tape:
    """Read the tape off the log of a run that has ended.

    Args:
        folder: of the run.
        clients: how many there are; not all of them need to be in the log.

    Raises:
        DataError: the log is not one of rounds that wait for every recipient.
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
    return Tape(
        exchanges,
        tasks,
        np.searchsorted(rows.openings, ends).tolist(),
        [None if isnan(value) else value for value in figures["objective"].to_pylist()],
        figures.select(measures).to_pylist(),
        str(events["detail"].iloc[0]),
        reason,
    )


def _check(events: pd.DataFrame, folder: Path) -> None:
    """Find what cannot be in the log of a run whose order never changes.

    Raises:
        DataError: it is there.
    """
    broken = np.flatnonzero(events["event"].isin(_BROKEN))
    if len(broken):
        row = events.iloc[broken[0]]
        text = f"{folder}: at {row['t']:g} s a row of {row['node']} says {row['event']}"
        raise DataError("events", f"{text}, so that time has decided what came then")


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
            DataError: not every client that was told something has answered, or kept quiet.
        """
        receive = self._at("receive")
        told, asked = self._by_key(receive[self._node[receive] != SERVER], self._node)
        _, quiet = self._by_key(self._at("silent"), self._node)
        heard, answered = self._by_key(receive[self._node[receive] == SERVER], self._peer)
        spoken = ~np.isin(answered, quiet)  # what the silent send are beacons
        heard, answered = heard[spoken], answered[spoken]
        ends = np.sort(np.concatenate([quiet, answered]))
        once = len(np.unique(asked)) == len(asked)
        if not (once and np.array_equal(asked, ends) and self._told_all(asked)):
            raise DataError("events", "not every client has answered each message that it was sent")
        return self._exchanges(asked, answered), self._tasks(told, asked, heard, answered)

    def _told_all(self, asked: Numbers) -> bool:
        """Return whether every exchange has at least one recipient."""
        return np.array_equal(np.unique(asked // self._clients), np.arange(len(self.openings)))

    def _exchanges(self, asked: Numbers, answered: Numbers) -> Exchanges:
        count = len(self.openings)
        borders = np.arange(count + 1) * self._clients
        first = np.searchsorted(asked, borders)
        drawn = np.zeros(count + 1, dtype=bool)
        drawn[np.searchsorted(self.openings, self._at("sampled"))] = True
        return Exchanges(
            self._events["message"].iloc[self.openings].notna().tolist(),
            drawn[:-1].tolist(),
            first.tolist(),
            np.diff(np.searchsorted(answered, borders)).tolist(),
        )

    def _tasks(self, told: Numbers, asked: Numbers, heard: Numbers, answered: Numbers) -> Tasks:
        labels = self._events["message"].astype(object).to_numpy()
        payloads = self._events["payload_bits"].to_numpy()
        works, worked = self._by_key(self._at("compute"), self._node)
        spoke = np.searchsorted(asked, answered)
        message = np.full(len(asked), "", dtype=object)
        message[spoke] = labels[heard]
        bits = np.zeros(len(asked), dtype=np.int64)
        bits[spoke] = payloads[heard]
        return Tasks(
            (asked % self._clients).tolist(),
            labels[told].tolist(),
            payloads[told].tolist(),
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
        folder: where it is.
        summary, manifest: what they say.
        samples: how many each client has.
        scenario: of the run.
        blocks: classes of one's own that it may name.
    """

    folder: Path
    summary: dict[str, Any]
    manifest: dict[str, Any]
    samples: tuple[int, ...]
    scenario: Scenario
    blocks: tuple[type[Spec], ...]

    @classmethod
    def of(cls, folder: Path, blocks: tuple[type[Spec], ...]) -> "Original":
        """Read what is known of a run, but for its log.

        Raises:
            DataError: it has not ended, or not well, or is of an older version.
        """
        summary = check_run(folder)
        if not is_whole(summary["status"]):
            raise DataError("folder", f"{folder}: the run has failed: {summary['reason']}")
        manifest = read_manifest(folder)
        samples = read_table(folder, "clients")["samples"].to_pylist()
        scenario = load(folder / SCENARIO, blocks=blocks).variants[0].scenario
        return cls(folder, summary, manifest, tuple(samples), scenario, blocks)

    @property
    def name(self) -> str:
        """The variant's."""
        return str(self.summary["variant"])

    def plan(self, overrides: Sequence[str]) -> Plan:
        """Return what the scenario of the run says once these are laid on it.

        A fleet that the split has made, of ideal clients, becomes one group of them where an
        override reaches into it.

        Raises:
            ScenarioError: it is wrong then.
        """
        within = any(_is_within_fleet(text) for text in overrides)
        if within and not self.scenario.fleet:
            overrides = [f"fleet=[{{count: {len(self.samples)}}}]", *overrides]
        return load(self.folder / SCENARIO, overrides=overrides, blocks=self.blocks)


def _is_within_fleet(override: str) -> bool:
    """Say whether an override reaches into the fleet, as fleet.0.radio=wifi does."""
    path = path_of(override.partition("=")[0])
    return path[0] == "fleet" and len(path) > 1
