"""The pages of a study in progress: one that follows its runs, and the report of ended ones."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, isnan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes

from fedsim.analysis import EVERY_AXIS, Comparison, label_axis, look
from fedsim.analysis.plots.canvas import label_with_unit
from fedsim.errors import FedsimError
from fedsim.extras import VERSION
from fedsim.record.folder import RunFolder
from fedsim.record.live import CurvePoint, LiveRun
from fedsim.record.parts import read_table
from fedsim.report.convergence import measure_name
from fedsim.report.drawing import PageFigure, draw, line_icon, page_style
from fedsim.report.page import render
from fedsim.report.study import ReportedStudy
from fedsim.report.templating import asset, environment, palette, script_hash
from fedsim.running.probe import duration
from fedsim.running.watching import Key, Snapshot, Watcher, headline, time_left
from fedsim.text import format_number, quantity, visible

REPORT = "report.html"
"""The page of the ended runs, and its file in the folder of a study."""

_PAUSE = 1.0  # seconds of real time between two looks, at least

_SHARE = 0.01  # of real time, which looking and drawing may take at most

_DRAWN, _POINTS = 60, (20, 120)  # runs whose curves are drawn, and points of each

_VALUES = 3_000  # points of a figure

_RUNS, _EVENTS = 30, 12  # lines of each

_SIZE = 3.7, 2.4  # inches of a figure

_TEXT = "text/html; charset=utf-8"

_AXES = (("round", "gap"), ("joules", "gap"), ("round", "joules"))
"""The figures: what lies across, and upwards. In place of the gap, of an unknown optimum, there is
the objective."""


class Answer(NamedTuple):
    """What is sent: a text, its type and the policy that the browser follows, if it has one."""

    content: str
    kind: str = _TEXT
    policy: str = ""


@dataclass
class StudyPages:
    """The pages of a study; a page is drawn when it is asked for, and at most once a second.

    Args:
        out: the folder of its runs.
        clock: returns the time that this thread has computed, s.
    """

    out: Path
    clock: Callable[[], float] = time.thread_time

    def __post_init__(self) -> None:
        self._watcher, self._curves = Watcher(self.out), RecordedCurves(self.out)
        self._state, self._due, self._pause = "", 0.0, _PAUSE
        self._reported: tuple[frozenset[Key], str] = frozenset(), ""
        self._following, self._reporting = threading.Lock(), threading.Lock()

    def find(self, name: str) -> Answer | None:
        """Return a page by its name; None if there is no such page."""
        pages = {"": self._home, "live.json": self._live, REPORT: self._report}
        return pages[name]() if name in pages else None

    def _home(self) -> Answer:
        """Return the page that follows the runs; its script asks for what changes."""
        script = asset("fedsim.report", "page.js")
        live = asset("fedsim.browser", "live.js")
        hashes = " ".join(f"'sha256-{script_hash(each)}'" for each in (script, live))
        content = (
            environment("fedsim.browser")
            .get_template("live.html")
            .render(
                fedsim=VERSION,
                name=self.out.name,
                report=str(self.out / REPORT),
                palette=palette(),
                style=asset("fedsim.report", "page.css") + asset("fedsim.browser", "live.css"),
                scripts=[script, live],
            )
        )
        policy = asset("fedsim.browser", "live.policy").strip().format(hashes=hashes)
        return Answer(content, policy=policy)

    def _live(self) -> Answer:
        """Return the present state, as JSON: its HTML, and how long to wait until the next."""
        with self._following:
            if time.monotonic() >= self._due:
                began = self.clock()
                self._state = json.dumps(self._look())
                self._pause = max(_PAUSE, (self.clock() - began) / _SHARE)
                self._due = time.monotonic() + self._pause
            return Answer(self._state, "application/json")

    def _look(self) -> dict[str, Any]:
        try:
            now = self._watcher.look()
        except (FedsimError, OSError):  # the folder is not there yet, or changes right now
            text = "Reading data, building and solving the problem."
            return self._answer(f"<p>{text}</p>", self.out.name)
        ended = len(now.done) + len(now.failed)
        content = progress(now, self._curves.of(now))
        return self._answer(content, now.status.name, f"{ended}/{len(now.runs)} ", ended)

    def _answer(self, html: str, name: str, counts: str = "", ended: int = 0) -> dict[str, Any]:
        name = visible(name)
        title = f"{counts}{name}"
        return {"html": html, "name": name, "title": title, "ended": ended, "pause": self._pause}

    def _report(self) -> Answer:
        """Return the report of the ended runs, or why there is none."""
        policy = asset("fedsim.browser", "framed.policy").strip()
        with self._reporting:
            try:
                now = Watcher(self.out).look()
                ended = frozenset(now.done | now.failed)
                if not self._reported[1] or ended != self._reported[0]:
                    self._reported = ended, render(ReportedStudy(Comparison.of([self.out])))
            except (FedsimError, OSError) as error:
                page = environment("fedsim.browser").get_template("none.html")
                return Answer(page.render(reason=str(error)), policy=policy)
            return Answer(self._reported[1], policy=policy)


# Curves: of runs in progress by their live files, of ended ones by their round tables.


class RecordedCurves:
    """The curves of the ended runs of a study; each is read once.

    Args:
        out: the folder of the runs.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._read: dict[Key, Sequence[CurvePoint]] = {}

    def of(self, now: Snapshot) -> Mapping[Key, Sequence[CurvePoint]]:
        """Return the curves of runs in progress and of ended ones, in the order of the study."""
        live = {key: run.curve for key, run in now.running.items() if run.curve}
        ended = [key for key in now.runs if key in now.done and key not in live]
        drawn = {*live, *ended[: max(_DRAWN - len(live), 0)]}
        return {
            key: live[key] if key in live else self._recorded_curve(key)
            for key in now.runs
            if key in drawn
        }

    def _recorded_curve(self, key: Key) -> Sequence[CurvePoint]:
        if key not in self._read:
            try:
                self._read[key] = read_curve(RunFolder.place(self._out, *key))
            except (FedsimError, OSError, pa.ArrowException):  # it is being replaced
                return ()
        return self._read[key]


