"""Runs that stop at a figure of theirs, and the table of what they have come to."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.table_columns import HIGHER_IS_BETTER
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.protocol.stopping import Stop
from fedsim.results.analysis import Target, outcomes
from tests.runs import small
from tests.tiers import every

PROBLEM = {
    "loss": {"kind": "logistic", "l2": 1, "labels": "plus-minus"},
    "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
    "test": {"fraction": 0.2},
}


def scenario(stop: dict[str, object], **more: Any) -> dict[str, object]:
    own = small(stop={"rounds": 40} | stop, problem=PROBLEM, fleet=[{"count": 4}])
    return own | {"measures": ["test_accuracy", "sparsity"], "variants": {}} | more


def test_a_run_stops_in_the_first_round_that_reaches_a_measure() -> None:
    whole = fedsim.run(scenario({})).rounds
    bound = float(whole["test_accuracy"].iloc[6:].max())
    first = whole.loc[whole["test_accuracy"] >= bound, "round"].iloc[0]
    stopped = fedsim.run(scenario({"test_accuracy": bound}))
    assert stopped.summary["rounds"].tolist() == [first]
    assert stopped.summary["reason"].tolist() == [
        f"test_accuracy: {bound:.6g} is at least {bound:g}"
    ]
    assert stopped.rounds.equals(whole.iloc[: first + 1])


def test_a_run_stops_in_the_first_round_that_reaches_an_objective() -> None:
    whole = fedsim.run(scenario({})).rounds
    bound = float(whole["objective"].iloc[10])
    first = whole.loc[whole["objective"] <= bound, "round"].iloc[0]
    stopped = fedsim.run(scenario({"objective": bound}))
    assert stopped.summary["rounds"].tolist() == [first]
    assert stopped.summary["reason"].str.startswith("objective: ").all()


def test_a_rule_applies_where_somebody_looks() -> None:
    every = {"observe": {"every": 7}}
    whole = fedsim.run(scenario({})).rounds
    start, after = whole["objective"].iloc[:2]
    stopped = fedsim.run(scenario({"objective": float(after)}, **every))
    assert stopped.summary["rounds"].tolist() == [7]
    stopped = fedsim.run(scenario({"objective": float(start)}, **every))
    assert stopped.summary["rounds"].tolist() == [0]


def test_a_measure_that_falls_is_reached_from_above() -> None:
    stop = Stop.model_validate({"nonzeros": 20, "test_accuracy": 0.9})

    def reason(**figures: float | None) -> str:
        end = RoundEnd(round=1, objective=1.0, gap=1.0, figures=figures, higher=HIGHER_IS_BETTER)
        return stop.watch()(end)

    assert reason(nonzeros=21, test_accuracy=0.8) == ""
    assert reason(nonzeros=20, test_accuracy=0.8) == "nonzeros: 20 is at most 20"
    good = reason(nonzeros=21, test_accuracy=0.95)
    assert good == "test_accuracy: 0.95 is at least 0.9"
    assert reason(nonzeros=None) == ""


@every(
    ("stop", "words"),
    [
        ({"test_loss": 0.1}, "stop.test_loss: no measure gives it; give measures: [test_loss]"),
        ({"test_acuracy": 0.9}, "unknown key 'test_acuracy'; did you mean 'test_accuracy'?"),
        ({"gpa": 1e-3}, "unknown key 'gpa'; did you mean 'gap'?"),
        ({"test_accuracy": "high"}, 'stop.test_accuracy: got "high"; give a number'),
    ],
)
def test_what_nobody_measures_ends_no_run(stop: dict[str, object], words: str) -> None:
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.load(scenario(stop))
    assert words in str(caught.value)


def test_a_stop_at_a_measure_survives_the_run_folder(tmp_path: Path) -> None:
    result = fedsim.run(scenario({"test_accuracy": 0.5}), out=tmp_path)
    (run,) = result.runs
    (again,) = fedsim.load(run / "scenario.yaml").variants
    assert again.scenario.stop.figures == {"test_accuracy": 0.5}
    assert Target.usual(result) == Target("test_accuracy", 0.5)


@pytest.mark.slow
def test_the_tables_at_the_end_show_what_was_learned(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(fedsim.scenario.dump(fedsim.load(scenario({})).variants[0].scenario))
    told = {}
    for bound in (0.5, 1.0):
        out = tmp_path / str(bound)
        arguments = ["--out", str(out), "--set", f"stop.test_accuracy={bound}"]
        result = CliRunner().invoke(app, ["run", str(file), *arguments])
        assert result.exit_code == 0, result.output
        told[bound] = result.stdout
        last = outcomes(fedsim.open(out).rounds).iloc[0]
        (row,) = [
            line
            for line in result.stdout.splitlines()
            if "test_accuracy: " in line or "rounds: 40 of 40" in line
        ]
        for name in ("gap", "test_accuracy", "nonzeros"):
            assert f"{last[name]:.4g}" in row
        assert f"cost to test_accuracy of at least {bound:g}" in result.stdout
    assert "not reached" in told[1.0]
    assert "rounds: 40 of 40" in told[1.0]
    assert "is at least 0.5" in told[0.5]
    assert "not reached" not in told[0.5]


@pytest.mark.slow
def test_of_several_seeds_the_rules_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    own = scenario({"test_accuracy": 0.9}) | {"participation": "full"}
    file.write_text(fedsim.scenario.dump(fedsim.load(own).variants[0].scenario))
    arguments = ["--out", str(tmp_path / "out"), "--set", "seeds=2"]
    result = CliRunner().invoke(app, ["run", str(file), *arguments])
    assert result.exit_code == 0, result.output
    assert "test_accuracy (2 of 2)" in " ".join(result.stdout.split())
