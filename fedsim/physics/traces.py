"""Readers of traces: link rates, harvested powers and carbon intensities over time.

An error names the file, the line, its text and what would be accepted. Blank lines are skipped.
"""

from math import inf
from pathlib import Path

import numpy as np

from fedsim.physics.headers import CLOCK, Column, words
from fedsim.physics.signals import Steps
from fedsim.physics.tables import read_table, read_whole

OPPORTUNITY = 12000
"""The size of a delivery opportunity in a Mahimahi trace, bits: 1500 bytes."""


def read_mahimahi(path: Path) -> Steps:
    """Read a Mahimahi trace: each line is the time of one delivery opportunity, in ms.

    An opportunity delivers 1500 bytes, spread over the millisecond that ends at its time. The trace
    repeats with the last time as its period. So an opportunity at 0 coincides with the end of a
    cycle, and belongs to that cycle's last millisecond. Netravali et al., "Mahimahi: Accurate
    Record-and-Replay for HTTP", USENIX ATC 2015.

    Returns:
        The rate, bit/s.

    Raises:
        DataError: the file cannot be read; a line is not an integer of at least 0 and of at least
            the previous one; or the last line is 0.
    """
    table = read_whole(path, "milliseconds", "trace")
    (times,) = table.raw
    table.refuse(times < 0, "times are at least 0 ms")
    table.refuse(np.diff(times, prepend=0.0) < 0, "times never fall")
    last = times[-1]
    if last == 0:
        table.fail(len(times) - 1, "a trace lasts for 1 ms at least")
    begins, count = np.unique(np.where(times == 0, last, times) - 1, return_counts=True)
    edges = np.unique(np.concatenate([[0.0], begins, begins + 1]))
    rates = np.zeros(edges.size)
    rates[np.searchsorted(edges, begins)] = OPPORTUNITY * 1000 * count
    return Steps(edges / 1000, rates, period=last / 1000)


_SECONDS = Column("seconds", "s", "s", CLOCK)
_HOURS = Column("hours", "h", "s", CLOCK)
_RATE = Column(
    "Mbit/s",
    "Mbit/s",
    "bit/s",
    words("rate bandwidth throughput goodput bitrate speed capacity datarate"),
)
_POWER = Column("W", "W", "W", words("power watt watts harvest harvested"))
_INTENSITY = Column(
    "g/kWh",
    "g/kWh",
    "g/kWh",
    words("intensity emissions moer"),
    preferred="life cycle",
    implied={"moer": "lb/MWh"},
)


def read_csv(path: Path, repeat: bool) -> Steps:
    """Read a trace of rates: a CSV file with columns seconds and Mbit/s, with or without a header.

    A rate applies until the time of the next row. Times increase from 0. For headers that name
    columns or units see `fedsim.physics.tables.read_table`.

    Args:
        path: the file.
        repeat: whether the trace repeats. If so, the last rate lasts as long as the previous one (1
            s if it is alone). Otherwise the last rate stays.

    Returns:
        The rate, bit/s.

    Raises:
        DataError: the file cannot be read, or a line is malformed or out of order.
    """
    return _series(path, _SECONDS, _RATE, repeat=repeat)


def read_power(path: Path, repeat: bool) -> Steps:
    """Read a trace of powers, W: columns seconds and W; otherwise like `read_csv`."""
    return _series(path, _SECONDS, _POWER, repeat=repeat)


def read_intensity(path: Path, repeat: bool) -> Steps:
    """Read a carbon intensity, g/kWh: columns hours and g/kWh; otherwise like `read_csv`."""
    return _series(path, _HOURS, _INTENSITY, repeat=repeat)


def _series(path: Path, clock: Column, column: Column, *, repeat: bool) -> Steps:
    table = read_table(path, (clock, column), "trace")
    times, values = table.columns
    if times[0] != 0:
        table.fail(0, f"times begin at 0 {clock.unit}")
    rises = (np.diff(times, prepend=-1.0) > 0) & np.isfinite(times)
    table.refuse(~rises, "times rise")
    wrong = ~((values >= 0) & (values < inf))
    table.refuse(wrong, f"a value is at least 0 {column.unit} and finite")
    # In the unit of the file, so that the period is rounded only once, in its conversion.
    raw, scale = table.raw[0], table.scales[0]
    gap = raw[-1] - raw[-2] if len(raw) > 1 else 1.0
    period = float(scale(raw[-1] + gap)) if repeat else inf
    return Steps(times, values, period)
