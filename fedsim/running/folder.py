"""The folder of a study: its match with a plan, the runs that a plan replaces, and its progress.

An edited scenario that is run again continues in its own folder: runs of unchanged variants are
kept, the others are made again, and the earlier ones are moved (`fedsim.results.record.earlier`).
The folder of another scenario is not touched.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self, TypeVar

from fedsim.core.errors import DataError, VersionError
from fedsim.results.record.earlier import EARLIER, TRASH, earlier_runs
from fedsim.results.record.folder import RESULTS, SCENARIO, SMALL, SUMMARY, RunFolder, read_failure
from fedsim.results.record.lock import is_held
from fedsim.results.record.manifest import AGAIN, MADE_FROM, check_files, read_manifest
from fedsim.results.record.read import hold_no_runs, run_folders
from fedsim.results.record.scenarios import (
    RUNS,
    Note,
    describe_differences,
    differing,
    parse,
    read_text,
)
from fedsim.results.record.studies import Study, read_study, study_in
from fedsim.results.record.summary import DONE as ENDED
from fedsim.results.record.summary import Ending, is_whole, read_summary
from fedsim.running.staging import MAKING
from fedsim.scenario import Plan, Variant, dump


def study_of(plan: Plan) -> Study:
    """Return the study that a plan describes."""
    variants = {variant.name: variant.fingerprint for variant in plan.variants}
    seeds = {variant.name: list(variant.seeds) for variant in plan.variants}
    return Study(plan.name, plan.file, variants, seeds=seeds, baseline=plan.baseline)


def check_place(study: Study, out: Path) -> None:
    """Validate that a folder holds no runs of another scenario that would be overwritten.

    Raises:
        DataError: it does.
    """
    there = study_in(out)
    if there is None or study.is_edited(there) or not study.changed_variants(there):
        return
    new, old = _name_of(study), _name_of(there)
    text = f"{out} holds runs of {old}, and this is {new}: nothing was written"
    moved = ", ".join(study.changed_variants(there))
    options = "give another folder with --out"
    if not study.priced:
        options += f", the scenario another name, or --fresh to move {moved} into {TRASH}"
    raise DataError("out", f"{text}; {options}")


def _name_of(study: Study) -> str:
    """Return a description of a study: its name, its file, and whether it is re-priced."""
    if not study.name:
        return "another scenario that the folder does not name"
    file = f" from {study.file}" if study.file else ""
    return f"the scenario {study.name}{file}{', re-priced' if study.priced else ''}"


def changes(plan: Plan, out: Path) -> Iterator[Note]:
    """Yield notes on runs in a folder of another version, or of an earlier state of a plan."""
    study, there = study_of(plan), study_in(out)
    yield from _of_other_versions(plan, out)
    if there is None:
        return
    changed = study.changed_variants(there)
    for variant in plan.variants:
        if variant.name in changed:
            text = f"{out / variant.name} holds runs with other values{_values(variant, out)}"
            yield Note(variant.name, RUNS, f"{text}: {_change(variant, out)}")
    if gone := study.removed_variants(there):
        names = ", ".join(gone)
        text = f"{out} also has runs of {names}, which the scenario no longer has: they are kept,"
        yield Note(names, RUNS, f"{text} but compare and report leave them out")


def _of_other_versions(plan: Plan, out: Path) -> Iterator[Note]:
    """Yield a note if there are runs whose log has another version of the schema."""
    variants_by_version: dict[str, list[str]] = {}
    for variant in plan.variants:
        for path in run_folders(out / variant.name):
            try:
                read_manifest(path)
            except VersionError as error:
                variants_by_version.setdefault(error.describe_version(), []).append(variant.name)
            except DataError:
                continue
            break  # all seeds of a variant have the same version
    for text, variants in variants_by_version.items():
        moved = f"they move into {EARLIER}, and new runs are made"
        yield Note(", ".join(variants), RUNS, f"{out} has runs whose log {text}: {moved}")


def _change(variant: Variant, out: Path) -> str:
    """Describe where the runs of a changed variant move, and whether earlier ones return."""
    earlier = (
        next(earlier_runs(out, variant.name, seed, variant.fingerprint), None)
        for seed in variant.seeds
    )
    if any(earlier):
        return f"they move into {EARLIER}, and runs with the present values come back from there"
    return f"they move into {EARLIER}, and new runs are made"


def _values(variant: Variant, out: Path) -> str:
    """Return, in brackets, the values in which a variant differs from its recorded runs."""
    now = _plain(dump(variant.scenario))
    for path in run_folders(out / variant.name):
        try:
            then = _plain(read_text(path))
        except DataError:
            continue
        return describe_differences(differing(then, now), "then", "now")
    return ""


def _plain(text: str) -> Any:
    return parse(text, Path())


# Shards: one worker's share of a plan's runs, such as the third of sixteen.

_T = TypeVar("_T")


class Shard(NamedTuple):
    """A fixed share of the runs, by their order; all shards together have each run once.

    Attributes:
        number: of the shard, from 1.
        shares: the number of shards.
    """

    number: int
    shares: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as "3/16" names.

        Raises:
            DataError: it is not of the form K/N.

        >>> Shard.parse("3/16").of(range(40))
        [2, 18, 34]
        """
        match = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        shard = cls(int(match[1]), int(match[2])) if match else cls(0, 0)
        if not 1 <= shard.number <= shard.shares:
            hint = "expected K/N with K from 1 to N, such as 3/16"
            raise DataError("shard", f"shard: got {text!r}; {hint}")
        return shard

    def of(self, runs: Sequence[_T]) -> list[_T]:
        """Return those of the runs that belong to the shard."""
        return list(runs[self.number - 1 :: self.shares])


