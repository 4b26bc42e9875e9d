"""Power logs of tools whose files state no units, or no times and powers in columns.

Each tool is known by the titles of its first line. Its lines are rewritten as those of a table
that `meters` reads: a time, and a power or a running total of energy, with units. Sources:

- `nvidia-smi --query-gpu=timestamp,power.draw --format=csv` writes the unit behind each number.
- CodeCarbon's emissions.csv: `duration` in seconds since the start, `energy_consumed` in kWh so far
  (its documentation, "Output").
- `energy_uj` of Linux's powercap starts again from 0 above `max_energy_range_uj`
  (Documentation/power/powercap/powercap.rst).
- ZeusMonitor's log file: windows with their start and length in seconds, and J per GPU (the
  argument `log_file` of `zeus.monitor.ZeusMonitor`).
- Tasmota's messages of telemetry: JSON with `Time`, and `ENERGY.Power` in W (its documentation,
  "JSON status responses").
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fedsim.addons.calibration.recording import refuse
from fedsim.physics.headers import split_cells

Line = tuple[int, str]
"""The number of a line, from 1, and its text."""


class Tool(NamedTuple):
    """A tool and how its log is rewritten.

    Attributes:
        titles: those by which it is known, in lower case.
        rewrite: returns the lines of a table, header first, by the path, the titles and the lines.
    """

    titles: frozenset[str]
    rewrite: Callable[[Path, Sequence[str], Sequence[Line]], Iterator[Line]]


def rewritten(path: Path, lines: Sequence[Line]) -> list[Line] | None:
    """Return the lines of a tool's log as those of a table; None if they are of no such tool.

    Args:
        path: the file, for errors.
        lines: its lines, neither blank nor comments.

    Raises:
        DataError: a line is not of the tool's format.
    """
    if not lines:
        return None
    if '{"Time"' in lines[0][1]:
        return [*_tasmota(path, lines)]
    titles = [title.strip().lower() for title in split_cells(lines[0][1])]
    for tool in TOOLS:
        if tool.titles <= {*titles}:
            return [*tool.rewrite(path, titles, lines)]
    return None


def _nvidia_smi(_: Path, __: Sequence[str], lines: Sequence[Line]) -> Iterator[Line]:
    yield lines[0]
    for number, line in lines[1:]:
        yield number, re.sub(r"(?<=\d) W(?=\s*(?:,|$))", "", line)


def _codecarbon(path: Path, titles: Sequence[str], lines: Sequence[Line]) -> Iterator[Line]:
    # A run without intermediate rows has one, of the whole time.
    yield lines[0][0], "duration_s,energy_kWh"
    yield lines[0][0], "0,0"
    for number, row in _rows(path, titles, lines):
        yield number, f"{row['duration']},{row['energy_consumed']}"


def _powercap(path: Path, titles: Sequence[str], lines: Sequence[Line]) -> Iterator[Line]:
    """Add the range of the counter whenever it has started again from 0."""
    kept = [title for title in titles if title != "max_energy_range_uj"]
    yield lines[0][0], ",".join(kept)
    before, turns = 0, 0
    for number, row in _rows(path, titles, lines):
        try:
            now, most = int(row["energy_uj"]), int(row["max_energy_range_uj"])
        except ValueError:
            refuse(path, number, "expected energies in whole microjoules", lines[0][1])
        turns += now < before
        before = now
        total = now + turns * (most + 1)
        yield number, ",".join(str(total) if key == "energy_uj" else row[key] for key in kept)


def _tasmota(path: Path, lines: Sequence[Line]) -> Iterator[Line]:
    yield lines[0][0], "time,power_W"
    for number, line in lines:
        try:
            said = json.loads(line[line.index("{") :])
            yield number, f"{said['Time']},{float(said['ENERGY']['Power'])!r}"
        except (ValueError, TypeError, KeyError):
            refuse(path, number, "expected JSON with Time and ENERGY.Power, as of Tasmota", line)


def windows(path: Path, lines: Sequence[Line]) -> Iterator[tuple[float, float, float]] | None:
    """Return the windows of ZeusMonitor: begin and end, s, and the joules of all its GPUs.

    None if the log is of another tool.

    Raises:
        DataError: a line is not of its format.
    """
    titles = [title.strip().lower() for title in split_cells(lines[0][1])] if lines else []
    if not {"start_time", "window_name", "elapsed_time"} <= {*titles}:
        return None
    return _windows(path, titles, lines)


def _windows(
    path: Path, titles: Sequence[str], lines: Sequence[Line]
) -> Iterator[tuple[float, float, float]]:
    gpus = [title for title in titles if re.fullmatch(r"gpu\d+_energy", title)]
    for number, row in _rows(path, titles, lines):
        try:
            begin, lasted = float(row["start_time"]), float(row["elapsed_time"])
            yield begin, begin + lasted, sum(float(row[gpu]) for gpu in gpus)
        except ValueError:
            refuse(path, number, "expected seconds and joules in numbers", ",".join(row.values()))


def _rows(
    path: Path, titles: Sequence[str], lines: Sequence[Line]
) -> Iterator[tuple[int, dict[str, str]]]:
    for number, line in lines[1:]:
        cells = split_cells(line)
        if len(cells) != len(titles):
            refuse(path, number, f"expected {len(titles)} cells", line)
        yield number, dict(zip(titles, map(str.strip, cells), strict=True))


TOOLS = (
    Tool(frozenset({"timestamp", "power.draw [w]"}), _nvidia_smi),
    Tool(frozenset({"duration", "energy_consumed", "emissions"}), _codecarbon),
    Tool(frozenset({"energy_uj", "max_energy_range_uj"}), _powercap),
)
"""The tools whose logs are tables; Tasmota's are JSON."""
