"""The study of a plan's folder: whether it is this plan's, and what happens to its runs.

A scenario that was edited and is run again takes up its own folder: what is as before is kept,
what is not is made again. The folder of another scenario is left alone.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, Self, TypeVar

from fedsim.errors import DataError
from fedsim.record.folder import RESULTS, SCENARIO, SMALL, SUMMARY, RunFolder, read_failure
from fedsim.record.lock import is_held
from fedsim.record.manifest import AGAIN, MADE_FROM, check_files
from fedsim.record.read import run_folders
from fedsim.record.scenarios import RUNS, Note, describe_differences, differing, parse, read_text
from fedsim.record.studies import Study, read_study, study_in
from fedsim.record.summary import DONE as ENDED
from fedsim.record.summary import Ending, is_whole, read_summary
from fedsim.running.batches import run_duration
from fedsim.running.staging import MAKING
from fedsim.scenario import Plan, Variant, dump


def study_of(plan: Plan) -> Study:
    """Return what the runs of a plan belong to."""
    variants = {variant.name: variant.fingerprint for variant in plan.variants}
    seeds = {variant.name: list(variant.seeds) for variant in plan.variants}
    return Study(plan.name, plan.file, variants, seeds=seeds)


def check_place(study: Study, out: Path) -> None:
    """Make sure that a folder holds no runs of another scenario that would be written over.

    Raises:
        DataError: it does.
    """
    there = study_in(out)
    if there is None or study.is_edited(there) or not study.changed_variants(there):
        return
    own, other = _name_of(study), _name_of(there)
    text = f"{out} holds runs of {other}, and this is {own}: nothing was written"
    over = f", or --fresh to write over {', '.join(study.changed_variants(there))}"
    name = "" if study.priced else ", the scenario another name"
    helps = f"give another folder with --out{name}{'' if study.priced else over}"
    raise DataError("out", f"{text}; {helps}")


def _name_of(study: Study) -> str:
    """Return what to call a study: by its name, its file, and how it came about."""
    if not study.name:
        return "another scenario that the folder does not name"
    file = f" from {study.file}" if study.file else ""
    return f"the scenario {study.name}{file}{', priced again' if study.priced else ''}"


def changes(plan: Plan, out: Path) -> Iterator[Note]:
    """Yield what becomes of the runs that a folder has from an earlier state of a plan."""
    study, there = study_of(plan), study_in(out)
    if there is None:
        return
    changed = study.changed_variants(there)
    for variant in plan.variants:
        if variant.name in changed:
            text = f"{out / variant.name} was made from other values{_values(variant, out)}"
            yield Note(variant.name, RUNS, f"{text}: it is made again")
    if gone := study.removed_variants(there):
        names = ", ".join(gone)
        text = f"{out} also has runs of {names}, which the scenario no longer has: they stay there,"
        yield Note(names, RUNS, f"{text} and compare and report leave them out")


def _values(variant: Variant, out: Path) -> str:
    """Return in which values a variant differs from what its runs were made from, in brackets."""
    now = _plain(dump(variant.scenario))
    for path in run_folders(out / variant.name):
        try:
            then = _plain(read_text(path))
        except DataError:
            continue
        return describe_differences(differing(then, now), "then", "now")
    return ""


def _plain(text: str) -> Any:  # noqa: ANN401 - any scenario
    return parse(text, Path())


# Shards: one worker's share of a plan's runs, such as the third of sixteen.

_T = TypeVar("_T")


class Shard(NamedTuple):
    """A fixed share of the runs, by their order; all shards together have each run once.

    Attributes:
        number: which one, counted from 1.
        shares: how many there are.
    """

    number: int
    shares: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the shard that a text such as "3/16" names.

        Raises:
            DataError: it names none.

        >>> Shard.parse("3/16").of(range(40))
        [2, 18, 34]
        """
        found = re.fullmatch(r"\s*(\d{1,9})\s*/\s*(\d{1,9})\s*", text)
        shard = cls(int(found[1]), int(found[2])) if found else cls(0, 0)
        if not 1 <= shard.number <= shard.shares:
            raise DataError("shard", f"a shard is K/N, from 1/16 to 16/16, say; got {text!r}")
        return shard

    def of(self, runs: Sequence[_T]) -> list[_T]:
        """Return those of the runs that belong to the shard."""
        return list(runs[self.number - 1 :: self.shares])


