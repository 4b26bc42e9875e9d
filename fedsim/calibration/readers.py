"""Readers of recordings: fedsim's logs, CSV, iperf3, ping, Mahimahi traces and Flower's log files.

The form of a file is recognised by its content. A fault names the file, the line, what was seen and
what is accepted.
"""

import json
import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
import pandas as pd

from fedsim.blocks.wording import printable
from fedsim.calibration.logs import read_log
from fedsim.calibration.recording import ALL, KINDS, MESSAGES, Observation, as_table
from fedsim.errors import DataError
from fedsim.files import decompress, read_bytes
from fedsim.physics.formats.tables import TextColumns, read_columns
from fedsim.physics.traces import read_mahimahi

_KEY = "log"
_TIMES = 60
"""The bytes of memory that a byte of a recording takes."""

ACCEPTED = (
    "a folder written by fedsim run, CSV with the columns client, start, end, bytes and direction"
    " or kind, iperf3 --json, the output of ping, a Mahimahi trace, or a log file of Flower"
)

Direction = Literal["up", "down", ""]


def read_recording(path: Path, *, client: str = ALL, direction: Direction = "") -> pd.DataFrame:
    """Read a recording of any form that is known.

    Args:
        path: a folder written by `fedsim run`, or a file.
        client: the client that a file is about, if its form has no clients.
        direction: up or down, of a Mahimahi trace.

    Returns:
        The table of `fedsim.calibration.recording`.

    Raises:
        DataError: the file cannot be read, or is of no known form.
    """
    if path.is_dir():
        return read_log(path)
    content = decompress(read_bytes(path, _KEY, _TIMES), path, _KEY, _TIMES)
    text = content.decode("utf-8-sig", "backslashreplace")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if first.startswith(("{", "[")):
        return as_table(_iperf3(text, path, client))
    if re.search(r"\bping(ing)?\b", first, re.IGNORECASE):
        return as_table(_ping(text, path, client))
    if re.search(_FLOWER, text):
        return as_table(_flower(text, path))
    if re.fullmatch(r"[0-9]+", first):
        return as_table(_mahimahi(path, client, direction))
    if "," not in first:
        _refuse(path, 1, f"expected {ACCEPTED}", first)
    return as_table(_csv(path))


def _refuse(path: Path, line: int, accepted: str, seen: str) -> NoReturn:
    raise DataError(_KEY, f"{path}, line {line}: {accepted}; got {printable(seen, 60)!r}")


# CSV: a header with client, start, end, bytes and direction or kind, in any order.

_WAYS = {"up": "upload", "down": "download", **{kind: kind for kind in KINDS}}


def _csv(path: Path) -> Iterator[Observation]:
    header = _header(path)
    kind = next((name for name in ("kind", "direction") if name in header), "")
    further = [name for name in ("run", "round", "operations", "samples") if name in header]
    wanted = ["client", "start", "end", "bytes", *([kind] if kind else []), *further]
    table = read_columns(path, wanted, _KEY)
    start, end, size = (table.numbers(name) for name in ("start", "end", "bytes"))
    more = {name: _numbers_or_nan(table, name) for name in further}
    for row in range(len(table)):
        if end[row] < start[row]:
            table.fail(row, "end is start or later", table.cells["end"][row])
        word = table.cells[kind][row].lower() if kind else "up"
        if word not in _WAYS:
            table.fail(row, f"{kind} is one of {', '.join(_WAYS)}", word)
        if _WAYS[word] in MESSAGES and not size[row]:
            table.fail(row, "bytes of a message are above 0", table.cells["bytes"][row])
        own = {name: float(values[row]) for name, values in more.items()}
        yield Observation(
            int(own.get("run", 0)),
            table.cells["client"][row],
            int(own.get("round", 0)),
            _WAYS[word],
            float(start[row]),
            float(end[row]),
            float(size[row]),
            own.get("operations", np.nan),
            own.get("samples", np.nan),
        )


def _header(path: Path) -> list[str]:
    content = decompress(read_bytes(path, _KEY, _TIMES), path, _KEY, _TIMES)
    first = content.decode("utf-8-sig", "backslashreplace").split("\n", 1)[0]
    return [name.strip().strip('"') for name in first.split(",")]


def _numbers_or_nan(table: TextColumns, name: str) -> list[float]:
    accepted = "a finite number of 0 or more, or empty"
    return table.parse(name, lambda cell: _positive(cell) if cell else np.nan, accepted)


def _positive(text: str) -> float:
    number = float(text)
    if not (isfinite(number) and number >= 0):
        raise ValueError
    return number


# iperf3 --json: the bytes of each interval, of one direction or both.


