"""A run's folder: files that are written atomically.

`summary.json` is written last: a folder without it holds a run that has not ended.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.core import table_columns as columns
from fedsim.core.atomic import ASIDE, check_links, link_error, sweep, unwritable, write_whole
from fedsim.core.errors import DataError, OutputError
from fedsim.core.files import open_file
from fedsim.results.record.manifest import (
    AGAIN,
    FILES,
    MANIFEST,
    as_json,
    check_files,
    check_round_version,
    damage_error,
    hash_of,
    read_manifest,
    read_mapping,
    read_sealed,
    seal,
)
from fedsim.results.record.parts import UNREADABLE, reading_error, remove_parts, write_blocks
from fedsim.results.record.schema import ARROW_SCHEMA, GRAMS, SCHEMA_WITH_GRAMS
from fedsim.results.record.summary import is_whole, read_summary

SUMMARY, SCENARIO = "summary.json", "scenario.yaml"
STUDY = "study.json"
"""In OUT, beside the folders of the variants; see `fedsim.results.record.studies`."""

HISTORY = ".history.jsonl"
"""In OUT: the journal of the calls of `fedsim run`; see `fedsim.running.history`."""

FAILED = "failed.json"
"""The reason why a run failed; removed when the run is made again."""

TRACE = "trace.json"
PACKED = ".gz"
"""Suffix of a compressed trace."""

_SMALL = (SUMMARY, FAILED, MANIFEST, SCENARIO, TRACE, f"{TRACE}{PACKED}")
TABLES = ("events", "rounds", "clients")
MODELS = "models"
RESULTS = (SCENARIO, *(f"{table}.parquet" for table in (*TABLES, MODELS)), SUMMARY)
"""The result files of a run."""


class RunFolder:
    """The folder of one run, `OUT/<variant>/seed-<n>`; existing files are removed.

    A finished run is moved before; see `fedsim.results.record.earlier`.

    Raises:
        OutputError: it cannot be created, or something in it cannot be removed.
    """

    def __init__(self, out: Path, variant: str, seed: int) -> None:
        self.path = self.place(out, variant, seed)
        self.check(out, variant, seed)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            for name in _SMALL:  # the summary first: without it, the old run counts as unfinished
                (self.path / name).unlink(missing_ok=True)
            for table in (*TABLES, MODELS):
                (self.path / f"{table}.parquet").unlink(missing_ok=True)
                remove_parts(self.path / f"{table}.parts")
            for draft in self.path.glob(f"*{ASIDE}"):
                draft.unlink()
        except OSError as error:
            raise unwritable(self.path, error) from None

    @staticmethod
    def place(out: Path, variant: str, seed: int) -> Path:
        """Return the folder of the run of a variant and a seed."""
        return out / variant / f"seed-{seed}"

    @classmethod
    def check(cls, out: Path, variant: str, seed: int) -> None:
        """Validate that a run can be written, and an earlier one removed, within `out` alone.

        Raises:
            OutputError: the folder, or something in it, is a symbolic link.
        """
        folder = cls.place(out, variant, seed)
        check_links(out, folder)
        if folder.is_dir():
            with os.scandir(folder) as entries:
                links = [entry.name for entry in entries if entry.is_symlink()]
            if links:
                raise link_error(folder / min(links))

    def write_text(self, name: str, text: str) -> None:
        """Write a file atomically, under a temporary name first."""
        check_links(self.path.parent, self.path)
        write_whole(self.path / name, text.encode())

    def write_table(self, name: str, blocks: Iterable[pd.DataFrame]) -> None:
        """Write a table as `NAME.parquet`, block by block."""
        check_links(self.path.parent, self.path)
        tables = (pa.Table.from_pandas(block, preserve_index=False) for block in blocks)
        write_blocks(tables, self.path / f"{name}.parquet")

    def close(self, made: Mapping[str, Any], summary: Mapping[str, Any]) -> None:
        """Write the manifest with the hashes of all files, then the summary: the run has ended.

        Args:
            made: the entries of the manifest beside the hashes.
            summary: the summary.
        """
        try:
            files = {name: hash_of(self.path / name) for name in RESULTS if name != SUMMARY}
        except OSError as error:  # a file that was just written cannot be read
            raise unwritable(self.path, error) from None
        text = as_json(summary)
        files[SUMMARY] = sha256(text.encode()).hexdigest()
        self.write_text(MANIFEST, as_json(seal({**made, FILES: files})))
        self.write_text(SUMMARY, text)


def note_failure(folder: Path, reason: str) -> None:
    """Write the reason why a run could not be made.

    Raises:
        OutputError: it cannot be written.
    """
    write_whole(folder / FAILED, as_json(seal({"reason": reason})).encode())


def read_failure(folder: Path) -> str:
    """Return the recorded failure reason, or an empty string.

    Raises:
        DataError: the file is damaged.
    """
    path = folder / FAILED
    if not path.exists():
        return ""
    return str(read_sealed(path).get("reason", ""))


def tidy(run: Path) -> None:
    """Remove leftovers from the folder of a complete run."""
    sweep(run)
    for parts in run.glob("*.parts"):
        with suppress(OutputError):  # readers prefer the whole table to parts
            remove_parts(parts)


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a run's JSON file; empty if it is missing or damaged."""
    try:
        return read_mapping(path)
    except DataError:
        return {}


