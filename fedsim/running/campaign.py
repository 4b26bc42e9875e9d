"""A campaign: all the runs of a plan, in sequence or in parallel; existing ones are reused.

A run that fails does not end the others, wherever they are made. When all have ended,
`check_ends` raises the error of those that failed and warns of those that diverged.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from fedsim.building import Builder
from fedsim.errors import (
    AuditError,
    Clash,
    Deadlock,
    Diverged,
    Failed,
    FedsimError,
    Misdrawn,
    Mistimed,
    OutputError,
    RunError,
    RunWarning,
    Unfinished,
)
from fedsim.record.folder import SCENARIO, SUMMARY, note_failure
from fedsim.record.scenarios import RISEN, RUNS, Note, Tell, ignore_note
from fedsim.record.summary import DONE, ROSE, Ending, is_whole, status_of
from fedsim.results import Result
from fedsim.running.folder import WHOLE, Shard
from fedsim.running.run import RunProgress, Watch
from fedsim.running.staging import Place, unpack
from fedsim.running.workers import (
    Known,
    Order,
    Outcome,
    Run,
    encode_order,
    make,
    make_some,
    names,
    postpone_signals,
    telling,
    there_in,
    workers,
)


class Engine(Protocol):
    """Something that makes runs elsewhere."""

    def outcomes(self, order: Order, runs: Sequence[Known], watch: Watch) -> Iterator[Outcome]:
        """Make runs, and yield what became of each as it ends."""


@dataclass(frozen=True)
class Campaign:
    """The runs of a plan.

    Attributes:
        order: the plan, and where its runs go.
        shard: which of them are made.
        tell: told of each run that fails.
    """

    order: Order
    shard: Shard = WHOLE
    tell: Tell = ignore_note
    _failed: dict[Run, Exception] = field(default_factory=dict)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the runs, variant by variant."""
        return tuple(map(self.order.folder, sorted(self.runs)))

    @property
    def runs(self) -> list[Run]:
        """The runs, seed by seed: the variants share the data of a seed, which is built once."""
        variants = enumerate(self.order.plan.variants)
        every = [Run(number, seed) for number, variant in variants for seed in variant.seeds]
        return sorted(self.shard.of(every), key=attrgetter("seed"))

    def in_turn(self, builder: Builder, watch: Watch) -> tuple[Path, ...]:
        """Make the runs one after the other, and return their folders.

        Raises:
            FedsimError: of a run that has failed; the others are made.
        """
        with self.order.home() as home:
            for run in self.runs:
                known = Known(run, there_in(self.order, run))
                self._take(make(self.order, builder, home, known, watch))
        return self._check_outcomes()

    def in_processes(self, jobs: int, watch: Watch) -> tuple[Path, ...]:
        """Make the runs in processes of their own, and return their folders.

        A process that dies takes those with it that others are making. What had begun is made
        again, each alone: so the run whose process dies is known, and the others are made.

        Raises:
            FedsimError: of a run that has failed; the others are made.
            BlockError: a block is made of what another process cannot be sent.
        """
        watch = once(watch)
        left = self._run_pool(self.runs, jobs, watch)
        while left:
            suspects = [run for run in left if self._has_begun(run)] or left[:1]
            for run in suspects:
                if self._run_pool([run], 1, watch):
                    text = (
                        "a worker process has died of it, twice, perhaps for want of memory;"
                        " fewer --jobs take less"
                    )
                    self._take(Outcome(run, error=RunError(f"{names(self.order, run)}: {text}")))
            left = self._run_pool([run for run in left if run not in suspects], jobs, watch)
        return self._check_outcomes()

    def by(self, engine: Engine, watch: Watch) -> tuple[Path, ...]:
        """Make the runs wherever an engine does, and return their folders.

        Raises:
            FedsimError: of a run that has failed; the others are made.
            RunError: the engine is gone.
        """
        watch = once(_marking(watch, self.order.place))
        known = [Known(run, there_in(self.order, run)) for run in self.runs]
        for outcome in engine.outcomes(self.order, known, watch):
            if outcome.files is not None and self.order.place is not None:
                folder = self.order.folder(outcome.run)
                unpack(outcome.files, folder, self.order.place, outcome.seconds)
            if outcome.ended is not None:
                watch(outcome.ended)
            self._take(outcome)
        return self._check_outcomes()

    def _run_pool(self, runs: Sequence[Run], jobs: int, watch: Watch) -> list[Run]:
        """Make runs in a pool of processes; return those that have not ended as one has died."""
        if not runs:
            return []
        pickled, left = encode_order(self.order), []
        known = [Known(run, there_in(self.order, run)) for run in runs]
        with workers(min(jobs, len(runs)), watch) as pool:
            with postpone_signals():  # else an interrupt could leave a process half begun
                futures = {pool.submit(_make_reported, pickled, [each]): each.run for each in known}
            for future in as_completed(futures):
                try:
                    self._take(*future.result())
                except BrokenExecutor:
                    left.append(futures[future])
        return sorted(left, key=runs.index)

    def _has_begun(self, run: Run) -> bool:
        folder = self.order.folder(run)
        return (folder / SCENARIO).exists() and not (folder / SUMMARY).exists()

    def _take(self, *outcomes: Outcome) -> None:
        """Note which runs have failed, and tell."""
        for outcome in outcomes:
            if outcome.error is not None:
                self._failed[outcome.run] = outcome.error
                variant = self.order.plan.variants[outcome.run.number].name
                text = f"seed {outcome.run.seed} has failed: {outcome.error}"
                self.tell(Note(variant, RUNS, text))
                with suppress(OutputError):  # which may be what it has failed for
                    note_failure(self.order.folder(outcome.run), str(outcome.error))

    def _check_outcomes(self) -> tuple[Path, ...]:
        """Return the folders of the runs, where none has failed.

        Raises:
            FedsimError: of a run that has failed.
        """
        errors = list(self._failed.values())
        if len(errors) == 1 or (errors and all(isinstance(each, OutputError) for each in errors)):
            raise _of_run(errors[0], self.order, next(iter(self._failed)))
        if errors:
            told = [f"{names(self.order, run)}: {each}" for run, each in self._failed.items()]
            raise Unfinished(len(self.runs), told) from errors[0]
        return self.folders


