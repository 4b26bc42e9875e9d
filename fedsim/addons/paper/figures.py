"""The figures of a paper, chosen for a study, with their captions."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from matplotlib.axes import Axes

from fedsim.core.text import quantity
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
from fedsim.results.analysis.log.participation import updates
from fedsim.results.analysis.plots.canvas import run_of
from fedsim.results.analysis.plots.clients import upload_times
from fedsim.results.analysis.plots.rounds import windows
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


class LeftOut(NamedTuple):
    """A figure that would show no more than a sentence says.

    Attributes:
        name: of the file that is not written.
        reason: the sentence.
    """

    name: str
    reason: str


def paper_figures(comparison: Comparison, band: Band) -> Iterator[PaperFigure | LeftOut]:
    """Yield the figures of a comparison, those of its first target, and those that are left out.

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
        if len(labels) == 1:
            yield LeftOut("time-to-target", "There is one variant; its time is in the table.")
        else:
            yield PaperFigure(
                "time-to-target",
                f"Simulated {goal.replace('cost', 'time', 1)}, mean over seeds with its"
                f" {100 * comparison.confidence:g} % interval (of 2 or 3 seeds, minimum and"
                " maximum).",
                lambda width, out: plot_time_to_target(
                    logs, target, confidence=comparison.confidence, labels=labels,
                    width=width, out=out,
                ),
            )  # fmt: skip
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

_MOST_TIMES = 3
"""Largest number of different times of uploads that a sentence has, and no figure."""


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


def _of_logs(logs: Logs, label: str, variant: str) -> Iterator[PaperFigure | LeftOut]:
    """Yield figures of clients and logs, for the variant that others are compared with."""
    clients = logs.clients[logs.clients["variant"] == variant]
    if clients["joules"].any():
        yield PaperFigure(
            "energy",
            "Energy of the fleet by its parts, mean over seeds.",
            lambda width, out: plot_energy(logs, width=width, out=out),
        )
        if len(clients[["device", "radio"]].drop_duplicates()) == 1:
            yield LeftOut("energy-devices", "All clients have the same device and radio.")
        else:
            yield PaperFigure(
                "energy-devices",
                f"Energy by device and part under {label}, mean over seeds.",
                lambda width, out: plot_energy(logs, "device", variant, width=width, out=out),
            )
    events = logs.events[logs.events["variant"] == variant]
    if (events.loc[events["event"] == "send", "duration"] > 0).any():
        if few := _few_uploads(logs):
            yield LeftOut("uploads", few)
        else:
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
        if _all_sent(logs, variant):
            sentence = f"Under {label}, every client sent an update in every round."
            yield LeftOut("participation", sentence)
        else:
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
        number = _median_round(logs, variant)
        yield PaperFigure(
            "round",
            f"Timeline of round {number} under {label}, first seed: the one of median duration.",
            lambda width, out: plot_round(logs, number, variant, width=width, out=out),
        )


def _median_round(logs: Logs, variant: str) -> int:
    """Return the number of a round of median duration of the first run of a variant."""
    every = windows(run_of(logs.rounds, variant, None))
    ordered = sorted(every, key=lambda window: window.end - window.begin)
    return ordered[(len(ordered) - 1) // 2].number


def _few_uploads(logs: Logs) -> str:
    """Return the times of uploads of each variant if they are few; empty if a figure says more."""
    times, labels = upload_times(logs.events), labels_of(logs.summary)
    said = []
    for variant, own in times[times["seconds"] > 0].groupby("variant", sort=False):
        counts = own["seconds"].map(lambda each: quantity(each, "s")).value_counts(normalize=True)
        if len(counts) > _MOST_TIMES:
            return ""
        shares = [f"{time} ({share:.0%})".replace("%", " %") for time, share in counts.items()]
        said.append(f"{labels[str(variant)]}: {', '.join(shares)}")
    return f"Uploads have at most {_MOST_TIMES} different times. {'; '.join(said)}."


def _all_sent(logs: Logs, variant: str) -> bool:
    """Return whether each client sent an update in each round of a variant."""
    rounds, events, clients = (
        each[each["variant"] == variant] for each in (logs.rounds, logs.events, logs.clients)
    )
    sent = events[updates(events) & (events["round"] > 0)]
    played = (rounds["round"] > 0).sum()
    pairs = len(sent.drop_duplicates(["seed", "node", "round"]))
    return bool(pairs == played * clients["client"].nunique())


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
