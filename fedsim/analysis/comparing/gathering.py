"""Runs from any number of folders, under names that tell them apart."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from fedsim.analysis.comparing.belonging import Made, apart
from fedsim.analysis.comparing.unfinished import Unfinished, unfinished
from fedsim.errors import DataError, VersionError
from fedsim.record.ends import is_whole
from fedsim.record.folder import SCENARIO
from fedsim.record.manifest import MADE_FROM, read_manifest
from fedsim.record.parts import read_table
from fedsim.record.read import joined, missing, run_folders
from fedsim.record.scenarios import parsed, read_text, setting_of
from fedsim.record.soundness import check_run
from fedsim.record.studies import Study, read_study
from fedsim.record.variants import labels

_SHOWN = 20  # reasons in the error where nothing is left


@dataclass(frozen=True)
class Runs:
    """Runs that have ended.

    Attributes:
        folders: one a run.
        rounds: their round tables, as `Result.rounds` has them.
        summary: a row a run, as `Result.summary` has it.
        labels: what tables and figures call each variant, in the order of the folders.
        left_out: which runs and folders could not be compared, and why; a sentence each.
        extent: how far a campaign went that was cut off, "4 of 6 runs"; empty where none was.
    """

    folders: tuple[Path, ...]
    rounds: pd.DataFrame
    summary: pd.DataFrame
    labels: Mapping[str, str]
    left_out: tuple[str, ...] = field(default=())
    extent: str = ""

    @cached_property
    def setting(self) -> str:
        """Data, fleet and seeds in a few words; of several folders, the settings of all."""
        firsts = {path.parent.parent: path for path in reversed(self.folders)}
        seeds = self.summary["seed"].unique().tolist()
        scenarios = [parsed(read_text(path), path / SCENARIO) for path in firsts.values()]
        return "\n".join(dict.fromkeys(setting_of(each, seeds) for each in reversed(scenarios)))


class _Run(NamedTuple):
    """What is read of one run."""

    path: Path
    summary: dict[str, Any]
    rounds: pa.Table
    made: Made

    @property
    def empty(self) -> bool:
        """Whether it ended well, yet before its first round did."""
        return is_whole(self.summary["status"]) and not len(self.rounds)


def gather(places: Sequence[Path]) -> Runs:
    """Read the runs in some folders, each of them once; leave out those that cannot be read.

    Variants of one name from different OUTs are told apart by the names of these, as in
    "lte/base" and "wifi/base".

    Args:
        places: OUT with all its runs, one variant's folder in it, or one run's folder.

    Raises:
        DataError: there is no such folder, or no run in them that can be compared.
    """
    runs, wrong, cut_off = _sound(places)
    if not runs:
        more = [f"and {len(wrong) - _SHOWN} more"] if len(wrong) > _SHOWN else []
        raise DataError("compare", "\n".join([*wrong[:_SHOWN], *more]))
    folders = [run.path for run in runs]
    variants = _variants(folders)
    summary = pd.json_normalize([run.summary for run in runs]).assign(variant=variants)
    rounds = joined(folders, [run.rounds for run in runs], variants)
    extent = ", ".join(each.extent for each in cut_off)
    return Runs(tuple(folders), rounds, summary, labels_of(summary), tuple(wrong), extent)


def _sound(places: Sequence[Path]) -> tuple[list[_Run], list[str], list[Unfinished]]:
    """Return the runs that can be compared, what is wrong with others, and which are to come."""
    found, wrong = dict[Path, tuple[Path, Study | None]](), list[str]()
    cut_off = list[Unfinished]()
    for place in places:
        own, study = _found(place), _study(place, wrong)
        cut_off += unfinished(place, study)
        for path in own:
            asked = found.get(path.resolve(), (path, study))[1]  # by its own name, perhaps
            found[path.resolve()] = path, study and asked
        if not own:
            wanted = "give a folder that `fedsim run` has written, or one in it"
            wrong.append(f"there are no runs in {place}: {wanted}")
    wrong += dict.fromkeys(each.told() for each in cut_off)
    told = set[Path]().union(*(each.folders for each in cut_off))
    runs, refused = list[_Run](), list[DataError]()
    for path, study in (found[whole] for whole in found if whole not in told):
        try:
            runs.append(_read(path, study))
        except DataError as error:
            refused.append(error)
    wrong += _sentences(refused)
    reasons = apart([run.made for run in runs])
    wrong += dict.fromkeys(reasons.values())
    runs = [run for run in runs if run.made.path not in reasons]
    some = [run for run in runs if not run.empty]
    if not some:  # nobody to compare them with; what they were can be told all the same
        return runs, wrong, cut_off
    return some, [*wrong, *(_nothing(run) for run in runs if run.empty)], cut_off


def _sentences(errors: Sequence[DataError]) -> Iterator[str]:
    """Yield what is wrong with runs; of those of an earlier version of the schema, one sentence."""
    old: dict[tuple[Path, str], list[VersionError]] = {}
    for error in errors:
        if isinstance(error, VersionError):
            old.setdefault((error.folder.parent.parent, error.said()), []).append(error)
        else:
            yield str(error)
    for (place, said), (first, *more) in old.items():
        count = f"the {1 + len(more)} logs in {place}"
        yield f"{count} {said.replace('is of', 'are of', 1)}; {first.helps}" if more else str(first)


def _nothing(run: _Run) -> str:
    text = f"the run in {run.path} is empty: it ended before its first round did"
    return f"{text} ({run.summary['reason']}); let it run for longer"


def _study(place: Path, wrong: list[str]) -> Study | None:
    """Return the study that a folder of runs is of; what is wrong with it goes into the list."""
    try:
        return read_study(place)
    except DataError as error:
        wrong.append(f"{error}; what a scenario no longer has cannot be told from its runs")
        return None


def _read(path: Path, study: Study | None) -> _Run:
    """Read one run.

    Raises:
        DataError: it cannot be compared.
    """
    summary, whole = check_run(path), path.resolve()
    made = Made(whole, read_manifest(path).get(MADE_FROM), study)
    return _Run(path, summary, read_table(path, "rounds"), made)


def labels_of(summary: pd.DataFrame) -> dict[str, str]:
    """Return what to call each variant of a summary, as `Result.summary` gives it."""
    return labels(dict(zip(summary["variant"], summary["algorithm"], strict=True)))


def _found(place: Path) -> list[Path]:
    if not place.is_dir():
        raise missing("compare", place)
    return run_folders(place, empty=True)


def _variants(folders: Sequence[Path]) -> list[str]:
    """Return the name of each run's variant, with that of its OUT where there is another one."""
    whole = [path.resolve() for path in folders]
    outs = _distinguished({path.parent.parent for path in whole})
    pairs = [(path.parent.name, path.parent.parent) for path in whole]
    homes: dict[str, set[Path]] = {}
    for variant, out in pairs:
        homes.setdefault(variant, set()).add(out)
    return [
        variant if len(homes[variant]) == 1 else f"{outs[out]}/{variant}" for variant, out in pairs
    ]


def _distinguished(paths: Iterable[Path]) -> dict[Path, str]:
    """Return as many of the last parts of each path as tell all of them apart."""
    every, count, names = list(paths), 0, dict[Path, str]()
    while len(set(names.values())) < len(every):
        count += 1
        names = {path: "/".join(path.parts[-count:]) for path in every}
    return names
