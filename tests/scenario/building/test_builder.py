"""What is checked before anything runs is not built a second time to be run."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.core.errors import ScenarioError
from fedsim.scenario import Variant, load
from fedsim.scenario.building import Builder
from tests.runs import SMALL, small

TWO = small(sweep={"algorithm.censor": [0.01, 0.1]}, seeds=2, stop={"rounds": 3})


def test_a_campaign_builds_each_of_its_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[str, int]] = []
    build: Any = Builder._build

    def noted(builder: Builder, variant: Variant, seed: int) -> Any:
        built.append((variant.name, seed))
        return build(builder, variant, seed)

    monkeypatch.setattr(Builder, "_build", noted)
    fedsim.run(TWO, out=tmp_path)
    assert len(built) == len(set(built)) == 4


def test_what_was_checked_is_handed_out_once() -> None:
    builder = Builder(fedsim.load(TWO))
    for job in builder.check():
        assert builder.build(job.variant, job.seed) is job
        assert builder.build(job.variant, job.seed) is not job  # which has run meanwhile


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        ({"optimum": "unknown"}, "problem.optimum is unknown, so there is no gap to it"),
        (
            {"loss": {"kind": "mlp", "hidden": 2}},
            "no optimum is known for the loss mlp, so no gap to it either",
        ),
    ],
    ids=["asked for", "none known"],
)
def test_a_gap_as_a_target_needs_an_optimum_and_the_reason_is_the_right_one(
    problem: dict[str, Any], words: str
) -> None:
    whole = {**small()["problem"], **problem}
    scenario = small(problem=whole, algorithm={"kind": "gd", "step_size": 0.1}, stop={"gap": 0.1})
    with pytest.raises(fedsim.ScenarioError, match=words):
        fedsim.check(scenario)


@pytest.mark.parametrize(
    "algorithm",
    [
        {"kind": "ditto", "mu": 0.1, "step_size": 0.1},
        {"kind": "fedavg", "step_size": 0.1, "local": ["output.*"]},
    ],
    ids=["models of clients", "parts of clients"],
)
def test_iterates_are_not_counted_where_clients_have_models_of_their_own(
    algorithm: dict[str, Any],
) -> None:
    network = {"kind": "mlp", "hidden": 3, "output": "squared"}
    problem = {**SMALL["problem"], "loss": network, "optimum": "unknown"}
    written = small(problem=problem, algorithm=algorithm)
    Builder(load(written)).check()
    with pytest.raises(ScenarioError, match="counting: got iterates, but clients have models"):
        Builder(load({**written, "counting": "iterates"})).check()
