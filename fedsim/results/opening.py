"""open(folder) -> Result: what finished runs have left."""

from pathlib import Path

from fedsim.errors import DataError
from fedsim.record.read import missing, run_folders
from fedsim.record.studies import read_study
from fedsim.results.result import Result


def open(folder: str | Path) -> Result:  # noqa: A001 - as it is called: fedsim.open
    """Return what runs have left in a folder, as `run` returned it when they were made.

    Runs that have not ended are among them: their events and rounds can be read as far as they
    went, and the summary has no row of them.

    Args:
        folder: OUT with all its runs, one variant's folder in it, or one run's folder.

    Raises:
        DataError: there is no such folder, or no run in it.
    """
    place = Path(folder)
    if not place.is_dir():
        raise missing("folder", place)
    study = read_study(place)
    runs = run_folders(place)
    known = {} if study is None else study.variants
    if known:  # what a scenario no longer has stays in its folder, and is no part of it
        runs = [path for path in runs if path.parent.name in known]
    if not runs:
        wanted = "give a folder that `fedsim run` has written, or one in it"
        raise DataError("folder", f"there are no runs in {place}: {wanted}")
    return Result(place, tuple(runs))
