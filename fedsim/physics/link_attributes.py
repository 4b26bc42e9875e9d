"""Attributes of an edge as others name them: one rule for graphs in memory and in files."""

from collections.abc import Mapping
from typing import Any

from fedsim.blocks.units import factor
from fedsim.errors import DataError
from fedsim.physics.headers import parse_heading, words

_NAMES = {
    "rate": ("bit/s", words("rate bandwidth throughput datarate bitrate capacity speed")),
    "latency": ("s", words("latency delay")),
}
_SAME = {"bandwidth": "rate", "delay": "latency"}
"""Names that are those of fedsim's, also without a unit."""

_ZOO = {"LinkSpeedRaw": ("rate", "bit/s")}
"""Names whose unit is known: the Internet Topology Zoo's (Knight et al., IEEE JSAC 2011)."""


def link_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of an edge under fedsim's names, numbers with the unit of their name.

    `bandwidth` is `rate` and `delay` is `latency`; a name may have a unit, as in `delay_ms`. All
    else stays as it is.

    Raises:
        DataError: two attributes say the same.

    Example:
        >>> link_attributes({"bandwidth_mbps": 5, "delay": "3 ms", "colour": "red"})
        {'rate': '5 Mbit/s', 'latency': '3 ms', 'colour': 'red'}
    """
    made: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, value in attributes.items():
        key, unit = _known(name)
        if key in made:
            raise DataError(
                "edges", f"{given[key]} and {name} are both the {key}; give one of them"
            )
        made[key], given[key] = _with_unit(value, unit), name
    return made


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