def _of_run(error: Exception, order: Order, run: Run) -> Exception:
    """Return the error of one run, with its variant and seed."""
    if isinstance(error, FedsimError):
        error.variant, error.seed = order.plan.variants[run.number].name, run.seed
    else:  # of a user's own code
        error.add_note(f"in the run {names(order, run)}")
    return error


@dataclass(frozen=True)
class ExecutorEngine:
    """Any executor, as an engine; it is not shut down."""

    executor: Executor

    def outcomes(self, order: Order, runs: Sequence[Known], watch: Watch) -> Iterator[Outcome]:
        """Make runs, one a task; yield what became of each as it ends."""
        del watch  # nothing is known of a run elsewhere before it ends
        pickled = encode_order(order)
        futures: dict[Future[list[Outcome]], Run] = {
            self.executor.submit(_make_reported, pickled, [known]): known.run for known in runs
        }
        try:
            for future in as_completed(futures):
                try:
                    yield from future.result()
                except BrokenExecutor as error:
                    text = f"a worker has died, perhaps for want of memory ({error})"
                    yield Outcome(futures[future], error=RunError(text))
        finally:
            for future in futures:
                future.cancel()


def _make_reported(pickled: bytes, runs: Sequence[Known]) -> list[Outcome]:
    """Make runs in this process, and tell how far they are."""
    return make_some(pickled, runs, telling())


def _marking(watch: Watch, place: Place | None) -> Watch:
    """Wrap a progress callback so that it also marks remote runs as active."""
    marked: set[tuple[str, int]] = set()

    def told(progress: RunProgress) -> None:
        key = progress.variant, progress.seed
        if place is not None and progress.ended:
            place.unmark(*key)
        elif place is not None and key not in marked:
            marked.add(key)
            place.mark(*key)
        watch(progress)

    return told


def once(watch: Watch) -> Watch:
    """Wrap a progress callback: each run's end is reported once, and nothing after it."""
    over: set[tuple[str, int]] = set()
    one = RLock()  # one report at a time: progress of a run, and its outcome

    def told(progress: RunProgress) -> None:
        key = progress.variant, progress.seed
        with one:
            if key not in over:
                if progress.ended:
                    over.add(key)
                watch(progress)

    return told


# Errors and warnings of `fedsim.run` after all runs have been made.


_DIVERGED = status_of(Diverged)

_KINDS: Mapping[str, type[RunError]] = {
    status_of(kind): kind for kind in (AuditError, Clash, Deadlock, Failed, Misdrawn, Mistimed)
}
"""The errors that a run alone can end with, by the states that it has then."""


def check_ends(result: Result, stacklevel: int) -> None:
    """Warn of runs that ended, yet not as was hoped; raise where runs have failed.

    Args:
        result: of all runs.
        stacklevel: of the warnings, counted from the caller of this function.

    Raises:
        RunError: a run has the state of an error other than divergence; the text says of which
            variant and seed, and so do the attributes of the error, of the first such run.
    """
    if not result.runs:  # as a shard may have none
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
        alike = f" ({len(more)} more of its seeds alike)" if more else ""
        warnings.warn(first + alike, RunWarning, stacklevel=stacklevel + 1)
    if failed:
        raise _error(failed, len(result.runs))


def _describe(row: Mapping[Any, Any]) -> str:
    """Return how a run has ended, as a sentence that names it."""
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
