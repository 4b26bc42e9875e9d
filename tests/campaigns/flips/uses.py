"""What is done with a folder of runs, and what it tells, as text that can be compared."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fedsim
from fedsim.core import tables
from fedsim.core.errors import DataError
from fedsim.results import report
from fedsim.results.analysis import Comparison, so_far, write_traces
from fedsim.results.record.scenarios import Note
from fedsim.running.folder import status

from .folders import OTHER_RADIO, Home, contents


def used(use: str, home: Home, out: Path) -> str:
    """Let one use loose on a folder, and return what it tells."""
    match use:
        case "run":
            return "\n".join(_run(home, out))
        case "compare":
            return "\n".join(_compared(out))
        case "report":
            page = report.write(out, out.parent / "report.html")
            return page.read_text(encoding="utf-8")
        case "trace":
            return "\n".join(
                f"{count} {_digest(path.read_bytes())}"
                for path, count in write_traces(out, out.parent / "traces")
            )
        case "reprice":
            priced = fedsim.reprice(out, [OTHER_RADIO], out.parent / "again")
            return "\n".join(_told(contents(priced.folder), priced.notes))
        case _:
            return _result(use, out)


def _result(use: str, out: Path) -> str:
    result = None if use == "status" else fedsim.open(out)
    if result is None:
        found = status(out)
        return f"{found.name}\n" + "\n".join(map(str, found.variants))
    match use:
        case "shown":
            return result.shown.text()
        case "model":
            return str(result.model("gd", 1).tolist())
        case "notes":
            return "\n".join(map(str, result.notes))
        case _:
            return _frame(getattr(result, use))


def _frame(frame: pd.DataFrame) -> str:
    """Return all of a table: its columns, their types, and every value to the last bit."""
    plain = frame.map(lambda value: value.tobytes() if isinstance(value, np.ndarray) else value)
    types = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes.astype(str).items())
    values = "\n".join(map(repr, plain.itertuples(index=False, name=None)))
    return f"{types}\n{values}"


def _run(home: Home, out: Path) -> Iterator[str]:
    """Take a study up again; what it says is told, and what the folder holds then."""
    notes: list[Note] = []
    fedsim.run(home.source, out=out, tell=notes.append)
    yield from _told(contents(out), notes)


def _told(written: dict[str, bytes], notes: Any) -> Iterator[str]:
    yield from map(str, notes)
    for name, content in written.items():
        yield f"{name} {_digest(content)}"


def _compared(out: Path) -> Iterator[str]:
    """Compare runs as the command does, which tells how far they are where none has ended."""
    try:
        comparison = Comparison.of([out])
    except DataError:
        if (table := so_far([out])) is not None:
            yield tables.as_text(table)
        raise
    yield from map(tables.as_text, comparison.tables())
    yield from comparison.notes


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
