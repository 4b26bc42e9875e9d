"""A campaign: all the runs of a plan, in sequence or in parallel; existing ones are reused.

A run that fails does not end the others, wherever they are made. When all have ended,
`check_ends` raises the error of those that failed and warns of those that diverged.
"""

import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import Any

from fedsim.core.errors import (
    AuditError,
    ClientOrderError,
    DataError,
    Deadlock,
    Diverged,
    DuplicateColumnError,
    Failed,
    FedsimError,
    OutputError,
    RunError,
    RunWarning,
    Unfinished,
    WorkDurationError,
)
from fedsim.core.signals import postpone_signals
from fedsim.results.record.earlier import TRASH, bring_back, discard
from fedsim.results.record.folder import RESULTS, SCENARIO, SUMMARY, RunFolder, note_failure
from fedsim.results.record.manifest import SEAL, check_files
from fedsim.results.record.scenarios import RISEN, RUNS, Note, Tell, ignore_note, likewise
from fedsim.results.record.summary import DONE, ROSE, Ending, is_whole, status_of
from fedsim.results.result import Result
from fedsim.running.executors import ExecutorEngine
from fedsim.running.folder import WHOLE, Shard
from fedsim.running.resuming import CampaignJournal
from fedsim.running.run import RunProgress, Watch
from fedsim.running.staging import unpack
from fedsim.running.workers import (
    Known,
    Order,
    Outcome,
    Run,
    find_finished,
    make,
    run_name,
    workers,
)
from fedsim.scenario.building import Builder

MADE, KEPT, BACK, FAILED = "made", "kept", "back", "failed"
"""Keys of `Campaign.counts`: runs that were made, were there, came back, and have failed."""


