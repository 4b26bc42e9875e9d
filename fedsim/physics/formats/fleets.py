"""Fleets of files of others: groups of clients, as a scenario in Python has them."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, NoReturn

from fedsim.errors import DataError
from fedsim.physics.formats.availability import Cycle, Users
from fedsim.physics.formats.pickles import read_plain
from fedsim.physics.formats.tables import TextColumns, read_columns

# Logs of LoRaWAN gateways: how fast each device sends, how well it is heard, how much is lost.
#
# Bhatia et al., "LoED: The LoRaWAN at the Edge Dataset", DATA 2020, doi 10.5281/zenodo.4121430: a
# CSV file a day, a row for every frame that a gateway has heard.

_COLUMNS = ("time", "device_address", "crc_status", "spreading_factor", "snr", "mtype", "fcnt")
_KEY = "lorawan"
_UPLINKS = frozenset({"010", "100"})  # data, unconfirmed and confirmed: LoRaWAN 1.0.3, 4.2.1
_GAP = 1000  # frames: a counter that goes on farther has been set anew


class Reception(NamedTuple):
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


def read_log(path: Path) -> list[Reception]:
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
    return [_receptions(address, own) for address, own in frames.items()]


def _frames(table: TextColumns) -> dict[str, list[_Frame]]:
    """Return what was heard by device, in the order of the lines."""
    times = table.parse("time", _seconds, "a time such as 2020-05-02T00:00:01.476092Z")
    counters = table.parse("fcnt", _whole(0, 2**32 - 1), "a whole number of 0 or more")
    spreading = table.parse("spreading_factor", _whole(7, 12), "7 to 12")
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


def _receptions(address: str, heard: list[_Frame]) -> Reception:
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
    return Reception(address, spreading, median(each.snr for each in frames), len(frames), sent)


# FedScale's two pickles: what each client's device can do, and when it is there.
#
# Lai et al., "FedScale: Benchmarking Model and System Performance of Federated Learning at Scale",
# ICML 2022, https://github.com/SymbioticLab/FedScale, benchmark/dataset/data/device_info. They are
# read without running anything that is in them, see `fedsim.physics.formats.pickles`.


class Capacity(NamedTuple):
    """What a client's device can do.

    Attributes:
        seconds: of a sample's forward pass.
        rate: bit/s, either way.
    """

    seconds: float
    rate: float


def read_capacities(path: Path) -> Users[Capacity]:
    """Read FedScale's client_device_capacity: what each client's device and link can do.

    A pickle of {id: {"computation": ms a sample, "communication": kbit/s}}.

    Returns:
        The clients in the order of the file, and again from the first.

    Raises:
        DataError: the file cannot be read, is no such pickle, or a number is not above 0; the
            client is named.
    """
    key = "capacities"
    found = []
    for name, entry in _entries(path, key, ("computation", "communication")):
        each = [_positive(entry[field], path, key, name, field) for field in _CAPACITY]
        found.append(Capacity(each[0] * 1e-3, each[1] * 1e3))
    return Users(found)


_CAPACITY = ("computation", "communication")


def read_presence(path: Path) -> Users[Cycle]:
    """Read FedScale's client_behave_trace: when each client is there.

    A pickle of {id: {"active": [s], "inactive": [s], "finish_time": s, ...}}: a client is there
    from active[i] to inactive[i], and all over again from finish_time on. What lasts no time is
    left out, and a time beyond the finish is the finish.

    Returns:
        The clients in the order of the file, and again from the first.

    Raises:
        DataError: see `read_capacities`; intervals overlap, or their begins and ends are not as
            many.
    """
    key = "availability"
    fields = ("active", "inactive", "finish_time")
    return Users([_cycle(entry, path, key, name) for name, entry in _entries(path, key, fields)])


def _cycle(entry: Mapping[str, Any], path: Path, key: str, name: str) -> Cycle:
    period = _positive(entry["finish_time"], path, key, name, "finish_time")
    begins, ends = (_times(entry[field], path, key, name, field) for field in _EDGES)
    if len(begins) != len(ends):
        seen = f"{len(begins)} times of active and {len(ends)} of inactive"
        _fail(path, key, name, f"got {seen}; as many of both are accepted")
    pairs = [
        (begin, min(end, period))
        for begin, end in zip(begins, ends, strict=True)
        if begin < min(end, period)
    ]
    wrong = next((i for i, (b, e) in enumerate(zip(begins, ends, strict=True)) if b > e), None)
    if wrong is not None:
        seen = f"active[{wrong}] = {begins[wrong]:g} and inactive[{wrong}] = {ends[wrong]:g}"
        _fail(path, key, name, f"got {seen}; an interval ends after it begins")
    try:
        return Cycle(tuple(b for b, _ in pairs), tuple(e for _, e in pairs), period)
    except ValueError as error:
        _fail(path, key, name, f"{error}; got active {begins[:4]} and inactive {ends[:4]} ...")


_EDGES = ("active", "inactive")


def _entries(path: Path, key: str, fields: tuple[str, ...]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the entries of a pickle of dictionaries, each with what its client is called."""
    wanted = f"a pickle of {{id: {{{', '.join(map(repr, fields))}}}}} is accepted"
    tree = read_plain(path, key)
    if not isinstance(tree, dict) or not tree:
        raise DataError(key, f"{path} holds {_shorten(tree)}; {wanted}")
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, entry in tree.items():
        if not isinstance(entry, dict) or not all(field in entry for field in fields):
            _fail(path, key, _shorten(name), f"got {_shorten(entry)}; {wanted}")
        found.append((_shorten(name), entry))
    return found


