"""Readers of power logs: what a meter has measured at one client, as energies of intervals.

A file is CSV with a time and a power, a running total of energy, or a voltage and a current; the
output of `perf stat -I`; or the log of a tool of `meter_tools`. Columns are found by their names
and units, as in traces.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fedsim.addons.calibration.meter_tools import rewritten, windows
from fedsim.addons.calibration.recording import refuse
from fedsim.core.blocks.units import factor
from fedsim.core.errors import DataError
from fedsim.core.files import read_bytes
from fedsim.core.ports import Array
from fedsim.physics.headers import CLOCK, Column, Heading, parse_heading, split_cells, words
from fedsim.physics.tables import TraceTable, read_table

KEY = "power"

_TIME = Column("seconds", "s", "s", CLOCK, preferred="time")
_POWER = Column("W", "W", "W", words("power watt watts apower pwr draw"), preferred="avg")
_ENERGY = Column("J", "J", "J", words("energy joule joules consumed"), preferred="total")
# No quantity of a scenario is in volts or amperes, so their units are read here.
_VOLTAGE = Column("voltage", words=words("voltage volt volts"), preferred="bus")
_CURRENT = Column("current", words=words("current ampere amperes amps"), preferred="avg")
_ELECTRICAL = re.compile(r"(?:^|[ _(\[])([um\N{MICRO SIGN}]?)[VA][)\]]?$")

ACCEPTED = (
    "CSV with a time and a power, a running total of energy, or a voltage and a current (units in"
    " the header, such as time_s,power_mW), the output of perf stat -I, or the log of CodeCarbon,"
    " Zeus or Tasmota"
)

_GAP = 10.0
"""A pause between two powers is a gap if it is this many times the usual one."""


class PowerLog(NamedTuple):
    """Measured energies, in order of time; arrays of shape (intervals,).

    Attributes:
        begin, end: of each interval, by the clock of the meter, s.
        joules: the energy in each interval, J.
    """

    begin: Array
    end: Array
    joules: Array

    def between(self, first: float, last: float) -> "PowerLog":
        """Return the intervals that lie within two times, s."""
        kept = (self.begin >= first) & (self.end <= last)
        return PowerLog(self.begin[kept], self.end[kept], self.joules[kept])


def read_power(path: Path) -> PowerLog:
    """Read a power log of any known format.

    A power holds since the previous time in the file; where the meter has paused, the interval is
    left out. Of a running total the differences count.

    Raises:
        DataError: the file cannot be read, has no known format, or is not in order of time.
    """
    text = read_bytes(path, KEY).decode("utf-8-sig", "backslashreplace")
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and not line.startswith("#")
    ]
    if lines and _PERF.match(lines[0][1]):
        return _perf(path, text)
    if (found := windows(path, lines)) is not None:
        return _of_windows(path, [*found])
    lines = rewritten(path, lines) or lines
    first = lines[0][1] if lines else ""
    titles = split_cells(first)
    for kind in (_POWER, _ENERGY):
        if shown := _shown(titles, kind):
            # Meters show W as often as mW, so none is assumed.
            title = shown[0].text
            if not shown[0].unit and shown[0].name.split()[-1] in kind.words:
                wanted = f"expected one, such as {title}_m{kind.unit} or {title}_{kind.unit}"
                refuse(path, 1, f"{title} has no unit; {wanted}", first)
            return _measured(read_table(path, (_TIME, kind), KEY, lines=lines), kind)
    scales = [_scale(titles, column) for column in (_VOLTAGE, _CURRENT)]
    if all(scales):
        table = read_table(path, (_TIME, _VOLTAGE, _CURRENT), KEY, lines=lines)
        return _measured(table, _POWER, scales[0] * scales[1])
    return refuse(path, 1, f"expected {ACCEPTED}", first)


def _of_windows(path: Path, found: Sequence[tuple[float, float, float]]) -> PowerLog:
    """Return windows as a log that begins at 0.

    Raises:
        DataError: windows overlap, so that energy would count twice.
    """
    begin, end, joules = np.array(sorted(found)).reshape(-1, 3).T
    if (begin[1:] < end[:-1]).any():
        number = int(np.argmax(begin[1:] < end[:-1])) + 1
        text = (
            f"{path}: window {number + 1} begins at {begin[number]:.6f} s, before window {number}"
        )
        raise DataError(KEY, f"{text} ends; expected windows that do not overlap")
    first = begin[0] if len(begin) else 0.0
    return _with_time(PowerLog(begin - first, end - first, joules), path)


def _shown(titles: Sequence[str], column: Column) -> list[Heading]:
    """Return the headings that may be a column, by a word or by their unit."""
    return [
        heading
        for heading in map(parse_heading, titles)
        if not column.words.isdisjoint(heading.name.split())
        or (heading.unit and column.unit and factor(heading.unit, column.unit) is not None)
    ]


def _scale(titles: Sequence[str], column: Column) -> float:
    """Return the unit of a voltage in V, or of a current in A; 0 if no title has one."""
    named = [heading.text for heading in _shown(titles, column)]
    title = next((text for text in named if column.preferred in text.lower()), *named[:1] or [""])
    found = _ELECTRICAL.search(title)
    if found is None:
        return 0.0
    return {"u": 1e-6, "m": 1e-3, "": 1.0}[found[1].replace("\N{MICRO SIGN}", "u")]


def _measured(table: TraceTable, kind: Column, scale: float = 1.0) -> PowerLog:
    """Return the energies of a table of powers, totals, or voltages and currents.

    Args:
        table: the times and the numbers.
        kind: what the numbers are.
        scale: the product of the units of voltage and current, W.
    """
    times, values, *others = table.columns
    steps = np.diff(times)
    table.refuse(np.append(False, steps < 0), "times must not decrease")
    for current in others:
        values = values * current * scale
    if kind is _ENERGY:
        falls = np.append(False, np.diff(values) < 0)
        table.refuse(falls, "a running total of energy must not fall")
        return _with_time(PowerLog(times[:-1], times[1:], np.diff(values)), table.path)
    table.refuse(~(values >= 0), "a power must be 0 or more")
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    log = PowerLog(times[:-1], times[1:], values[1:] * steps)
    shown = steps <= _GAP * usual
    return _with_time(PowerLog(*(column[shown] for column in log)), table.path)


def _with_time(log: PowerLog, path: Path) -> PowerLog:
    """Return the intervals that have a length; energies of the others go to the next one.

    Raises:
        DataError: there are fewer than two.
    """
    long = log.end > log.begin
    if long.sum() < 2:
        raise DataError(
            KEY, f"{path}: got {long.sum()} intervals with a length; expected 2 or more"
        )
    last = int(np.flatnonzero(long)[-1])
    ends = np.cumsum(log.joules)[: last + 1][long[: last + 1]]
    return PowerLog(log.begin[long], log.end[long], np.diff(ends, prepend=0.0))


# perf stat -I 1000 -e power/energy-pkg/: the energy since the previous line, with or without -x,

_PERF = re.compile(
    r"\s*([0-9]+\.[0-9]+)[,;\s]+([0-9][0-9.,]*)[,;\s]+Joules[,;\s]+(power/energy\S*)"
)


def _perf(path: Path, text: str) -> PowerLog:
    """Return the energies that perf prints; those of several domains of one time are added."""
    found = dict[float, float]()
    for time, joules in _perf_lines(path, text):
        found[time] = found.get(time, 0.0) + joules
    times = np.array([0.0, *found])
    if (np.diff(times) <= 0).any():
        raise DataError(
            KEY, f"{path}: times must increase; expected the output of one perf stat -I"
        )
    return _with_time(PowerLog(times[:-1], times[1:], np.array([*found.values()])), path)


def _perf_lines(path: Path, text: str) -> Iterator[tuple[float, float]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if (match := _PERF.match(line)) is None:
            refuse(path, number, "expected a time and Joules, as perf stat -I prints them", line)
        yield float(match[1]), float(match[2].replace(",", ""))