@dataclass(frozen=True)
class Campaign:
    """The runs of a plan.

    Attributes:
        order: the plan and its folder.
        shard: the share of the runs to make.
        tell: called with a note for each run that fails.
        counts: the numbers of runs that were made, kept, brought back, and have failed so far; of
            runs with Python objects also those that were made again, or kept after an interrupt.
        journal: the list of its complete runs, if the folder alone does not show it.
        counted: called whenever `counts` has another run that was not just kept.
    """

    order: Order
    shard: Shard = WHOLE
    tell: Tell = ignore_note
    counts: Counter[str] = field(default_factory=Counter)
    journal: CampaignJournal | None = None
    counted: Callable[[], None] = lambda: None
    _failed: dict[Run, Exception] = field(default_factory=dict)
    _complete: set[Run] = field(default_factory=set)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the runs, variant by variant."""
        return tuple(map(self.order.folder, sorted(self.runs)))

    @property
    def complete(self) -> tuple[Path, ...]:
        """The folders of the runs that were made or kept so far, variant by variant."""
        return tuple(map(self.order.folder, sorted(self._complete)))

    @property
    def runs(self) -> list[Run]:
        """The runs, seed by seed: variants share the data of a seed, which is then built once."""
        variants = enumerate(self.order.plan.variants)
        every = [Run(number, seed) for number, variant in variants for seed in variant.seeds]
        return sorted(self.shard.of(every), key=attrgetter("seed"))

    def in_turn(self, builder: Builder, watch: Watch) -> tuple[Path, ...]:
        """Make the runs one after another in this process; return their folders.

        Raises:
            FedsimError: a run has failed; the others are made.
        """
        with self.order.home() as home:
            for run in self.runs:
                task = self._find(run)
                self._take(watch, make(self.order, builder, home, task, watch))
        return self._check_outcomes()

    def in_processes(self, jobs: int, watch: Watch) -> tuple[Path, ...]:
        """Make the runs in worker processes; return their folders.

        When one process of a pool dies, `ProcessPoolExecutor` ends the others too, and does not
        report which run was the cause. So every run that had begun is a suspect and is repeated in
        a pool of its own. A run whose process dies again is the cause; the others complete.

        Raises:
            FedsimError: a run has failed; the others are made.
            BlockError: a block cannot be pickled.
        """
        self._make_in_pools(self.runs, jobs, once(watch, set()))
        return self._check_outcomes()

    def _make_in_pools(self, runs: Sequence[Run], jobs: int, watch: Watch) -> None:
        """Make runs in worker processes, in further pools where processes die."""
        remaining = self._run_pool(runs, jobs, watch)
        while remaining:
            suspects = [run for run in remaining if self._has_begun(run)] or remaining[:1]
            for run in suspects:
                if self._run_pool([run], 1, watch):
                    text = "its worker process died twice, perhaps out of memory; try fewer --jobs"
                    error = RunError(f"{run_name(self.order, run)}: {text}")
                    self._take(watch, Outcome(run, error=error))
            remaining = self._run_pool(
                [run for run in remaining if run not in suspects], jobs, watch
            )

    def by(self, engine: ExecutorEngine, watch: Watch) -> tuple[Path, ...]:
        """Make the runs by an executor; return their folders.

        A pool of processes on this machine that has lost a process takes no more runs; new
        processes make the remaining ones.

        Raises:
            FedsimError: a run has failed; the others are made.
            RunError: the executor takes no more runs, or its workers cannot make any.
        """
        ended = set[tuple[str, int]]()
        watch, remaining = once(watch, ended), dict.fromkeys(self.runs)
        try:
            self._collect(engine, remaining, watch)
        except BrokenExecutor as error:
            if not engine.processes:
                count = sum(self._key(run) not in ended for run in remaining)
                runs = "1 run" if count == 1 else f"{count} runs"
                hint = "the others are kept; repeat the command to make the missing ones"
                raise RunError(f"{error}: {runs} had not ended; {hint}") from error
            self._make_in_pools([*remaining], engine.processes, watch)
        return self._check_outcomes()

    def _collect(self, engine: ExecutorEngine, remaining: dict[Run, None], watch: Watch) -> None:
        """Make runs by an executor; those whose outcome has come leave `remaining`.

        Raises:
            BrokenExecutor: it takes no more runs.
        """
        for outcome in engine.outcomes(self.order, [*map(self._find, remaining)], watch):
            if outcome.files is not None and self.order.place is not None:
                folder, trash = self.order.folder(outcome.run), self.order.trash
                arguments = self.order.place, outcome.seconds, trash if self.order.fresh else ""
                unpack(outcome.files, folder, *arguments)
            if outcome.ended is not None and outcome.earlier is None:
                watch(outcome.ended)
            del remaining[outcome.run]
            self._take(watch, outcome)

    def _run_pool(self, runs: Sequence[Run], jobs: int, watch: Watch) -> list[Run]:
        """Make runs in a pool of processes; return those without an outcome if a process died."""
        remaining = dict.fromkeys(runs)
        if runs:
            with workers(min(jobs, len(runs)), watch) as pool, suppress(BrokenExecutor):
                # An interrupt must not leave a process half started.
                self._collect(ExecutorEngine(pool, postpone_signals), remaining, watch)
        return [*remaining]

    def _find(self, run: Run) -> Known:
        """Return a run with its existing files, if any; damaged earlier runs go to the trash."""

        def discard_damaged(earlier: Path) -> None:
            with suppress(OutputError):  # it is left out in any case
                discard(self.order.out, earlier)
            text = f"the earlier run in {earlier} is damaged and moves into {TRASH}"
            variant = self.order.plan.variants[run.number].name
            self.tell(Note(variant, RUNS, f"seed {run.seed}: {text}: the run is made again"))

        outcome = find_finished(self.order, run, discard_damaged)
        if self.journal is None or outcome.there is None:
            return outcome
        return outcome._replace(resumed=self.journal.has(outcome.there.manifest[SEAL]))

    def _key(self, run: Run) -> tuple[str, int]:
        return self.order.plan.variants[run.number].name, run.seed

    def _has_begun(self, run: Run) -> bool:
        homes = self.order.out, *(self.order.place.homes() if self.order.place else ())
        folders = [RunFolder.place(home, *self._key(run)) for home in homes]
        return any(
            (folder / SCENARIO).exists() and not (folder / SUMMARY).exists() for folder in folders
        )

    def _take(self, watch: Watch, *outcomes: Outcome) -> None:
        """Bring earlier runs back; register the runs that failed, and report them."""
        for each in outcomes:
            outcome = _restore(self.order, each)
            if each.earlier is not None and outcome.ended is not None:
                watch(outcome.ended)
            origin = _origin(each, outcome)
            self.counts[origin] += 1
            if outcome.code:
                self.counts[outcome.code] += 1
            if origin != KEPT:
                self.counted()
            if outcome.error is None:
                self._complete.add(outcome.run)
            if self.journal is not None and outcome.error is None and outcome.seconds:
                self.journal.add(self.order.folder(outcome.run))
            if outcome.error is not None:
                self._failed[outcome.run] = outcome.error
                variant = self.order.plan.variants[outcome.run.number].name
                text = f"seed {outcome.run.seed} has failed: {outcome.error}"
                self.tell(Note(variant, RUNS, text))
                if each.earlier is None:  # else a finished run is in the place
                    with suppress(OutputError):  # a full disk may be the reason of the failure
                        note_failure(self.order.folder(outcome.run), str(outcome.error))

    def _check_outcomes(self) -> tuple[Path, ...]:
        """Return the folders of the runs, if none has failed.

        Raises:
            FedsimError: one run has failed, or the disk is full.
            Unfinished: several runs have failed.
        """
        errors = list(self._failed.values())
        if len(errors) == 1 or (errors and all(isinstance(error, OutputError) for error in errors)):
            raise _of_run(errors[0], self.order, next(iter(self._failed)))
        if errors:
            failed = [
                f"{run_name(self.order, run)}: {error}" for run, error in self._failed.items()
            ]
            raise Unfinished(len(self.runs), failed) from errors[0]
        if self.journal is not None:
            self.journal.end()
        return self.folders


def _origin(reported: Outcome, outcome: Outcome) -> str:
    """Return where a run is from, as a key of `Campaign.counts`.

    Args:
        reported: the outcome as it was reported.
        outcome: the same, after an earlier run was brought back.
    """
    if outcome.error is not None:
        return FAILED
    if reported.earlier is not None:
        return BACK
    return MADE if outcome.seconds else KEPT


def _restore(order: Order, outcome: Outcome) -> Outcome:
    """Bring an earlier run back into its place; return the outcome, an error if it is damaged."""
    if outcome.earlier is None:
        return outcome
    try:
        check_files(outcome.earlier, RESULTS)
        bring_back(order.out, outcome.earlier, order.folder(outcome.run))
    except (DataError, OutputError) as error:
        return Outcome(outcome.run, error=error)
    return outcome._replace(earlier=None)


def _of_run(error: Exception, order: Order, run: Run) -> Exception:
    """Return the error of one run, with its variant and seed."""
    if isinstance(error, FedsimError):
        error.variant, error.seed = order.plan.variants[run.number].name, run.seed
    else:  # raised by user-defined code
        error.add_note(f"in the run {run_name(order, run)}")
    return error


def once(watch: Watch, over: set[tuple[str, int]]) -> Watch:
    """Wrap a progress callback: the end of each run is reported once, and nothing after it.

    Args:
        watch: the callback.
        over: takes the variant and seed of each run that has ended.
    """
    one = RLock()  # progress comes from a listening thread, outcomes from the calling one

    def report(progress: RunProgress) -> None:
        key = progress.variant, progress.seed
        with one:
            if key not in over:
                if progress.ended:
                    over.add(key)
                watch(progress)

    return report


# Errors and warnings of `fedsim.run` after all runs have been made.


_DIVERGED = status_of(Diverged)

_KINDS: Mapping[str, type[RunError]] = {
    status_of(kind): kind
    for kind in (
        AuditError,
        DuplicateColumnError,
        Deadlock,
        Failed,
        ClientOrderError,
        WorkDurationError,
    )
}
"""The errors that end a run, by the state that the run has then."""


def check_ends(result: Result, stacklevel: int) -> None:
    """Warn of runs that ended badly; raise if runs have failed.

    Args:
        result: the runs.
        stacklevel: for the warnings, counted from the caller of this function.

    Raises:
        RunError: a run ended with an error other than divergence; text and attributes name its
            variant and seed; of several such runs, the attributes name the first.
    """
    if not result.runs:  # a shard can be empty
        return
    warned: dict[tuple[str, str], list[str]] = {}
    failed: list[Mapping[Any, Any]] = []
    for row in result.summary.to_dict("records"):
        status = row["status"]
        if status == _DIVERGED or is_whole(status):
            if status != DONE:
                warned.setdefault((row["variant"], status), []).append(_describe(row))
        else:
            failed.append(row)
    for first, *more in warned.values():
        alike = likewise(len(more))
        warnings.warn(first + alike, RunWarning, stacklevel=stacklevel + 1)
    if failed:
        raise _error(failed, len(result.runs))


def _describe(row: Mapping[Any, Any]) -> str:
    """Return the end of a run as a sentence that names the run."""
    said = str(Ending(row["status"], row["reason"]))
    if row["status"] == ROSE:
        risen = f"{RISEN}: "
        said = next(text.removeprefix(risen) for text in row["notes"] if text.startswith(risen))
    return f"{row['variant']}, seed {row['seed']}: {said}"


def _error(failed: list[Mapping[Any, Any]], count: int) -> RunError:
    """Return the error of runs that have failed."""
    described = [_describe(row) for row in failed]
    if len(failed) > 1:
        described.insert(0, f"{len(failed)} of {count} runs have failed; what they wrote is kept:")
    kind = _KINDS.get(failed[0]["status"], RunError) if len(failed) == 1 else RunError
    error = kind("\n".join(described))
    error.variant, error.seed = failed[0]["variant"], int(failed[0]["seed"])
    return error