def _iperf3(text: str, path: Path, client: str) -> Iterator[Observation]:
    try:
        report: Any = json.loads(text)
    except json.JSONDecodeError as error:
        _refuse(path, error.lineno, f"expected JSON as iperf3 --json prints it ({error.msg})", text)
    if isinstance(report, dict) and report.get("error"):
        said = printable(str(report["error"]))
        raise DataError(_KEY, f"{path}: iperf3 failed: {said}; expected a test that has ended")
    try:
        test = report["start"]["test_start"]
        first: Direction = "down" if test.get("reverse") else "up"
        other: Direction = "up" if first == "down" else "down"
        spans = [
            (way, each[name])
            for each in report["intervals"]
            for way, name in ((first, "sum"), (other, "sum_bidir_reverse"))
            if name in each and not each[name].get("omitted")
        ]
        rows = [
            Observation(0, client, 0, f"{_WAYS[way]}-rate", *_span(span)) for way, span in spans
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        wanted = "start.test_start, and intervals with sum.start, end and bytes"
        text = f"it is no report of iperf3 --json: expected {wanted} ({error!r})"
        raise DataError(_KEY, f"{path}: {text}") from error
    if not rows:
        raise DataError(_KEY, f"{path}: the report has no interval with bytes; one is accepted")
    yield from rows


def _span(span: Any) -> tuple[float, float, float]:  # noqa: ANN401 - parsed JSON
    start, end, size = (_positive(span[name]) for name in ("start", "end", "bytes"))
    if not (end > start and size):
        raise ValueError(span)
    return start, end, size


# ping: the round trip of each reply.

_REPLY = re.compile(r"\btime\s*[=<]\s*([0-9.]+)\s*ms\b")
_SEQUENCE = re.compile(r"\b(?:icmp_)?seq=([0-9]+)")


def _ping(text: str, path: Path, client: str) -> Iterator[Observation]:
    number = 0
    for line, words in enumerate(text.splitlines(), 1):
        if (found := _REPLY.search(words)) is None:
            continue
        try:
            trip = _positive(found[1]) / 1e3
        except ValueError:
            _refuse(path, line, "a reply has time=MILLISECONDS ms", words)
        sequence = _SEQUENCE.search(words)
        begun = float(sequence[1]) if sequence else float(number)
        number += 1
        if trip > 0:
            yield Observation(0, client, 0, "ping", begun, begun + trip)
    if not number:
        _refuse(path, 1, 'no line has a reply, such as "64 bytes from ...: time=12.3 ms"', text)


# Mahimahi: the bytes that could have passed in each second.


def _mahimahi(path: Path, client: str, direction: Direction) -> Iterator[Observation]:
    way = direction or {".up": "up", ".down": "down"}.get(path.suffix.lower(), "")
    if not way:
        wanted = "a name that ends in .up or .down, or up: or down: before the file"
        raise DataError(_KEY, f"{path}: a Mahimahi trace has no direction; expected {wanted}")
    rate = read_mahimahi(path)
    edges = np.unique([*np.arange(0.0, rate.period), rate.period])
    carried = np.array([rate.integral(0.0, float(edge)) for edge in edges]) / 8.0
    for start, end, size in zip(edges, edges[1:], np.diff(carried), strict=False):
        if size > 0:  # a second without an opportunity is an outage, which no constant rate has
            kind = f"{_WAYS[way]}-rate"
            yield Observation(0, client, 0, kind, float(start), float(end), float(size))


# Flower: the lines of its log files, which know rounds and no messages.

_STAMP = r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}),([0-9]{3})"
_FLOWER = re.compile(rf"flwr {_STAMP}|INFO\s*:?.*\[ROUND [0-9]+")


def _flower(text: str, path: Path) -> Iterator[Observation]:
    """Yield the rounds of a log file of Flower: from one `[ROUND n]` to the next, or to the end."""
    marks = list[tuple[int, float]]()
    for line, words in enumerate(text.splitlines(), 1):
        of_round = re.search(r"\[ROUND ([0-9]+)", words)
        if of_round is None and "Run finished" not in words and "[SUMMARY]" not in words:
            continue
        stamp = re.search(_STAMP, words)
        if stamp is None:
            wanted = "a line of a log file with its time, as flwr's logger.configure writes it"
            _refuse(path, line, f"expected {wanted}, such as 'flwr 2025-01-31 12:00:00,000'", words)
        then = datetime.fromisoformat(stamp[1]).timestamp() + int(stamp[2]) / 1e3
        if marks and then < marks[-1][1]:
            _refuse(path, line, "times of a log never fall", words)
        marks.append((int(of_round[1]) if of_round else 0, then))
        if of_round is None:
            break
    if len(marks) < 2:
        _refuse(path, 1, "expected a line [ROUND 1] and a later one, of a round or the end", text)
    for (number, begun), (_, ended) in pairwise(marks):
        yield Observation(0, ALL, number, "round", begun - marks[0][1], ended - marks[0][1])
