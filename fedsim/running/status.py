"""How far a study is, by what is in its folder: done, going on, failed and left.

Nobody is asked: a run that is done has its files, one that is being made has begun to write, and
why one has failed is left in its place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import median

from fedsim.errors import DataError
from fedsim.record import ends
from fedsim.record.folder import RESULTS, SCENARIO, SUMMARY, RunFolder, read_failure
from fedsim.record.lock import is_held
from fedsim.record.manifest import AGAIN, MADE_FROM, check_files
from fedsim.record.soundness import SMALL
from fedsim.record.studies import Study, read_study
from fedsim.record.summary import read_summary
from fedsim.running.batches import lasted
from fedsim.running.places import MAKING

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
        held: whether somebody writes into it.
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
            if state == DONE and (seconds := lasted(folder)) is not None:
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
            ending = ends.Ending(summary["status"], summary["reason"])
            reason = "" if ending.status == ends.DONE else str(ending)
            return (DONE if ends.is_whole(ending.status) else FAILING), reason
        reason = read_failure(folder)
    except DataError as error:
        return LEFT, str(error)
    return (FAILING, reason) if reason else (LEFT, "")
