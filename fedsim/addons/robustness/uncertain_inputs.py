"""The uncertain inputs of a study: constants of presets that its scenarios use."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from math import inf
from typing import get_args

from pydantic import ValidationError

from fedsim.addons.robustness.constants import (
    ConstantKey,
    UncertainConstant,
    general,
    key_of,
    parse_interval,
    placed_groups,
)
from fedsim.core.blocks.presets import Doubt, Presettable, read_field, read_interval
from fedsim.core.blocks.quantities import Quantity
from fedsim.core.blocks.wording import nearest
from fedsim.core.errors import DataError
from fedsim.scenario import Group, Scenario

BLOCKS = ("device", "radio", "carbon")
"""The blocks of a group that have presets, whose values have intervals."""

Intervals = Mapping[str, str]
"""Intervals given by the user: "lte.tail_time" -> "1 s..15 s"."""


def constants_of(
    scenarios: Sequence[Scenario], intervals: Intervals, *, priced: bool = True
) -> tuple[UncertainConstant, ...]:
    """Return the distinct uncertain constants of scenarios.

    A value that the scenario sets in place of its preset is a choice, and thus certain. So is a
    value without an interval. An interval given by the user makes either uncertain.

    Args:
        scenarios: the scenarios of all variants.
        intervals: see `Intervals`.
        priced: whether the recursion prices the runs. It also has constants outside presets (see
            `fedsim.addons.robustness.constants`), for which scenarios have no keys.

    Raises:
        DataError: an interval names an unknown constant, or a constant with several values, or
            contains invalid values.
    """
    seen: dict[ConstantKey, dict[float, Presettable]] = {}
    for key, block in _figures(scenarios):
        # By key, the distinct values in use, each with the first block that has it.
        seen.setdefault(key, {}).setdefault(getattr(block, key[2]), block)
    # Intervals of the user refer to constants by name.
    named = {str(key): key for key in seen}
    more = {str(constant.key): constant for constant in (general(scenarios) if priced else ())}
    for name in intervals:
        if name in more:
            more[name] = parse_interval(more[name], intervals[name])
    rest = {name: text for name, text in intervals.items() if name not in more}
    user_intervals = {
        _find_constant(name, named | {other: more[other].key for other in more}): rest[name]
        for name in rest
    }
    constants = list[UncertainConstant]()
    stated = _read_stated(scenarios)
    for key, values in seen.items():
        block = next(iter(values.values()))
        if key in stated and key not in user_intervals:
            constants.append(_of_scenario(key, list(values), stated[key], block))
        elif key in user_intervals:
            # Groups may have a preset's value and others in its place, all of one name.
            meant = [value for other in seen if str(other) == str(key) for value in seen[other]]
            constants.append(_replace(key, meant, user_intervals[key], block))
        elif (known := _preset_interval(key, block)) is not None:
            constants.append(_constant(key, known, block))
    stated_constants = [
        constant
        for constant in constants
        if constant.key in user_intervals or constant.key in stated
    ]
    # Intervals of presets are known to fit together; those of users may exclude each other, such as
    # a power at rest above that at work.
    for one, other in combinations(stated_constants, 2):
        _check_together(one, other, seen)
    return tuple(
        constant for constant in (*constants, *more.values()) if constant.low < constant.high
    )


def _check_together(
    one: UncertainConstant,
    other: UncertainConstant,
    seen: Mapping[ConstantKey, Mapping[float, Presettable]],
) -> None:
    """Check that all combinations of the ends of two intervals are valid.

    Raises:
        DataError: a block cannot have both values.
    """
    if one.key[:2] != other.key[:2]:
        return
    block = next(iter(seen[one.key].values()))
    # A corner of the box of intervals: the model may restrict combinations.
    for ends in product((one.low, one.high), (other.low, other.high)):
        values = {one.key[2]: ends[0], other.key[2]: ends[1]}
        try:
            type(block).in_si(**{**block.model_dump(mode="json"), **values})
        except ValidationError as error:
            reasons = "; ".join(detail["msg"] for detail in error.errors())
            pair = f"{one.key} {ends[0]:g} {one.unit} and {other.key} {ends[1]:g} {other.unit}"
            raise DataError(
                "interval", f"--interval: {pair} exclude each other: {reasons}"
            ) from error


def _figures(scenarios: Sequence[Scenario]) -> Iterator[tuple[ConstantKey, Presettable]]:
    """Yield the key of every number in the blocks of all fleets and tiers, with its block."""
    for scenario in scenarios:
        for place, group in placed_groups(scenario):
            for name in BLOCKS:
                block = getattr(group, name)
                if isinstance(block, Presettable):
                    for field in _numbers(block, group):
                        yield key_of(place, group, name, field), block


def _read_stated(scenarios: Sequence[Scenario]) -> dict[ConstantKey, set[str]]:
    """Return the intervals that groups of the scenarios state themselves."""
    intervals = dict[ConstantKey, set[str]]()
    for scenario in scenarios:
        for place, group in placed_groups(scenario):
            for path, text in group.intervals.items():
                key = key_of(place, group, *path.split("."))
                intervals.setdefault(key, set()).add(text)
    return intervals


def _of_scenario(
    key: ConstantKey, values: Sequence[float], texts: set[str], block: Presettable
) -> UncertainConstant:
    """Return a constant with the interval that the scenarios state.

    Raises:
        DataError: variants have several values or intervals of it.
    """
    # One draw per world is for all variants, so they have to agree on what is drawn.
    if len(values) > 1 or len(texts) > 1:
        text = f"{key} has several values or intervals in the variants of this study"
        raise DataError("intervals", f"{text}; expected one, or no intervals in fleets that differ")
    low, high = read_interval(block, key[2], next(iter(texts)))
    unit = unit_of(block, key[2])
    return UncertainConstant(key, values[0], low, high, unit, "given", "the scenario's intervals")


def _numbers(block: Presettable, group: Group) -> Iterator[str]:
    """Yield the fields of a block that are finite numbers with an effect on its group."""
    for field in type(block).model_fields:
        value = getattr(block, field)
        # The capacity of a device is unused if the battery states its own, or on mains.
        has_effect = field != "battery" or (
            group.battery is not None and not group.battery.capacity
        )
        if (
            has_effect
            and isinstance(value, float | int)
            and not isinstance(value, bool)
            and value < inf
        ):
            yield field


def _preset_interval(key: ConstantKey, block: Presettable) -> Doubt | None:
    preset = type(block).presets.get(key[1])
    return None if preset is None else preset.doubts.get(key[2])


def _constant(key: ConstantKey, known: Doubt, block: Presettable) -> UncertainConstant:
    value = float(getattr(block, key[2]))
    low, high = (read_field(block, key[2], end) for end in (known.low, known.high))
    return UncertainConstant(
        key, value, low, high, unit_of(block, key[2]), known.basis, str(known.source)
    )


def _replace(
    key: ConstantKey, values: Sequence[float], text: str, block: Presettable
) -> UncertainConstant:
    """Return a constant with the user's interval.

    Raises:
        DataError: it is not an interval, or the constant has several values.
    """
    if len(values) > 1:
        seen = " and ".join(f"{value:g}" for value in values[:3])
        wanted = "expected a constant with one value; use a preset for each of these blocks"
        raise DataError("interval", f"--interval: {key} is {seen} in this study; {wanted}")
    low, high = _ends(key, text, block)
    return UncertainConstant(
        key, values[0], low, high, unit_of(block, key[2]), "given", "--interval"
    )


def _ends(key: ConstantKey, text: str, block: Presettable) -> tuple[float, float]:
    """Parse "1 s..15 s".

    Raises:
        DataError: it is not an interval, or contains invalid values.
    """
    if ".." not in text:
        wanted = f"expected LOW..HIGH, such as {key}={_example(key, block)}"
        raise DataError("interval", f"--interval: got {key!s}={text}; {wanted}")
    try:
        return read_interval(block, key[2], text)
    except ValueError as error:
        raise DataError("interval", f"--interval {key}: {error}") from error


def _example(key: ConstantKey, block: Presettable) -> str:
    written = block.model_dump(mode="json")[key[2]]
    number, _, unit = str(written).partition(" ")
    return f"{float(number) / 2:g} {unit}..{float(number) * 2:g} {unit}"


def _find_constant(name: str, known: Mapping[str, ConstantKey]) -> ConstantKey:
    """Return the key of a constant by its name.

    Raises:
        DataError: the study has no constant of that name.
    """
    if name not in known:
        accepted = f"expected one of {', '.join(known)}" if known else "the study uses no preset"
        text = f"--interval: got the constant {name!r}{nearest(name, [*known])}; {accepted}"
        raise DataError("interval", text)
    return known[name]


def unit_of(block: Presettable, name: str) -> str:
    """Return the unit of a field in SI; empty for a plain number."""
    field = type(block).model_fields[name]
    return next(
        (quantity.base for quantity in _quantities((field.annotation, *field.metadata))), ""
    )


def _quantities(parts: Sequence[object]) -> Iterator[Quantity]:
    for part in parts:
        if isinstance(part, Quantity):
            yield part
        else:
            yield from _quantities((*get_args(part), *getattr(part, "__metadata__", ())))