# Validation of a run's folder: ended, of the current schema, complete.
#
# The checks are cheap: names, types and counts of the tables' columns, and the hashes of all files
# but the log and the models, whose damage shows when they are read.

_LARGE = ("events.parquet", f"{MODELS}.parquet")
SMALL = tuple(name for name in RESULTS if name not in _LARGE)
"""The files of a run that are quick to hash."""
_COLUMNS: Mapping[str, Sequence[str]] = {
    "events": ARROW_SCHEMA.names,
    "rounds": sorted(columns.names("rounds")),
    "clients": columns.names("clients"),
}
_CARBON: Mapping[str, Sequence[str]] = {
    "events": (GRAMS,),
    **{table: columns.names(table, only="carbon") for table in columns.TABLES},
}
"""Further columns of tables whose summary has grams."""
_TEXTS = frozenset(name for table in columns.TABLES for name in columns.of_kind("text", table))


def check_run(folder: Path) -> dict[str, Any]:
    """Validate a run folder and return its summary.

    Raises:
        DataError: the run has not ended, is of another version of the schema, or one of its
            files is missing, damaged, or inconsistent with the others; the message names it.
    """
    if not (folder / SUMMARY).exists():
        text = f"the run in {folder} has not ended: run its scenario again to finish it"
        raise DataError("run", text)
    # First: files of another version may differ in anything.
    check_round_version(folder, read_manifest(folder))
    summary = read_summary(folder / SUMMARY)
    _check_seed(folder, summary["seed"])
    counts = {name: _rows(folder, name, summary) for name in TABLES}
    for name in ("events", "clients"):  # the log of an ended run has at least its `stop` row
        if not counts[name]:
            raise damage_error(folder / f"{name}.parquet", "it holds no rows")
    if is_whole(summary["status"]) and counts["rounds"] != 1 + summary["rounds"]:
        text = f"it holds {counts['rounds']} rows, but {SUMMARY} has {summary['rounds']} rounds"
        raise damage_error(folder / "rounds.parquet", f"{text}, and round 0")
    check_files(folder, SMALL)
    return summary


def _check_seed(folder: Path, seed: int) -> None:
    if folder.resolve().name != f"seed-{seed}":
        text = f"{folder} holds a run of seed {seed}; call the folder seed-{seed}"
        raise DataError("run", text)


def _rows(folder: Path, name: str, summary: Mapping[str, Any]) -> int:
    """Return the number of rows of a table with all required columns."""
    wanted = [*_COLUMNS[name], *([] if summary.get(GRAMS) is None else _CARBON[name])]
    if name == "rounds" and summary.get("server_joules") is not None:
        wanted += columns.INFRASTRUCTURE
    path = folder / f"{name}.parquet"
    if not path.exists():
        raise DataError("run", f"there is no {path}; {AGAIN}")
    try:
        with open_file(path) as stream, pq.ParquetFile(stream) as file:
            schema, count = file.schema_arrow, int(file.metadata.num_rows)
    except UNREADABLE as error:
        raise reading_error(path, error) from None
    missing = [column for column in wanted if column not in schema.names]
    if missing:
        raise damage_error(path, f"it has no column {', '.join(missing)}")
    _check_types(path, schema, wanted)
    return count


def _check_types(path: Path, schema: pa.Schema, columns: Sequence[str]) -> None:
    for name in columns:
        kind = schema.field(name).type
        if path.stem == "events":
            wanted = SCHEMA_WITH_GRAMS.field(name).type
            right = kind == wanted
        else:
            number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
            right, wanted = number or name in _TEXTS or pa.types.is_null(kind), "numbers"
        if not right:
            raise damage_error(path, f"column {name}: got {kind}, expected {wanted}")
