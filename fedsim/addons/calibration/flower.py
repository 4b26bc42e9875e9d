"""Recordings by Flower: log files with rounds, and a `History` saved as JSON.

Neither contains messages. A log file has the duration of each round. A `History` has losses and
metrics by round, but no times, unless the training function of a client returns a time as a metric.
Such a metric is a mean over the clients of a round, which hides the spread of single clients.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from fedsim.addons.calibration.recording import ALL, Observation, refuse
from fedsim.core.blocks.wording import join_names
from fedsim.core.errors import DataError

# Log files.

_STAMP = r"([0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}),([0-9]{3})"
_FLOWER = re.compile(rf"flwr {_STAMP}|INFO\s*:?.*\[ROUND [0-9]+")


def is_flower_log(text: str) -> bool:
    """Return whether a text is a log file of Flower."""
    return re.search(_FLOWER, text) is not None


def read_flower_log(text: str, path: Path) -> Iterator[Observation]:
    """Yield the rounds of a log file: from one `[ROUND n]` to the next, or to the end.

    Raises:
        DataError: a line has no time, or there is no round.
    """
    marks = list[tuple[int, datetime]]()
    for line, words in enumerate(text.splitlines(), 1):
        of_round = re.search(r"\[ROUND ([0-9]+)", words)
        if of_round is None and "Run finished" not in words and "[SUMMARY]" not in words:
            continue
        then = _stamp_of(words)
        if then is None:
            wanted = "a line of a log file with its time, as flwr's logger.configure writes it"
            refuse(path, line, f"expected {wanted}, such as 'flwr 2025-01-31 12:00:00,000'", words)
        if marks and then < marks[-1][1]:
            refuse(path, line, "times of a log never fall", words)
        marks.append((int(of_round[1]) if of_round else 0, then))
        if of_round is None:
            break
    if len(marks) < 2:
        refuse(path, 1, "expected a line [ROUND 1] and a later one, of a round or the end", text)
    first = marks[0][1]
    for (number, begun), (_, ended) in pairwise(marks):
        span = (begun - first).total_seconds(), (ended - first).total_seconds()
        yield Observation(0, ALL, number, "round", *span)


def _stamp_of(words: str) -> datetime | None:
    """Return the time of a line; None if it has none, or one that is no time."""
    stamp = re.search(_STAMP, words)
    if stamp is None:
        return None
    # Without a zone, as it is written: the zone of the machine that reads the log, with its changes
    # to and from summer time, has no part in it.
    try:
        return datetime.fromisoformat(f"{stamp[1]}.{stamp[2]}")
    except ValueError:
        return None


# A History: https://flower.ai/docs/framework, `flwr.server.History`, by its attributes.

_FIELDS = (
    *("losses_distributed", "losses_centralized"),
    *("metrics_distributed_fit", "metrics_distributed", "metrics_centralized"),
)
_FIT = "metrics_distributed_fit"

_SECONDS = re.compile(r"(^|_)(time|duration|seconds|secs?|s)$", re.IGNORECASE)
"""Names of metrics that are times in seconds."""

_SAMPLES = re.compile(r"^(num_)?(examples|samples)$", re.IGNORECASE)


def is_history(content: Any) -> bool:
    """Return whether a parsed JSON file is a `History`: it has any of its attributes."""
    return isinstance(content, Mapping) and any(name in content for name in _FIELDS)


def read_history(content: Mapping[str, Any], path: Path) -> Iterator[Observation]:
    """Yield the work of each round: the mean time over the clients, from the first time metric.

    Raises:
        DataError: there are no times, or they are not numbers.
    """
    fit = content.get(_FIT) or {}
    names = list(fit) if isinstance(fit, Mapping) else []
    times = [name for name in names if _SECONDS.search(name)]
    if not times:
        there = join_names(names, "and") if names else "nothing"
        wanted = "a metric of training in seconds, such as train_time, a log file of Flower, or CSV"
        text = f"a History of Flower has no times; {_FIT} has {there}; expected {wanted}"
        raise DataError("log", f"{path}: {text}")
    amounts = next((name for name in names if _SAMPLES.search(name)), "")
    samples = _by_round(fit, amounts, path) if amounts else {}
    for number, seconds in _by_round(fit, times[0], path).items():
        rows = samples.get(number, float("nan"))
        yield Observation(0, ALL, number, "compute-mean", 0.0, seconds, samples=rows)


def _by_round(fit: Mapping[str, Any], name: str, path: Path) -> dict[int, float]:
    """Return a metric by round.

    Raises:
        DataError: it is not a list of rounds and numbers.
    """
    try:
        values = {int(number): float(value) for number, value in fit[name]}
    except (TypeError, ValueError) as error:
        values, seen = {-1: -1.0}, f"{error!r}"  # an invalid entry, for one error below
    else:
        seen = f"{fit[name]}"[:60]
    if not all(number >= 0 and isfinite(value) and value >= 0 for number, value in values.items()):
        text = f"{_FIT}.{name} is a list of rounds with seconds or numbers of 0 or more; got {seen}"
        raise DataError("log", f"{path}: {text}")
    return values
