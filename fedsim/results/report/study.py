"""A study: the runs of a folder, what they cost, and what each of them was."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from fedsim.results.analysis import Comparison
from fedsim.results.analysis.client_names import kinds_of
from fedsim.results.record.folder import SCENARIO, SUMMARY
from fedsim.results.record.manifest import read_manifest, read_mapping
from fedsim.results.record.parts import as_frame, read_table
from fedsim.results.record.read import read_all
from fedsim.results.record.rounds import OWN
from fedsim.results.record.scenarios import data_of, parse, read_text


@dataclass(frozen=True)
class RunTables:
    """Tables of runs, as `fedsim.results.analysis` draws them.

    Attributes:
        rounds, summary, clients, events: as `Result` has them; of logs perhaps some columns.
    """

    rounds: pd.DataFrame
    summary: pd.DataFrame
    clients: pd.DataFrame
    events: pd.DataFrame = field(default_factory=pd.DataFrame)


@dataclass(frozen=True)
class ReportedRun:
    """One run.

    Attributes:
        path: its folder.
        variant, seed: which one it is.
    """

    path: Path
    variant: str
    seed: int

    @cached_property
    def summary(self) -> Mapping[str, Any]:
        """How it ended, what it reached and what it cost."""
        return read_mapping(self.path / SUMMARY)

    @cached_property
    def manifest(self) -> Mapping[str, Any]:
        """What it was made with."""
        return read_manifest(self.path)

    @cached_property
    def written(self) -> str:
        """Its scenario, as YAML.

        Raises:
            DataError: there is none, or it is no text.
        """
        return read_text(self.path)

    @cached_property
    def scenario(self) -> Mapping[str, Any]:
        """Its scenario, as plain data.

        Raises:
            DataError: it is no scenario.
        """
        return parse(self.written, self.path / SCENARIO)

    def events(self, columns: Sequence[str]) -> pd.DataFrame:
        """Return some columns of its log."""
        frame: pd.DataFrame = as_frame(read_table(self.path, "events").select(columns))
        return frame

    def tables(self, study: "ReportedStudy", columns: Sequence[str]) -> RunTables:
        """Return its tables, with some columns of its log."""
        events = self.events(columns).assign(variant=self.variant, seed=self.seed)
        clients = self.rows(study.clients)
        return RunTables(self.rows(study.rounds), self.rows(study.summary), clients, events)

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of this run, of a table of all runs."""
        return table[(table["variant"] == self.variant) & (table["seed"] == self.seed)]


@dataclass(frozen=True)
class ReportedStudy:
    """Runs that are reported together, variant by variant, seeds in order.

    Attributes:
        comparison: their costs.
    """

    comparison: Comparison

    @cached_property
    def runs(self) -> tuple[ReportedRun, ...]:
        """All of them, at least one."""
        runs = self.comparison.runs
        names = zip(runs.folders, runs.summary["variant"], runs.summary["seed"], strict=True)
        return tuple(ReportedRun(path, str(variant), int(seed)) for path, variant, seed in names)

    @cached_property
    def variants(self) -> Mapping[str, ReportedRun]:
        """The first run of each variant, by the variant's name."""
        firsts: dict[str, ReportedRun] = {}
        for run in self.runs:
            firsts.setdefault(run.variant, run)
        return firsts

    @property
    def labels(self) -> Mapping[str, str]:
        """What the page calls each variant."""
        return self.comparison.runs.labels

    @property
    def rounds(self) -> pd.DataFrame:
        """The round tables."""
        return self.comparison.runs.rounds

    @property
    def summary(self) -> pd.DataFrame:
        """A row a run, as `Result.summary` has it."""
        return self.comparison.runs.summary

    @property
    def first(self) -> ReportedRun:
        """The run that the others are held against."""
        return self.variants[self.comparison.against]

    @property
    def name(self) -> str:
        """The name of the scenario, or of its folder."""
        return str(self.first.scenario.get("name") or self.first.path.parents[1].name)

    @property
    def question(self) -> str:
        """The comment at the head of the scenario; its name and target where it has none."""
        head = self.first.written.partition("\n")[0].strip()
        if head.startswith("#"):
            return head.lstrip("# ")
        return f"{self.name}: {self.comparison.cases[0].target.words}"

    @property
    def data(self) -> str:
        """What the data are called: their name, their file, or else their kind."""
        return data_of(self.first.scenario)

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """What the rounds have of how good a model is, what was asked for in front.

        That is what is to be reached, then what the runs were to stop by, what the scenario
        measures, and the gap and the objective, which are measured unasked.
        """
        rounds, scenario = self.rounds, self.first.scenario
        own = [name for name in rounds.columns if name not in OWN]
        known = [
            name
            for name in ("gap", "objective", *own)
            if pd.api.types.is_numeric_dtype(rounds[name]) and rounds[name].notna().any()
        ]
        asked = [
            *(case.target.measure for case in self.comparison.cases),
            *(name for name, value in (scenario.get("stop") or {}).items() if value is not None),
            *(each.get("kind") if isinstance(each, dict) else each for each in _list(scenario)),
        ]
        return tuple(dict.fromkeys([*(str(name) for name in asked if name in known), *known]))

    @cached_property
    def seeds(self) -> Mapping[str, int]:
        """How many runs each variant has."""
        counts = dict.fromkeys(self.labels, 0)
        for run in self.runs:
            counts[run.variant] += 1
        return counts

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The client tables, with the column kind: what people call a client's group."""
        frame = read_all([run.path for run in self.runs], "clients")
        return frame.assign(kind=kinds_of(frame))


def _list(scenario: Mapping[str, Any]) -> Sequence[Any]:
    measures = scenario.get("measures") or ()
    return measures if isinstance(measures, list) else ()
