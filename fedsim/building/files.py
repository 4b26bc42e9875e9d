"""The files that a fleet follows, each read once."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from fedsim.physics.availability import Intervals, read_intervals
from fedsim.physics.radios.traces import CsvTrace, Trace
from fedsim.physics.signals import Steps
from fedsim.physics.traces import read_csv, read_mahimahi, read_power

T = TypeVar("T")


class Files:
    """Reads traces; what was read is kept, because groups and variants share them.

    Args:
        folder: where relative paths start.

    Raises:
        DataError, OSError: by all methods, where a file is not what it should be.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[tuple[Any, ...], Any] = {}

    def rate(self, trace: Trace) -> Steps:
        """Return the rate that a trace says, bit/s."""
        if isinstance(trace, CsvTrace):
            return self._once(read_csv, trace.path, repeat=trace.repeat)
        return self._once(read_mahimahi, trace.path)

    def power(self, path: Path, *, repeat: bool) -> Steps:
        """Return the power that a harvest trace says, W."""
        return self._once(read_power, path, repeat=repeat)

    def intervals(self, path: Path) -> Mapping[int, Intervals]:
        """Return when the clients are there, by their number."""
        return self._once(read_intervals, path)

    def _once(self, read: Callable[..., T], path: Path, **options: bool) -> T:
        key = read.__name__, path, *options.values()
        if key not in self._read:
            self._read[key] = read(self._folder / path, **options)
        found: T = self._read[key]
        return found
