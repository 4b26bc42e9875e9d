"""Live files: the progress of the runs that are being made in a folder, for readers elsewhere.

The tables of a run grow by chunks of rows, so that the same run writes the same bytes; of slow
rounds they show the first after a minute or more. So each process that makes runs in a folder also
writes a small file into `OUT/.live`, about once a second, atomically, and removes it at its end. It
is informative only: no result depends on it, and a file that cannot be written or read is ignored.

A killed process leaves its file behind. A reader takes it as valid only while the folder's lock is
held (`fedsim.results.record.lock`), and the next process that holds the folder alone removes it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple, Self

from fedsim.core.atomic import ASIDE, check_links, write_whole
from fedsim.core.errors import OutputError
from fedsim.core.files import read_file

LIVE = ".live"
"""In OUT: the folder of live files."""

POINTS = 120
"""Largest number of points of a curve; a terminal or a page shows no more."""

STALE = 60.0
"""Age from which a live file is no longer believed, s: its process has been killed."""


class CurvePoint(NamedTuple):
    """A round on the curves of a run; a number that is not known is NaN.

    Attributes:
        round: its number, from 1.
        t: simulated time at its end, s.
        objective, gap: at its end.
        joules: energy of the fleet until then.
    """

    round: int
    t: float = nan
    objective: float = nan
    gap: float = nan
    joules: float = nan


class LiveCurve:
    """The curve of a run that grows: at most `POINTS` points, evenly spread over its rounds.

    When it is full, every second point is dropped, and from then on half as many rounds are kept;
    the first point, which is the start, and the last round are always there.

    >>> curve = LiveCurve(most=4)
    >>> for number in range(12):
    ...     curve.add(CurvePoint(number))
    >>> [point.round for point in curve.points()]
    [0, 4, 8, 11]
    """

    def __init__(self, most: int = POINTS) -> None:
        self._most, self._step = most, 1
        self._points: list[CurvePoint] = []
        self._last: CurvePoint | None = None

    def add(self, point: CurvePoint) -> None:
        """Add a round; rounds come in order, some may be left out."""
        self._last = point
        reached = self._points[-1].round if self._points else -1
        if point.round // self._step > reached // self._step:
            self._points.append(point)
        if len(self._points) >= self._most:
            self._points = self._points[::2]
            self._step *= 2

    def points(self) -> tuple[CurvePoint, ...]:
        """Return the points, the last round included."""
        last = self._last
        if last is None or (self._points and self._points[-1] == last):
            return tuple(self._points)
        return (*self._points, last)


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A run that is being made.

    Attributes:
        variant, seed, algorithm: of the run.
        rounds: the largest possible number.
        round: the last one that was reported.
        seconds: real time since its first report, s.
        rate: rounds per second of real time; NaN if unknown.
        worker: the process that makes it; empty if that is the one that writes the file.
        doing: its current activity, if it has reported no progress for long.
        curve: some of its rounds, the last one included.
    """

    variant: str
    seed: int
    algorithm: str = ""
    rounds: int = 0
    round: int = 0
    seconds: float = 0.0
    rate: float = nan
    worker: str = ""
    doing: str = ""
    curve: tuple[CurvePoint, ...] = ()


class LiveEvent(NamedTuple):
    """An event of a campaign.

    Attributes:
        seconds: real time since the campaign began, s.
        text: one line.
    """

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class LiveCampaign:
    """What one process reports of the runs that it makes, or has made by others.

    Attributes:
        process: host and number of the process.
        seconds: real time since it began, s.
        runs: the number of its runs; ended ones included.
        ended: how many of them have ended, or existed already.
        running: those in progress.
        doing: the current activity of the process.
        events: the last ones, the oldest first.
        age: by how much the file is older than the newest one of the folder, s.
    """

    process: str
    seconds: float = 0.0
    runs: int = 0
    ended: int = 0
    running: tuple[LiveRun, ...] = ()
    doing: str = ""
    events: tuple[LiveEvent, ...] = ()
    age: float = 0.0

    def encode(self) -> bytes:
        """Return the content of a live file, JSON in UTF-8; unknown numbers are null."""
        return json.dumps(_plain(asdict(self))).encode()

    @classmethod
    def decode(cls, content: bytes, age: float = 0.0) -> Self:
        """Return the content of a live file.

        Raises:
            ValueError, TypeError, KeyError: it is damaged, or of another version.
        """
        content_of_file = _mapping(json.loads(content))
        running = tuple(_run(entry) for entry in content_of_file.pop("running"))
        events = tuple(
            LiveEvent(_number(when), str(text)) for when, text in content_of_file.pop("events")
        )
        entries = _fields_of(cls, content_of_file)
        return cls(**{**entries, "running": running, "events": events, "age": age})


def _run(value: object) -> LiveRun:
    facts = dict(_mapping(value))
    curve = tuple(CurvePoint(int(point[0]), *map(_number, point[1:5])) for point in facts["curve"])
    return LiveRun(**{**_fields_of(LiveRun, facts), "curve": curve})


_KINDS = {str: str, int: int}


def _fields_of(
    kind: type[LiveRun] | type[LiveCampaign], mapping: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the entries of a mapping that are plain fields of a class, with their types."""
    plain = {field.name: field.type for field in fields(kind) if field.type in {str, int, float}}
    return {name: _KINDS.get(plain[name], _number)(mapping[name]) for name in plain}


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"got {type(value).__name__}, expected a mapping")
    return value


def _number(value: object) -> float:
    return nan if value is None else float(value)  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    """Return a value in which numbers that JSON does not have are None."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def write_live(out: Path, name: str, campaign: LiveCampaign) -> bool:
    """Write the live file of a process; return whether that was possible.

    Args:
        out: the folder of the runs.
        name: of the file, which no other process has.
        campaign: its content.
    """
    try:
        check_links(out, out / LIVE)
        write_whole(out / LIVE / name, campaign.encode())
    except (OSError, OutputError):  # it is only informative
        return False
    return True


def remove_live(out: Path, name: str) -> None:
    """Remove the live file of a process, and the folder if it was the last."""
    if not (out / LIVE).is_symlink():
        with suppress(OSError):
            (out / LIVE / name).unlink(missing_ok=True)
            (out / LIVE).rmdir()


def clear_live(out: Path) -> None:
    """Remove the live files of killed processes; no other process may be working there."""
    if not (out / LIVE).is_symlink():
        with suppress(OSError):
            for file in _files(out, "*.json", f"*{ASIDE}"):
                file.unlink(missing_ok=True)
            (out / LIVE).rmdir()


def _files(out: Path, *patterns: str) -> Sequence[Path]:
    return sorted(path for pattern in patterns for path in (out / LIVE).glob(pattern))


def read_live(out: Path) -> Iterator[LiveCampaign]:
    """Yield file name and report of each process that makes runs in a folder.

    The caller checks that a process holds the folder. Files that are much older than the newest one
    are left out, and damaged ones. Ages are differences of dates of files, since the clocks of two
    machines may differ.

    Args:
        out: the folder of the runs.
    """
    dates = dict[Path, float]()
    for path in _files(out, "*.json"):
        with suppress(OSError):
            dates[path] = path.stat().st_mtime
    newest = max(dates.values(), default=0.0)
    for path, date in dates.items():
        with suppress(OSError, ValueError, TypeError, KeyError, IndexError):
            if newest - date < STALE:
                yield LiveCampaign.decode(read_file(path), newest - date)
