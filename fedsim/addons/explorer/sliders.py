"""Sliders: the constants that a reader can change, and the keys of the scenario that hold them.

A slider stands for one value that one or more groups have in common: the tail of `lte`, for all
groups with that radio. So the position of a slider is a list of overrides that set the new value in
each of these groups; groups with another value keep it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from fedsim.addons.robustness.constants import UncertainConstant, general
from fedsim.addons.robustness.uncertain_inputs import BLOCKS, constants_of, unit_of
from fedsim.core.blocks.presets import Presettable
from fedsim.scenario import Group, Scenario

FIELDS: Mapping[str, tuple[str, ...]] = {
    "radio": (
        *("up", "down", "latency", "energy_up", "energy_down", "base", "send", "receive"),
        *("promotion_power", "promotion_time", "tail_power", "tail_time"),
        *("idle", "listen", "sleep", "listening", "framing", "packet"),
    ),
    "device": ("speed", "cycles_per_sample", "frequency", "kappa", "active", "idle", "battery"),
    "carbon": ("intensity",),
}
"""The figures of a group that the recursion reads, in the order of the page."""

SERVER = ("uplink", "downlink", "latency")
"""The figures of the server's link that the recursion reads."""

_FIXED = frozenset({"packet"})  # without a slider: an integer that the standard sets
_FACTORS = 0.5, 2.0
"""The range of a figure without an interval, relative to its value."""


@dataclass(frozen=True)
class Slider:
    """A constant with a slider.

    Attributes:
        block: "radio", "device", "carbon" or "network".
        kind: the preset, such as "lte"; "server" for its link.
        field: the figure.
        value, low, high: the original value and the ends of its range, in SI units.
        unit: their unit; empty for a plain number, "%" for a share of 1.
        basis: the basis of the range; empty if no interval is known: the range is then half to
            twice the value.
        source: the source of the range, as text.
        places: by fleet, the groups that have the value; empty for the server's link.
    """

    block: str
    kind: str
    field: str
    value: float
    low: float
    high: float
    unit: str
    basis: str
    source: str
    places: tuple[tuple[int, ...], ...]

    def keys(self, fleet: int) -> list[str]:
        """Return the keys that hold the value in one of the fleets."""
        if self.block == "network":
            return [f"network.{self.kind}.{self.field}"]
        return [f"fleet.{group}.{self.block}.{self.field}" for group in self.places[fleet]]


def sliders_of(fleets: Sequence[Scenario]) -> tuple[Slider, ...]:
    """Return the sliders of a study, radios first.

    Args:
        fleets: a scenario for each different fleet of the study.
    """
    constants = {str(item.key): item for item in constants_of(fleets, {}, priced=False)}
    found = dict[tuple[str, str, str, float], list[list[int]]]()
    blocks = dict[tuple[str, str], Presettable]()
    for number, scenario in enumerate(fleets):
        for place, group in enumerate(scenario.fleet):
            for name, block, field, value in _figures(group):
                blocks[name, block.kind] = block
                key = name, block.kind, field, value
                places = found.setdefault(key, [[] for _ in fleets])
                places[number].append(place)
    sliders = [
        _slider(key, places, constants.get(f"{key[1]}.{key[2]}"), blocks[key[:2]])
        for key, places in found.items()
    ]
    ordered = sorted(sliders, key=lambda item: _place(item, sliders))
    for constant in general(fleets):
        part, kind, field = constant.key
        if part == "network":  # a figure of the server's link that is equal in all fleets
            ordered.append(Slider(part, kind, field, *constant[1:], ()))
    return tuple(ordered)


def _place(slider: Slider, every: Sequence[Slider]) -> tuple[int, int, int]:
    """Return the sort key of a slider: block, first group of its kind, field."""
    kinds = list(
        dict.fromkeys((slider_of_panel.block, slider_of_panel.kind) for slider_of_panel in every)
    )
    fields = FIELDS[slider.block]
    kind = kinds.index((slider.block, slider.kind))
    return list(FIELDS).index(slider.block), kind, fields.index(slider.field)


def _figures(group: Group) -> Iterator[tuple[str, Presettable, str, float]]:
    """Yield block, field and value of a group's figures that are finite and above 0."""
    for name in BLOCKS:
        block = getattr(group, name)
        for field in FIELDS[name] if isinstance(block, Presettable) else ():
            value = getattr(block, field)
            movable = field not in _FIXED and value is not None and 0.0 < value < inf
            if movable and _matters(group, name, field):
                yield name, block, field, float(value)


def _matters(group: Group, name: str, field: str) -> bool:
    """Return whether a figure above 0 has an effect, as some need another figure above 0."""
    if name == "device" and field == "battery":
        return group.battery is not None and not group.battery.capacity
    radio = group.radio
    if name == "radio" and field == "listening":
        return bool(getattr(radio, "listen", 0.0) != getattr(radio, "sleep", 0.0))
    if name == "radio" and field in {"promotion_power", "tail_power"}:
        return bool(getattr(radio, field.replace("power", "time"), 0.0) > 0.0)
    return True


def _slider(
    key: tuple[str, str, str, float],
    places: Sequence[Sequence[int]],
    known: UncertainConstant | None,
    block: Presettable,
) -> Slider:
    """Return a slider over the constant's interval, if this value has a known one."""
    name, kind, field, value = key
    unit = unit_of(block, field).replace("whole", "%")
    groups = tuple(map(tuple, places))
    if known is not None and known.value == value and known.key[0] == name:
        low, high, basis, source = known.low, known.high, known.basis, known.source
    else:
        low, high, basis, source = *(factor * value for factor in _FACTORS), "", ""
        high = min(high, 1.0) if unit == "%" else high
    return Slider(name, kind, field, value, low, high, unit, basis, source, groups)


def figures_of(group: Group) -> dict[str, Any]:
    """Return the figures of a group for `fleet.js`; an infinite one is the text "Infinity"."""
    battery = group.battery
    share = 0.0 if battery is None else battery.charge - max(battery.threshold, battery.cutoff)
    return {
        "count": group.count,
        "radio": _numbers(group.radio, "radio"),
        "device": _numbers(group.device, "device"),
        "intensity": None
        if group.carbon is None
        else _number(getattr(group.carbon, "intensity", 0)),
        "reserve": None
        if battery is None
        else {
            "capacity": battery.capacity or 0.0,
            "share": share,
            "efficiency": battery.discharge_efficiency,
        },
    }


def _numbers(block: object, name: str) -> dict[str, Any]:
    return {field: _number(getattr(block, field, None)) for field in FIELDS[name]}


def _number(value: float | None) -> float | str | None:
    """Return a finite number, or "Infinity", which JavaScript's `Number` parses."""
    return "Infinity" if value == inf else value
