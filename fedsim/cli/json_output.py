"""The JSON documents of commands with --json, the only text on standard output.

Numbers have base units and all digits, as the tables in Python do; unknown and infinite numbers are
null. Later versions may add keys.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

    from fedsim.results.record.scenarios import Note
    from fedsim.results.result import Result
    from fedsim.running.check import Check
    from fedsim.running.watching import Snapshot


def print_json(document: Mapping[str, object]) -> None:
    """Print a document on standard output."""
    typer.echo(json.dumps(_plain(document), indent=2, allow_nan=False))


def _plain(value: Any) -> Any:
    """Return a value in types that JSON has; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, str | int) else str(value)


def rows_of(frame: "pd.DataFrame") -> list[dict[str, object]]:
    """Return the rows of a frame."""
    return [
        {str(key): None if value != value else value for key, value in row.items()}  # noqa: PLR0124 - NaN and NaT
        for row in frame.to_dict("records")
    ]


def of_table(table: Table) -> dict[str, object]:
    """Return the title and the rows of a table; each row maps column heads to texts."""
    heads = [_text(column.header) for column in table.columns]
    cells = [[_text(cell) for cell in column.cells] for column in table.columns]
    rows = [dict(zip(heads, row, strict=True)) for row in zip(*cells, strict=True)]
    return {"title": _text(table.title or ""), "rows": rows}


def _text(cell: object) -> str:
    return Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)


def _notes(notes: "Iterable[Note]") -> list[dict[str, str]]:
    return [{"about": note.about, "key": note.key, "text": note.text} for note in notes]


def of_run(
    result: "Result", kept: int, shard: str | None, figure: Path | None
) -> dict[str, object]:
    """Return the document of `fedsim run`.

    Args:
        result: the runs.
        kept: the number of runs that existed before and were not repeated.
        shard: the share of the study's runs, as K/N; None for all runs.
        figure: the file of the figure, if it was drawn.
    """
    return {
        "folder": result.folder,
        "shard": shard,
        "figure": figure,
        "answer": result.shown.answer() if figure is not None else None,
        "causes": _causes(result) if figure is not None else None,
        "reference": result.shown.reference() if figure is not None else None,
        "runs": rows_of(result.summary),
        "folders": list(result.runs),
        "kept": kept,
        "made": len(result.runs) - kept,
        "notes": _notes(result.seen),
        **_batteries(result),
    }


def _causes(result: "Result") -> list[dict[str, object]]:
    """Return the causes of the difference in the answer; empty if they are not known."""
    found = result.shown.causes()
    return [] if found is None else rows_of(found.frame)


def _batteries(result: "Result") -> dict[str, object]:
    """Return the figures of batteries and a sentence on them; nothing if no client has one."""
    known = result.shown.batteries
    if not known:
        return {}
    return {"batteries": rows_of(known.figures), "batteries_last": known.answer()}


def of_error(error: BaseException) -> dict[str, object]:
    """Return the document of a command that failed: the error in place of its result."""
    from fedsim.core.errors import ScenarioError

    faults = error.describe_faults() if isinstance(error, ScenarioError) else ()
    text = "interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
    return {"error": {"type": type(error).__name__, "text": text, "faults": list(faults)}}


def of_check(found: "Check") -> dict[str, object]:
    """Return the document of `fedsim check`."""
    return {
        "name": found.plan.name,
        "title": found.title,
        "runs": sum(len(variant.seeds) for variant in found.plan.variants),
        "seeds": {variant.name: list(variant.seeds) for variant in found.plan.variants},
        "variants": rows_of(found.variants),
        "costs": rows_of(found.costs),
        "notes": _notes(found.notes),
        "concerns": _notes(found.concerns),
        "accuracy": _notes(found.accuracy),
        "graphs": _notes(found.graphs),
    }


def of_status(now: "Snapshot") -> dict[str, object]:
    """Return the document of `fedsim status`."""
    from fedsim.running.watching import time_left  # it loads pandas

    return {
        "name": now.status.name,
        "folder": now.status.folder,
        "held": now.status.held,
        "over": now.over,
        "seconds_left": now.seconds,
        "variants": [asdict(each) for each in now.status.variants],
        "running": [
            {
                **{key: getattr(run, key) for key in _RUNNING},
                "seconds_left": time_left(run),
            }
            for run in now.running.values()
        ],
    }


_RUNNING = ("variant", "seed", "round", "rounds", "rate", "worker", "doing")


def of_parts(parts: Sequence[str | Table]) -> dict[str, object]:
    """Return texts and tables of a description."""
    return {
        "texts": [_text(part) for part in parts if isinstance(part, str)],
        "tables": [of_table(part) for part in parts if isinstance(part, Table)],
    }
