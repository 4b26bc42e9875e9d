"""Notes on biased estimates, against expectations over all draws."""

from typing import Any

import numpy as np
import pytest

import fedsim
from tests.protocol.test_estimates import expectation
from tests.tiers import every

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

ROWS = {"equal": [10, 10, 10], "different": [10, 15, 20], "one large": [2, 2, 26]}
LAWS = {"uniform": "uniform", "weighted": "weighted", "importance": "with replacement"}


def notes(rows: list[int], participation: dict[str, Any], kind: str = "fedavg") -> list[str]:
    client = np.repeat(range(len(rows)), rows)
    data = fedsim.arrays(np.ones((len(client), 1)), client.astype(float), client=client)
    made = {
        "name": "notes",
        "problem": {"loss": {"kind": "squared"}, "data": data, "split": {"kind": "groups"}},
        "algorithm": {"kind": kind, "step_size": 0.1},
        "fleet": [{"count": len(rows), "device": "pi-4", "radio": "wifi"}],
        "stop": {"rounds": 2},
        "participation": participation,
    }
    found = fedsim.check(made).notes
    assert [each for each in fedsim.run(made).notes if "biased" in each.text] == [
        each for each in found if "biased" in each.text
    ]
    return [f"{each.key}: {each.text}" for each in found if "biased" in each.text]


@pytest.mark.slow
@every("rows", ROWS, few=["equal", "one large"])
@every("policy", LAWS)
@every("estimate", ["unbiased", "self-normalised", "plain"])
def test_there_is_a_note_where_the_expectation_is_not_the_mean_of_all(
    rows: str, policy: str, estimate: Any
) -> None:
    sizes = np.array(ROWS[rows], float)
    keys = {"by": "samples"} if policy == "importance" else {}
    p = sizes / sizes.sum()
    for count in (1, 2):
        found = notes(ROWS[rows], {"kind": policy, "count": count, "estimate": estimate} | keys)
        mean = expectation(LAWS[policy], sizes, p, count, estimate)
        if policy == "importance":  # the next norms may give any probabilities
            assert bool(found) == (estimate != "unbiased")
        else:
            assert bool(found) == (np.abs(mean - p).max() > 1e-6), (found, mean, p)


def test_all_clients_have_no_note() -> None:
    policies: list[dict[str, Any]] = [
        {"kind": "full"},
        {"kind": "uniform", "count": 3},
        {"kind": "oort", "share": "100 %"},
    ]
    for policy in policies:
        assert not notes(ROWS["different"], policy)


@every(
    ("policy", "kind", "words"),
    [
        ({"kind": "power-of-choice", "candidates": 3}, "fedavg", "prefers some clients"),
        ({"kind": "oort"}, "diana", "prefers some clients"),
        ({"kind": "weighted"}, "signsgd", "in its own way"),
        ({"kind": "weighted", "over": 1.5}, "fedavg", "(over): the estimate assumes that they"),
        ({"kind": "weighted", "over": 1.5}, "diana", "(over): the estimate assumes that they"),
        ({"kind": "age"}, "fedavg", "the weights of clients differ"),
        ({"kind": "weighted", "estimate": "self-normalised"}, "fedavg", "weighed by them again"),
        ({"kind": "asynchronous"}, "fedbuff", "towards fast ones"),
    ],
)
def test_a_note_says_why_a_step_is_biased(policy: dict[str, Any], kind: str, words: str) -> None:
    count = {} if policy["kind"] == "asynchronous" else {"count": 2}
    (note,) = notes(ROWS["different"], count | policy, kind)
    assert words in note


@pytest.mark.slow
@every("kind", ["ef21", "gd", "diana", "dcgd"])
def test_methods_that_no_draw_biases_have_no_note(kind: str) -> None:
    for policy in ("uniform", "weighted", "age"):
        assert not notes(ROWS["different"], {"kind": policy, "count": 2}, kind)
    assert not notes(ROWS["different"], {"kind": "weighted", "count": 2, "estimate": "plain"}, kind)


@every("kind", ["oort", "energy-aware", "carbon-aware", "power-of-choice"])
def test_what_is_not_known_is_not_called_unbiased(kind: str) -> None:
    policy = {"kind": kind, "count": 2, "estimate": "unbiased"}
    policy |= {"candidates": 3} if kind == "power-of-choice" else {}
    with pytest.raises(fedsim.ScenarioError) as caught:
        notes(ROWS["equal"], policy)
    assert [fault.key for fault in caught.value.faults] == ["participation.estimate"]


def test_each_tier_has_a_note_of_its_own() -> None:
    rows = [10, 15, 20, 30]
    client = np.repeat(range(4), rows)
    data = fedsim.arrays(np.ones((75, 1)), client.astype(float), client=client)
    one = {"kind": "uniform", "count": 1}
    made = {
        "name": "notes",
        "problem": {"loss": {"kind": "squared"}, "data": data, "split": {"kind": "groups"}},
        "algorithm": {"kind": "fedavg", "step_size": 0.1},
        "fleet": [{"count": 4, "device": "pi-4", "radio": "wifi"}],
        "tiers": [{"count": 2, "radio": "wifi", "participation": one}],
        "stop": {"rounds": 2},
        "participation": one,
    }
    found = [each.key for each in fedsim.check(made).notes if "biased" in each.text]
    assert found == ["participation.estimate", "tiers.0.participation.estimate"]


@pytest.mark.needs("privacy")
def test_a_private_mean_has_a_fixed_divisor_and_no_estimate_to_choose() -> None:
    made = {
        "name": "notes",
        "problem": {
            "loss": {"kind": "softmax"},
            "data": {"kind": "sklearn", "name": "breast-cancer"},
            "split": {"kind": "dirichlet", "alpha": 0.3},
        },
        "algorithm": {"kind": "fedavg", "step_size": 0.1},
        "fleet": [{"count": 10, "device": "pi-4", "radio": "wifi"}],
        "stop": {"rounds": 2},
        "participation": {"kind": "uniform", "count": 5, "estimate": "self-normalised"},
    }
    assert "participation.estimate" in {each.key for each in fedsim.check(made).notes}
    for where, noted in {"server": False, "clients": True}.items():
        private = made | {"privacy": {"clip": 1.0, "noise": 1.0, "where": where}}
        found = {each.key for each in fedsim.check(private).notes}
        assert ("participation.estimate" in found) is noted
