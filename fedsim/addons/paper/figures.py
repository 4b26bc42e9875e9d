"""The figures of a paper, chosen for a study, with their captions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from fedsim.results.analysis import (
    labels_of,
    measures_in,
    plot_batteries,
    plot_curves,
    plot_energy,
    plot_pareto,
    plot_participation,
    plot_round,
    plot_silence,
    plot_time_to_target,
    plot_upload_cdf,
)
from fedsim.results.analysis.captions import curves_caption, seeds_end_apart
from fedsim.results.analysis.compare.comparison import MOST_DRAWN, Case, Comparison
from fedsim.results.analysis.seeds import Band
from fedsim.results.record.read import read_all

_FEW_CLIENTS = 200
"""Largest number of clients whose participation is drawn one by one."""

_MOST_ROWS = 3_000_000
"""Largest number of log rows for figures of logs; more would take minutes."""


@dataclass(frozen=True)
class Logs:
    """The tables of compared runs for the plots, including logs and clients."""

    comparison: Comparison

    @property
    def rounds(self) -> pd.DataFrame:
        """The round tables."""
        return self.comparison.runs.rounds

    @property
    def summary(self) -> pd.DataFrame:
        """One row per run."""
        return self.comparison.runs.summary

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The client tables."""
        return self._label(read_all(self.comparison.runs.folders, "clients"))

    @cached_property
    def events(self) -> pd.DataFrame:
        """The event logs."""
        return self._label(read_all(self.comparison.runs.folders, "events"))

    def _label(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return a table with the variant names of the comparison."""
        names = dict(zip(self.comparison.runs.folders, self.summary["variant"], strict=True))
        labels = {path.parent.name: name for path, name in names.items()}
        if len(set(labels.values())) != self.summary["variant"].nunique():
            return table  # of several folders, whose variants differ by their folders
        return table.assign(variant=table["variant"].astype(str).map(labels))


class PaperFigure(NamedTuple):
    """A figure.

    Attributes:
        name: of its file.
        caption: its caption.
        draw: draws it into a file, with a width in inches.
    """

    name: str
    caption: str
    draw: Callable[[float, Path], Axes]


def paper_figures(comparison: Comparison, band: Band) -> Iterator[PaperFigure]:
    """Yield the figures of a comparison, those of its first target.

    Args:
        comparison: of some variants.
        band: the band around the means of curves.
    """
    logs, case = Logs(comparison), comparison.cases[0]
    labels = comparison.choose(case, MOST_DRAWN)
    measure = case.target.measure or measures_in(logs.rounds)[0]
    line = case.target.value if case.target.measure else None
    several = bool((case.table["runs"] > 1).any())
    for cost in ("round", "bits", "t", "joules"):
        if cost != "round" and not logs.rounds[_ROOT.get(cost, cost)].any():
            continue
        yield PaperFigure(
            f"curves-{cost}",
            curves_caption(cost, measure, band if several else None, held=seeds_end_apart(logs)),
            lambda width, out, cost=cost: plot_curves(  # type: ignore[misc]
                logs, cost, measure, band=band, target=line, labels=labels, width=width, out=out
            ),
        )
    target = str(case.target) if case.target.measure else None
    if (case.table["reached"] > 0).any() and (case.target.measure or several):
        goal = case.target.words
        yield PaperFigure(
            "time-to-target",
            f"Simulated {goal.replace('cost', 'time', 1)}, mean over seeds with its"
            f" {100 * comparison.confidence:g} % interval (of 2 or 3 seeds, minimum and maximum).",
            lambda width, out: plot_time_to_target(
                logs, target, confidence=comparison.confidence, labels=labels, width=width, out=out
            ),
        )
        if len(labels) > 1:
            yield PaperFigure(
                "pareto",
                f"{goal[:1].upper()}{goal[1:]}: energy against bits. Full marks are Pareto-optimal,"
                f" half ones not decided.{_missing(case)}",
                lambda width, out: plot_pareto(
                    logs, target=target, confidence=comparison.confidence, labels=labels,
                    width=width, out=out,
                ),
            )  # fmt: skip
    if sum(run["rows"] for run in _logs_of(comparison)) <= _MOST_ROWS:
        yield from _of_logs(logs, labels_of(logs.summary)[comparison.against], comparison.against)


_ROOT = {"bits": "bits_up"}


def _missing(case: Case) -> str:
    """Return a sentence on variants that are missing in a figure of costs."""
    count = int((case.table["reached"] == 0).sum())
    if not count:
        return ""
    noun = "variant has" if count == 1 else "variants have"
    return f" {count} other {noun} not reached it."


def _logs_of(comparison: Comparison) -> Iterator[dict[str, int]]:
    from fedsim.results.record.manifest import EVENTS, read_manifest  # of this alone

    for folder in comparison.runs.folders:
        yield read_manifest(folder)[EVENTS]


def _of_logs(logs: Logs, label: str, variant: str) -> Iterator[PaperFigure]:
    """Yield figures of clients and logs, for the variant that others are compared with."""
    clients = logs.clients[logs.clients["variant"] == variant]
    if clients["joules"].any():
        yield PaperFigure(
            "energy",
            "Energy of the fleet by its parts, mean over seeds.",
            lambda width, out: plot_energy(logs, width=width, out=out),
        )
        yield PaperFigure(
            "energy-devices",
            f"Energy by device and part under {label}, mean over seeds.",
            lambda width, out: plot_energy(logs, "device", variant, width=width, out=out),
        )
    events = logs.events[logs.events["variant"] == variant]
    if (events.loc[events["event"] == "send", "duration"] > 0).any():
        yield PaperFigure(
            "uploads",
            "Time of an upload: share of all uploads that took no longer.",
            lambda width, out: plot_upload_cdf(logs, width=width, out=out),
        )
    if events["state_of_charge"].notna().any():
        yield PaperFigure(
            "batteries",
            f"State of charge under {label}, first seed: median, middle half and 90 % of the"
            " batteries.",
            lambda width, out: plot_batteries(logs, variant, width=width, out=out),
        )
    if clients["client"].nunique() <= _FEW_CLIENTS and _has_rounds(logs, variant):
        yield PaperFigure(
            "participation",
            f"Share of rounds and seeds in which each client sent an update under {label}.",
            lambda width, out: plot_participation(logs, variant, width=width, out=out),
        )
        if other := _least_regular(logs):
            yield PaperFigure(
                "silence",
                "Outcome of each client in each round under"
                f" {labels_of(logs.summary)[other]}, first seed.",
                lambda width, out: plot_silence(logs, other, width=width, out=out),
            )
    if logs.rounds.loc[logs.rounds["variant"] == variant, "t"].max() > 0:
        yield PaperFigure(
            "round",
            f"Timeline of the slowest round under {label}, first seed.",
            lambda width, out: plot_round(logs, None, variant, width=width, out=out),
        )


def _has_rounds(logs: Logs, variant: str) -> bool:
    rounds = logs.rounds[logs.rounds["variant"] == variant]
    return bool((rounds["round"] > 0).any())


def _least_regular(logs: Logs) -> str:
    """Return the variant whose clients were silent, late, lost or skipped most often.

    It is empty if no client ever was: the figure of participation then suffices.
    """
    events = logs.events
    variants = events.loc[events["event"].isin(["silent", "late", "lost", "skipped"]), "variant"]
    return str(variants.astype(str).value_counts().index[0]) if len(variants) else ""
