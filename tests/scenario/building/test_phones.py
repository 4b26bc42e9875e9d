"""Phones whose speeds are drawn: by a distribution, by the seed alone, and within its bounds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from fedsim.core.streams import stream
from fedsim.physics.devices import AI_BENCHMARK, DeviceLaw, Phone
from tests.scenario.building.plans import group, job


def speeds(folder: Path, block: Any, count: int = 40) -> list[float]:
    built = job(folder, fleet=group(device=block, count=count))
    return [float(member.device.constant or 0.0) for member in built.setup.fleet]


def test_the_speeds_are_those_of_the_table() -> None:
    rng, phone = stream(1, "test"), Phone()
    drawn = np.array([phone.one(rng).speed for _ in range(20_000)]) / phone.speed
    for share, factor in AI_BENCHMARK:
        below = np.mean(drawn <= factor)
        assert abs(below - share) <= 4 * np.sqrt(share * (1 - share) / len(drawn)) + 1e-12
    assert phone.fastest.speed == phone.speed * AI_BENCHMARK[-1][1] >= drawn.max() * phone.speed


def test_the_table_is_a_distribution_with_median_one() -> None:
    shares, factors = zip(*AI_BENCHMARK, strict=True)
    assert list(shares) == sorted(set(shares))
    assert (shares[0], shares[-1]) == (0, 1)
    assert list(factors) == sorted(set(factors))
    assert factors[0] > 0
    assert dict(AI_BENCHMARK)[0.5] == 1


def test_every_client_has_a_phone_of_its_own_which_the_seed_decides(tmp_path: Path) -> None:
    first = speeds(tmp_path, "phone")
    assert len(set(first)) == len(first)
    assert speeds(tmp_path, {"kind": "phone", "draw": "ai-benchmark"}) == first
    for seed in (1, 2):  # the first one is 1
        drawn = [Phone().one(stream(seed, "device", client)).speed for client in range(40)]
        assert (drawn == first) == (seed == 1)
    # Another median, radio or number of clients leaves every draw as it was.
    doubled = speeds(tmp_path, {"kind": "phone", "speed": "3.6 Gflop/s"})
    assert doubled == pytest.approx([2 * speed for speed in first], rel=1e-12)
    assert speeds(tmp_path, "phone", count=20) == first[:20]


def test_other_devices_are_the_same_for_all(tmp_path: Path) -> None:
    assert len(set(speeds(tmp_path, "phone-mid"))) == 1


def test_a_task_takes_the_time_of_the_client_s_own_phone() -> None:
    phone = Phone().one(stream(1, "device", 0))
    assert phone.seconds(1e9, 3) == 1e9 / phone.speed
    assert (phone.working(), phone.idle, phone.battery) == (4.5, 0.35, 15 * 3600)
    assert phone.fastest.seconds(1e9, 3) < phone.seconds(1e9, 3)


def test_a_device_that_does_not_vary_is_its_own_fastest() -> None:
    class Slow(DeviceLaw):
        kind: str = "slow"

        def seconds(self, operations: float, samples: float) -> float:
            return operations + samples

        def working(self) -> float:
            return 1.0

    device = Slow()
    assert not device.varies
    assert device.fastest is device.one(stream(1, "device", 0)) is device


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ({"draw": "ai"}, "ai-benchmark"),
        ({"active": "0.1 W"}, "less than idle"),
        ({"speed": "0 flop/s"}, "above 0"),
    ],
)
def test_what_is_wrong_with_phones(block: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Phone.model_validate({"kind": "phone", **block})
