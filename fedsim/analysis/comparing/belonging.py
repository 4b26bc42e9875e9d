"""Which runs belong together: of the scenario that their folder is of, each variant from one.

What a scenario was before it was edited leaves runs behind. These are named and left out, so
that nothing is averaged over seeds that were made from different things.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fedsim.errors import DataError
from fedsim.record.folder import SUMMARY
from fedsim.record.manifest import MADE_FROM, check_files, read_manifest
from fedsim.record.read import run_folders
from fedsim.record.scenarios import differing, parsed, read_text, told
from fedsim.record.soundness import SMALL
from fedsim.record.studies import Study, read_study


class Made(NamedTuple):
    """A run, and what it was made from.

    Attributes:
        path: its folder, in full.
        scenario: the hash of what it has in common with the other seeds of its variant.
        study: what the folder is of in which it was found; None where that does not say, or the
            run was asked for by itself.
    """

    path: Path
    scenario: object
    study: Study | None

    @property
    def wanted(self) -> object:
        """What the study says that its variant is made from; None where it has none such."""
        return self.study.variants.get(self.path.parent.name) if self.study else self.scenario


def apart(runs: Sequence[Made]) -> Mapping[Path, str]:
    """Return the runs that do not belong with the others, and why: one sentence a variant."""
    reasons = dict[Path, str]()
    for folder, own in _by_variant(runs):
        stale = [run for run in own if run.scenario != run.wanted]
        fresh = [run for run in own if run not in stale]
        reasons.update(dict.fromkeys((run.path for run in stale), _stale(folder, stale)))
        if len({run.scenario for run in fresh}) > 1:
            reasons.update(dict.fromkeys((run.path for run in fresh), _mixed(folder, fresh)))
    return reasons


def runs_of(place: Path) -> list[Path]:
    """Return the runs in a folder that belong to the scenario that it is of; see `parted`."""
    return parted(place)[0]


def parted(place: Path) -> tuple[list[Path], Mapping[Path, str]]:
    """Return the runs in a folder that belong to the scenario that it is of, and the others.

    Those that do not belong to it are told with the reason, which is one for all of a variant.

    Args:
        place: as for `run_folders`.

    Raises:
        DataError: the seeds of a variant do not belong together, or a manifest is damaged, or, of
            a run that does not belong to the scenario, another file.
    """
    study = read_study(place) if place.is_dir() else None
    paths = run_folders(place)
    every = [Made(path.resolve(), read_manifest(path).get(MADE_FROM), study) for path in paths]
    reasons = apart(every)
    for path in reasons:
        if (path / SUMMARY).exists():  # else the run has not ended
            check_files(path, SMALL)  # a manifest of another run is no earlier state
    kept = [path for path, own in zip(paths, every, strict=True) if own.path not in reasons]
    if reasons and not kept:
        raise DataError("folder", "\n".join(dict.fromkeys(reasons.values())))
    return kept, reasons


def _by_variant(runs: Sequence[Made]) -> Iterator[tuple[Path, list[Made]]]:
    groups = dict[Path, list[Made]]()
    for run in runs:
        groups.setdefault(run.path.parent, []).append(run)
    yield from groups.items()


def _stale(folder: Path, runs: Sequence[Made]) -> str:
    """Say what is left of an earlier state of a scenario."""
    if not runs or runs[0].study is None:
        return ""
    name = runs[0].study.name
    if runs[0].wanted is None:
        text = f"{folder} ({_seeds(runs)}) is left from before: the scenario {name} has no variant"
        return f"{text} {folder.name} any more; compare that folder by itself, or delete it"
    text = f"{folder} ({_seeds(runs)}) was made from an earlier state of the scenario {name}"
    return f"{text}; run that again"


def _mixed(folder: Path, runs: Sequence[Made]) -> str:
    """Say of which seeds of a variant nothing can be averaged, and what they differ in."""
    first, other = runs[0], next(run for run in runs if run.scenario != runs[0].scenario)
    try:
        one, two = (parsed(read_text(run.path), run.path) for run in (first, other))
        values = told(differing(one, two), first.path.name, other.path.name)
    except DataError:
        values = ""
    text = f"the seeds in {folder} were made from different scenarios{values}"
    return f"{text}; run the scenario again, or compare seeds of one scenario"


def _seeds(runs: Sequence[Made]) -> str:
    numbers = ", ".join(run.path.name.removeprefix("seed-") for run in runs)
    return f"seed {numbers}" if len(runs) == 1 else f"seeds {numbers}"
