"""Attributes of an edge as others name them: one rule for graphs in memory and in files."""

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
"""Names that are those of fedsim's, also without a unit."""

# The names of the Internet Topology Zoo (Knight et al., IEEE JSAC 2011).

_ZOO = {"LinkSpeedRaw": ("rate", "bit/s")}
"""Names whose unit is known."""

_ZOO_SPEED = ("LinkSpeed", "LinkSpeedUnits")
"""A number and its unit, such as 10 and "G"; the raw speed, where there is one, is the same."""

_ZOO_UNITS = {"": "bit/s", "K": "kbit/s", "M": "Mbit/s", "G": "Gbit/s", "T": "Tbit/s"}

_ZOO_TEXTS = frozenset(("LinkLabel", "LinkNote", "LinkStatus", "LinkType"))
"""Attributes that say nothing about rates and latencies."""


def link_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an edge under fedsim's names, numbers with the unit of their name.

    `bandwidth` is `rate` and `delay` is `latency`; a name may have a unit, as in `delay_ms`. Of the
    Topology Zoo's attributes the speed is the rate, and texts are left out. All else stays.

    Raises:
        DataError: two attributes say the same.

    Example:
        >>> link_attributes({"bandwidth_mbps": 5, "delay": "3 ms", "colour": "red"})
        {'rate': '5 Mbit/s', 'latency': '3 ms', 'colour': 'red'}
    """
    made: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, value in _zoo_speed(attributes).items():
        key, unit = _known(name)
        if key in made:
            raise DataError(
                "edges", f"{given[key]} and {name} are both the {key}; give one of them"
            )
        made[key], given[key] = _with_unit(value, unit), name
    return made


def _zoo_speed(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return attributes with the Topology Zoo's speed in one of them, without its texts.

    Raises:
        DataError: the unit is missing or unknown, or the raw speed is another one.
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
    """Return whether two speeds are the same; what is no number is left to who reads the rate."""
    size = factor(unit, "bit/s")
    try:
        return size is None or isclose(float(str(raw)), float(str(speed)) * float(size))
    except ValueError:
        return True


def _known(name: str) -> tuple[str, str]:
    """Return fedsim's name of an attribute, and the unit that its own name has, if any."""
    if name in _ZOO:
        return _ZOO[name]
    heading = parse_heading(name)
    for key, (base, known) in _NAMES.items():
        if heading.name in known and heading.unit and factor(heading.unit, base) is not None:
            return key, heading.unit
    return _SAME.get(name.lower(), name), ""


def _with_unit(value: object, unit: str) -> object:
    """Return a number with a unit; what is no number stays."""
    try:
        float(str(value))
    except ValueError:
        return value
    return f"{value} {unit}" if unit and not isinstance(value, bool) else value
