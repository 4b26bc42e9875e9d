"""The present state of a study, from the records and live files in its folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan, nan
from pathlib import Path
from statistics import median
from typing import Self

from fedsim.core.text import visible
from fedsim.results.record.folder import FAILED, SUMMARY, RunFolder
from fedsim.results.record.live import LiveCampaign, LiveRun, read_live
from fedsim.results.record.lock import is_held
from fedsim.results.record.studies import study_in
from fedsim.running.folder import Status, status
from fedsim.running.probe import duration

Key = tuple[str, int]
"""The variant and the seed of a run."""


@dataclass(frozen=True)
class Snapshot:
    """The state of a study at a moment.

    Attributes:
        status: the states of its runs, by their files.
        campaigns: the reports of the processes that make runs.
    """

    status: Status
    campaigns: tuple[LiveCampaign, ...] = ()

    @classmethod
    def of(cls, known: Status) -> Self:
        """Return the state of a study with what its processes report now."""
        return cls(known, tuple(read_live(known.folder)) if known.held else ())

    @property
    def running(self) -> Mapping[Key, LiveRun]:
        """The runs in progress; of those without a report, only the names are known."""
        silent = {
            (variant.variant, seed): LiveRun(variant.variant, seed)
            for variant in self.status.variants
            for seed in variant.running
        }
        reported = {
            (run.variant, run.seed): run for campaign in self.campaigns for run in campaign.running
        }
        return {**silent, **reported}

    @property
    def done(self) -> set[Key]:
        """The runs that are complete."""
        return {
            (variant.variant, seed) for variant in self.status.variants for seed in variant.done
        }

    @property
    def failed(self) -> set[Key]:
        """The runs that have failed."""
        return {
            (variant.variant, seed) for variant in self.status.variants for seed in variant.failed
        }

    @property
    def runs(self) -> list[Key]:
        """All runs, variant by variant, seeds in order."""
        return [
            (variant.variant, seed)
            for variant in self.status.variants
            for seed in sorted({*variant.done, *variant.running, *variant.failed, *variant.pending})
        ]

    @property
    def over(self) -> bool:
        """Whether nothing more will happen: every run has ended, or no process is at work."""
        return not self.status.held or len(self.done | self.failed) == len(self.runs)

    @property
    def seconds(self) -> float:
        """Estimated remaining time, s, at the present number of parallel runs; NaN if unknown.

        A run in progress goes on at its rate to its largest number of rounds, which a stop rule may
        end earlier. A pending run takes the median of its variant's ended runs; without any, as
        long as runs in progress will have taken.
        """
        running = self.running
        whole = [run.rounds / run.rate for run in running.values() if run.rate > 0]
        medians = {variant.variant: variant.seconds for variant in self.status.variants}
        typical = [*(variant for variant in medians.values() if not isnan(variant)), *whole]
        if not typical:
            return nan
        work = 0.0
        for key in set(self.runs) - self.done - self.failed:
            seconds = medians[key[0]] if not isnan(medians[key[0]]) else median(typical)
            run = running.get(key)
            remaining = nan if run is None else time_left(run)
            work += seconds if isnan(remaining) else remaining
        return work / max(len(running), 1)


def time_left(run: LiveRun) -> float:
    """Return the real time until a run has its largest number of rounds, s; NaN if unknown."""
    return (run.rounds - run.round) / run.rate if run.rate > 0 else nan


def describe_saved(saved: int, count: int) -> str:
    """Return how many runs are saved, and what makes the others.

    >>> describe_saved(0, 15)
    '0 of 15 runs are finished and saved. Repeat the command to start.'
    """
    runs = "run is" if count == 1 else "runs are"
    step = "resume" if saved else "start"
    return f"{saved} of {count} {runs} finished and saved. Repeat the command to {step}."


def describe_left(seconds: float) -> str:
    """Return the largest time that may be left, in words.

    >>> describe_left(9.2)
    'at most about 9 s left'
    """
    return f"at most {duration(seconds)} left"


def headline(now: Snapshot) -> str:
    """Return the state of a study in a line."""
    parts = [f"{len(now.done)} of {len(now.runs)} runs done", f"{len(now.running)} running"]
    if now.failed:
        parts.append(f"{len(now.failed)} failed")
    if not isnan(seconds := now.seconds) and not now.over:
        parts.append(describe_left(seconds))
    if not now.status.held:
        parts.append("no process is running")
    return visible(f"{now.status.name}: {', '.join(parts)}")


class Watcher:
    """Looks at the folder of a study again and again; files of ended runs are read once.

    Args:
        out: the folder of its runs.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._seen: object = None
        self._status: Status | None = None

    def look(self) -> Snapshot:
        """Return the present state.

        Raises:
            DataError: the folder holds no record of its study, or a damaged one.
        """
        held = is_held(self._out)
        campaigns = tuple(read_live(self._out)) if held else ()
        names = {(run.variant, run.seed) for campaign in campaigns for run in campaign.running}
        state = held, names, self._dates()
        if self._status is None or state != self._seen:
            self._status, self._seen = status(self._out), state
        return Snapshot(self._status, campaigns)

    def _dates(self) -> list[float]:
        """Return when runs have ended or failed; 0 if they have not."""
        study, dates = study_in(self._out), []
        for variant, seeds in {} if study is None else study.seeds.items():
            for seed in seeds:
                folder = RunFolder.place(self._out, variant, seed)
                for name in (SUMMARY, FAILED):
                    try:
                        dates.append((folder / name).stat().st_mtime)
                    except OSError:
                        dates.append(0.0)
        return dates
