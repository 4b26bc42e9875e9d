"""The fleet of a scenario with fitted constants and their intervals, in YAML."""

from collections.abc import Mapping, Sequence
from io import StringIO
from math import isfinite
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from fedsim.addons.calibration.constants import LATENCY, LINK, ClientGroups, FittedConstant
from fedsim.core.atomic import write_whole
from fedsim.physics.networks import ServerLink
from fedsim.scenario import Plan
from fedsim.scenario.examples import find_scenario
from fedsim.scenario.plan import Written

_DIGITS = 7
"""Digits of a constant in a scenario: more than any recording determines."""

_INSTANT = 1e-9
"""A latency below this is written as 0, s."""


def format_constant(fleet: ClientGroups, key: str, value: float, digits: int = _DIGITS) -> str:
    """Return a constant in the form of a scenario, with its unit.

    Args:
        fleet: the groups.
        key: the key of the constant.
        value: the value in SI units.
        digits: the number of digits.
    """
    rounded = float(f"{value:.{digits - 1}e}")
    if key.endswith(LATENCY) and rounded < _INSTANT:
        rounded = 0.0  # at its bound: a search ends a little above it
    if key.endswith(".sigma"):
        return f"{rounded:g}" if digits < _DIGITS else repr(rounded)
    if key in LINK:
        changed = ServerLink().model_copy(update={LINK[key]: rounded})
        return str(changed.model_dump(mode="json")[LINK[key]])
    _, number, name, field = key.split(".")
    block = getattr(fleet.groups[int(number)], name)
    return str(block.model_copy(update={field: rounded}).model_dump(mode="json")[field])


def fleet_of(fleet: ClientGroups, constants: Sequence[FittedConstant]) -> list[dict[str, Any]]:
    """Return the groups of a fleet with fitted constants and their intervals."""
    blocks = [_as_given(fleet, number) for number in range(len(fleet.groups))]
    for constant in constants:
        if constant.key in LINK:
            continue
        _, number, rest = constant.key.split(".", 2)
        group, (name, field) = blocks[int(number)], rest.split(".", 1)
        text = format_constant(fleet, constant.key, constant.value)
        if field == "slowdown.sigma":
            sigma = float(text)
            group[name]["slowdown"] = {"kind": "lognormal", "sigma": sigma} if sigma else "none"
            continue
        group[name][field] = text
        low, high = (
            format_constant(fleet, constant.key, end) for end in (constant.low, constant.high)
        )
        # The intervals are what `fedsim robust` samples from; it takes no empty or infinite one.
        if low != high and isfinite(constant.high):
            group.setdefault("intervals", {})[rest] = f"{low}..{high}"
    return blocks


def _as_given(fleet: ClientGroups, number: int) -> dict[str, Any]:
    """Return a group as written in the scenario, with device and radio as blocks."""
    written = dict(fleet.written[number])
    group: dict[str, Any] = {"count": fleet.groups[number].count}
    for name in ("device", "radio"):
        block = written.get(name, getattr(fleet.groups[number], name).kind)
        group[name] = {"kind": block} if isinstance(block, str) else dict(block)
    others = {key: value for key, value in written.items() if key not in (*group, "intervals")}
    return {**group, **others}


def write_scenario(
    source: Written,
    plan: Plan,
    fleet: Sequence[Mapping[str, Any]],
    link: Mapping[str, str],
    path: Path,
) -> None:
    """Write a scenario with another fleet.

    Args:
        source: the scenario.
        plan: the plan of the scenario.
        fleet: the groups of the fleet.
        link: values of the server's link, by key.
        path: the file to write.

    Raises:
        OutputError: it cannot be written.
    """
    yaml = YAML()
    yaml.width = 96
    if isinstance(source, str | Path):
        tree: Any = yaml.load(find_scenario(source).read_text(encoding="utf-8-sig"))
    else:
        plain = plan.variants[0].scenario.model_dump(mode="json", exclude={"variants", "sweep"})
        tree = {**plain, "fleet": None}
    # Replaced as a whole, so comments within the fleet are lost: groups may be other ones than
    # before (`each`).
    tree["fleet"] = [dict(group) for group in fleet]
    for key, text in link.items():
        server = tree.setdefault("network", {}).setdefault("server", {})
        server[LINK[key]] = text
    stream = StringIO()
    yaml.dump(tree, stream)
    write_whole(path, stream.getvalue().encode())
