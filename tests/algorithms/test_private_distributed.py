"""Noise of clients under secure aggregation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.results.record.parts import read_table
from tests.runs import small

pytestmark = [pytest.mark.needs("privacy"), pytest.mark.needs("secrecy")]


DISTRIBUTED = {"where": "distributed"}


def rounds(folder: Path, **blocks: Any) -> list[dict[str, Any]]:
    fedavg = {"kind": "fedavg", "step_size": 0.001, "local_steps": 2}
    fedsim.run(small(algorithm=fedavg, stop={"rounds": 3}, **blocks), out=folder)
    (place,) = folder.glob("*/seed-1")
    table: list[dict[str, Any]] = read_table(place, "rounds").to_pylist()
    return table


@pytest.mark.parametrize("law", ["skellam", "discrete-gaussian"])
def test_parts_of_the_noise_have_the_epsilon_of_the_whole(law: str, tmp_path: Path) -> None:
    """Of 16 bits, rounding and the law of the integers cost less than 1 % of epsilon."""
    private = {"clip": 1.0, "noise": 2.0}
    secret = {"secrecy": {"kind": "secagg", "clip": 1.0}}
    central = rounds(tmp_path / "central", privacy=private)
    parts = rounds(tmp_path / "parts", privacy=private | DISTRIBUTED | {"law": law}, **secret)
    assert parts[-1]["epsilon"] == pytest.approx(central[-1]["epsilon"], rel=0.01)
    assert parts[-1]["epsilon"] > central[-1]["epsilon"]
    assert np.isfinite(parts[-1]["objective"])


@pytest.mark.parametrize("law", ["skellam", "discrete-gaussian"])
def test_noise_under_real_masks_is_the_noise_of_counted_ones(law: str, tmp_path: Path) -> None:
    """Integers add up exactly, whether they are masked or not."""
    private = {"clip": 1.0, "noise": 2.0, "law": law, **DISTRIBUTED}
    tables = [
        rounds(
            tmp_path / values,
            privacy=private,
            secrecy={"kind": "secagg", "clip": 1.0, "values": values},
        )
        for values in ("counted", "exact")
    ]
    assert tables[0] == tables[1]
