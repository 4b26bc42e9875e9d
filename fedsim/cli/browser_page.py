"""The report of a study in progress: an HTML file that is redrawn while runs are made.

Another process draws it, at a low priority, so that the runs do not wait for it. The page reloads
itself while the study is unfinished. Its last version redirects to the report of the whole study,
or states that the runs were stopped.
"""

import os
import sys
import threading
import time
import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from html import escape
from math import isfinite, isnan
from multiprocessing import get_context, parent_process
from pathlib import Path

import pyarrow as pa

from fedsim.core.atomic import check_links, write_whole
from fedsim.core.errors import DataError, FedsimError
from fedsim.core.signals import defer_signals, leave_signals_to_parent, postpone_signals
from fedsim.core.text import format_number, quantity
from fedsim.results.analysis import Comparison
from fedsim.results.record.live import LIVE, CurvePoint, LiveRun
from fedsim.results.record.studies import study_in
from fedsim.results.report.components import PageTable, TableCell, words
from fedsim.results.report.page import Content, content_of, page_of
from fedsim.results.report.progress import DRAWN, Progress, recorded_curves
from fedsim.results.report.study import ReportedStudy
from fedsim.running.probe import duration
from fedsim.running.watching import Key, Snapshot, Watcher, headline, time_left

PAGE = "report.html"
"""The page, in the folder of live files."""

_PAUSE = 2.0  # least seconds of real time between two drawings

_SHARE = 0.05  # largest share of real time that drawing may take

_NICE = 5  # increment of the drawing process's niceness

_RUNS = 30  # most lines of runs in progress

_NOTE = (
    '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{title}</title>{head}'
    "</head>\n<body><p>{text}</p></body>\n</html>\n"
)
"""A page of one sentence."""


class FollowedPage:
    """The page of a study.

    Args:
        out: the folder of its runs, which need not exist yet.
    """

    def __init__(self, out: Path) -> None:
        self.out = out.absolute()
        self.file = self.out / LIVE / PAGE
        self.led = False

    def write(self, content: str) -> None:
        """Replace the page atomically.

        Raises:
            OutputError: the page cannot be written.
        """
        check_links(self.out, self.file.parent)
        write_whole(self.file, content.encode())

    def wait(self) -> None:
        """Write a page without results, which reloads itself after a while."""
        head = f'<meta http-equiv="refresh" content="{_PAUSE:g}">'
        self._note("Reading data, building and solving the problem.", head)

    def lead(self, report: Path) -> None:
        """Redirect to the report of the whole study."""
        link = f"../{escape(report.name)}"
        head = f'<meta http-equiv="refresh" content="0; url={link}">'
        self._note(f'All runs have ended: <a href="{link}">the report</a>.', head)
        self.led = True

    def stop(self) -> None:
        """Write a page that does not reload, for runs that were stopped."""
        command = f"<code>fedsim report {escape(str(self.out))}</code>"
        self._note(f"The runs were stopped. {command} writes the report of the finished runs.")

    def _note(self, text: str, head: str = "") -> None:
        self.write(_NOTE.format(title=escape(self.out.name), head=head, text=text))

    def close(self) -> None:
        """Leave no page that reloads itself, and no page of an empty folder."""
        for draft in self.file.parent.glob(f"{PAGE}.*"):  # of a drawing that was cut off
            draft.unlink(missing_ok=True)
        if study_in(self.out) is not None:
            if not self.led:
                self.stop()
            return
        self.file.unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.file.parent.rmdir()
            self.out.rmdir()


@contextmanager
def draw_page(out: Path) -> Iterator[FollowedPage]:
    """Redraw the page of a study while the block runs.

    Args:
        out: the folder of its runs, which need not exist yet.

    Raises:
        DataError: no process can be started.
        OutputError: the page cannot be written.
    """
    page = FollowedPage(out)
    process = get_context("spawn").Process(target=_draw, args=(page.out,), daemon=True)
    try:
        page.wait()
        try:
            with postpone_signals():
                process.start()
        except OSError as error:
            text = f"--browser: cannot start the drawing process: {error.strerror or error}"
            raise DataError("browser", text) from None
        yield page
    finally:
        with defer_signals():
            if process.pid is not None:
                process.kill()  # it has no state, and may still be loading with signals blocked
                process.join()
            with suppress(FedsimError, OSError):
                page.close()


def open_browser(file: Path) -> None:
    """Open a file in a graphical browser, if there is one, without waiting for it.

    A text browser is not used: it would cover the progress in the terminal.
    """
    windows = sys.platform in {"darwin", "win32"} or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    with suppress(webbrowser.Error):
        if windows and type(webbrowser.get()) is not webbrowser.GenericBrowser:
            threading.Thread(target=webbrowser.open, args=(file.as_uri(),), daemon=True).start()


