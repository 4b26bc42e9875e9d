"""Logs of LoRaWAN gateways: how fast each device sends, how well it is heard, how much is lost.

Bhatia et al., "LoED: The LoRaWAN at the Edge Dataset", DATA 2020, doi 10.5281/zenodo.4121430: a
CSV file a day, a row for every frame that a gateway has heard.
"""

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

from fedsim.errors import DataError
from fedsim.physics.formats.tables import Columns, read_columns

_COLUMNS = ("time", "device_address", "crc_status", "spreading_factor", "snr", "mtype", "fcnt")
_KEY = "lorawan"
_UPLINKS = frozenset({"010", "100"})  # data, unconfirmed and confirmed: LoRaWAN 1.0.3, 4.2.1
_GAP = 1000  # frames: a counter that goes on farther has been set anew


class Heard(NamedTuple):
    """What gateways have heard of a device.

    Attributes:
        address: of the device.
        spreading: the spreading factor of most of its frames, 7 to 12.
        snr: the median of its frames' ratios of signal to noise, each at the gateway that heard it
            best, dB.
        received: its frames that any gateway has heard.
        sent: the frames that it has sent from the first one heard to the last, by their counter.
    """

    address: str
    spreading: int
    snr: float
    received: int
    sent: int

    @property
    def loss(self) -> float:
        """The share of its frames that no gateway has heard, between the first and the last."""
        return 1 - self.received / self.sent


class _Frame(NamedTuple):
    time: float
    counter: int
    spreading: int
    snr: float


def read_log(path: Path) -> list[Heard]:
    """Read a log of gateways, such as a day of LoED.

    A CSV file with, among others, time (2020-05-02T00:00:01.476092Z), device_address, crc_status
    (1 where the checksum is right), spreading_factor, snr in dB, mtype (the three bits, 10 for
    unconfirmed data, 100 for confirmed) and fcnt. Uplinks of data with a right checksum count. One
    frame that several gateways have heard is one; a counter that falls, or leaps by more than
    1000, begins anew.

    Returns:
        The devices in the order in which they are first heard.

    Raises:
        DataError: the file cannot be read, or a cell is malformed; no device is heard.
    """
    table = read_columns(path, _COLUMNS, _KEY)
    sound = [
        row
        for row, (crc, kind) in enumerate(
            zip(table.cells["crc_status"], table.cells["mtype"], strict=True)
        )
        if crc == "1" and kind.removesuffix(".0").zfill(3) in _UPLINKS
    ]
    frames = _frames(table.rows(sound))
    if not frames:
        wants = "rows of crc_status 1 and mtype 10 or 100 are accepted"
        raise DataError(_KEY, f"{path} has no uplink whose checksum is right; {wants}")
    return [_heard(address, own) for address, own in frames.items()]


def _frames(table: Columns) -> dict[str, list[_Frame]]:
    """Return what was heard by device, in the order of the lines."""
    times = table.parsed("time", _seconds, "a time such as 2020-05-02T00:00:01.476092Z")
    counters = table.parsed("fcnt", _whole(0, 2**32 - 1), "a whole number of 0 or more")
    spreading = table.parsed("spreading_factor", _whole(7, 12), "7 to 12")
    ratios = table.numbers("snr", least=-200.0).tolist()
    found: dict[str, list[_Frame]] = defaultdict(list)
    rows = zip(times, counters, spreading, ratios, strict=True)
    for address, (time, counter, factor, snr) in zip(
        table.cells["device_address"], rows, strict=True
    ):
        found[address].append(_Frame(time, int(counter), int(factor), snr))
    return dict(found)


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _whole(least: int, most: int) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text.upper().removeprefix("SF"))
        if not (number.is_integer() and least <= number <= most):
            raise ValueError
        return number

    return parse


def _heard(address: str, heard: list[_Frame]) -> Heard:
    frames: list[_Frame] = []  # each once, as the gateway has it that hears it best
    for each in sorted(heard):
        if frames and each.counter == frames[-1].counter:
            best = max(frames[-1].snr, each.snr)
            frames[-1] = frames[-1]._replace(snr=best)
        else:
            frames.append(each)
    steps = [new.counter - old.counter for old, new in pairwise(frames)]
    sent = 1 + sum(step if 0 < step <= _GAP else 1 for step in steps)
    factors = Counter(each.spreading for each in frames)
    spreading = max(sorted(factors), key=factors.__getitem__)
    return Heard(address, spreading, median(each.snr for each in frames), len(frames), sent)
