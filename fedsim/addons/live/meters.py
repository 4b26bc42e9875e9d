"""Meters of real energy: the counters of the processor (RAPL), or a command that prints watts.

A meter measures the energy of the whole machine, or of its processor, not of one process. Clients
of one process share a meter: their work does not overlap, so the energy of a span belongs to the
client that works in it.
"""

import re
import subprocess
import threading
from collections.abc import Callable
from math import isnan, nan
from pathlib import Path
from shlex import split
from time import monotonic
from typing import Protocol

from fedsim.core.errors import DataError

POWERCAP = Path("/sys/class/powercap")
"""The folder of the RAPL counters in Linux."""


class Meter(Protocol):
    """A meter of energy.

    Attributes:
        known: whether it measures energy.
    """

    known: bool

    def joules(self) -> float:
        """Return the energy since an arbitrary moment, J; NaN if unknown."""
        ...

    def close(self) -> None:
        """Release resources."""


class NoMeter:
    """No meter: energy is unknown."""

    known = False

    def joules(self) -> float:
        """Return NaN."""
        return nan

    def close(self) -> None:
        """Do nothing."""


class RaplMeter:
    """The energy of all processor packages, from their counters.

    Args:
        folder: the folder of the counters.

    Raises:
        DataError: there are no counters, or they cannot be read.
    """

    known = True

    def __init__(self, folder: Path = POWERCAP) -> None:
        # intel-rapl:0 is a package; intel-rapl:0:1 a part of it, and would be counted twice.
        found = sorted(each for each in folder.glob("*-rapl:*") if each.name.count(":") == 1)
        self._counters = [_Counter(each) for each in found]
        if not found:
            text = f"there are no counters of energy (RAPL) in {folder}; give a command"
            raise DataError("meter", f"{text} that prints watts")

    def joules(self) -> float:
        """See `Meter.joules`."""
        return sum(each.joules() for each in self._counters)

    def close(self) -> None:
        """Do nothing."""


class _Counter:
    """One counter of microjoules, which wraps around at the end of its range."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "energy_uj"
        try:
            self._range = int((folder / "max_energy_range_uj").read_text()) + 1
            self._last = self._read()
        except (OSError, ValueError) as error:
            text = f"the counter of energy {self._path} cannot be read: {error}"
            raise DataError("meter", text) from None
        self._total = 0

    def _read(self) -> int:
        return int(self._path.read_text())

    def joules(self) -> float:
        now = self._read()
        # Right as long as the counter wraps around at most once between two reads.
        self._total += (now - self._last) % self._range
        self._last = now
        return self._total * 1e-6


_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?")


class CommandMeter:
    """The integral of the watts that a command prints, one number a line.

    A command that ends is started again after a second. Until its first line, power and energy are
    unknown.

    Args:
        command: with its arguments, as in a shell, but not run by one.
        clock: returns seconds.

    Raises:
        DataError: it cannot be started.
    """

    known = True

    def __init__(self, command: str, clock: Callable[[], float] = monotonic) -> None:
        self._command = split(command)
        self._clock = clock
        self._lock = threading.Lock()
        self._watts, self._since, self._total = nan, clock(), 0.0
        self._closed = threading.Event()
        self._process = self._start()
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    def _start(self) -> "subprocess.Popen[str]":
        try:
            return subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - the user's own
        except (OSError, IndexError) as error:
            text = f"the command {' '.join(self._command)!r} cannot be started: {error}"
            raise DataError("meter", text) from None

    def _follow(self) -> None:
        while not self._closed.is_set():
            with self._process:
                for line in self._process.stdout or ():
                    if (found := _NUMBER.search(line)) is not None:
                        self.note(float(found[0]))
            if self._closed.wait(1.0):
                return
            try:
                self._process = self._start()
            except DataError:
                self.note(nan)
                return
            if self._closed.is_set():  # meanwhile
                self._process.kill()
        self._process.wait()

    def note(self, watts: float) -> None:
        """Register a new power, W."""
        with self._lock:
            self._advance()
            self._watts = watts

    def _advance(self) -> None:
        now = self._clock()
        if not isnan(self._watts):
            self._total += self._watts * (now - self._since)
        self._since = now

    def joules(self) -> float:
        """See `Meter.joules`."""
        with self._lock:
            self._advance()
            # NaN once the command is gone: a total that no longer grows would pass for no energy.
            return nan if isnan(self._watts) else self._total

    def close(self) -> None:
        """End the command."""
        self._closed.set()
        self._process.kill()
        self._follower.join()


def meter_of(name: str | None) -> Meter:
    """Return the meter for `rapl`, for a command that prints watts, or for None.

    Raises:
        DataError: the meter cannot be used here.
    """
    if name is None:
        return NoMeter()
    return RaplMeter() if name == "rapl" else CommandMeter(name)
