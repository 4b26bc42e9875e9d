"""Data at the ends of floating point: every method runs, diverges, or is refused with a reason."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedsim.algorithms.lag import DEPTH
from tests.methods import METHODS, scenario

from .campaign import prepared
from .playing import play


@pytest.fixture(scope="module", name="files")
def _files() -> Iterator[Path]:
    with prepared() as folder:
        yield folder


@pytest.mark.parametrize("name", ["huge", "tiny"])
@pytest.mark.parametrize("kind", METHODS)
def test_features_of_any_size_end_as_they_may(kind: str, name: str, files: Path) -> None:
    world = scenario(kind)
    data = {"kind": "npz", "path": f"{name}.npz"}
    world["problem"] = world["problem"] | {"data": data, "split": {"kind": "iid", "clients": 3}}
    if "sparsity" in world["algorithm"]:
        world["algorithm"]["sparsity"] = 2
    outcome = play(world | {"stop": {"rounds": 2}}, files)
    assert outcome.end != "finding", outcome.text


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e200])
@pytest.mark.parametrize("kind", [kind for kind in METHODS if "step_size" in METHODS[kind]])
def test_step_sizes_of_any_size_end_as_they_may(kind: str, size: float, files: Path) -> None:
    world = scenario(kind)
    world["algorithm"]["step_size"] = size
    rounds = DEPTH + 2 if kind.startswith("lag-") else 1  # those weigh steps from then on
    outcome = play(world | {"stop": {"rounds": rounds}}, files)
    assert outcome.end != "finding", outcome.text


FAR = {"kind": "shannon", "bandwidth": "1 MHz", "power": "1 W", "server_power": "1 W"}
SLOW = {"kind": "custom", "speed": "1 Mflop/s", "active": "2 W", "idle": "1 W"}


@pytest.mark.parametrize(
    "group",
    [
        {"radio": FAR | {"distance": "1e24 m", "noise": "300 dBm/Hz", "shadowing": "100 dB"}},
        {"radio": FAR | {"distance": "1e-24 m", "noise": "-300 dBm/Hz", "most": "unlimited"}},
        {"radio": {"kind": "wifi", "latency": "1e24 s", "base": "1e24 W", "up": "1e-24 bit/s"}},
        {"radio": {"kind": "wifi", "energy_up": "1e24 J/bit", "tail_time": "1e24 s"}},
        {"device": SLOW | {"speed": "1e-24 flop/s", "active": "1e24 W", "idle": "1e24 W"}},
        {"device": SLOW | {"slowdown": {"kind": "lognormal", "sigma": 10}}},
        {"device": SLOW, "radio": "wifi", "battery": {"capacity": "1e24 J"}},
        {"device": SLOW, "radio": "wifi", "battery": {"capacity": "1e-24 J"}},
    ],
)
def test_fleets_at_the_ends_of_what_is_accepted_run(group: dict[str, Any], files: Path) -> None:
    outcome = play(scenario("gd") | {"fleet": [{"count": 3} | group], "stop": {"rounds": 2}}, files)
    assert outcome.end in {"done", "nobody left"}, outcome.text