def _times(value: object, path: Path, key: str, name: str, field: str) -> list[float]:
    if not isinstance(value, list):
        _fail(path, key, name, f"{field} is {_shorten(value)}; a list of seconds is accepted")
    numbers = [_number(each) for each in value]
    for number, each in zip(numbers, value, strict=True):
        if not 0 <= number < inf:
            _fail(
                path, key, name, f"{field} has {_shorten(each)}; seconds of 0 or more are accepted"
            )
    return numbers


def _positive(value: object, path: Path, key: str, name: str, field: str) -> float:
    number = _number(value)
    if not 1e-12 <= number <= 1e15:
        _fail(path, key, name, f"{field} is {_shorten(value)}; a number above 0 is accepted")
    return number


def _number(value: object) -> float:
    """Return a number as a float; NaN where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    number = float(value)  # no integer is too long: the reader of pickles has seen to that
    return number if isfinite(number) else float("nan")


def _shorten(value: object) -> str:
    """Return a value in a few letters."""
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "a dictionary"
        return f"{kind} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} ..."


def _fail(path: Path, key: str, name: str, text: str) -> NoReturn:
    raise DataError(key, f"{path}, client {name}: {text}")


_BACKWARD = 3.0  # forward and backward pass in times of a forward pass, as FedScale has it
_CLOCK = 2e9  # Hz; a task's time is cycles / frequency, so that any clock would do


def fedscale_fleet(
    path: Path | str,
    clients: int,
    device: Mapping[str, Any] | None = None,
    radio: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return a group for each client, as fast as FedScale's file of capacities says.

    As in FedScale, a task takes three times the forward pass of its samples, whatever the model,
    and the rate is that of both directions. Client k is the k-th of the file, and again from the
    first.

    Args:
        path: client_device_capacity, a pickle; nothing in it is run.
        clients: how many.
        device: further keys of each device, such as {"idle": "0.3 W"}; powers are not in the file.
        radio: further keys of each radio, {"kind": "lte"} where nothing is said.

    Returns:
        Groups, to be the fleet of a scenario.

    Raises:
        DataError: the file cannot be read, or is not of that form.
    """
    capacities = read_capacities(Path(path))
    power = {"kappa": 1e-28, "idle": "0 W", **(device or {})}
    groups = []
    for client in range(clients):
        each = capacities[client]
        work = {"cycles_per_sample": _BACKWARD * each.seconds * _CLOCK, "frequency": "2 GHz"}
        rates = {"up": f"{each.rate:.17g} bit/s", "down": f"{each.rate:.17g} bit/s"}
        groups.append(
            {
                "count": 1,
                "device": {"kind": "custom", **power, **work},
                "radio": {"kind": "lte", **(radio or {}), **rates},
            }
        )
    return groups


def lorawan_fleet(
    path: Path | str, least: int = 10, radio: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return groups of the devices of a gateways' log, by spreading factor and loss.

    Devices of one spreading factor whose share of lost frames is the same in whole percent are a
    group, in which packets are lost independently.

    Args:
        path: the log, as LoED has one a day.
        least: how many frames of a device have to be heard for it to be a client.
        radio: further keys of each radio, such as {"tries": 8}.

    Returns:
        Groups, to be the fleet of a scenario.

    Raises:
        DataError: the file cannot be read, or is not of that form.
    """
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for each in read_log(Path(path)):
        if each.received >= least:
            counts[each.spreading, round(100 * each.loss)] += 1
    return [
        {
            "count": count,
            "radio": {"kind": f"lora-sf{spreading}", **_find_loss(loss), **(radio or {})},
        }
        for (spreading, loss), count in sorted(counts.items())
    ]


def _find_loss(percent: int) -> dict[str, Any]:
    if not percent:
        return {}
    return {"loss": {"kind": "independent", "rate": f"{percent} %"}}
