"""Fleets from third-party files: groups of clients for a scenario in Python."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from math import inf, isfinite
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, NoReturn

from fedsim.core.errors import DataError
from fedsim.physics.formats.availability import Cycle, Users
from fedsim.physics.formats.pickles import read_plain
from fedsim.physics.formats.tables import TextColumns, read_columns

# Logs of LoRaWAN gateways: spreading factor, signal quality and losses of each device.
# Bhatia et al., "LoED: The LoRaWAN at the Edge Dataset", DATA 2020, doi 10.5281/zenodo.4121430: one
# CSV file per day, with one row per frame received by a gateway.

_COLUMNS = ("time", "device_address", "crc_status", "spreading_factor", "snr", "mtype", "fcnt")
_KEY = "lorawan"
_UPLINKS = frozenset({"010", "100"})  # data, unconfirmed and confirmed: LoRaWAN 1.0.3, 4.2.1
_GAP = 1000  # frames; a counter that increases by more has been reset


class Reception(NamedTuple):
    """A device and its frames that gateways received.

    Attributes:
        address: the address of the device.
        spreading: the spreading factor of most of its frames, 7 to 12.
        snr: the median over its frames of the signal-to-noise ratio, each at the gateway with the
            best reception, dB.
        received: the number of its frames received by any gateway.
        sent: the number of frames sent from the first to the last received one, by the counter.
    """

    address: str
    spreading: int
    snr: float
    received: int
    sent: int

    @property
    def loss(self) -> float:
        """The share of frames between the first and the last one that no gateway received."""
        return 1 - self.received / self.sent


class _Frame(NamedTuple):
    time: float
    counter: int
    spreading: int
    snr: float


def read_log(path: Path) -> list[Reception]:
    """Read a log of gateways, such as a day of LoED.

    The log is a CSV file with, among others, time (2020-05-02T00:00:01.476092Z), device_address,
    crc_status (1 for a correct checksum), spreading_factor, snr in dB, mtype (three bits: 10 for
    unconfirmed data, 100 for confirmed data) and fcnt. Only data uplinks with a correct checksum
    count. A frame received by several gateways counts once. A counter that decreases, or increases
    by more than 1000, has been reset.

    Returns:
        The devices in the order of their first frames.

    Raises:
        DataError: the file cannot be read, a cell is malformed, or there is no device.
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
        wants = "expected rows with crc_status 1 and mtype 10 or 100"
        raise DataError(_KEY, f"{path} has no uplink with a right checksum; {wants}")
    return [_receptions(address, received) for address, received in frames.items()]


def _frames(table: TextColumns) -> dict[str, list[_Frame]]:
    """Return the received frames by device, in the order of the lines."""
    times = table.parse("time", _seconds, "a time such as 2020-05-02T00:00:01.476092Z")
    counters = table.parse("fcnt", _whole(0, 2**32 - 1), "a whole number of 0 or more")
    spreading = table.parse("spreading_factor", _whole(7, 12), "7 to 12")
    ratios = table.numbers("snr", least=-200.0).tolist()
    by_device: dict[str, list[_Frame]] = defaultdict(list)
    rows = zip(times, counters, spreading, ratios, strict=True)
    for address, (time, counter, factor, snr) in zip(
        table.cells["device_address"], rows, strict=True
    ):
        by_device[address].append(_Frame(time, int(counter), int(factor), snr))
    return dict(by_device)


def _seconds(text: str) -> float:
    time = datetime.fromisoformat(text)
    # A time without a zone is taken as it is written. As local time of the machine that reads, it
    # would depend on that machine's changes to and from summer time.
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def _whole(least: int, most: int) -> Callable[[str], float]:
    def parse(text: str) -> float:
        number = float(text.upper().removeprefix("SF"))
        if not (number.is_integer() and least <= number <= most):
            raise ValueError
        return number

    return parse


