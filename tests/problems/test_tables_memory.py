"""What a small file expands to is refused before memory is allocated for it."""

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fedsim.core.errors import DataError
from fedsim.problems.data import Database, HuggingFace
from fedsim.problems.tables.formats import Reading, read_table

MEMORY = 10**6  # bytes, of most of these tests
TIMES = 5  # bytes of memory for a byte of a table of Arrow
ROWS = 10**5
LONG = "x" * 10**4


def ipc(table: Any, compression: str | None = None) -> bytes:
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_file(out, table.schema, options=options) as file:
        file.write_table(table)
    return bytes(out.getvalue().to_pybytes())


def parquet(table: Any) -> bytes:
    out = BytesIO()
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


def views() -> Any:
    """Return many views of one long text."""
    cells = np.zeros((ROWS // 100, 4), np.int32)
    cells[:, 0], cells[:, 1] = len(LONG), int.from_bytes(b"xxxx", "little")
    buffers = [None, pa.py_buffer(cells.tobytes()), pa.py_buffer(LONG.encode())]
    return pa.table({"a": pa.Array.from_buffers(pa.string_view(), len(cells), buffers)})


def repeated() -> Any:
    """Return many cells with the number of one long text."""
    numbers = pa.array(np.zeros(ROWS // 100, np.int8))
    return pa.table({"a": pa.DictionaryArray.from_arrays(numbers, pa.array([LONG]))})


CONSTANT = pa.table({"a": np.ones(ROWS)})
TEXTS = pa.table({"a": [LONG] * (ROWS // 100)})
NOTHING = pa.table({"a": pa.nulls(10 * ROWS)})


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(parquet(CONSTANT), id="parquet-constant"),
        pytest.param(parquet(TEXTS), id="parquet-texts"),
        pytest.param(parquet(NOTHING), id="parquet-nothing"),
        pytest.param(ipc(CONSTANT, "zstd"), id="zstd-constant"),
        pytest.param(ipc(TEXTS, "lz4"), id="lz4-texts"),
        pytest.param(ipc(NOTHING), id="nothing"),
        pytest.param(ipc(repeated(), "zstd"), id="dictionary"),
        pytest.param(ipc(views(), "zstd"), id="views"),
    ],
)
def test_a_small_file_of_a_large_table_is_refused(
    content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(content) < MEMORY / TIMES
    monkeypatch.setenv("FEDSIM_MEMORY", f"{MEMORY // 1000} kB")
    before = pa.total_allocated_bytes()
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match=r"what is in it would take .* of memory"):
        read_table(tmp_path / "a", Reading())
    assert pa.total_allocated_bytes() - before < MEMORY


@pytest.mark.parametrize("write", [parquet, ipc, lambda table: ipc(table, "zstd")])
def test_a_table_is_read_from_the_memory_that_it_takes(
    write: Callable[[Any], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_bytes(write(CONSTANT))
    size = TIMES * 8 * ROWS  # bytes, of float64 in Arrow and in what is made of it
    monkeypatch.setenv("FEDSIM_MEMORY", f"{size // 1000 - 1} kB")
    with pytest.raises(DataError, match="of memory"):
        read_table(tmp_path / "a", Reading())
    size += size // 64  # a bit of each cell says whether it is there
    monkeypatch.setenv("FEDSIM_MEMORY", f"{size // 1000 + 1} kB")
    found = read_table(tmp_path / "a", Reading()).frame
    np.testing.assert_array_equal(found["a"], np.ones(ROWS))


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_every_type_of_cell_is_read_alike(compression: str | None, tmp_path: Path) -> None:
    columns = {
        "number": np.arange(60.0),
        "text": [f"t{place % 7}" if place % 5 else None for place in range(60)],
        "truth": [True, None, False] * 20,
        "kind": pa.array(["u", "v", None] * 20).dictionary_encode(),
        "nothing": pa.nulls(60),
        "day": pa.array(range(60), pa.date32()),
    }
    table = pa.table(columns)
    (tmp_path / "a.feather").write_bytes(ipc(table, compression))
    (tmp_path / "a.parquet").write_bytes(parquet(table))
    one, other = (
        read_table(tmp_path / name, Reading()).frame for name in ("a.feather", "a.parquet")
    )
    pd.testing.assert_frame_equal(one, table.to_pandas())
    pd.testing.assert_frame_equal(one.astype(object), other.astype(object))


@pytest.mark.parametrize("write", [parquet, ipc])
def test_a_cell_of_several_values_is_refused(write: Callable[[Any], bytes], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(write(pa.table({"b": [1, 2], "a": [[1, 2], [3]]})))
    with pytest.raises(DataError, match="the cells of 'a' hold several values each"):
        read_table(tmp_path / "a", Reading())


def test_a_damaged_header_of_a_message_is_a_damaged_file(tmp_path: Path) -> None:
    content = bytearray(ipc(CONSTANT, "zstd"))
    place = content.index(b"\xff\xff\xff\xff", 20) + 8  # the header of the first batch
    content[place : place + 40] = b"\xff" * 40
    (tmp_path / "a").write_bytes(content)
    with pytest.raises(DataError, match="is damaged Feather"):
        read_table(tmp_path / "a", Reading())


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_data_set_of_hugging_face_is_refused_likewise(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"a": np.ones(ROWS), "label": np.ones(ROWS)})
    out = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(out, table.schema, options=options) as stream:
        stream.write_table(table)
    content = parquet(table) if suffix == "parquet" else out.getvalue().to_pybytes()
    (tmp_path / f"data.{suffix}").write_bytes(content)
    if suffix == "arrow":
        (tmp_path / "state.json").write_text(
            json.dumps({"_data_files": [{"filename": "data.arrow"}]})
        )
    monkeypatch.setenv("FEDSIM_MEMORY", f"{MEMORY // 1000} kB")
    with pytest.raises(DataError, match="what is in it would take"):
        HuggingFace(path=str(tmp_path)).read(Path(), np.random.default_rng(0))


# Workbooks.

_HEAD = (
    '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/'
    'content-types"><Default Extension="xml" ContentType="application/xml"/></Types>'
)
_MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def workbook(path: Path, rows: str, texts: str = "", before: str = "") -> None:
    """Write the parts of a workbook that are looked through before it is opened."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", _HEAD)
        sheet = f"{before}<worksheet {_MAIN}><sheetData>{rows}</sheetData></worksheet>"
        archive.writestr("xl/worksheets/sheet1.xml", sheet)
        if texts:
            archive.writestr("xl/sharedStrings.xml", f"<sst {_MAIN}>{texts}</sst>")


FIRST = '<row r="1"><c r="A1" t="str"><v>a</v></c></row>'
SHARED = '<c t="s"><v>1</v></c>'
BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("rows", "texts", "before", "words"),
    [
        pytest.param(
            f'{FIRST}<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
            "", "", "1048576 rows of 16384 columns would take", id="far",
        ),
        pytest.param(
            f'{FIRST}<row r="1048576">{"<c/>" * 16383}<c t="inlineStr"><is><t>b</t></is></c></row>',
            "", "", "1048576 rows of 16384 columns would take", id="far-without-its-place",
        ),
        pytest.param(FIRST, "", BOMB, "document type definition", id="definition"),
        pytest.param(
            f'{FIRST}<row r="2000000000"><c><v>1</v></c></row>',
            "", "", "has a row 2000000000; up to 1048576 is accepted", id="row",
        ),
        pytest.param(
            f'{FIRST}<row r="2"><c r="XFE2"><v>1</v></c></row>',
            "", "", "has a cell XFE2; up to XFD1048576 is accepted", id="column",
        ),
        pytest.param(
            f"<row>{SHARED * 10_000}</row>",
            f"<si><t>y</t></si><si><r><t>{'x' * 10**5}</t></r><r><t>{'x' * 4 * 10**5}</t></r></si>",
            "", "the texts of its cells would take 10 GB", id="one-text-in-many-cells",
        ),
    ],
)  # fmt: skip
def test_a_workbook_that_would_not_fit_is_refused(
    rows: str, texts: str, before: str, words: str, tmp_path: Path
) -> None:
    workbook(tmp_path / "a.xlsx", rows, texts, before)
    with pytest.raises(DataError, match=words):
        read_table(tmp_path / "a.xlsx", Reading())


@pytest.mark.slow
@pytest.mark.needs("tables")
def test_a_cell_without_a_value_takes_no_room(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    frame.to_excel(tmp_path / "a.xlsx", index=False)
    made = BytesIO()
    with zipfile.ZipFile(tmp_path / "a.xlsx") as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith("sheet1.xml"):  # where a format was set far away
                far = b'<row r="500000"><c r="XFD500000" s="0"/></row></sheetData>'
                content = content.replace(b"</sheetData>", far)
            new.writestr(name, content)
    (tmp_path / "a.xlsx").write_bytes(made.getvalue())
    found = read_table(tmp_path / "a.xlsx", Reading()).frame
    pd.testing.assert_frame_equal(found, frame)


# Text, and databases.


def test_lines_of_json_that_share_no_key_make_a_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_MEMORY", f"{MEMORY // 1000} kB")
    rows = 400
    (tmp_path / "a").write_text("\n".join(json.dumps({f"c{place}": 1}) for place in range(rows)))
    with pytest.raises(DataError, match=f"its {rows} rows of {rows} columns would take"):
        read_table(tmp_path / "a", Reading())
    (tmp_path / "a").write_text("\n".join(json.dumps({"a": place}) for place in range(rows)))
    assert read_table(tmp_path / "a", Reading()).frame.shape == (rows, 1)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT zeroblob(400000) FROM a", "the first 3 rows of the query would take 1.2 MB"),
        ("SELECT zeroblob(2000000) FROM a", "too big"),
        ("SELECT 1 FROM a, a, a, a, a, a, a, a, a", "rows of the query would take 1 MB"),
    ],
)
def test_long_cells_of_a_query_are_counted(
    query: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("CREATE TABLE a (x)")
        connection.executemany("INSERT INTO a VALUES (?)", [(place,) for place in range(9)])
        connection.commit()
    monkeypatch.setenv("FEDSIM_MEMORY", f"{MEMORY // 1000} kB")
    source = Database(address=str(tmp_path / "a.db"), query=query, label="x")
    with pytest.raises(DataError, match=re.escape(words)):
        source.table(Path())
