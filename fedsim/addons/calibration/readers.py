"""Readers of recordings: fedsim's logs, CSV, iperf3, ping, Mahimahi, captures, Flower's files.

The format of a file is recognised by its content. An error names the file and the line, and states
what was seen and what is accepted.
"""

import json
import re
from collections.abc import Iterable, Iterator
from math import isfinite, nan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from fedsim.addons.calibration.captures import MAGIC, read_capture
from fedsim.addons.calibration.flower import (
    is_flower_log,
    is_history,
    read_flower_log,
    read_history,
)
from fedsim.addons.calibration.logs import read_log
from fedsim.addons.calibration.recording import ALL, KINDS, MESSAGES, Observation, as_table, refuse
from fedsim.core.blocks.wording import printable
from fedsim.core.errors import DataError
from fedsim.core.files import decompress, read_bytes
from fedsim.physics.formats.tables import TextColumns, read_columns
from fedsim.physics.traces import read_mahimahi

_KEY = "log"
_TIMES = 60
"""Bytes of memory per byte of a recording."""

ACCEPTED = (
    "a folder written by fedsim run, CSV with the columns client, start, end, bytes and direction"
    " or kind, iperf3 --json, the output of ping, a Mahimahi trace, a capture (pcap, pcapng), or a"
    " log file or a History of Flower"
)

Direction = Literal["up", "down", ""]


def read_recording(path: Path, *, client: str = ALL, direction: Direction = "") -> pd.DataFrame:
    """Read a recording of any known format.

    Args:
        path: a folder written by `fedsim run`, or a file.
        client: the client that was recorded, if the format has no clients.
        direction: up or down, for a Mahimahi trace.

    Returns:
        The table of `fedsim.addons.calibration.recording`.

    Raises:
        DataError: the file cannot be read, or has no known format.
    """
    if path.is_dir():
        return read_log(path)
    content = decompress(read_bytes(path, _KEY, _TIMES), path, _KEY, _TIMES)
    return as_table(_rows(content, path, client, direction))


