"""Progress of a campaign as a table that is redrawn, and the report at its end."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isnan
from pathlib import Path

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.text import Text

from fedsim.cli.app import err as _err
from fedsim.cli.app import out as _out
from fedsim.cli.app import print_answer, write_output
from fedsim.cli.app import remark as _remark
from fedsim.core.errors import Unfinished
from fedsim.core.progress import current_activity
from fedsim.core.text import format_number, visible
from fedsim.results import analysis
from fedsim.results.display import Shown
from fedsim.results.record.scenarios import once
from fedsim.results.record.summary import Ending, end_of, has_failed
from fedsim.results.record.variants import labels as called_by
from fedsim.results.result import Result
from fedsim.running.run import RunProgress, Watch
from fedsim.scenario import Plan

# The report after the runs.


def variant_names(plan: Plan) -> dict[str, str]:
    """Return the label of each variant of a plan."""
    return called_by({each.name: each.scenario.algorithm.kind for each in plan.variants})


def report(result: Result, *, quiet: bool = False) -> None:
    """Print answer, causes, costs and final model quality, draw the figure, and print the paths.

    Args:
        result: the runs.
        quiet: whether only notes are printed without which the result may be misread.
    """
    shown = result.shown
    _print_tables(shown)
    figure = draw_overview(result)
    _out.print(
        f"event logs and tables in {escape(str(result.folder))}, figure {escape(str(figure))}"
    )
    for note in once(result.seen, needed=quiet):
        _remark(note)
    if not quiet and (doubt := shown.doubt_of_sizes):
        _remark(doubt)


def report_part(result: Result, count: int, error: Exception) -> None:
    """Print answer and tables of the complete runs of a study of `count`; others have failed.

    Args:
        result: the complete runs.
        count: the number of runs of the study.
        error: of the others.
    """
    extent = f"incomplete, {len(result.runs)} of {count} runs"
    _out.print(escape("\n".join(_reasons(error))))
    shown = result.shown
    _print_tables(replace(shown, name=f"{shown.name} ({extent})"))
    _out.print(f"event logs and tables in {escape(str(result.folder))}")
    for note in once(result.seen):
        _remark(note)


def _reasons(error: Exception) -> Sequence[str]:
    """Return for each failed run a line with the reason."""
    if isinstance(error, Unfinished):
        return error.failures
    where = " ".join(getattr(error, "__notes__", ()))
    return [f"failed {where}: {error}" if where else f"failed: {error}"]


def _print_tables(shown: Shown) -> None:
    print_answer(shown.explained_answer())
    print_answer([total] if (total := shown.total()) else [])
    if shown.batteries and (longest := shown.batteries.answer()):
        _out.print(f"{escape(longest)}\n")
    _out.print(shown.costs())
    _out.print(shown.outcome())
    for table in shown.batteries.tables() if shown.batteries else ():
        _out.print(table)


def print_ends(result: Result, labels: Mapping[str, str], *, reported: bool = False) -> int:
    """Print the ends of incomplete runs; return the exit code.

    Args:
        result: the runs.
        labels: variant -> what it is called.
        reported: whether `report` follows, which names failed runs itself. A terminal that shows
            both streams has them once.
    """
    if not result.runs:  # a shard can be empty
        return 0
    complete = result.summary["status"].map(lambda status: end_of(status).complete)
    incomplete = result.summary[~complete]  # notes report on complete ones
    once_shown = reported and _out.is_terminal and _err.is_terminal
    for row in incomplete.to_dict("records"):
        if once_shown and has_failed(row["status"]):
            continue
        ending = Ending(row["status"], row["reason"])
        _err.print(escape(f"{labels[row['variant']]}, seed {row['seed']}: {ending}"), style="red")
    return max((end_of(status).code for status in incomplete["status"]), default=0)


def draw_overview(result: Result) -> Path:
    """Draw the figure of a study into its folder, and return its path."""
    figure = result.folder / "convergence.png"
    with write_output("run", [result.folder], figure, {}, keep_name=True) as draft:
        analysis.save(result.shown.overview(), draft.path)
    return figure


_REDRAW = 0.1  # seconds of real time; a redraw costs as much as a hundred rounds

_LONG = 1.0  # seconds of real time without a report until the current activity is shown

_BUILDING, _READING = "reading data, building and solving the problem", "reading data"

_WIDE = 80  # least width of a terminal, in characters, for the longer text

_FEW = 20
"""Largest number of runs whose lines stay when they have ended."""


@contextmanager
def progress_table(
    console: Console, runs: int, labels: Mapping[str, str] | None = None
) -> Iterator[Watch]:
    """Show a bar for each running run, and one for all of them.

    Args:
        console: the terminal.
        runs: the number of runs.
        labels: variant -> its label, if other than its name.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[state]}"),
        _TimeColumn(),
    )
    with _Polling(*columns, console=console) as progress:
        table = progress.table = _Table(progress, runs, labels or {})
        yield table


