"""Every method on a convolutional network: it runs, or is refused with the reason."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.registry import kinds_of
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests import methods
from tests.conftest import ROOT

NETWORK: dict[str, Any] = {
    "loss": {"kind": "torch", "model": {"kind": "cnn", "channels": [2, 4], "hidden": 8}},
    "data": {"kind": "sklearn", "name": "digits", "preprocess": [{"divide": 16}]},
    "split": {"kind": "dirichlet", "alpha": 0.5},
    "test": {"fraction": 0.8},
}
SOLVER = {"solver": {"kind": "gradient-descent", "step_size": 0.05, "steps": 2}}
REFUSED = {
    "lag-ps": "algorithm.kind: lag-ps selects clients by the smoothness constants of "
    "their losses, and none is known for torch; use lag-wk",
    "fedsgm": "problem.loss.kind: got torch, but fedsgm is for a loss with a constraint g(w) <= "
    "0: take neyman-pearson, or, without a constraint, fedcom",
    "fedsgm-stale": "problem.loss.kind: got torch, but fedsgm-stale is for a loss with a "
    "constraint g(w) <= 0: take neyman-pearson, or, without a constraint, fedcom",
}
ASKED = [k for each in ALGORITHMS if each.asks != "program" for k in kinds_of(each)]


def scenario(kind: str, **more: Any) -> dict[str, Any]:
    whole = methods.scenario(kind)
    block = whole["algorithm"] | (SOLVER if "solver" in whole["algorithm"] else {})
    if "sparsity" in block:
        block["sparsity"] = 150  # so few that ten say nothing
    if isinstance(block.get("step_size"), str):  # of 1/L, which a network does not have
        block["step_size"] = 0.2
    penalty = (
        {"penalty": {"kind": "l1", "weight": 1e-4}} if methods.the_class(kind).proximal else {}
    )
    return {
        **whole,
        "problem": NETWORK | penalty,
        "algorithm": {**block, **more},
        "fleet": [{"count": 3, "device": "pi-4", "radio": "wifi"}],
        "measures": ["test_accuracy"],
        "stop": {"rounds": 3},
    }


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("kind", [kind for kind in ASKED if kind not in REFUSED])
def test_a_method_trains_a_network(kind: str, tmp_path: Path) -> None:
    result = fedsim.run(scenario(kind), out=tmp_path)
    (summary,) = result.summary.to_dict("records")
    ends = {"done", "rose"} if kind in methods.AVERAGES else {"done"}
    assert summary["status"] in ends, summary["reason"]
    assert summary["rounds"] == 3
    rounds = result.rounds
    assert np.isfinite(rounds["objective"]).all()
    assert rounds["objective"].nunique() > 1 or kind in methods.AVERAGES  # where it is a mean
    assert rounds["gap"].isna().all()
    assert rounds["test_accuracy"].between(0, 1).all()
    assert summary["reference"] is None


@pytest.mark.parametrize("kind", REFUSED)
def test_a_method_that_a_network_cannot_serve_is_refused_with_the_reason(
    kind: str, tmp_path: Path
) -> None:
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.run(scenario(kind), out=tmp_path / "runs")
    assert REFUSED[kind] in str(caught.value)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("blocks", "key", "text"),
    [
        (
            {"algorithm": {"kind": "gd", "step_size": "0.5/L"}},
            "algorithm.step_size",
            "got 0.5/L, but the loss torch has no smoothness constant .* as a number",
        ),
        (
            {"algorithm": {"kind": "fedgradmp", "sparsity": 9, "solver": {"kind": "newton"}}},
            "algorithm.solver.kind",
            "newton needs a loss with a Hessian .* torch does not provide .* give gradient-descent",
        ),
        (
            {"stop": {"gap": 1e-3}},
            "stop.gap",
            "no optimum is known for the loss torch",
        ),
        (
            {"problem": {**NETWORK, "penalty": {"kind": "l1", "weight": 0.1}}},
            "problem.penalty.kind",
            r"take a proximal method \(fedmid, .*\), or put l2 into the loss",
        ),
        (
            {"problem": {**NETWORK, "loss": {**NETWORK["loss"], "device": "cuda"}}},
            "problem.loss.device",
            "got cuda, but PyTorch finds no GPU here; take cpu",
        ),
        ({"evaluator": "compiled"}, "evaluator", "no kernels for the loss torch"),
        ({"measures": ["constraint"]}, "measures.0", "constraint takes a loss with one"),
    ],
)
def test_what_a_network_does_not_have_is_said_where_it_is_asked_for(
    blocks: dict[str, Any], key: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(fedsim.ScenarioError, match=text) as caught:
        Builder(load({**scenario("fedavg"), **blocks})).check()
    assert [fault.key for fault in caught.value.faults] == [key]


def test_the_table_of_the_documentation_says_which_are_refused() -> None:
    page = (ROOT / "docs/howto/networks.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"<tr><td><code>([\w-]+)</code></td><td>(\w+)</td>", page))
    assert shown == {kind: "refused" if kind in REFUSED else "accepted" for kind in ASKED}
