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
from fedsim.core.text import visible
from fedsim.results import analysis
from fedsim.results.analysis.compare.answer import leading
from fedsim.results.analysis.compare.caveats import read_doubts
from fedsim.results.analysis.compare.runs import EndedRuns, mixed_counting
from fedsim.results.analysis.plots.canvas import figure_of, style_width
from fedsim.results.analysis.plots.curves import check_column
from fedsim.results.analysis.style import as_png
from fedsim.results.record.scenarios import Note, mark_labels, once

_MOST_ROWS, _MOST_DRAWN = 40, 12  # variants shown by default, in a table and in its figure

_MOST_MEASURES = 4  # of a figure: the gap, and three of those that were asked for


@dataclass(frozen=True)
class Shown:
    """What is shown of a result.

    Attributes:
        name: of the study; empty where it is not known.
        summary, rounds: the tables of these names.
        notes: what a reader has to know.
        place: where the runs are, as a sentence has it.
        setting: data, fleet and seeds in a few words.
        runs: the folders of the runs that have ended, by variant and seed.
    """

    name: str
    summary: pd.DataFrame
    rounds: pd.DataFrame
    notes: Sequence[Note]
    place: str
    setting: str = ""
    runs: Mapping[tuple[str, int], Path] = field(default_factory=dict)

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
            DataError: there is no such column, or several panels are to go into one axes.
        """
        costs = list(x) or analysis.with_grams(analysis.AXES, self.rounds)
        if ax is not None and len(costs) > 1:
            if x:
                text = f"got {len(costs)} columns for one axes; expected one, such as x='joules'"
                raise DataError("x", text)
            costs = ["round"]
        if len(costs) == 1:
            own = analysis.plot_curves(self, costs[0], y, ax=ax, width=width, out=out, **curves)
            return figure_of(own)
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
        """Return the figure of all costs, with a row for the gap and for each measure."""
        return self._draw(self._measures[:_MOST_MEASURES])

    @property
    def _measures(self) -> list[str]:
        return analysis.measures_in(self.rounds)

    def _draw(self, measures: Sequence[str], against: Sequence[str] = ()) -> Figure:
        title = "\n".join(filter(None, (self.name, self.setting)))
        return analysis.convergence(
            self.rounds, self.labels, title, measures=measures, against=against
        )

    @property
    def labels(self) -> dict[str, str]:
        """What to call each variant of which a run has ended."""
        return {} if self.summary.empty else analysis.labels_of(self.summary)

    def answer(self) -> str:
        """Return which variant took the least, by how much, and how sure that is; or nothing."""
        if mixed := self._mixed:
            return mixed
        target, (costs, worlds) = self._question
        return analysis.answer(costs, target, self.labels, rounds=self.rounds, worlds=worlds)

    @property
    def _mixed(self) -> str:
        """Why the runs cannot be compared, since they count rounds otherwise; or nothing."""
        return "" if self.summary.empty else mixed_counting(self.summary, self.labels)

    def cause(self) -> str:
        """Return the causes of the difference that the answer is about, or nothing."""
        if self._mixed:
            return ""
        target, (costs, worlds) = self._question
        pair = leading(costs, target, self.labels, worlds=worlds)
        found = analysis.explain(self.runs, self.rounds, costs, pair)
        return "" if found is None else found.sentence()

    @cached_property
    def _question(self) -> tuple[analysis.Target, tuple[pd.DataFrame, pd.DataFrame | None]]:
        """The target that `answer` is about, the costs to it, and verdicts in sampled worlds."""
        target = analysis.Target.usual(self.summary)
        folders = tuple(self.runs.values())
        runs = EndedRuns(folders, self.rounds, self.summary, self.labels)
        worlds = read_doubts(runs, str(target)) if folders else None
        return target, (target.costs(self), worlds)

    def explained_answer(self) -> str:
        """Return the answer, and in a second line its causes, where there are any; or nothing."""
        return "\n".join(filter(None, (self.answer(), self.cause())))

    def costs(self, most: int | None = None) -> Table:
        """Return what each variant has cost to its target, or altogether where there was none.

        Args:
            most: how many variants are shown, the first of the scenario; all if None.
        """
        labels, target = self.labels, analysis.Target.usual(self.summary)
        means = analysis.mean_cost(target.costs(self), list(labels)[:most])
        title = ": ".join(filter(None, (self.name, target.words)))
        if most and len(labels) > most:
            title += f"; the first {most} of {len(labels)} variants"
        return analysis.cost_table(means, mark_labels(labels, self.notes), title)

    def outcome(self, most: int | None = None) -> Table:
        """Return what each variant has come to, and what has ended its runs; see `costs`."""
        labels = dict(islice(mark_labels(self.labels, self.notes).items(), most))
        return analysis.outcome_table(self.rounds, self.summary, labels, "final model quality")

    def text(self) -> str:
        """Return what `print` shows."""
        if self.summary.empty:
            return f"no run has ended\n{self.place}"
        both = self.costs(_MOST_ROWS), self.outcome(_MOST_ROWS)
        return "\n\n".join([*map(tables.as_text, both), self.place])

    def html(self) -> str:
        """Return what a notebook shows: the table, a strip of figures, notes, where it is."""
        last = f"<p>{_words(self.place)}</p>"
        if self.summary.empty:
            return f"<p>no run has ended</p>\n{last}"
        notes = "".join(f"<li>{_words(str(note))}</li>" for note in once(self.notes))
        said = f"<ul>{notes}</ul>\n" if notes else ""
        costs, outcome = map(tables.as_html, (self.costs(_MOST_ROWS), self.outcome(_MOST_ROWS)))
        return f"{costs}{outcome}{_image(self._strip())}\n{said}{last}"

    def _strip(self) -> Figure:
        """Return all costs side by side, of as many variants as can be distinguished."""
        labels = dict(islice(self.labels.items(), _MOST_DRAWN))
        rounds = self.rounds[self.rounds["variant"].isin(list(labels))]
        return analysis.convergence(
            rounds, labels, columns=len(analysis.with_grams(analysis.AXES, rounds))
        )


def _image(figure: Figure) -> str:
    """Return a figure as an image within a page, no wider than that."""
    width, height = (round(figure.dpi * inches) for inches in figure.get_size_inches())
    return (
        f'<img style="max-width: 100%; height: auto" width="{width}" height="{height}"'
        ' alt="what was reached against each cost"'
        f' src="data:image/png;base64,{b64encode(as_png(figure)).decode()}">'
    )


def _words(text: str) -> str:
    return escape(visible(text))