def _receptions(address: str, received: list[_Frame]) -> Reception:
    frames: list[_Frame] = []  # each frame once, at the gateway with the best reception
    # Several gateways may receive the same frame, at nearly the same time.
    for frame in sorted(received):
        if frames and frame.counter == frames[-1].counter:
            best = max(frames[-1].snr, frame.snr)
            frames[-1] = frames[-1]._replace(snr=best)
        else:
            frames.append(frame)
    steps = [new.counter - old.counter for old, new in pairwise(frames)]
    sent = 1 + sum(step if 0 < step <= _GAP else 1 for step in steps)
    factors = Counter(frame.spreading for frame in frames)
    # Of equally frequent factors, the lowest is taken.
    spreading = max(sorted(factors), key=factors.__getitem__)
    return Reception(address, spreading, median(frame.snr for frame in frames), len(frames), sent)


# FedScale's two pickles: the capacity of each client's device, and its availability.
# Lai et al., "FedScale: Benchmarking Model and System Performance of Federated Learning at Scale",
# ICML 2022, https://github.com/SymbioticLab/FedScale, benchmark/dataset/data/device_info. Code in
# the pickles is not executed, see `fedsim.physics.formats.pickles`.


class Capacity(NamedTuple):
    """The capacity of a client's device and link.

    Attributes:
        seconds: the time of the forward pass of a sample, s.
        rate: the rate of each direction, bit/s.
    """

    seconds: float
    rate: float


def read_capacities(path: Path) -> Users[Capacity]:
    """Read FedScale's client_device_capacity: the capacity of each client's device and link.

    It is a pickle of {id: {"computation": ms per sample, "communication": kbit/s}}.

    Returns:
        The clients in the order of the file, cyclically.

    Raises:
        DataError: the file cannot be read, is not such a pickle, or a number is not above 0; the
            text names the client.
    """
    key = "capacities"
    capacities = []
    for name, entry in _entries(path, key, ("computation", "communication")):
        values = [_positive(entry[field], path, key, name, field) for field in _CAPACITY]
        capacities.append(Capacity(values[0] * 1e-3, values[1] * 1e3))
    return Users(capacities)


_CAPACITY = ("computation", "communication")


def read_presence(path: Path) -> Users[Cycle]:
    """Read FedScale's client_behave_trace: the availability of each client.

    It is a pickle of {id: {"active": [s], "inactive": [s], "finish_time": s, ...}}. A client is
    online from active[i] to inactive[i], repeated with the period finish_time. Empty intervals are
    ignored, and intervals are cut off at the finish.

    Returns:
        The clients in the order of the file, cyclically.

    Raises:
        DataError: see `read_capacities`; or intervals overlap, or the numbers of begins and ends
            differ.
    """
    key = "availability"
    fields = ("active", "inactive", "finish_time")
    return Users([_cycle(entry, path, key, name) for name, entry in _entries(path, key, fields)])


def _cycle(entry: Mapping[str, Any], path: Path, key: str, name: str) -> Cycle:
    period = _positive(entry["finish_time"], path, key, name, "finish_time")
    begins, ends = (_times(entry[field], path, key, name, field) for field in _EDGES)
    if len(begins) != len(ends):
        seen = f"{len(begins)} times of active and {len(ends)} of inactive"
        _fail(path, key, name, f"got {seen}; expected equally many")
    # The last interval may end after the period, and is cut.
    pairs = [
        (begin, min(end, period))
        for begin, end in zip(begins, ends, strict=True)
        if begin < min(end, period)
    ]
    wrong = next((i for i, (b, e) in enumerate(zip(begins, ends, strict=True)) if b > e), None)
    if wrong is not None:
        seen = f"active[{wrong}] = {begins[wrong]:g} and inactive[{wrong}] = {ends[wrong]:g}"
        _fail(path, key, name, f"got {seen}; an interval must end after it begins")
    try:
        return Cycle(tuple(b for b, _ in pairs), tuple(e for _, e in pairs), period)
    except ValueError as error:
        _fail(path, key, name, f"{error}; got active {begins[:4]} and inactive {ends[:4]} ...")


