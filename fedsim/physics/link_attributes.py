"""Attributes of edges under the names that other tools use, for graphs in memory and in files."""

from collections.abc import Mapping
from math import isclose
from typing import Any

from fedsim.core.blocks.units import factor
from fedsim.core.errors import DataError
from fedsim.physics.headers import parse_heading, words

_NAMES = {
    "rate": ("bit/s", words("rate bandwidth throughput datarate bitrate capacity speed")),
    "latency": ("s", words("latency delay")),
}
_SAME = {"bandwidth": "rate", "delay": "latency"}
"""Synonyms of fedsim's names that need no unit."""

# The names of the Internet Topology Zoo (Knight et al., IEEE JSAC 2011).

_ZOO = {"LinkSpeedRaw": ("rate", "bit/s")}
"""Names with an implied unit."""

_ZOO_SPEED = ("LinkSpeed", "LinkSpeedUnits")
"""A number and the letter of its unit, such as 10 and "G"; must agree with the raw speed, if
any."""

_ZOO_UNITS = {"": "bit/s", "K": "kbit/s", "M": "Mbit/s", "G": "Gbit/s", "T": "Tbit/s"}

_ZOO_TEXTS = frozenset(("LinkLabel", "LinkNote", "LinkStatus", "LinkType"))
"""Attributes that contain no rates or latencies."""


def link_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an edge under fedsim's names; numbers get the unit of their name.

    `bandwidth` becomes `rate` and `delay` becomes `latency`. A name may end in a unit, as in
    `delay_ms`. Of the attributes in the Internet Topology Zoo, the speed becomes the rate, and
    texts are left out. Other attributes are unchanged.

    Raises:
        DataError: two attributes mean the same.

    Example:
        >>> link_attributes({"bandwidth_mbps": 5, "delay": "3 ms", "colour": "red"})
        {'rate': '5 Mbit/s', 'latency': '3 ms', 'colour': 'red'}
    """
    renamed: dict[str, Any] = {}
    original: dict[str, str] = {}
    for name, value in _zoo_speed(attributes).items():
        key, unit = _known(name)
        if key in renamed:
            raise DataError(
                "edges", f"{original[key]} and {name} are both the {key}; give one of them"
            )
        renamed[key], original[key] = _with_unit(value, unit), name
    return renamed


def _zoo_speed(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return attributes without the Topology Zoo's texts, and with its speed in a single attribute.

    Raises:
        DataError: the unit is missing or unknown, or the raw speed differs.
    """
    kept = {
        name: value
        for name, value in attributes.items()
        if name not in _ZOO_SPEED and name not in _ZOO_TEXTS
    }
    speed, letter = (attributes.get(name) for name in _ZOO_SPEED)
    raw = attributes.get("LinkSpeedRaw")
    if speed is None or (raw is not None and letter is None):
        return kept
    unit = _ZOO_UNITS.get(str(letter).strip().upper()) if letter is not None else None
    if unit is None:
        known = ", ".join(filter(None, _ZOO_UNITS))
        got = f'got "{letter}"' if letter is not None else f"missing beside LinkSpeed {speed}"
        raise DataError("edges", f"LinkSpeedUnits: {got}; give one of {known}")
    if raw is None:
        return {**kept, "LinkSpeedRaw": _with_unit(speed, unit)}
    if not _same_speed(raw, speed, unit):
        text = f"LinkSpeedRaw {raw} bit/s and LinkSpeed {speed} {unit} are different rates"
        raise DataError("edges", f"{text}; give one of them")
    return kept


def _same_speed(raw: object, speed: object, unit: str) -> bool:
    """Return whether two speeds are equal; True for texts, which fail later as rates."""
    size = factor(unit, "bit/s")
    try:
        return size is None or isclose(float(str(raw)), float(str(speed)) * float(size))
    except ValueError:
        return True


def _known(name: str) -> tuple[str, str]:
    """Return fedsim's name for an attribute, and the unit in the original name, if any."""
    if name in _ZOO:
        return _ZOO[name]
    heading = parse_heading(name)
    for key, (base, known) in _NAMES.items():
        if heading.name in known and heading.unit and factor(heading.unit, base) is not None:
            return key, heading.unit
    return _SAME.get(name.lower(), name), ""


def _with_unit(value: object, unit: str) -> object:
    """Return a number with a unit; return other values unchanged."""
    try:
        float(str(value))
    except ValueError:
        return value
    return f"{value} {unit}" if unit and not isinstance(value, bool) else value
