"""Ways in which the folder of a run goes wrong, and what is to be said of each."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.results.record import manifest
from fedsim.results.record.manifest import FILES, MANIFEST, hash_of

Break = Callable[[Path], object]


def without(name: str) -> Break:
    """Return what deletes a file."""
    return lambda folder: (folder / name).unlink()


def text(name: str, content: str) -> Break:
    """Return what writes something else into a file."""
    return lambda folder: (folder / name).write_text(content, encoding="utf-8")


def cut(name: str) -> Break:
    """Return what leaves half of a file."""

    def halve(folder: Path) -> None:
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])

    return halve


def says(name: str, **values: Any) -> Break:
    """Return what lays values on a JSON file."""

    def lay(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps({**content, **values}), encoding="utf-8")

    return lay


def table(name: str, change: Callable[[pa.Table], pa.Table]) -> Break:
    """Return what writes a changed table in the place of one."""

    def write(folder: Path) -> None:
        path = folder / f"{name}.parquet"
        pq.write_table(change(pq.read_table(path)), path)

    return write


def sealed(*harms: Break) -> Break:
    """Return what changes a folder as if the run itself had left it so: the hashes agree."""

    def leave(folder: Path) -> None:
        for harm in harms:
            harm(folder)
        again = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if isinstance(again.get(FILES), dict):
            again[FILES] = {
                name: hash_of(folder / name) for name in again[FILES] if (folder / name).exists()
            }
        again = manifest.seal(again)
        (folder / MANIFEST).write_text(manifest.as_json(again), encoding="utf-8")

    return leave


def dropped(column: str) -> Callable[[pa.Table], pa.Table]:
    """Return what drops a column."""
    return lambda own: own.drop_columns([column])


def emptied(own: pa.Table) -> pa.Table:
    """Return a table without its rows."""
    return own.slice(0, 0)


def spelled(own: pa.Table) -> pa.Table:
    """Return a table whose joules are words."""
    words = own["joules"].cast(pa.string())
    return own.set_column(own.column_names.index("joules"), "joules", words)


BROKEN: dict[str, tuple[Break, str]] = {
    "unfinished": (without("summary.json"), "has not ended"),
    "summary cut": (text("summary.json", "{"), "summary.json is damaged"),
    "summary short": (text("summary.json", "{}"), "it lacks variant, seed"),
    "other seed": (says("summary.json", seed=7), "holds a run of seed 7"),
    "later version": (says("manifest.json", schema_version=99), "schema version 99, and this"),
    "manifest a list": (text("manifest.json", "[]"), "manifest.json is damaged (got a list"),
    "no manifest": (without("manifest.json"), "it has no manifest.json"),
    "no joules": (
        table("rounds", dropped("joules")),
        "is damaged (it has no column joules)",
    ),
    "joules in words": (table("rounds", spelled), "column joules: got string"),
    "no rounds": (table("rounds", emptied), "rounds.parquet is damaged (it holds 0 rows"),
    "no rounds file": (without("rounds.parquet"), "rounds.parquet; repeat the run"),
    "rounds cut": (cut("rounds.parquet"), "rounds.parquet is damaged"),
    "rounds of nothing": (text("rounds.parquet", ""), "rounds.parquet is damaged"),
    "log of nothing": (text("events.parquet", ""), "events.parquet is damaged"),
    "log cut": (cut("events.parquet"), "events.parquet is damaged"),
    "log without rows": (table("events", emptied), "events.parquet is damaged (it holds no rows)"),
    "log without times": (
        table("events", dropped("t")),
        "is damaged (it has no column t)",
    ),
    "clients cut": (cut("clients.parquet"), "clients.parquet is damaged"),
}
"""What was done to a folder, and what is said of it."""
