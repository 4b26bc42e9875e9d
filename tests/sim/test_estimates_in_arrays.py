"""Estimates from samples of clients are the same in arrays and as events."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from tests.campaigns.worlds.playing import _different
from tests.sim.test_arrays import LTE, both, scenario

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

FLEET = [LTE | {"count": 30}]
ROWS = {"kind": "lognormal", "sigma": 1.0}
METHODS = {
    "fedavg": {"step_size": 0.01, "local_steps": 2},
    "dcgd": {"step_size": 0.001},
    "diana": {"step_size": 0.01},
}


@pytest.mark.parametrize("kind", METHODS)
@pytest.mark.parametrize("policy", ["uniform", "weighted"])
@pytest.mark.parametrize("estimate", ["unbiased", "self-normalised", "plain"])
def test_estimates_are_the_same_in_arrays_and_as_events(
    kind: str, policy: str, estimate: str, tmp_path: Path
) -> None:
    participation = {"kind": policy, "count": 9, "estimate": estimate}
    block = scenario(
        algorithm={"kind": kind, **METHODS[kind]}, fleet=FLEET, participation=participation
    )
    one, other = both(tmp_path, block | {"problem": block["problem"] | {"split": ROWS}})
    assert not _different(one, other)


@pytest.mark.parametrize("over", [1.0, 1.5])
def test_clients_that_come_and_go_are_out_before_a_draw_by_size(over: float) -> None:
    """Exactly as many are asked as there should be, or all that can be."""
    away = {"kind": "markov", "on": "20 s", "off": "20 s"}
    fleet = [LTE | {"count": 12, "availability": away}]
    participation: dict[str, Any] = {"kind": "weighted", "count": 4, "over": over}
    result = fedsim.run(
        scenario(
            algorithm={"kind": "fedavg", "step_size": 0.01},
            fleet=fleet,
            participation=participation,
            stop={"rounds": 12},
        ),
        check=False,
    )
    rows, asked = result.events, round(4 * over)
    for number in set(rows["round"][rows["event"] == "sampled"]):
        own = rows[rows["round"] == number]
        sampled = set(own["node"][own["event"] == "sampled"])
        skipped = set(own["node"][own["event"] == "skipped"])
        assert not sampled & skipped
        assert len(sampled) == min(asked, 12 - len(skipped))
