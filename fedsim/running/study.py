"""The folder that a plan's runs go into: whether it is this plan's, and what becomes of its runs.

A scenario that was edited and is run again takes up its own folder: what is as before is kept,
what is not is made again. The folder of another scenario is left alone.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedsim.errors import DataError
from fedsim.record.notes import RUNS, Note
from fedsim.record.read import run_folders
from fedsim.record.scenarios import differing, parsed, read_text, told
from fedsim.record.studies import Study, study_in
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
    if there is None or study.is_edited(there) or not study.changed(there):
        return
    own, other = _called(study), _called(there)
    text = f"{out} holds runs of {other}, and this is {own}: nothing was written"
    over = f", or --fresh to write over {', '.join(study.changed(there))}"
    name = "" if study.priced else ", the scenario another name"
    helps = f"give another folder with --out{name}{'' if study.priced else over}"
    raise DataError("out", f"{text}; {helps}")


def _called(study: Study) -> str:
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
    changed = study.changed(there)
    for variant in plan.variants:
        if variant.name in changed:
            text = f"{out / variant.name} was made from other values{_values(variant, out)}"
            yield Note(variant.name, RUNS, f"{text}: it is made again")
    if gone := study.gone(there):
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
        return told(differing(then, now), "then", "now")
    return ""


def _plain(text: str) -> Any:  # noqa: ANN401 - any scenario
    return parsed(text, Path())
