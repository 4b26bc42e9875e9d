"""A column of the round table that follows from others is one row, whatever plays the rounds."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.core import table_columns as columns
from fedsim.results.record.parts import read_table

PROBLEM = {
    "loss": {"kind": "squared", "l2": 0.1},
    "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
}
FLEET = [{"count": 4, "device": "pi-4", "radio": "wifi-6"}]
PLAYED: dict[str, dict[str, Any]] = {
    "star": {"algorithm": {"kind": "gd", "step_size": "1/L"}},
    "peers": {
        "algorithm": {"kind": "d-psgd", "step_size": "0.1/L"},
        "network": {"peers": {"kind": "ring"}},
    },
    "tiers": {
        "algorithm": {"kind": "fedavg", "epochs": 1, "step_size": "0.1/L"},
        "tiers": [{"count": 2, "device": "pi-4", "radio": "wifi-6", "rounds": 2}],
    },
}


@pytest.mark.parametrize("played", PLAYED)
@pytest.mark.parametrize("by", ["events", "arrays"])
def test_one_row_is_a_column_everywhere(
    played: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bits = columns.Column("both", "count", "bits", of=lambda row: row["bits_up"] + row["bits_down"])
    monkeypatch.setattr(columns, "ROUNDS", (*columns.ROUNDS, bits))
    monkeypatch.setenv("FEDSIM_ROUNDS", by)
    scenario = {"problem": PROBLEM, "fleet": FLEET, "stop": {"rounds": 3}, **PLAYED[played]}
    result = fedsim.run(scenario, out=tmp_path / "run")
    rounds = read_table(result.runs[0], "rounds").to_pandas()
    assert len(rounds) == 4
    assert (rounds["both"] == rounds["bits_up"] + rounds["bits_down"]).all()
    assert rounds["both"].sum() > 0
