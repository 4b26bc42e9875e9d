"""Targets under a constraint: reached by a model that is close and meets the constraint.

With a constant feature alone the model is a bias b, f(b) = log(1 + e^b) and g(b) = log(1 + e^-b).
So f = g - log(e^g - 1) at every model, and the optimum at g <= eps is eps - log(e^eps - 1).
"""

from collections.abc import Hashable, Mapping, Sequence
from math import expm1, isnan, log, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.addons.repricing import reprice
from fedsim.addons.robustness.api import finished_runs
from fedsim.core.ports import Array
from fedsim.protocol.stop_rules import Constraint, Patience, RoundEnd
from fedsim.protocol.stopping import Stop
from fedsim.results.analysis import Target, cost_to_target, speedup
from fedsim.results.analysis.compare.answer import answer
from fedsim.results.analysis.compare.cost_tables import reached_by_all
from fedsim.results.analysis.compare.runs import gather
from fedsim.results.result import Result
from fedsim.running.history import best_variant
from tests.tiers import every

EPS = 0.5
OPTIMUM = EPS - log(expm1(EPS))
LIMIT = 1.01 * EPS


def scenario(X: Array, y: Array, tolerance: float = EPS, **more: Any) -> dict[str, Any]:
    """Return a scenario of FedSGM on two clients with the same rows."""
    data = fedsim.arrays(np.r_[X, X], np.r_[y, y], client=np.repeat([0, 1], len(y)))
    own = {
        "name": "constrained",
        "problem": {
            "loss": {"kind": "neyman-pearson"},
            "data": data,
            "split": {"kind": "groups"},
        },
        "algorithm": {"kind": "fedsgm", "step_size": 0.05, "tolerance": tolerance},
        "fleet": [{"count": 2, "device": "pi-4", "radio": "wifi"}],
        "stop": {"rounds": 120},
    }
    return own | more


def biased(**more: Any) -> dict[str, Any]:
    """Return a problem with a closed form: the constant feature, with two rows of five in g."""
    return scenario(np.ones((5, 1)), np.array([0.0, 0.0, 0.0, 1.0, 1.0]), **more)


def f_of(g: "pd.Series[float]") -> "pd.Series[float]":
    return g - np.log(np.expm1(g))


def first_feasible(rounds: pd.DataFrame, gap: float) -> int:
    """Return the round in which g <= 1.01 eps and f - f* < gap first hold, by g alone."""
    g = rounds["constraint"]
    close = (f_of(g) - OPTIMUM < gap) & (g <= LIMIT)
    return int(rounds.loc[close, "round"].iloc[0])


@pytest.fixture(scope="module")
def whole() -> Result:
    """Return a run of all rounds: it begins at log 2 > eps, where f is below the optimum."""
    return fedsim.run(biased())


def test_the_constraint_is_evaluated_though_no_measure_asks_for_it(whole: Result) -> None:
    rounds = whole.rounds
    assert rounds["objective"].to_numpy() == pytest.approx(f_of(rounds["constraint"]), rel=1e-12)
    assert rounds["gap"].to_numpy() == pytest.approx(rounds["objective"] - OPTIMUM, abs=1e-12)
    assert rounds["feasible"].tolist() == (rounds["constraint"] <= LIMIT).astype(int).tolist()
    assert set(rounds["feasible"]) == {0, 1}
    assert (rounds.loc[rounds["feasible"] == 0, "gap"] < -0.01).any()  # and yet below any target
    assert "violated" not in rounds
    (row,) = whole.summary.to_dict("records")
    assert (row["tolerance"], row["feasible"]) == (EPS, bool(rounds["feasible"].iloc[-1]))


def test_a_measure_of_the_constraint_changes_nothing_else(whole: Result) -> None:
    asked = fedsim.run(biased(measures=[{"kind": "constraint", "tolerance": 0.1}])).rounds
    assert asked.drop(columns="violated")[whole.rounds.columns].equals(whole.rounds)
    assert asked["violated"].all()


def test_a_method_without_a_constraint_has_neither_column_nor_tolerance() -> None:
    result = fedsim.run(biased(algorithm={"kind": "fedavg", "step_size": 0.05, "local_steps": 1}))
    assert not {"constraint", "feasible"} & {*result.rounds}
    assert not {"tolerance", "feasible"} & {*result.summary}


# -- stop rules ------------------------------------------------------------------------


def test_a_gap_is_reached_by_the_first_feasible_model(whole: Result) -> None:
    bound = 0.02
    (row,) = fedsim.run(biased(stop={"rounds": 120, "gap": bound})).summary.to_dict("records")
    assert row["rounds"] == first_feasible(whole.rounds, bound)
    last = whole.rounds.set_index("round").loc[row["rounds"]]
    within = "within" if last["constraint"] <= EPS else "within 1 % of"
    told = f"gap: {last['gap']:.6g} is below 0.02, constraint {last['constraint']:.6g}"
    assert row["reason"] == f"{told} {within} the tolerance 0.5"