WHOLE = Shard(1, 1)
"""All runs."""


# The progress of a study, from the files in its folder: done, running, failed and pending.
#
# No process is asked: a run that is done has its files, one that is being made has begun to write,
# and why one has failed is left in its place.

DONE, GOING, FAILING, LEFT = "done", "going on", "failed", "left"
"""What a run can be."""


@dataclass(frozen=True)
class VariantStatus:
    """How far the runs of a variant are.

    Attributes:
        variant: its name.
        done, going, failed, left: the seeds of which that is so.
        seconds: of real time that a run takes, the median of those that are done; NaN without any.
        reasons: of those that have failed or that no client was left for, and of those left that
            are damaged, by their seeds.
    """

    variant: str
    done: tuple[int, ...]
    going: tuple[int, ...]
    failed: tuple[int, ...]
    left: tuple[int, ...]
    seconds: float
    reasons: dict[int, str]


@dataclass(frozen=True)
class Status:
    """How far a study is.

    Attributes:
        name: the study's.
        folder: that its runs are in.
        held: whether a process is writing into it.
        variants: how far each is.
    """

    name: str
    folder: Path
    held: bool
    variants: tuple[VariantStatus, ...]

    @property
    def seconds(self) -> float:
        """How long what is not done takes yet, at as many at once as go on now; NaN if unknown.

        What goes on counts as half done. A variant of which no run is done takes as long as
        the median of the others.
        """
        known = [each.seconds for each in self.variants if each.seconds == each.seconds]
        if not known:
            return nan
        work, going = 0.0, 0
        for each in self.variants:
            seconds = each.seconds if each.seconds == each.seconds else median(known)
            work += seconds * (len(each.left) + len(each.going) / 2)
            going += len(each.going)
        return work / max(going, 1)


def status(out: Path, study: Study | None = None) -> Status:
    """Return how far a study is.

    Args:
        out: the folder of its runs.
        study: what is to be made there; what the folder says if None.

    Raises:
        DataError: the folder does not say, or what it says is damaged.
    """
    study = study or read_study(out)
    if study is None:
        raise DataError("status", f"{out} holds no study; give a folder that `fedsim run` has made")
    in_use = is_held(out)
    making = {(path.parent.name, path.name) for path in (out / MAKING).glob("*/*/seed-*")}
    return Status(study.name, out, in_use, tuple(_variants(study, out, making, in_use=in_use)))


def _variants(
    study: Study, out: Path, making: set[tuple[str, str]], *, in_use: bool
) -> Iterator[VariantStatus]:
    for name, made_from in study.variants.items():
        found: dict[str, list[int]] = {state: [] for state in (DONE, GOING, FAILING, LEFT)}
        took, reasons = list[float](), dict[int, str]()
        for seed in study.seeds.get(name, ()):
            folder = RunFolder.place(out, name, seed)
            state, reason = _state(folder, made_from)
            begun = (folder / SCENARIO).exists() and not (folder / SUMMARY).exists()
            if state != DONE and in_use and ((name, folder.name) in making or begun):
                state, reason = GOING, ""
            found[state].append(seed)
            if reason:
                reasons[seed] = reason
            if state == DONE and (seconds := run_duration(folder)) is not None:
                took.append(seconds)
        typical = median(took) if took else nan  # a clock that jumps makes one run last for years
        done, going, failed, left = (tuple(seeds) for seeds in found.values())
        yield VariantStatus(name, done, going, failed, left, typical, reasons)


def _state(folder: Path, made_from: str) -> tuple[str, str]:
    """Return what a run is by its own files, and why it has failed or does not count, if so.

    The log and the models are large: that they are there is enough.
    """
    try:
        # Files are looked through whatever they were made from: damage is told of those, too.
        if (folder / SUMMARY).exists() and check_files(folder, SMALL)[MADE_FROM] == made_from:
            summary = read_summary(folder / SUMMARY)
            lacking = next((name for name in RESULTS if not (folder / name).is_file()), None)
            if lacking is not None:
                return LEFT, f"there is no {folder / lacking}; {AGAIN}"
            ending = Ending(summary["status"], summary["reason"])
            reason = "" if ending.status == ENDED else str(ending)
            return (DONE if is_whole(ending.status) else FAILING), reason
        reason = read_failure(folder)
    except DataError as error:
        return LEFT, str(error)
    return (FAILING, reason) if reason else (LEFT, "")
