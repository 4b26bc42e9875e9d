"""FedScale's two pickles: what each client's device can do, and when it is there.

Lai et al., "FedScale: Benchmarking Model and System Performance of Federated Learning at Scale",
ICML 2022, https://github.com/SymbioticLab/FedScale, benchmark/dataset/data/device_info. They are
read without running anything that is in them, see `fedsim.physics.formats.pickles`.
"""

from collections.abc import Mapping
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fedsim.errors import DataError
from fedsim.physics.formats.cycles import Cycle, Users
from fedsim.physics.formats.pickles import read_plain


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
        raise DataError(key, f"{path} holds {_said(tree)}; {wanted}")
    found: list[tuple[str, Mapping[str, Any]]] = []
    for name, entry in tree.items():
        if not isinstance(entry, dict) or not all(field in entry for field in fields):
            _fail(path, key, _said(name), f"got {_said(entry)}; {wanted}")
        found.append((_said(name), entry))
    return found


def _times(value: object, path: Path, key: str, name: str, field: str) -> list[float]:
    if not isinstance(value, list):
        _fail(path, key, name, f"{field} is {_said(value)}; a list of seconds is accepted")
    numbers = [_number(each) for each in value]
    for number, each in zip(numbers, value, strict=True):
        if not 0 <= number < inf:
            _fail(path, key, name, f"{field} has {_said(each)}; seconds of 0 or more are accepted")
    return numbers


def _positive(value: object, path: Path, key: str, name: str, field: str) -> float:
    number = _number(value)
    if not 1e-12 <= number <= 1e15:
        _fail(path, key, name, f"{field} is {_said(value)}; a number above 0 is accepted")
    return number


def _number(value: object) -> float:
    """Return a number as a float; NaN where it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return float("nan")
    number = float(value)  # no integer is too long: the reader of pickles has seen to that
    return number if isfinite(number) else float("nan")


def _said(value: object) -> str:
    """Return a value in a few letters."""
    if isinstance(value, list | dict):
        kind = "a list" if isinstance(value, list) else "a dictionary"
        return f"{kind} of {len(value)}"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]} ..."


def _fail(path: Path, key: str, name: str, text: str) -> NoReturn:
    raise DataError(key, f"{path}, client {name}: {text}")
