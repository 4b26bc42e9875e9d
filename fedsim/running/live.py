"""Publishing the progress of a campaign in its folder, for `fedsim watch` and `fedsim status`.

The callback only stores the last progress of each run, so that it costs a microsecond a round; a
thread writes the file about once a second. Runs that other processes make, on this machine or
elsewhere, report to this one, so it has the progress of all of them.
"""

import os
import platform
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import isnan, nan
from pathlib import Path

from fedsim.core.progress import current_activity
from fedsim.core.signals import defer_signals
from fedsim.core.text import format_number
from fedsim.results.record.live import (
    CurvePoint,
    LiveCampaign,
    LiveCurve,
    LiveEvent,
    LiveRun,
    remove_live,
    write_live,
)
from fedsim.results.record.scenarios import Note, Tell
from fedsim.results.record.variants import labels
from fedsim.running.run import RunProgress, Watch
from fedsim.scenario import Plan

_PAUSE = 1.0
"""Seconds of real time between two writes, at least; nothing is written in the first of them."""

_SHARE = 0.005
"""Largest share of real time that the writing may take: of many runs, a file has many curves."""

_EVENTS = 12
"""Number of events that are kept."""


@dataclass(slots=True)
class _Reported:
    """The last report on a run in progress."""

    progress: RunProgress
    begun: float
    first: int
    reported: float
    curve: LiveCurve = field(default_factory=LiveCurve)

    def as_live(self, now: float, words: str) -> LiveRun:
        """Return it as the file has it, with the activity of this process in words."""
        last, seconds = self.progress, now - self.begun
        done = last.round - self.first
        doing = last.doing or (words if not last.worker and now - self.reported >= _PAUSE else "")
        return LiveRun(
            last.variant,
            last.seed,
            last.algorithm,
            last.rounds,
            last.round,
            seconds,
            done / seconds if done > 0 and seconds > 0 else nan,
            last.worker,
            doing,
            self.curve.points(),
        )


class LiveReporter:
    """Publishes the progress of the runs of a campaign.

    Args:
        out: the folder of the runs.
        plan: of the campaign.
        clock: returns real time, s.
    """

    def __init__(self, out: Path, plan: Plan, clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._labels = labels(
            {variant.name: variant.scenario.algorithm.kind for variant in plan.variants}
        )
        self._began = clock()
        self._process = f"{platform.node()}, process {os.getpid()}"
        self._file = f"{platform.node()}-{os.getpid()}-{id(self):x}.json"
        self._one = threading.Lock()
        self._running: dict[tuple[str, int], _Reported] = {}
        self._events = deque[LiveEvent](maxlen=_EVENTS)
        self._runs = self._ended = 0

    def watch(self, watch: Watch) -> Watch:
        """Return a progress callback that also publishes the progress, then calls another one."""

        def report(progress: RunProgress) -> None:
            self._take(progress)
            watch(progress)

        return report

    def tell(self, tell: Tell) -> Tell:
        """Return a callback for notes that also publishes them, then calls another one."""

        def report(note: Note) -> None:
            with self._one:
                self._add_event(str(note))
            tell(note)

        return report

    def _take(self, progress: RunProgress) -> None:
        """Store the progress of a run."""
        key, now = (progress.variant, progress.seed), self._clock()
        with self._one:
            reported = self._running.get(key)
            if progress.ended:
                self._end(progress, begun=reported is not None)
                return
            if reported is None:
                self._leave(progress.worker)
                reported = self._running[key] = _Reported(progress, now, progress.round, now)
                self._add_event(f"{self._name_of(progress)} has begun")
            reported.progress, reported.reported = progress, now
            if not isnan(progress.t) and not progress.doing:
                point = progress.round, progress.t, progress.objective, progress.gap
                reported.curve.add(CurvePoint(*point, progress.joules))

    def _leave(self, worker: str) -> None:
        """Remove runs that a worker abandoned: it begins another run without their end."""
        for key in [key for key, run in self._running.items() if run.progress.worker == worker]:
            del self._running[key]

    def _end(self, progress: RunProgress, *, begun: bool) -> None:
        self._running.pop((progress.variant, progress.seed), None)
        self._ended += 1
        name = self._name_of(progress)
        figure = "objective" if isnan(progress.gap) else "gap"
        state = (
            f"round {progress.round}, {figure} {format_number(getattr(progress, figure), '.3g')}"
        )
        self._add_event(f"{name} {'has ended' if begun else 'is complete'}: {state}")

    def _name_of(self, progress: RunProgress) -> str:
        return f"{self._labels[progress.variant]}, seed {progress.seed}"

    def _add_event(self, text: str) -> None:
        self._events.append(LiveEvent(self._clock() - self._began, text))

    def state(self) -> LiveCampaign:
        """Return the state to publish now."""
        words, now = current_activity(), self._clock()
        with self._one:
            running = tuple(run.as_live(now, words) for run in self._running.values())
            events = tuple(self._events)
        doing = "" if running else words
        ended, seconds = self._ended, now - self._began
        return LiveCampaign(self._process, seconds, self._runs, ended, running, doing, events)

    @contextmanager
    def publish(self, runs: int) -> Iterator[None]:
        """Publish the progress within the block.

        Args:
            runs: the number of runs of the campaign.
        """
        self._runs, stop = runs, threading.Event()
        thread = threading.Thread(target=self._publish_until, args=(stop,), daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there is no memory for a thread
            yield
            return
        try:
            yield
        finally:
            with defer_signals():
                stop.set()
                thread.join()
                remove_live(self._out, self._file)

    def _publish_until(self, stop: threading.Event) -> None:
        """Write the file, at most once a pause and for a share of the time, until `over` is set."""
        pause = _PAUSE
        while not stop.wait(pause):
            before = time.thread_time()
            write_live(self._out, self._file, self.state())
            pause = max(_PAUSE, (time.thread_time() - before) / _SHARE)
