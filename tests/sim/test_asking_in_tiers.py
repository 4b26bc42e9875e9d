"""Policies of gateways: each asks those below it by what it has seen, as the server of a star."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from tests.algorithms.local_loops import Local, check_near, local
from tests.sim.test_gateways import BELOW, ETA, STEPS, models, scenario

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

PHONE = {"device": "phone-mid", "radio": "lte", "carbon": "DE"}
CHARGED = {"charge": "90 %", "charging": {"kind": "constant", "power": "1 W"}}
FLEET = [
    {"count": 2, **PHONE, "battery": {"charge": "50 %"}},
    {"count": 1, **PHONE, "battery": CHARGED},
    {"count": 2, "device": "pi-4", "radio": "wifi", "carbon": "SE"},
]

POLICIES: dict[str, dict[str, Any]] = {
    "uniform": {"kind": "uniform"},
    "weighted": {"kind": "weighted"},
    "age": {"kind": "age"},
    "oort": {"kind": "oort", "exploration": "50 %"},
    "oort-oracle": {"kind": "oort", "oracle": True},
    "energy-aware": {"kind": "energy-aware"},
    "harvest": {"kind": "energy-aware", "energy": "harvest"},
    "power-of-choice": {"kind": "power-of-choice", "candidates": 3},
    "last losses": {"kind": "power-of-choice", "candidates": 3, "losses": "last"},
    "importance": {"kind": "importance"},
    "carbon-aware": {"kind": "carbon-aware", "draw": "weighted"},
}


def asked(result: fedsim.Result) -> dict[int, list[str]]:
    """Return the clients that were sampled, by round."""
    rows = result.events[result.events["event"] == "sampled"]
    by_round: dict[int, list[str]] = {}
    for number, node in zip(rows["round"].tolist(), rows["node"].tolist(), strict=True):
        by_round.setdefault(number, []).append(node)
    return {number: sorted(nodes) for number, nodes in by_round.items()}


def replies(result: fedsim.Result) -> list[tuple[str, int]]:
    """Return what clients have sent: the message and its payload bits, in order."""
    rows = result.events
    rows = rows[(rows["event"] == "send") & rows["node"].astype(str).str.startswith("client-")]
    return list(zip(rows["message"].astype(str), rows["payload_bits"].astype(int), strict=True))


def sampling(problem: Local, policy: dict[str, Any], *tiers: dict[str, Any], count: int = 2) -> Any:
    """Return a scenario whose servers of clients ask by a policy."""
    return scenario(problem, *tiers, fleet=FLEET, participation={"count": count, **policy})


@pytest.mark.parametrize("name", POLICIES)
def test_one_gateway_over_all_asks_as_the_server_of_a_star(name: str, tmp_path: Path) -> None:
    problem, policy = local(tmp_path), POLICIES[name]
    flat = fedsim.run(sampling(problem, policy))
    tiered = fedsim.run(sampling(problem, policy, {"count": 1}))
    assert asked(flat) == asked(tiered)
    assert len(asked(flat)) == len(flat.rounds) - 1
    assert replies(flat) == replies(tiered)
    near = pytest.approx(flat.rounds["objective"].to_numpy(float), rel=1e-12)
    assert tiered.rounds["objective"].to_numpy(float) == near


def test_each_gateway_asks_the_oldest_of_its_own(tmp_path: Path) -> None:
    made = sampling(local(tmp_path), {"kind": "age"}, {"count": 2}, count=1)
    rounds = asked(fedsim.run(made))
    for clients in BELOW:
        names = [f"client-{each}" for each in clients]
        turns = [next(each for each in cohort if each in names) for cohort in rounds.values()]
        size = len(names)
        for begin in range(0, len(turns) - size + 1, size):
            assert sorted(turns[begin : begin + size]) == names
    assert all(len(cohort) == 2 for cohort in rounds.values())


def test_an_importance_sample_of_one_counts_for_all_below_its_gateway(tmp_path: Path) -> None:
    problem = local(tmp_path)
    policy = {"kind": "importance", "by": "samples", "count": 1}
    made = scenario(problem, {"count": 2}, participation=policy)
    rounds = asked(fedsim.run(made))
    seen = models(problem, tmp_path, {"count": 2}, participation=policy)
    w, due, p = np.zeros(problem.dimension), [], problem.weights
    for number in sorted(rounds):
        drawn = [int(name.removeprefix("client-")) for name in rounds[number]]
        ends = [problem.descend(client, w, ETA, STEPS) for client in drawn]
        w = np.tensordot([p[clients].sum() for clients in BELOW], np.array(ends), 1)
        due.append(w)
    check_near(seen, due)


def test_a_server_asks_gateways_by_the_norms_that_they_report(tmp_path: Path) -> None:
    tier = {"count": 3, "participation": {"kind": "importance", "count": 2}}
    result = fedsim.run(scenario(local(tmp_path), tier, wire={"values": "float32"}))
    rows = result.events
    sent = rows[(rows["event"] == "send") & (rows["message"] == "update")]
    names = sent["node"].astype(str)
    (own,) = set(sent["payload_bits"][names.str.startswith("client-")])
    (above,) = set(sent["payload_bits"][names.str.startswith("gateway-")])
    numbers = local(tmp_path).dimension
    # A vector of the tier is in full precision, and so is the number: 64 bits and its tag of 8.
    assert above - own == numbers * (64 - 32) + (64 + 8)


@pytest.mark.parametrize(
    ("policy", "key"),
    [
        ({"kind": "oort", "count": 1}, "tiers.0.participation.kind"),
        ({"kind": "power-of-choice", "count": 1, "candidates": 2}, "tiers.0.participation.kind"),
        ({"kind": "importance", "count": 1, "oracle": True}, "tiers.0.participation.oracle"),
        ({"kind": "carbon-aware", "count": 1}, "tiers.0.carbon"),
    ],
)
def test_a_server_of_gateways_has_no_losses_to_ask_by(
    policy: dict[str, Any], key: str, tmp_path: Path
) -> None:
    with pytest.raises(fedsim.ScenarioError) as error:
        fedsim.check(scenario(local(tmp_path), {"count": 2, "participation": policy}))
    assert key in [fault.key for fault in error.value.faults], str(error.value)
