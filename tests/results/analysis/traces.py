"""Traces, read back; and logs to make them from."""

import json
from pathlib import Path
from typing import Any

from fedsim.results.analysis import Log, write_trace
from fedsim.results.record.read import read_run
from tests.results.analysis.lively import lively

Events = list[dict[str, Any]]

SECOND = 1e6  # in microseconds


def kept(folder: Path, **changes: Any) -> Log:
    (path,) = lively(folder, **changes).runs
    return Log(*(read_run(path, name) for name in ("events", "rounds", "clients")))


def traced(path: Path, run: Log, *rounds: int | None) -> Events:
    """Return the events of a trace, and that the file is strict JSON."""
    count = write_trace(path, run, run.window(*rounds))

    def refuse(text: str) -> Any:
        raise AssertionError(text)

    content = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert content["displayTimeUnit"] == "ms"
    assert len(content["traceEvents"]) == count
    found: Events = content["traceEvents"]
    return found


def of(events: Events, phase: str, category: str = "client") -> Events:
    return [each for each in events if each["ph"] == phase and each.get("cat") == category]


def names(events: Events, what: str, number: str) -> dict[int, str]:
    """Return the names of the processes or threads, by number; each of them has one name."""
    found = [each for each in events if each["name"] == what]
    named = {each[number]: each["args"]["name"] for each in found}
    assert len(named) == len(found)
    return named
