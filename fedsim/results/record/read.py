"""Readers of recorded runs, as pandas tables."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from fedsim.core.blocks.wording import listed
from fedsim.core.errors import DataError
from fedsim.core.table_columns import GRAMS_AFTER, INFRASTRUCTURE, JOULES_AFTER
from fedsim.results.record.folder import STUDY, SUMMARY, read_json
from fedsim.results.record.manifest import MANIFEST, check_files
from fedsim.results.record.parts import as_frame, read_table
from fedsim.results.record.summary import read_summary
from fedsim.results.record.variants import BASE

_OF_INTEREST = (
    *("variant", "algorithm", "seed", "status", "rounds", "objective", "gap"),
    *("transmissions", "beacons", "bits_up", "bits_down", "t", "joules"),
    *(JOULES_AFTER, "grams", GRAMS_AFTER, *INFRASTRUCTURE, "reason"),
)
_ASIDE = ("cohort", "start", "concerns", "notes", "looks", "problem")
"""The first and the last columns of a table of summaries."""

_BEGUN = ("events.parquet", "events.parts", MANIFEST, SUMMARY)
"""Files of a run with content: its log, or the record of its end."""


def missing(key: str, place: Path) -> DataError:
    """Return the error for a missing folder of runs, with a suggestion.

    Args:
        key: of the error.
        place: the folder given.
    """
    if place.is_file():
        hint = ": it is a file; expected a folder written by `fedsim run`"
    elif (inside := Path("runs") / place).is_dir():
        hint = f"; did you mean {inside}?"
    else:
        hint = ""
    return DataError(key, f"there is no folder {place}{hint}")


_MOST_STUDIES = 12


def hold_no_runs(place: Path) -> str:
    """Return an error text for a folder without runs, which lists studies below it."""
    studies = sorted(path.parent for path in place.glob(f"*/{STUDY}"))
    if not studies:
        hint = "give a folder that `fedsim run` has written, or one in it"
        return f"there are no runs in {place}: {hint}"
    examples = listed(studies, _MOST_STUDIES)
    return f"there are no runs in {place}, but studies below it: give one of {examples}"


def run_folders(folder: Path, *, empty: bool = False) -> list[Path]:
    """Return all run folders in `folder`: variants in the order of the scenario, seeds ascending.

    Without a recorded study, `base` comes first, then the others by name.

    Args:
        folder: OUT with all its runs, one variant's folder in it, or one run's folder.
        empty: include runs without a log, such as one that was stopped at once.
    """
    whole = folder.resolve()  # a folder "." or "seed-1" needs its variant's name
    folders = next(
        (
            runs
            for candidates in (folder.glob("*/seed-*"), whole.glob("seed-*"), [whole])
            if (runs := _runs(candidates, empty=empty))
        ),
        [],
    )
    place = {name: number for number, name in enumerate(variants_in(folder))}
    return sorted(
        folders,
        key=lambda path: (
            place.get(path.parent.name, len(place)),
            path.parent.name != BASE,
            path.parent.name,
            _seed(path),
        ),
    )


def variants_in(out: Path) -> list[str]:
    """Return the variants of a folder in the order of its scenario; empty if not recorded."""
    variants = read_json(out / STUDY).get("variants")
    return list(variants) if isinstance(variants, dict) else []


def _runs(folders: Iterable[Path], *, empty: bool) -> list[Path]:
    """Return the folders that hold runs; with `empty`, also those without any content."""
    return [
        path
        for path in folders
        if path.name.removeprefix("seed-").isdecimal()
        and (any((path / name).exists() for name in _BEGUN) if not empty else path.is_dir())
    ]


def read_run(folder: Path, name: str) -> pd.DataFrame:
    """Read "events", "rounds" or "clients" of one run, ended or not.

    Raises:
        FileNotFoundError: the run has no such table.
        DataError: a file of it is damaged.
    """
    frame: pd.DataFrame = as_frame(read_table(folder, name))
    return frame


def read_all(
    folders: Sequence[Path], name: str, variants: Sequence[str] | None = None
) -> pd.DataFrame:
    """Read a table of several runs, in their order, with the columns variant and seed in front.

    Args:
        folders: of the runs.
        name: "events", "rounds" or "clients".
        variants: the value of the column variant for each run; the name of its folder if None.

    Raises:
        FileNotFoundError: there are no runs, or one of them has no such table.
        DataError: a table is damaged, or a column is not of one type in all of them.
    """
    names = [path.parent.name for path in folders] if variants is None else variants
    return join_tables(folders, [read_table(path, name) for path in folders], names)


def join_tables(
    folders: Sequence[Path], tables: Sequence[pa.Table], variants: Sequence[str]
) -> pd.DataFrame:
    """Join tables of several runs as `read_all` does, with the given names of their variants."""
    parts = []
    for path, whole, called in zip(folders, tables, variants, strict=True):
        table = whole.drop_columns(
            [name for name in ("variant", "seed") if name in whole.column_names]
        )
        variant = pa.DictionaryArray.from_arrays(
            pa.array(np.zeros(len(table), dtype=np.int32)), pa.array([called])
        )
        seed = pa.array(np.full(len(table), _seed(path)))
        parts.append(table.add_column(0, "seed", seed).add_column(0, "variant", variant))
    if not parts:
        raise FileNotFoundError("there are no runs to read")
    try:
        one = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()
    except pa.ArrowException as error:
        raise DataError("run", f"the tables of these runs cannot be joined: {error}") from None
    frame: pd.DataFrame = as_frame(one)
    return frame


def read_summaries(folders: Sequence[Path]) -> pd.DataFrame:
    """Read the summaries of ended runs, one row per run.

    Results and costs come first, rarely used columns last.

    Raises:
        DataError: one of them is damaged, or of another version of the schema.
    """
    ended = [path for path in folders if (path / SUMMARY).exists()]
    table = pd.json_normalize([summary_of(path) for path in ended])
    first = [name for name in _OF_INTEREST if name in table]
    last = [name for name in _ASIDE if name in table]
    middle = [name for name in table if name not in {*first, *last}]
    return table[[*first, *middle, *last]]


def summary_of(folder: Path) -> dict[str, Any]:
    """Return the summary of a run that has ended.

    Raises:
        DataError: it is damaged, or of another version of the schema.
    """
    check_files(folder, [SUMMARY])
    return read_summary(folder / SUMMARY)


def _seed(folder: Path) -> int:
    return int(folder.name.removeprefix("seed-"))