@pytest.mark.parametrize(
    "stop",
    [
        {"objective": OPTIMUM + 0.02},
        {"constraint": 0.69},
        {"patience": {"rounds": 5, "least": 10.0}},
    ],
)
def test_other_rules_take_feasible_models_only(stop: dict[str, Any], whole: Result) -> None:
    """Patience counts from the first feasible model: before it, there is nothing to improve on."""
    stopped = fedsim.run(biased(stop={"rounds": 120} | stop, measures=["constraint"]))
    rule = next(iter(stop))
    patient = 5 if rule == "patience" else 0
    first = first_feasible(whole.rounds, 0.02 if rule == "objective" else 1.0)
    (row,) = stopped.summary.to_dict("records")
    assert row["rounds"] == first + patient
    assert row["reason"].startswith(f"{rule}: ")
    assert "the tolerance 0.5" in row["reason"]


def test_the_best_model_is_feasible(whole: Result, tmp_path: Path) -> None:
    result = fedsim.run(biased(models={"best": "objective"}), out=tmp_path)
    rounds = whole.rounds[whole.rounds["constraint"] <= LIMIT]
    best = rounds.sort_values("objective", kind="stable").iloc[0]
    assert best["objective"] > whole.rounds["objective"].min()
    model = result.model(round="best")
    assert log(1 + np.exp(model.item())) == pytest.approx(best["objective"], rel=1e-12)


@every(
    ("value", "tolerance", "words"),
    [
        (0.498, 0.5, ", constraint 0.498 within the tolerance 0.5"),
        (0.505, 0.5, ", constraint 0.505 within 1 % of the tolerance 0.5"),
        (0.5051, 0.5, None),
        (5e-7, 0.0, ", constraint 5e-07 within 1e-06 of the tolerance 0"),
        (2e-6, 0.0, None),
        (nan, 0.5, None),
    ],
)
def test_a_rule_says_how_the_constraint_is_met(
    value: float, tolerance: float, words: str | None
) -> None:
    end = RoundEnd(round=3, objective=1.0, gap=-1.0, constraint=Constraint(value, tolerance))
    assert end.feasible == (words is not None)
    assert isnan(end.feasible_figure("gap")) == (words is None)
    told = {
        Stop(gap=1e-4): "gap: -1 is below 0.0001",
        Stop(objective=2.0): "objective: 1 is at most 2",
    }
    for stop, text in told.items():
        assert stop.watch()(end) == ("" if words is None else text + words)


def test_patience_does_not_end_a_run_before_its_first_feasible_model() -> None:
    check = Stop(rounds=99, patience=Patience(rounds=2)).watch()

    def said(number: int, objective: float, g: float) -> str:
        return check(RoundEnd(round=number, objective=objective, constraint=Constraint(g, EPS)))

    rows = [(0.1, 0.9), (0.1, 0.9), (0.1, 0.9), (0.5, 0.4), (0.2, 0.9)]
    assert not any(said(number, *row) for number, row in enumerate(rows, 1))
    assert said(6, 0.1, 0.8).startswith("patience: objective 0.5 of round 4 was the last")


# -- readers of round tables -----------------------------------------------------------