class _TimeColumn(ProgressColumn):
    """Elapsed time of a run, and the estimated time of its remaining rounds."""

    def render(self, task: Task) -> Text:
        """Return both times with their labels."""
        elapsed = _clock(task.finished_time if task.finished else task.elapsed)
        remaining = None if task.finished else task.time_remaining
        left = "" if remaining is None else f", {_clock(remaining)} left"
        return Text(f"{elapsed} taken{left}")


def _clock(seconds: float | None) -> str:
    """Return a duration in minutes and seconds, or hours and minutes.

    >>> _clock(None), _clock(7.6), _clock(125), _clock(7260)
    ('0 s', '7 s', '2:05 min', '2:01 h')
    """
    whole = int(seconds or 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02} h"


class _Polling(Progress):
    """A table that polls the current activity whenever it is redrawn, ten times a second."""

    table: "_Table | None" = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the bars, with the current activity."""
        if self.table is not None:
            self.table.look()
        yield from super().get_renderables()


class _Table:
    """Keeps the lines of a progress table."""

    def __init__(self, progress: Progress, runs: int, labels: Mapping[str, str]) -> None:
        self._progress, self._runs, self._labels = progress, runs, labels
        self._lines: dict[tuple[str, int], TaskID] = {}
        # Before the first run reports, all variants are built and checked.
        doing = _BUILDING if progress.console.width >= _WIDE else _READING
        state = f"0 of {runs}, {doing}"
        self._whole = progress.add_task("all runs", total=runs, state=state)
        self._ended = 0
        self._shares: dict[tuple[str, int], float] = {}  # of rounds, of runs in progress
        self._drawn = 0.0
        self._last_report = time.monotonic()
        self._last: TaskID | None = None  # line of the run that reported last, while it runs

    def look(self) -> None:
        """Show the current activity of this process if no progress was reported for long."""
        words = current_activity() if time.monotonic() - self._last_report >= _LONG else ""
        if not words:
            return
        if self._last is None:
            state = f"{self._ended} of {self._runs}, {words}"
            self._progress.update(self._whole, state=state)
        else:
            self._progress.update(self._last, state=words)

    def __call__(self, reached: RunProgress) -> None:
        self._last_report = time.monotonic()
        key = reached.variant, reached.seed
        if not self._lines:
            self._progress.update(self._whole, state=f"0 of {self._runs}")
        if key not in self._lines:
            name = self._labels.get(reached.variant, reached.variant)
            called = f"{name}, seed {reached.seed}"
            self._lines[key] = self._progress.add_task(
                visible(called), total=reached.rounds, state=""
            )
        line = self._last = self._lines[key]
        if reached.doing:
            self._progress.update(line, state=reached.doing)
        elif reached.ended:
            self._shares.pop(key, None)
            self._end(line, reached)
        elif time.monotonic() - self._drawn >= _REDRAW:
            self._drawn = time.monotonic()
            self._progress.update(line, completed=reached.round, state=_state(reached))
            self._shares[key] = reached.round / max(reached.rounds, 1)
            self._progress.update(self._whole, completed=self._ended + sum(self._shares.values()))

    def _end(self, line: TaskID, reached: RunProgress) -> None:
        """Fill the bar of a run that has ended, even if a stop rule ended it early."""
        self._ended += 1
        self._last = None
        state = f"{self._ended} of {self._runs}"
        done = self._ended + sum(self._shares.values())
        self._progress.update(self._whole, completed=done, state=state)
        visible = self._runs <= _FEW
        self._progress.update(
            line, completed=reached.rounds, state=_state(reached), visible=visible
        )


def _state(reached: RunProgress) -> str:
    if isnan(reached.objective):  # not evaluated
        return f"round {reached.round}"
    if isnan(reached.gap):
        return f"round {reached.round}, objective {format_number(reached.objective, '.6g')}"
    return f"round {reached.round}, gap {format_number(reached.gap, '.3g')}"
