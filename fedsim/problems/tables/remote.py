"""Tables from databases, OpenML and Hugging Face's hub, through their libraries."""

import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fedsim.core.errors import DataError
from fedsim.core.extras import missing
from fedsim.core.files import check_is_file
from fedsim.core.memory import check_budget, limit
from fedsim.problems.tables.formats import Found

if TYPE_CHECKING:  # importing pandas takes half a second: only when a table is read
    import pandas as pd
    from sqlalchemy import Connection

_REASON = 200  # characters of a library's message
_CELL = 60
"""Bytes of memory per cell, at least, as a Python object and as a number. The characters of a text
are added."""

_LONGEST = 10**9  # the bytes of a text that SQLite accepts by default, at most

_SQLITE = re.compile(r"sqlite(\+pysqlite)?:///")
"""The beginning of SQLAlchemy's addresses of SQLite files. These are opened without SQLAlchemy,
which creates a missing file, and begins no transaction before `WITH ... DELETE`."""

_READ_ONLY: Mapping[str, Sequence[str]] = {
    "postgresql": ("SET TRANSACTION READ ONLY",),
    "mysql": ("SET SESSION TRANSACTION READ ONLY", "START TRANSACTION READ ONLY"),
    "mariadb": ("SET SESSION TRANSACTION READ ONLY", "START TRANSACTION READ ONLY"),
    "oracle": ("SET TRANSACTION READ ONLY",),
}
"""The statements that make a transaction refuse to write, by SQLAlchemy's dialect."""

_TO_A_FILE = re.compile(r"\binto\b.*?\b(outfile|dumpfile)\b", re.IGNORECASE | re.DOTALL)
"""A query by which MySQL's server writes a file, which a read-only transaction does not prevent."""


def query_table(address: str, query: str, folder: Path) -> Found:
    """Return the rows that a query finds, without any way for it to write to the database.

    Raises:
        DataError: the database cannot be reached or refuses, the query might write, or the rows
            exceed the memory budget.
    """
    beginning = _SQLITE.match(address)
    if beginning or "://" not in address:
        return _query_sqlite(folder / address[beginning.end() if beginning else 0 :], query)
    try:
        import sqlalchemy
    except ImportError:
        raise DataError("data.address", missing("this address", "SQLAlchemy", "tables")) from None
    try:
        url = sqlalchemy.make_url(address)
        _check_reads(url.get_backend_name(), url.query, query)
        engine = sqlalchemy.create_engine(url)
        with engine.connect() as connection:
            frame = _fetch_reading(connection, query, address)
    except (sqlalchemy.exc.SQLAlchemyError, ImportError, OSError) as error:
        reason = " ".join(str(error).split())[:_REASON]
        raise DataError("data.address", f"{address}: {reason}") from None
    return Found(frame, f"a query of {engine.dialect.name}", typed=True)


def _check_reads(dialect: str, options: Mapping[str, object], query: str) -> None:
    """Check that a transaction of this dialect can prevent this query from writing.

    Raises:
        DataError: there is no such transaction, or the query might leave it.
    """
    if dialect not in _READ_ONLY:
        text = f"got a database of {dialect}; expected the path of a file of SQLite, or an address"
        raise DataError("data.address", f"{text} of {', '.join(_READ_ONLY)}, whose transactions can"
                        " be kept from writing; of others, export the rows to a file, and take"
                        " `kind: table`")  # fmt: skip
    if "init_command" in options:
        text = "got an address with init_command, which might write; expected one without"
        raise DataError("data.address", text)
    if ";" in query.strip().rstrip(";"):
        text = "got a semicolon within the query, after which another statement might write;"
        raise DataError("data.query", f"{text} expected one statement")
    if _TO_A_FILE.search(query):
        raise DataError("data.query", "got a query that writes a file (INTO OUTFILE or DUMPFILE);"
                        " expected one that only reads")  # fmt: skip


def _fetch_reading(connection: "Connection", query: str, where: str) -> "pd.DataFrame":
    """Return the rows of a query, in a read-only transaction that is rolled back."""
    import sqlalchemy

    transaction = connection.begin()
    try:
        for statement in _READ_ONLY[connection.dialect.name]:
            connection.execute(sqlalchemy.text(statement))
        streamed = connection.execution_options(stream_results=True)
        result = streamed.execute(sqlalchemy.text(query.strip().rstrip(";")))
        return _fetch(list(result.keys()), result, where)
    finally:
        transaction.rollback()


def _query_sqlite(path: Path, query: str) -> Found:
    try:
        check_is_file(path)
    except (OSError, ValueError) as error:
        text = f"cannot read {path}: {getattr(error, 'strerror', None) or error}"
        raise DataError("data.address", text) from None
    address = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=0"
    try:
        with closing(sqlite3.connect(address, uri=True)) as connection:
            connection.execute("PRAGMA query_only = ON")
            # A query can build a single text that exceeds the memory budget.
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(limit("data.query"), _LONGEST))
            result = connection.execute(query)
            names = [column[0] for column in result.description or ()]
            return Found(_fetch(names, result, str(path)), "a query of SQLite", typed=True)
    except (sqlite3.Error, sqlite3.Warning) as error:
        raise DataError("data.query", f"{path}: {error}; the query is {query[:80]!r}") from None


def _fetch(names: list[str], found: Any, where: str) -> "pd.DataFrame":
    """Return all rows, within the memory budget."""
    import pandas as pd

    most, size = limit("data.query"), 0
    rows: list[tuple[object, ...]] = []
    for row in found:  # one by one: a few long texts may be too many
        rows.append(tuple(row))
        size += _CELL * len(row) + sum(len(cell) for cell in row if isinstance(cell, str | bytes))
        if size > most:
            what = f"{where}: the first {len(rows)} rows of the query"
            check_budget("data.query", what, size)
    if not rows:
        raise DataError("data.query", f"{where}: the query finds no row")
    return pd.DataFrame(rows, columns=names)


def openml_table(name: str, version: int) -> Found:
    """Return a data set of OpenML, from the cache if it is there.

    Raises:
        DataError: OpenML has none of this name and version, or cannot be reached.
    """
    from sklearn.datasets import fetch_openml  # takes most of a second

    try:
        data = fetch_openml(name, version=version, as_frame=True, parser="pandas")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:_REASON]
        raise DataError("data.name", f"{name}, version {version} of OpenML: {reason}") from None
    frame = _without_categories(data.frame)
    return Found(frame, f"OpenML's {name}, version {version}", typed=True)


def hub_table(name: str, part: str, revision: str | None) -> Found:
    """Return a table of Hugging Face's hub, from the cache if it is there.

    Raises:
        DataError: the hub has no such table, or cannot be reached.
    """
    try:
        from datasets import load_dataset
    except ImportError:
        raise DataError("data", missing("`kind: hub`", "datasets", "hub")) from None
    try:
        found = load_dataset(name, split=part, revision=revision)
        frame = found.to_pandas()
    except Exception as error:  # noqa: BLE001 - the library raises whatever its parts do
        reason = " ".join(str(error).split())[:_REASON]
        raise DataError("data.name", f"{name}, part {part} of the hub: {reason}") from None
    return Found(frame, f"{name} of Hugging Face's hub, part {part}", typed=True)


def _without_categories(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a frame with its columns of categories as texts."""
    for name in frame.columns:
        if str(frame[name].dtype) == "category":
            frame[name] = frame[name].astype(object)
    return frame
