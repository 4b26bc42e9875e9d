"""The readers of tables, and what is odd in them."""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import fedsim
from fedsim.problems.data import Csv, Database, Table
from fedsim.problems.data.table import TableSource
from fedsim.problems.samples import Samples
from tests.readers.matrix import TABLES, Cell, each_of, hold

ROWS = 24
RNG = np.random.default_rng(0)
FIRST = [0.25 * (n * 7 % ROWS) + 0.125 for n in range(ROWS)]
SECOND = [0.5 * (n * 5 % ROWS) for n in range(ROWS)]
LABELS: list[int] = RNG.integers(2, size=ROWS).tolist()
CLIENTS = [n % 3 + 1 for n in range(ROWS)]
STAMPS = pd.date_range("2021-03-01 05:30", periods=ROWS, freq="7h", tz="UTC")
DAYS = [each.timestamp() / 86400 for each in STAMPS]

Cells = Sequence[float | None]


class Odd(NamedTuple):
    """A table in which something is odd, and what it means.

    Attributes:
        frame: its content; columns may have any names.
        answer: the features, by the name of their column; a missing one is None.
        keys: of the block, beside the label.
    """

    frame: pd.DataFrame
    answer: Mapping[str, Cells]
    keys: Mapping[str, Any] = {}


def frame_of(a: Any = FIRST, **more: Any) -> pd.DataFrame:
    return pd.DataFrame({"a": a, **more, "b": SECOND, "y": LABELS})


PLAIN: Mapping[str, Cells] = {"a": FIRST, "b": SECOND}
DATED: Mapping[str, Cells] = {"a": DAYS, "b": SECOND}
KNOW_GAPS = {"Parquet", "Feather", "SQL", "data frame"}


def repeated(*texts: str) -> list[str]:
    return [*texts * ROWS][:ROWS]


def plain(_: str) -> Odd:
    return Odd(frame_of(), PLAIN)


def numbered(reader: str) -> Odd:
    """Return a table with the index of a data frame, as its format has it."""
    frame = frame_of()
    if reader in {"Parquet", "Feather", "data frame"}:
        index = pd.Index([7 * n % 25 / 2 for n in range(ROWS)], name="n")
        own = {} if reader == "data frame" else {"n": index.tolist()}  # a column in a file
        return Odd(frame.set_index(index), {**PLAIN, **own})
    if reader != "JSON lines":  # which has none
        frame.insert(0, "", range(ROWS))
    return Odd(frame, PLAIN)


def with_na_among_numbers(_: str) -> Odd:
    known = [None if n % 5 == 0 else value for n, value in enumerate(FIRST)]
    texts = ["NA" if value is None else str(value) for value in known]
    return Odd(frame_of(texts), {"a": known, "b": SECOND})


def with_na_among_texts(reader: str) -> Odd:
    texts = repeated("NA", "x", "y", "z", "x")
    order = ["NA", "x", "y", "z"] if reader in KNOW_GAPS else ["x", "y", "z"]
    codes = [float(order.index(text)) if text in order else None for text in texts]
    return Odd(frame_of(c=texts), {**PLAIN, "c": codes})


def with_thousands(reader: str, *, settled: bool) -> Odd:
    texts = repeated("950", "1,188", "12,500", "2,345", "640")
    whole = [float(text.replace(",", "")) for text in texts]
    small = [float(text.replace(",", ".")) for text in texts]
    if settled:
        return Odd(frame_of(texts).assign(b=[*map(str, SECOND)]), {"a": whole, "b": SECOND})
    kinds = repeated(*"pqrstuv")
    read = whole if reader == "CSV" else small  # commas separate the cells there
    answer = {"a": read, "c": [float("pqrstuv".index(kind)) for kind in kinds]}
    return Odd(frame_of(texts, c=kinds).drop(columns="b"), answer)


def with_decimal_commas(_: str) -> Odd:
    texts = repeated("1,5", "0,25", "-2,75", "12,5", "3,125")
    return Odd(frame_of(texts), {"a": [float(t.replace(",", ".")) for t in texts], "b": SECOND})


def with_offsets(_: str) -> Odd:
    texts = [each.tz_convert(f"+0{n % 3}:00").isoformat() for n, each in enumerate(STAMPS)]
    return Odd(frame_of(texts), DATED)


MADE: Mapping[str, Callable[[str], Odd]] = {
    "columns in another order": lambda _: Odd(frame_of()[["y", "b", "a"]], PLAIN),
    "no header": lambda _: Odd(frame_of(), {"1": FIRST, "2": SECOND}, {"label": 3}),
    "numbers for names of columns": lambda _: Odd(
        frame_of().set_axis([0, 1, 2], axis=1), {"0": FIRST, "1": SECOND}, {"label": "2"}
    ),
    "the index of a data frame": numbered,
    "a column twice": lambda _: Odd(
        frame_of(c=SECOND).set_axis(["a", "a", "b", "y"], axis=1), PLAIN
    ),
    "dates with `Z`": lambda _: Odd(
        frame_of([each.strftime("%Y-%m-%dT%H:%M:%SZ") for each in STAMPS]), DATED
    ),
    "dates with offsets": with_offsets,
    "times with a zone, typed": lambda _: Odd(frame_of(STAMPS.tz_convert("+02:00")), DATED),
    "`NA` among numbers": with_na_among_numbers,
    "`NA` among texts": with_na_among_texts,
    "decimal commas": with_decimal_commas,
    "thousands, settled by a column": partial(with_thousands, settled=True),
    "thousands or decimals, unsettled": partial(with_thousands, settled=False),
    "clients from 1": lambda _: Odd(frame_of(c=CLIENTS), PLAIN, {"client": "c"}),
    "a single category": lambda _: Odd(frame_of(c="x").astype({"c": "category"}), PLAIN),
    "no row": lambda _: Odd(frame_of().iloc[:0], PLAIN),
}