def table() -> pd.DataFrame:
    """Return two runs under a constraint, and one without: only some rounds are evaluated."""
    runs: Mapping[str, tuple[Sequence[float], Sequence[float]]] = {
        "kept": ([-0.3, nan, -0.1, 0.05, -0.002], [0, nan, 0, 1, 1]),
        "broken": ([-0.3, -0.2, -0.1, -0.1, -0.1], [0, 0, 0, 0, 0]),
        "free": ([0.5, 0.2, nan, 0.008, 0.001], [nan] * 5),
    }
    rows = [
        {
            "variant": name, "seed": 1, "round": number, "t": 2.0 * number, "objective": gap,
            "gap": gap, "constraint": nan, "feasible": feasible, "transmissions": 1, "beacons": 0,
            "bits_up": 100, "bits_down": 10, "joules": 0.5,
        }
        for name, (gaps, known) in runs.items()
        for number, (gap, feasible) in enumerate(zip(gaps, known, strict=True), 1)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_a_target_is_reached_in_the_first_round_that_is_close_and_feasible() -> None:
    costs = cost_to_target(table(), 0.01).set_index("variant")
    assert costs["round"].fillna(0).to_dict() == {"kept": 5, "broken": 0, "free": 4}
    assert costs["reached"].to_dict() == {"kept": True, "broken": False, "free": True}
    assert costs.loc["kept", "t"] == 10.0
    assert cost_to_target(table().drop(columns="feasible"), 0.01)["round"].tolist() == [1, 1, 4]
    factors = speedup(table(), 0.01, against="free").set_index("variant")["speedup"]
    assert factors.to_dict() == {"kept": pytest.approx(4 / 5), "broken": 0.0, "free": 1.0}


def test_what_came_nearest_is_feasible() -> None:
    rounds = table()
    labels = {name: name for name in ("kept", "broken")}
    costs = cost_to_target(rounds, -1.0)
    said = answer(costs, Target("gap", 1e-9), labels, rounds=rounds)
    assert said.endswith("closest: kept, -0.002")
    one = answer(costs, Target("gap", 1e-9), {"broken": "broken"}, rounds=rounds)
    assert one.endswith("no run reached a gap below 1e-09; every model breaks its constraint")
    assert reached_by_all(rounds, "gap", ["free"]) == 0.0011
    assert reached_by_all(rounds, "gap", ["free", "broken"]) is None


def test_a_run_that_ends_outside_is_not_the_best_variant() -> None:
    near: dict[Hashable, Any]
    far: dict[Hashable, Any]
    near = {"variant": "a", "gap": -0.1, "objective": 0.1, "joules": 1.0, "target": 0.01}
    far = {"variant": "b", "gap": 0.005, "objective": 0.3, "joules": 9.0, "target": 0.01}
    outside, inside = {**near, "feasible": False}, {**far, "feasible": True}
    assert best_variant([outside, inside]) == "b: 9 J to gap=0.01"
    assert best_variant([outside, {**inside, "gap": 0.5}]) == "b: gap 0.5"
    assert best_variant([outside]) == ""
    assert best_variant([near, far]) == "a: 1 J to gap=0.01"


def test_every_analysis_takes_the_round_at_which_the_run_stopped(tmp_path: Path) -> None:
    made = fedsim.run(biased(stop={"rounds": 120, "gap": 0.02}), out=tmp_path / "made")
    (row,) = made.summary.to_dict("records")
    study = gather([tmp_path / "made"])
    (run,) = finished_runs(study, Target.usual(study))
    assert run.look == row["rounds"]
    (case,) = made.compare().cases
    assert case.costs[["reached", "round"]].to_numpy().tolist() == [[True, row["rounds"]]]


def test_a_replay_ends_as_the_run_does(tmp_path: Path) -> None:
    (folder,) = fedsim.run(biased(stop={"rounds": 120, "gap": 0.02}), out=tmp_path / "made").runs
    made, again = fedsim.open(folder), reprice(folder, ["fleet.0.radio=nb-iot"], tmp_path / "again")
    for name in ("reason", "rounds", "tolerance", "feasible"):
        assert again.summary[name].tolist() == made.summary[name].tolist()
    for name in ("constraint", "feasible", "gap"):
        assert again.rounds[name].equals(made.rounds[name])
    looser = reprice(folder, ["stop.gap=0.1"], tmp_path / "looser")
    assert looser.summary["rounds"].tolist() == [first_feasible(made.rounds, 0.1)]


# -- no feasible model -----------------------------------------------------------------

LEAST = -(0.75 * log(0.75) + 0.25 * log(0.25))
"""The least g where three of four rows of a class have the feature 1, and one has -1."""


def infeasible(tolerance: float, **more: Any) -> dict[str, Any]:
    """Return a problem whose g is at least `LEAST`, the entropy of 1/4."""
    X = np.array([1.0, 1.0, 1.0, -1.0] + 6 * [0.5])[:, None]
    return scenario(X, np.array([1.0] * 4 + [0.0] * 6), tolerance, **more)


@pytest.mark.parametrize("tolerance", [0.1, 0.56])
def test_where_no_model_is_feasible_there_is_no_optimum(tolerance: float) -> None:
    told = f"no model meets the tolerance {tolerance:g}: the least constraint found is {LEAST:.6g}"
    checked = fedsim.check(infeasible(tolerance))
    assert [note.text for note in checked.notes if note.key == "algorithm"] == [
        f"{told}, so there is no optimum, and no gap to it"
    ]
    assert checked.variants["optimum"].isna().all()
    result = fedsim.run(infeasible(tolerance))
    assert result.rounds["gap"].isna().all()
    assert result.summary["reference"].tolist() == [None]
    assert result.events["detail"].iloc[0] == f"no reference optimum: {told}"
    with pytest.raises(fedsim.ScenarioError, match=rf"stop\.gap: {told}, so there is no optimum"):
        fedsim.check(infeasible(tolerance, stop={"gap": 1e-3}))


def test_where_some_model_is_feasible_there_is_one() -> None:
    checked = fedsim.check(infeasible(0.57))
    assert not [note for note in checked.notes if note.key == "algorithm"]
    (job,) = checked.jobs
    assert job.reference is not None
    assert job.reference.certified