def read_curve(folder: Path) -> Sequence[CurvePoint]:
    """Return the curve of an ended run, with `_POINTS[1]` points at most.

    Raises:
        FileNotFoundError: the run has no round table.
        DataError: it is damaged.
    """
    names = ("round", "t", "objective", "gap", "joules")
    table = read_table(folder, "rounds", names)
    columns = {name: table[name].to_numpy().astype(float) for name in names}
    columns["joules"] = np.cumsum(columns["joules"])
    known = np.flatnonzero(np.isfinite(columns["objective"]))
    rows = known[_spread(len(known), _POINTS[1])]
    points = zip(*(columns[name][rows].tolist() for name in names), strict=True)
    return [CurvePoint(int(number), *others) for number, *others in points]


def _spread(count: int, most: int) -> Any:  # noqa: ANN401 - an index
    return np.unique(np.linspace(0, count - 1, min(count, most)).astype(np.intp))


def progress(now: Snapshot, lines: Mapping[Key, Sequence[CurvePoint]]) -> str:
    """Return what the page shows of a moment, as HTML.

    Args:
        now: the state of the study.
        lines: the curves of its runs, in its order.
    """
    runs, numbers = list(now.running.values()), _numbers(now)
    return (
        environment("fedsim.browser")
        .get_template("progress.html")
        .render(
            state=headline(now),
            share=_share(now),
            variants=[(name, icon(numbers[name]), list(_seeds(now, name))) for name in numbers],
            runs=[_row(run) for run in runs[:_RUNS]],
            more=len(runs) - _RUNS,
            figures=[*figures(lines, numbers)],
            drawn=len(lines),
            ended=len(now.done),
            reasons=[
                (f"{each.variant}, seed {seed}", reason)
                for each in now.status.variants
                for seed, reason in each.reasons.items()
            ],
            processes=[
                {
                    "name": own.process,
                    "doing": own.doing,
                    "events": [
                        (f"{format_number(each.seconds, ',.0f')} s", each.text)
                        for each in own.events[-_EVENTS:]
                    ],
                }
                for own in now.campaigns
            ],
        )
    )


