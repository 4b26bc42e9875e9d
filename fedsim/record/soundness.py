"""Whether a run's folder holds what a run that has ended writes: ended, of this schema, whole.

What is looked at is cheap: names, types and counts of the tables' columns, and the hashes of all
files but the log and the models, whose damage shows when they are read.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.errors import DataError
from fedsim.record.ends import is_whole
from fedsim.record.folder import MODELS, RESULTS, SUMMARY, TABLES
from fedsim.record.manifest import AGAIN, check_files, damaged, read_manifest
from fedsim.record.parts import UNREADABLE
from fedsim.record.rounds import COLUMNS
from fedsim.record.schema import ARROW_SCHEMA, GRAMS, SCHEMA_WITH_GRAMS
from fedsim.record.summary import read_summary

_LARGE = ("events.parquet", f"{MODELS}.parquet")
SMALL = tuple(name for name in RESULTS if name not in _LARGE)
"""The files of a run that take no time to look through."""
_CLIENTS = (
    *("client", "group", "device", "radio", "samples", "transmissions", "beacons", "silent"),
    *("late", "lost", "skipped", "bits_up", "bits_down", "bits_again"),
    *("compute_s", "send_s", "receive_s", "tail_s", "offline_s", "off_s"),
    *("compute_joules", "send_joules", "receive_joules", "retransmit_joules"),
    *("promotion_joules", "tail_joules", "idle_joules", "joules"),
    *("initial_joules", "charged_joules", "drained_joules", "final_joules", "depletions"),
)
_COLUMNS: Mapping[str, Sequence[str]] = {
    "events": ARROW_SCHEMA.names,
    "rounds": sorted(COLUMNS),
    "clients": _CLIENTS,
}
_CARBON: Mapping[str, Sequence[str]] = {
    "events": (GRAMS,),
    "rounds": (GRAMS,),
    "clients": ("idle_grams", GRAMS),
}
"""What tables have beside where the summary tells of grams."""
_TEXTS = frozenset({"variant", "client", "device", "radio"})


def check_run(folder: Path) -> dict[str, Any]:
    """Return the summary of a run of which everything is there that one reads.

    Raises:
        DataError: the run has not ended, is of another version of the schema, or one of its
            files is missing, damaged, or not what the others tell of; the message says which.
    """
    if not (folder / SUMMARY).exists():
        text = f"the run in {folder} has not ended: run its scenario again to finish it"
        raise DataError("run", text)
    read_manifest(folder)  # first: what else there is may be as another version has it
    summary = read_summary(folder / SUMMARY)
    _check_seed(folder, summary["seed"])
    counts = {name: _rows(folder, name, summary) for name in TABLES}
    for name in ("events", "clients"):  # a run that has ended has a row of its end in its log
        if not counts[name]:
            raise damaged(folder / f"{name}.parquet", "it holds no rows")
    if is_whole(summary["status"]) and counts["rounds"] != summary["rounds"]:
        text = f"{counts['rounds']} rows, though {SUMMARY} tells of {summary['rounds']} rounds"
        raise damaged(folder / "rounds.parquet", f"it holds {text}")
    check_files(folder, SMALL)
    return summary


def _check_seed(folder: Path, seed: int) -> None:
    if folder.resolve().name != f"seed-{seed}":
        text = f"{folder} holds a run of seed {seed}; call the folder seed-{seed}"
        raise DataError("run", text)


def _rows(folder: Path, name: str, summary: Mapping[str, Any]) -> int:
    """Return how many rows a table has, every column that it needs being there."""
    columns = [*_COLUMNS[name], *([] if summary.get(GRAMS) is None else _CARBON[name])]
    path = folder / f"{name}.parquet"
    if not path.exists():
        raise DataError("run", f"there is no {path}; {AGAIN}")
    try:
        with pq.ParquetFile(path) as file:
            schema, count = file.schema_arrow, int(file.metadata.num_rows)
    except UNREADABLE as error:
        raise damaged(path, str(error)) from None
    missing = [column for column in columns if column not in schema.names]
    if missing:
        raise damaged(path, f"it has no column {', '.join(missing)}")
    _check_types(path, schema, columns)
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
            raise damaged(path, f"column {name} is of {kind}, and {wanted} belong there")