def _rows(content: bytes, path: Path, client: str, direction: Direction) -> Iterable[Observation]:
    """Return the observations of a file by its content."""
    if content.startswith(MAGIC):
        return read_capture(content, path, client)
    # "utf-8-sig", since files of Windows may begin with a byte order mark.
    text = content.decode("utf-8-sig", "backslashreplace")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    # JSON and logs contain commas, too, so CSV is the last guess.
    observations: Iterable[Observation]
    if first.startswith(("{", "[")):
        observations = _json(text, path, client)
    elif re.search(r"\bping(ing)?\b", first, re.IGNORECASE):
        observations = _ping(text, path, client)
    elif is_flower_log(text):
        observations = read_flower_log(text, path)
    elif re.fullmatch(r"[0-9]+", first):
        observations = _mahimahi(path, client, direction)
    elif "," in first:
        observations = _csv(path)
    else:
        refuse(path, 1, f"expected {ACCEPTED}", first)
    return observations


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
            accepted = "end is start or later, both by one clock"
            table.fail(row, accepted, table.cells["end"][row])
        word = table.cells[kind][row].lower() if kind else "up"
        if word not in _WAYS:
            table.fail(row, f"{kind} is one of {', '.join(_WAYS)}", word)
        if _WAYS[word] in MESSAGES and not size[row]:
            table.fail(row, "bytes of a message are above 0", table.cells["bytes"][row])
        if _WAYS[word] in MESSAGES and table.cells["client"][row] == ALL:
            table.fail(row, "the client of a message is the one that sent or received it", ALL)
        row_values = {name: float(values[row]) for name, values in more.items()}
        yield Observation(
            int(row_values.get("run", 0)),
            table.cells["client"][row],
            int(row_values.get("round", 0)),
            _WAYS[word],
            float(start[row]),
            float(end[row]),
            float(size[row]),
            row_values.get("operations", np.nan),
            row_values.get("samples", np.nan),
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


def _json(text: str, path: Path, client: str) -> Iterator[Observation]:
    try:
        report: Any = json.loads(text)
    except json.JSONDecodeError as error:
        wanted = f"expected JSON as iperf3 --json prints it, or a History of Flower ({error.msg})"
        refuse(path, error.lineno, wanted, text)
    if is_history(report):
        return read_history(report, path)
    return _iperf3(report, path, client)


def _iperf3(report: Any, path: Path, client: str) -> Iterator[Observation]:
    if isinstance(report, dict) and report.get("error"):
        message = printable(str(report["error"]))
        raise DataError(_KEY, f"{path}: iperf3 failed: {message}; expected a test that has ended")
    try:
        test = report["start"]["test_start"]
        # With -R the server sends, and the first direction of the report is down.
        first: Direction = "down" if test.get("reverse") else "up"
        other: Direction = "up" if first == "down" else "down"
        spans = [
            (way, interval[name])
            for interval in report["intervals"]
            for way, name in ((first, "sum"), (other, "sum_bidir_reverse"))
            # With -O iperf3 omits the first seconds, in which TCP is still in slow start.
            if name in interval and not interval[name].get("omitted")
        ]
        rows = [
            Observation(0, client, 0, f"{_WAYS[way]}-rate", *_span(span)) for way, span in spans
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        wanted = "start.test_start, and intervals with sum.start, end and bytes"
        text = f"it is no report of iperf3 --json, and no History of Flower: expected {wanted}"
        raise DataError(_KEY, f"{path}: {text} ({error!r})") from error
    if not rows:
        raise DataError(_KEY, f"{path}: the report has no interval with bytes; one is accepted")
    yield from rows


def _span(span: Any) -> tuple[float, float, float]:
    start, end, size = (_positive(span[name]) for name in ("start", "end", "bytes"))
    if not (end > start and size):
        raise ValueError(span)
    return start, end, size


# ping: the round trip of each reply.

_REPLY = re.compile(r"\btime\s*([=<])\s*([0-9.]+)\s*ms\b")
_SEQUENCE = re.compile(r"\b(?:icmp_)?seq=([0-9]+)")


def _ping(text: str, path: Path, client: str) -> Iterator[Observation]:
    number = 0
    for line, words in enumerate(text.splitlines(), 1):
        if (match := _REPLY.search(words)) is None:
            continue
        try:
            trip = _positive(match[2]) / 1e3
        except ValueError:
            refuse(path, line, "a reply has time=MILLISECONDS ms", words)
        sequence = _SEQUENCE.search(words)
        # By default ping sends once a second, so the sequence number is a time, too.
        begun = float(sequence[1]) if sequence else float(number)
        number += 1
        if trip > 0:  # the fit takes logarithms
            least = 0.0 if match[1] == "<" else nan  # "time<1 ms", as Windows prints
            yield Observation(0, client, 0, "ping", begun, begun + trip, least=least)
    if not number:
        refuse(path, 1, 'no line has a reply, such as "64 bytes from ...: time=12.3 ms"', text)


# Mahimahi: the bytes that could have passed in each second.


def _mahimahi(path: Path, client: str, direction: Direction) -> Iterator[Observation]:
    way = direction or {".up": "up", ".down": "down"}.get(path.suffix.lower(), "")
    if not way:
        wanted = "a name that ends in .up or .down, or up: or down: before the file"
        raise DataError(_KEY, f"{path}: a Mahimahi trace has no direction; expected {wanted}")
    rate = read_mahimahi(path)
    edges = np.unique([*np.arange(0.0, rate.period), rate.period])
    carried = np.array([rate.integral(0.0, float(edge)) for edge in edges]) / 8.0
    # The trace is averaged over seconds: its marks are single packets, whose rate would be 0 or
    # huge.
    for start, end, size in zip(edges, edges[1:], np.diff(carried), strict=False):
        if size > 0:  # an outage of a second has no rate, which a constant rate cannot express
            kind = f"{_WAYS[way]}-capacity"
            yield Observation(0, client, 0, kind, float(start), float(end), float(size))
