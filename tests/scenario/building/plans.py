"""Small plans, and what building them finds."""

from pathlib import Path
from typing import Any

import pytest

from fedsim.core.errors import Fault, ScenarioError
from fedsim.scenario import Plan, load
from fedsim.scenario.building import Builder, Job

SMALL: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes"},
    },
    "algorithm": {"kind": "gd", "step_size": 0.1},
    "fleet": [{"count": 4, "device": "phone-mid", "radio": "lte"}],
}


def plan(folder: Path, **blocks: Any) -> Plan:
    """Return a plan whose paths start at a folder."""
    loaded = load(SMALL | blocks)
    return Plan(loaded.name, folder, loaded.variants)


def job(folder: Path, **blocks: Any) -> Job:
    """Build the scenario as written under its first seed."""
    (built,) = Builder(plan(folder, **blocks)).check()
    return built


def found(folder: Path, **blocks: Any) -> dict[str, str]:
    """Return the messages of all faults that building finds, by their keys."""
    with pytest.raises(ScenarioError) as caught:
        Builder(plan(folder, **blocks)).check()
    return by_key(caught.value.faults)


def by_key(faults: tuple[Fault, ...]) -> dict[str, str]:
    """Return messages by key; no key has two."""
    messages = {fault.key: fault.message for fault in faults}
    assert len(messages) == len(faults)
    return messages


def group(**changes: Any) -> list[dict[str, Any]]:
    """Return a fleet of one group of four phones, with some of its keys changed."""
    return [{"count": 4, "device": "phone-mid", "radio": "lte"} | changes]
