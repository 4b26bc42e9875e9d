"""Rounds that are given up cost time and nothing else: without them the models are the same."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from tests.algorithms.local_loops import local
from tests.algorithms.sums import FULL, LOSSY

RADIO = LOSSY["fleet"][0]["radio"] | {"loss": {"kind": "independent", "rate": "5 %"}}
FLEET = [LOSSY["fleet"][0] | {"radio": RADIO}]
LOCAL = {"step_size": 0.05, "local_steps": 3, "batch": None}
DROP = {"late": "drop"}
"""Means of updates count each reply once: whoever answered in vain must not count twice."""

METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gd": ({"step_size": "0.5/L"}, {}),
    "hb": ({"step_size": "0.5/L", "momentum": 0.4}, {}),
    "dcgd": ({"step_size": "0.2/L"}, DROP),
    "ef21": ({"step_size": "0.2/L"}, {}),
    "diana": ({"step_size": "0.2/L", "batch": None}, {}),
    "marina": ({"step_size": "0.2/L"}, {}),
    "pp-marina": ({"step_size": "0.2/L", "probability": 0.3}, {}),
    "fedavg": (LOCAL, DROP),
    "fednova": (LOCAL, DROP),
    "fedcomgate": (LOCAL, {}),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", METHODS)
def test_a_round_that_is_given_up_changes_nothing(kind: str, tmp_path: Path) -> None:
    parameters, late = METHODS[kind]
    base = {
        "problem": local(tmp_path).block,
        "algorithm": {"kind": kind, **parameters},
        "wire": FULL,
        "stop": {"rounds": 60},
    }
    waits = {"kind": "full", "give_up": "1 s", **late}
    lossy = fedsim.run(base | {"fleet": FLEET, "participation": waits})
    given_up = lossy.events.loc[lossy.events["event"] == "abandoned", "round"]
    assert 10 < len(given_up) < 50
    kept = lossy.rounds[~lossy.rounds["round"].isin(given_up)]
    sure = fedsim.run(base).rounds
    found, wanted = kept["objective"].to_numpy(), sure["objective"].to_numpy()[: len(kept)]
    assert found == pytest.approx(wanted, rel=1e-9)
    assert wanted[-1] < 0.9 * wanted[0]