def _renumbered(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns have different names: their numbers."""
    return frame.set_axis([*map(str, range(frame.shape[1]))], axis=1)


def _text(cell: Cell, odd: Odd, path: Path, text: str) -> Path:
    text = text.replace(",", " ") if cell.oddity == "separated by blanks" else text
    text = "" if cell.oddity == "empty file" else text
    path.write_text("\ufeff" * (cell.oddity == "byte order mark") + text, encoding="utf-8")
    return path


def _csv(cell: Cell, odd: Odd, folder: Path) -> Path:
    text = odd.frame.to_csv(index=False, header=cell.oddity != "no header")
    return _text(cell, odd, folder / "t.csv", text)


def _json(cell: Cell, odd: Odd, folder: Path) -> Path:
    text = _renumbered(odd.frame).to_json(orient="records", lines=True, double_precision=15)
    for place, name in enumerate(odd.frame.columns):
        text = text.replace(f'"{place}":', f'"{name}":')
    return _text(cell, odd, folder / "t.jsonl", text)


def _excel(cell: Cell, odd: Odd, folder: Path) -> Path:
    path = folder / "t.xlsx"
    frame = pd.DataFrame() if cell.oddity == "empty file" else odd.frame
    frame.to_excel(path, index=False, header=cell.oddity != "no header")
    return path


def _arrow(cell: Cell, odd: Odd, folder: Path) -> Path:
    path = folder / f"t.{cell.reader.lower()}"
    index = [name for name in odd.frame.index.names if name is not None]
    table = pa.Table.from_pandas(_renumbered(odd.frame), preserve_index=bool(index))
    table = table.rename_columns([*map(str, odd.frame.columns), *index])
    (parquet.write_table if cell.reader == "Parquet" else feather.write_feather)(table, path)
    if cell.oddity == "empty file":
        path.write_bytes(b"")
    return path


WRITERS = {"JSON lines": _json, "Excel": _excel, "Parquet": _arrow, "Feather": _arrow}


def block_of(cell: Cell, odd: Odd, folder: Path) -> Any:
    """Write a table, and return the block that reads it."""
    keys = {"label": "y", **odd.keys}
    if cell.reader == "data frame":
        return fedsim.table(odd.frame, target=keys.pop("label"), **keys)
    if cell.reader == "SQL":
        with closing(sqlite3.connect(folder / "t.db")) as connection:
            if cell.oddity != "empty file":
                plain = odd.frame.astype({"c": str}) if cell.oddity[2:8] == "single" else odd.frame
                _renumbered(plain).to_sql("t", connection, index=False)
        names = [str(name) or "index" for name in odd.frame.columns]
        listed = ", ".join(f'"{place}" AS "{name}"' for place, name in enumerate(names))
        return Database(address="t.db", query=f"SELECT {listed} FROM t", **keys)  # noqa: S608
    path = WRITERS.get(cell.reader, _csv)(cell, odd, folder)
    return (Csv if cell.reader == "kind: csv" else Table)(path=path, **keys)


USUAL = re.compile(
    r"[^:]* is read as (?!.*(blanks|no line of names)).*|missing cells: .*|.* repeats? an .*"
)
"""Notes that every table has, or that follow from its content."""


def read(block: Any, folder: Path) -> tuple[Any, list[str]]:
    """Return the features of a table by name, and the notes on how it was read."""
    samples: Samples = block.plain(folder, RNG)
    assert samples.y.tolist() == LABELS
    columns = [
        [None if np.isnan(cell) else cell for cell in column]
        for column in np.asarray(samples.X).T.tolist()
    ]
    if block.client is not None:
        assert samples.client is not None
        assert samples.client.tolist() == [client - 1 for client in CLIENTS]
    if not isinstance(block, TableSource):
        return columns, []
    assert samples.described is not None
    names = [each.name for each in samples.described.features]
    notes = [note for note in samples.described.notes if not USUAL.fullmatch(note)]
    return dict(zip(names, columns, strict=True)), notes


@each_of(TABLES)
def test_tables(cell: Cell, tmp_path: Path) -> None:
    if cell.oddity == "indices that differ":
        X, y = pd.DataFrame({"a": [0.5, 2, 1]}), pd.Series([1.0, 0.0, 0.0], index=[1, 2, 0])
        hold(cell, lambda: (fedsim.arrays(X, y), []), None)
        return
    odd = MADE.get(cell.oddity, plain)(cell.reader)
    near = {
        name: [None if each is None else pytest.approx(each, rel=1e-9) for each in column]
        for name, column in odd.answer.items()
    }
    in_order = [near[name] for name in map(str, odd.frame.columns) if name in near]
    answer: Any = in_order if cell.reader == "kind: csv" else near
    hold(cell, lambda: read(block_of(cell, odd, tmp_path), tmp_path), answer)