_EDGES = ("active", "inactive")


def _entries(path: Path, key: str, fields: tuple[str, ...]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the entries of a pickle of dictionaries, with the names of their clients."""
    wanted = f"a pickle of {{id: {{{', '.join(map(repr, fields))}}}}} is accepted"
    tree = read_plain(path, key)
    if not isinstance(tree, dict) or not tree:
        raise DataError(key, f"{path} holds {_shorten(tree)}; {wanted}")
    entries: list[tuple[str, Mapping[str, Any]]] = []
    for name, entry in tree.items():
        if not isinstance(entry, dict) or not all(field in entry for field in fields):
            _fail(path, key, _shorten(name), f"got {_shorten(entry)}; {wanted}")
        entries.append((_shorten(name), entry))
    return entries


def _times(value: object, path: Path, key: str, name: str, field: str) -> list[float]:
    if not isinstance(value, list):
        _fail(path, key, name, f"{field} is {_shorten(value)}; a list of seconds is accepted")
    numbers = [_number(item) for item in value]
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
    """Return a number as a float; NaN for other values."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    number = float(value)  # the reader of pickles limits the length of integers
    return number if isfinite(number) else float("nan")


def _shorten(value: object) -> str:
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "a dictionary"
        return f"{kind} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} ..."


def _fail(path: Path, key: str, name: str, text: str) -> NoReturn:
    raise DataError(key, f"{path}, client {name}: {text}")


_BACKWARD = 3.0  # time of forward and backward pass per forward pass, as in FedScale
_CLOCK = 2e9  # Hz; arbitrary, since the time of a task is cycles / frequency


def fedscale_fleet(
    path: Path | str,
    clients: int,
    device: Mapping[str, Any] | None = None,
    radio: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Return one group per client, with the speeds and rates in FedScale's file of capacities.

    As in FedScale, a task takes three times the forward pass of its samples, for any model, and
    both directions have the same rate. Client k is the k-th one of the file, cyclically.

    Args:
        path: client_device_capacity, a pickle; no code in it is executed.
        clients: the number of clients.
        device: further keys of each device, such as {"idle": "0.3 W"}; powers are not in the file.
        radio: further keys of each radio, by default {"kind": "lte"}.

    Returns:
        Groups, for the fleet of a scenario.

    Raises:
        DataError: the file cannot be read, or has another form.

    Example:
        Not run by the tests, since the file belongs to FedScale:

        >>> fleet = fedscale_fleet("client_device_capacity", clients=100)  # doctest: +SKIP
    """
    capacities = read_capacities(Path(path))
    power = {"kappa": 1e-28, "idle": "0 W", **(device or {})}
    groups = []
    for client in range(clients):
        capacity = capacities[client]
        work = {"cycles_per_sample": _BACKWARD * capacity.seconds * _CLOCK, "frequency": "2 GHz"}
        rates = {"up": f"{capacity.rate:.17g} bit/s", "down": f"{capacity.rate:.17g} bit/s"}
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
    """Return groups of the devices in a gateways' log, by spreading factor and loss.

    A group contains the devices with the same spreading factor and the same share of lost frames,
    in whole percent. In the group packets are lost independently.

    Args:
        path: the log, such as a day of LoED.
        least: the smallest number of received frames for a device to be a client.
        radio: further keys of each radio, such as {"tries": 8}.

    Returns:
        Groups, for the fleet of a scenario.

    Raises:
        DataError: the file cannot be read, or has another form.

    Example:
        Not run by the tests, since the file belongs to the data set:

        >>> fleet = lorawan_fleet("lorawan_nodes.csv", least=10)  # doctest: +SKIP
    """
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for device in read_log(Path(path)):
        if device.received >= least:
            counts[device.spreading, round(100 * device.loss)] += 1
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