WHOLE = Shard(1, 1)
"""All runs."""


# The progress of a study, from the files in its folder alone: done, running, failed and pending.
#
# No process is queried. A run that is done has its files; one that is being made has begun to write
# them, and its folder is locked; the reason of a failure is in a file. Without a lock, a run that
# has begun is pending: its process was killed.

DONE, RUNNING, FAILING, PENDING = "done", "running", "failed", "pending"
"""The states of a run."""


def run_duration(folder: Path) -> float | None:
    """Return how long a complete run took, s of real time, by the dates of its files.

    Its scenario is written first, its summary last. None if the run is incomplete or the clock
    was set back meanwhile.
    """
    try:
        first, last = ((folder / name).stat().st_mtime_ns for name in (SCENARIO, SUMMARY))
    except OSError:
        return None
    return (last - first) / 1e9 if last >= first else None


@dataclass(frozen=True)
class VariantStatus:
    """The states of the runs of a variant.

    Attributes:
        variant: its name.
        done, running, failed, pending: the seeds of the runs in each state.
        seconds: median duration of the runs that are done, s of real time; NaN without any.
        reasons: by seed, why runs failed, ended without clients, or are damaged.
    """

    variant: str
    done: tuple[int, ...]
    running: tuple[int, ...]
    failed: tuple[int, ...]
    pending: tuple[int, ...]
    seconds: float
    reasons: dict[int, str]


@dataclass(frozen=True)
class Status:
    """The progress of a study.

    Attributes:
        name: the study's.
        folder: the folder of its runs.
        held: whether a process holds its lock.
        variants: the states of their runs.
    """

    name: str
    folder: Path
    held: bool
    variants: tuple[VariantStatus, ...]


def status(out: Path, study: Study | None = None) -> Status:
    """Return the progress of a study.

    Args:
        out: the folder of its runs.
        study: the study; as recorded in the folder if None.

    Raises:
        DataError: the folder holds no record of its study, or a damaged one.
    """
    study = study or read_study(out)
    if study is None:
        hint = "if `fedsim run` was interrupted before any run began, repeat it to start"
        raise DataError("status", f"{hold_no_runs(out)}; {hint}")
    in_use = is_held(out)
    making = {(path.parent.name, path.name) for path in (out / MAKING).glob("*/*/seed-*")}
    return Status(study.name, out, in_use, tuple(_variants(study, out, making, in_use=in_use)))


def _variants(
    study: Study, out: Path, making: set[tuple[str, str]], *, in_use: bool
) -> Iterator[VariantStatus]:
    for name, made_from in study.variants.items():
        seeds_by_state: dict[str, list[int]] = {
            state: [] for state in (DONE, RUNNING, FAILING, PENDING)
        }
        took, reasons = list[float](), dict[int, str]()
        for seed in study.seeds.get(name, ()):
            folder = RunFolder.place(out, name, seed)
            state, reason = _state(folder, made_from)
            begun = (folder / SCENARIO).exists() and not (folder / SUMMARY).exists()
            if state != DONE and in_use and ((name, folder.name) in making or begun):
                state, reason = RUNNING, ""
            seeds_by_state[state].append(seed)
            if reason:
                reasons[seed] = reason
            if state == DONE and (seconds := run_duration(folder)) is not None:
                took.append(seconds)
        # Not the mean: after one jump of the clock it would be years.
        typical = median(took) if took else nan
        done, running, failed, pending = (tuple(seeds) for seeds in seeds_by_state.values())
        yield VariantStatus(name, done, running, failed, pending, typical, reasons)


def _state(folder: Path, made_from: str) -> tuple[str, str]:
    """Return the state of a run by its own files, and why it failed or is damaged, if so.

    The log and the models are large: only their presence is checked, not their hashes.
    """
    try:
        # Files are checked before their scenario is: damage is reported in either case.
        if (folder / SUMMARY).exists() and check_files(folder, SMALL)[MADE_FROM] == made_from:
            summary = read_summary(folder / SUMMARY)
            lacking = next((name for name in RESULTS if not (folder / name).is_file()), None)
            if lacking is not None:
                return PENDING, f"there is no {folder / lacking}; {AGAIN}"
            ending = Ending(summary["status"], summary["reason"])
            reason = "" if ending.status == ENDED else str(ending)
            return (DONE if is_whole(ending.status) else FAILING), reason
        reason = read_failure(folder)
    except DataError as error:
        return PENDING, str(error)
    return (FAILING, reason) if reason else (PENDING, "")
