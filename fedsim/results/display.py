"""Display of a result: a table of costs, and a figure."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.table import Table

from fedsim.core import tables
from fedsim.core.errors import DataError
from fedsim.core.text import unbroken, visible
from fedsim.results import analysis
from fedsim.results.analysis.batteries import BatterySummary
from fedsim.results.analysis.compare.answer import leading, reference_answer, total_answer
from fedsim.results.analysis.compare.causes import whose
from fedsim.results.analysis.compare.caveats import read_doubts
from fedsim.results.analysis.compare.cost_tables import failed_in_words, failed_variants, misses
from fedsim.results.analysis.compare.runs import EndedRuns, doubt_of_sizes_in, mixed_counting
from fedsim.results.analysis.costs import notes_on_seeds
from fedsim.results.analysis.plots.canvas import figure_of, style_width
from fedsim.results.analysis.plots.curves import check_column
from fedsim.results.analysis.style import as_png
from fedsim.results.record.scenarios import Note, mark_labels, once

_MOST_ROWS, _MOST_DRAWN = 40, 12  # variants shown by default, in a table and in its figure

_MOST_MEASURES = 4  # rows of a figure: the gap and three measures


@dataclass(frozen=True)
class Shown:
    """The tables, figures and sentences that display a result.

    Attributes:
        name: the name of the study; empty if unknown.
        summary, rounds: the tables of these names.
        notes: notes on the runs.
        place: a sentence with the folder of the runs.
        setting: data, fleet and seeds in a few words.
        runs: the folders of the runs that have ended, by variant and seed.
        baseline: the variant that the answer compares with; empty for the two cheapest.
    """

    name: str
    summary: pd.DataFrame
    rounds: pd.DataFrame
    notes: Sequence[Note]
    place: str
    setting: str = ""
    runs: Mapping[tuple[str, int], Path] = field(default_factory=dict)
    baseline: str = ""

    @property
    def doubt_of_sizes(self) -> str:
        """Why times are uncertain where messages differ in size; empty if they are not."""
        return doubt_of_sizes_in(self.runs, self.rounds)

    def figure(
        self,
        x: Sequence[str],
        y: str,
        *,
        ax: Axes | None = None,
        width: float | str | None = None,
        out: str | Path | None = None,
        **curves: Any,
    ) -> Figure:
        """Return the figure, as `Result.plot` describes it.

        Raises:
            DataError: there is no such column, or one axes is given for several panels.
        """
        costs = list(x) or analysis.with_grams(analysis.AXES, self.rounds)
        if ax is not None and len(costs) > 1:
            if x:
                text = f"got {len(costs)} columns for one axes; expected one, such as x='joules'"
                raise DataError("x", text)
            costs = ["round"]
        if len(costs) == 1:
            axes = analysis.plot_curves(self, costs[0], y, ax=ax, width=width, out=out, **curves)
            return figure_of(axes)
        for cost in costs:
            check_column(self.rounds, cost, "x")
        columns = min(len(costs), 2)
        room = {} if width is None else {"width": style_width(width, columns) / columns}
        figure, every = analysis.panels(len(costs), columns, sharey=True, **room)
        for number, (axis, cost) in enumerate(zip(every, costs, strict=True)):
            analysis.plot_curves(self, cost, y, ax=axis, legend=False, **curves)
            if number % columns:
                axis.set_ylabel("")
                axis.tick_params(labelleft=False)
        analysis.name_variants(figure)
        if out is not None:
            analysis.save(figure, Path(out))
        return figure

    def overview(self) -> Figure:
        """Return the figure of all costs: rows for each measure, that of the target first."""
        goal = list(self._goal)
        return self._draw(
            [*goal, *(each for each in self._measures if each not in goal)][:_MOST_MEASURES]
        )

    @property
    def _measures(self) -> list[str]:
        return analysis.measures_in(self.rounds)

    def _draw(self, measures: Sequence[str], against: Sequence[str] = ()) -> Figure:
        title = "\n".join(filter(None, (self.name, self.setting)))
        return analysis.convergence(
            self.rounds, self.labels, title, measures=measures, against=against, targets=self._goal
        )

    @property
    def _goal(self) -> dict[str, float]:
        """The measure that was to be reached, and its value; empty if there is none."""
        target = None if self.summary.empty else analysis.Target.usual(self)
        return {target.measure: target.value} if target and target.measure else {}

    @property
    def labels(self) -> dict[str, str]:
        """The label of each variant with an ended run."""
        return {} if self.summary.empty else analysis.labels_of(self.summary)

    def answer(self) -> str:
        """Return a sentence on the cheapest variant and the certainty of that; empty if unknown."""
        return ". ".join(filter(None, (*self.failures(), self._verdict())))

    def failures(self) -> list[str]:
        """Return for each variant with failed runs why the first of them failed."""
        if self.summary.empty:
            return []
        return list(failed_in_words(self.summary, self.labels))

    def _verdict(self) -> str:
        if mixed := self._mixed:
            return mixed
        target, (costs, worlds) = self._question
        known = None, self.rounds, worlds, self._against
        return analysis.answer(costs, target, self._ranked, *known)

    @property
    def _against(self) -> str | None:
        """The variant that the answer compares with; None for the two cheapest."""
        return self.baseline if self.baseline in self.labels else None

    @property
    def _ranked(self) -> dict[str, str]:
        """The labels of the variants of which not all runs have failed."""
        failed = failed_variants(self.summary)
        return {name: label for name, label in self.labels.items() if name not in failed}

    @property
    def _mixed(self) -> str:
        """Why the runs cannot be compared: they count rounds differently; empty if they can be."""
        return "" if self.summary.empty else mixed_counting(self.summary, self.labels)

    def total(self) -> str:
        """Return the verdict on the total energy, if server and network are counted."""
        if self._mixed or self.summary.empty:
            return ""
        target, (costs, worlds) = self._question
        return total_answer(costs, target, self._ranked, None, self.rounds, worlds, self._against)

    def causes(self) -> analysis.Causes | None:
        """Return the causes of the difference that the answer is about, if known."""
        if self._mixed or self.summary.empty:
            return None
        target, (costs, worlds) = self._question
        pair = leading(costs, target, self._ranked, worlds=worlds, against=self._against)
        return analysis.explain(self.runs, self.rounds, costs, pair)

    def reference(self) -> str:
        """Return the verdict on the cheapest and the first variant; see `reference_answer`."""
        if self._mixed or self.summary.empty or self._against:
            return ""
        target, (costs, worlds) = self._question
        return reference_answer(costs, target, self._ranked, worlds=worlds)

    @cached_property
    def _question(self) -> tuple[analysis.Target, tuple[pd.DataFrame, pd.DataFrame | None]]:
        """The target of `answer`, the costs to it, and verdicts in sampled worlds."""
        target = analysis.Target.usual(self)
        folders = tuple(self.runs.values())
        runs = EndedRuns(folders, self.rounds, self.summary, self.labels)
        worlds = read_doubts(runs, str(target)) if folders else None
        return target, (target.costs(self), worlds)

    def explained_answer(self) -> list[str | Table]:
        """Return the answer, its causes, and where it is open the verdict on the first variant.

        Failures of runs come before it. Empty if there is no answer.
        """
        found = self.causes()
        pair = whose(found, self._ranked, self._against)
        said = analysis.explained(self._verdict(), found, self.reference(), pair)
        return [*self.failures(), *said]

    def costs(self, most: int | None = None) -> Table:
        """Return the table of each variant's cost to its target, or in total if it has no target.

        Args:
            most: the largest number of variants, the first of the scenario; all if None.
        """
        labels, target = self.labels, analysis.Target.usual(self)
        costs, shown = target.costs(self), list(labels)[:most]
        means = target.shown(analysis.mean_cost(costs, shown), self)
        title = ": ".join(filter(None, (self.name, target.words)))
        if most and len(labels) > most:
            title += f"; the first {most} of {len(labels)} variants"
        notes = list(misses(self, costs, target, {name: labels[name] for name in shown}))
        notes += notes_on_seeds(costs[costs["variant"].isin(shown)], target.missed)
        names = mark_labels(labels, self.notes)
        failed = failed_variants(self.summary)
        return analysis.cost_table(means, names, title, notes, target.arrived, failed)

    def outcome(self, most: int | None = None) -> Table:
        """Return the table of each variant's final figures and reasons for the end; see `costs`."""
        labels = dict(islice(mark_labels(self.labels, self.notes).items(), most))
        return analysis.outcome_table(self.rounds, self.summary, labels, "final model quality")

    @cached_property
    def batteries(self) -> BatterySummary | None:
        """How long batteries last; None if no client has one."""
        return BatterySummary.of(self.runs, self.labels)

    def tables(self) -> list[Table]:
        """Return all tables: of costs, final figures, and batteries if clients have some."""
        batteries = self.batteries.tables() if self.batteries else []
        return [self.costs(_MOST_ROWS), self.outcome(_MOST_ROWS), *batteries]

    def text(self) -> str:
        """Return the text for `print`."""
        if self.summary.empty:
            return f"no run has ended\n{self.place}"
        return "\n\n".join([*map(tables.as_text, self.tables()), self.place])

    def html(self) -> str:
        """Return the HTML for a notebook: table, figures, notes and folder."""
        last = f"<p>{_words(self.place)}</p>"
        if self.summary.empty:
            return f"<p>no run has ended</p>\n{last}"
        notes = "".join(f"<li>{_words(str(note))}</li>" for note in once(self.notes))
        list_of_notes = f"<ul>{notes}</ul>\n" if notes else ""
        every = "".join(map(tables.as_html, self.tables()))
        return f"{every}{_image(self._strip())}\n{list_of_notes}{last}"

    def _strip(self) -> Figure:
        """Return a figure of all costs side by side, for as many variants as can be told apart."""
        labels = dict(islice(self.labels.items(), _MOST_DRAWN))
        rounds = self.rounds[self.rounds["variant"].isin(list(labels))]
        return analysis.convergence(
            rounds, labels, columns=len(analysis.with_grams(analysis.AXES, rounds))
        )


def _image(figure: Figure) -> str:
    """Return a figure as an HTML image, at most as wide as the page."""
    width, height = (round(figure.dpi * inches) for inches in figure.get_size_inches())
    return (
        f'<img style="max-width: 100%; height: auto" width="{width}" height="{height}"'
        ' alt="what was reached against each cost"'
        f' src="data:image/png;base64,{b64encode(as_png(figure)).decode()}">'
    )


def _words(text: str) -> str:
    return escape(unbroken(visible(text)))