def _numbers(now: Snapshot) -> dict[str, int]:
    """Return the number of each variant, by which its curves are coloured."""
    return {each.variant: number for number, each in enumerate(now.status.variants)}


def icon(number: int) -> object:
    """Return a piece of the curve of a variant."""
    return line_icon(**look(number))


def _share(now: Snapshot) -> float:
    """Return which share of the study is done, its runs in progress by their rounds."""
    begun = sum(run.round / run.rounds for run in now.running.values() if run.rounds)
    return (len(now.done | now.failed) + begun) / max(len(now.runs), 1)


def _seeds(now: Snapshot, variant: str) -> Iterator[tuple[str, str]]:
    """Yield the state of each run of a variant, and its words."""
    for key in now.runs:
        if key[0] != variant:
            continue
        if key in now.running:
            run = now.running[key]
            yield "running", f"seed {key[1]}: {_percent(run) or 'running'}"
        else:
            states = {"done": now.done, "failed": now.failed}
            state = next((name for name, own in states.items() if key in own), "pending")
            yield state, f"seed {key[1]}: {state}"


def _percent(run: LiveRun) -> str:
    return f"{100 * run.round // run.rounds} %" if run.rounds else ""


def _row(run: LiveRun) -> dict[str, Any]:
    """Return the figures of a run in progress, as they are read."""
    last = run.curve[-1] if run.curve else CurvePoint(0)
    left = time_left(run)
    return {
        "name": f"{run.variant}, seed {run.seed}",
        "share": run.round / run.rounds if run.rounds else 0.0,
        "state": run.doing or (f"{run.round:,} of {run.rounds:,}" if run.rounds else "running"),
        "figure": _figure(last),
        "joules": quantity(last.joules, "J"),
        "left": "-" if isnan(left) else duration(left),
        "rate": "-" if isnan(run.rate) else format_number(run.rate, ".3g"),
        "worker": run.worker or "-",
    }


def _figure(point: CurvePoint) -> str:
    name = "gap" if isfinite(point.gap) else "objective"
    value = getattr(point, name)
    return f"{name} {format_number(value, '.3g')}" if isfinite(value) else "-"


def figures(
    lines: Mapping[Key, Sequence[CurvePoint]], numbers: Mapping[str, int]
) -> Iterator[PageFigure]:
    """Yield the figures of the curves that have points.

    Args:
        lines: the curves.
        numbers: of the variants, by which they are coloured.
    """
    points = [point for own in lines.values() for point in own]
    known = any(isfinite(point.gap) for point in points)
    for across, upwards in _AXES:
        measure = upwards if upwards != "gap" or known else "objective"
        seen = [(getattr(each, across), getattr(each, measure)) for each in points]
        if any(isfinite(x) and isfinite(y) for x, y in seen):
            yield _figure_of(lines, numbers, across, measure)


def _figure_of(
    lines: Mapping[Key, Sequence[CurvePoint]], numbers: Mapping[str, int], x: str, y: str
) -> PageFigure:
    least, most = _POINTS
    count = min(max(_VALUES // max(len(lines), 1), least), most)
    title, unit = EVERY_AXIS[x]
    called, unit_y = EVERY_AXIS.get(y, (measure_name(y), ""))

    def plot(axis: Axes) -> None:
        for (variant, _), own in lines.items():
            rows = [own[row] for row in _spread(len(own), count)]
            values = np.array([[getattr(each, name) for name in (x, y)] for each in rows])
            known = np.isfinite(values).all(axis=1) & ((values[:, 1] > 0) | (y != "gap"))
            gid = f"variant-{numbers[variant]}"
            axis.plot(*values[known].T, gid=gid, **look(numbers[variant]))
        axis.set_xlim(left=0)
        label_with_unit(axis.xaxis, title, unit)
        if y == "gap":
            label_axis(axis.yaxis, called, log=True)
        else:
            label_with_unit(axis.yaxis, called, unit_y)

    with page_style():
        return draw(f"{y}-{x}", f"{called} against {title}", plot, size=_SIZE)
