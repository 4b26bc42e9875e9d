"""A good scenario, line by line, and what the tests do to it."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fedsim.core.errors import Fault, ScenarioError
from fedsim.scenario import Scenario, load, schema

LINES = (
    "# A scenario that is right",  # 1
    "name: good",
    "seed: 7",
    "problem:",  # 4
    "  loss: {kind: logistic, l2: 0.001}",
    "  data: {kind: sklearn, name: breast-cancer}",
    "  split: {kind: contiguous, clients: 5}",
    "algorithm:",  # 8
    "  kind: chb",
    "  step_size: 1e-3",
    "  censor: 0.1",
    "wire: {values: float32}",  # 12
    "silence: {kind: beacon}",
    "fleet:",  # 14
    "  - {count: 3, device: phone-mid, radio: lte}",
    "  - count: 2",  # 16
    "    device: {kind: pi-4, speed: 12 Gflop/s}",
    "    radio:",  # 18
    "      kind: wifi",
    "      up: 12 Mbit/s",
    "network: {topology: star, server: {downlink: 1 Gbit/s, latency: 5 ms}}",  # 21
    "participation: {kind: full}",
    "stop: {rounds: 60, gap: 1e-5, energy: 5 kJ}",  # 23
    "seeds: 2",
    "variants:",  # 25
    "  hb: {algorithm: {censor: 0}}",
    "  gd:",
    "    algorithm: {kind: gd, step_size: 1/L}",  # 28
)

FILE = "good.yaml"


def written(folder: Path, changes: Mapping[int, str] | None = None) -> Path:
    """Write the good scenario with some of its lines (from 1) replaced; return the file."""
    lines = [(changes or {}).get(number, line) for number, line in enumerate(LINES, start=1)]
    path = folder / FILE
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def faults(source: Any, **options: Any) -> tuple[Fault, ...]:
    """Load what is wrong; return its faults, the file's folder taken from their `where`."""
    with pytest.raises(ScenarioError) as caught:
        load(source, **options)
    prefix = f"{source.parent}/" if isinstance(source, Path) else ""
    return tuple(
        Fault(each.where.removeprefix(prefix), each.key, each.message.replace(prefix, ""))
        if prefix
        else each
        for each in caught.value.faults
    )


@cache
def the_schema() -> dict[str, Any]:
    """Return the schema of a scenario, made once: it takes a second."""
    return schema()


def least(**blocks: Any) -> dict[str, Any]:
    """Return the least that a scenario takes, with blocks added or replaced."""
    return {
        "problem": {
            "loss": {"kind": "squared"},
            "data": {"kind": "sklearn", "name": "diabetes"},
        },
        "algorithm": {"kind": "gd", "step_size": 0.1},
    } | blocks


def made(**blocks: Any) -> Scenario:
    """Return the least scenario with blocks added or replaced, as it was loaded."""
    return load(least(**blocks)).variants[0].scenario