def _draw(out: Path) -> None:
    """Redraw the page in this process until its parent has ended."""
    leave_signals_to_parent()
    if hasattr(os, "nice"):  # not on Windows
        with suppress(OSError):
            os.nice(_NICE)
    page, drawing, pause = FollowedPage(out), Drawing(out), _PAUSE
    parent = parent_process()
    while parent is not None and parent.is_alive():
        began = time.thread_time()
        with suppress(FedsimError, OSError, pa.ArrowException):  # a file is being replaced
            page.write(drawing.page(pause))
        pause = max(_PAUSE, (time.thread_time() - began) / _SHARE)
        parent.join(pause)
    page.stop()


class Drawing:
    """Draws the page of a study; tabs of ended runs are redrawn when further runs have ended.

    Args:
        out: the folder of its runs.
    """

    def __init__(self, out: Path) -> None:
        self._out, self._watcher = out, Watcher(out)
        self._ended, self._due = frozenset[Key](), 0.0
        self._content: Content = {}
        self._recorded: Mapping[Key, Sequence[CurvePoint]] = {}

    def page(self, pause: float) -> str:
        """Return the current page as HTML.

        Args:
            pause: time until the page reloads itself, s of real time.

        Raises:
            FedsimError: the folder holds no record of its study yet.
        """
        now = self._watcher.look()
        ended = frozenset(now.done | now.failed)
        if ended != self._ended and time.monotonic() >= self._due:
            began = time.thread_time()
            with suppress(DataError):  # no run can be compared
                study = ReportedStudy(Comparison.of([self._out]))
                self._content, self._recorded = content_of(study), recorded_curves(study.rounds)
            self._ended = ended
            self._due = time.monotonic() + (time.thread_time() - began) / _SHARE
        return page_of(self._content, progress_of(now, self._lines(now), pause))

    def _lines(self, now: Snapshot) -> Mapping[Key, Sequence[CurvePoint]]:
        """Return the curves of runs in progress and of ended ones, in the order of the study."""
        curves = {**self._recorded, **{key: run.curve for key, run in now.running.items()}}
        keys = [key for key in now.runs if curves.get(key)]
        first = sorted(keys, key=lambda key: key not in now.running)[:DRAWN]
        return {key: curves[key] for key in keys if key in first}


def progress_of(
    now: Snapshot, lines: Mapping[Key, Sequence[CurvePoint]], pause: float = _PAUSE
) -> Progress:
    """Return the content of the progress tab.

    Args:
        now: the state of the study.
        lines: the curves of its runs.
        pause: time until the page reloads itself, s of real time.
    """
    runs = list(now.running.values())
    begun = sum(run.round / run.rounds for run in runs if run.rounds)
    more = [f"and {len(runs) - _RUNS} more runs in progress"] if len(runs) > _RUNS else []
    return Progress(
        now.status.name,
        headline(now),
        (len(now.done | now.failed) + begun) / max(len(now.runs), 1),
        {each.variant: [*_seeds(now, each.variant)] for each in now.status.variants},
        lines,
        [*_tables(now, runs[:_RUNS])],
        [*more, *(f"{it.process}: {it.doing}" for it in now.campaigns if it.doing)],
        time.strftime("%H:%M:%S"),
        pause,
    )


def _seeds(now: Snapshot, variant: str) -> Iterator[tuple[str, str]]:
    """Yield the state of each run of a variant, and its label."""
    states = {"running": now.running, "done": now.done, "failed": now.failed}
    for key in now.runs:
        if key[0] == variant:
            state = next((name for name, runs in states.items() if key in runs), "pending")
            run = now.running.get(key)
            share = f"{100 * run.round // run.rounds} %" if run and run.rounds else state
            yield state, f"seed {key[1]}: {share}"


def _tables(now: Snapshot, runs: Sequence[LiveRun]) -> Iterator[PageTable]:
    """Yield the tables of runs in progress, of failed ones, and of the events of each process."""
    heads = ("run", "round", "reached", "energy", "time left, at most", "rounds/s", "worker")
    failed = [
        words(f"{each.variant}, seed {seed}", reason)
        for each in now.status.variants
        for seed, reason in each.reasons.items()
    ]
    if runs:
        yield PageTable("Runs in progress", heads, [_row(run) for run in runs])
    if failed:
        yield PageTable("Failed", ("run", "reason"), failed)
    for campaign in now.campaigns:
        events = [
            words(f"{format_number(event.seconds, ',.0f')} s", event.text)
            for event in reversed(campaign.events)
        ]
        yield PageTable(f"Events of {campaign.process}", ("after", "event"), events)


def _row(run: LiveRun) -> list[TableCell]:
    """Return the table row of a run in progress."""
    last = run.curve[-1] if run.curve else CurvePoint(0)
    name = "gap" if isfinite(last.gap) else "objective"
    value, left = getattr(last, name), time_left(run)
    return words(
        f"{run.variant}, seed {run.seed}",
        run.doing or (f"{run.round:,} of {run.rounds:,}" if run.rounds else "running"),
        f"{name} {format_number(value, '.3g')}" if isfinite(value) else "-",
        quantity(last.joules, "J"),
        "-" if isnan(left) else duration(left),
        "-" if isnan(run.rate) else format_number(run.rate, ".3g"),
        run.worker or "-",
    )
