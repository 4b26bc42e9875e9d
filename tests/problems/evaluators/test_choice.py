"""Who evaluates is chosen in one place, written into the manifest, and part of what a run is."""

from pathlib import Path

import numpy as np
import pytest

import fedsim
from fedsim.core.threads import usable_threads
from fedsim.problems import Problem, Squared, Weighting
from fedsim.problems.evaluators import SerialEvaluator
from fedsim.problems.penalties import L1
from fedsim.results.record.folder import read_json
from fedsim.scenario.building.evaluation import evaluation
from tests.problems.examples import samples
from tests.runs import small


def test_the_manifest_says_who_evaluated(tmp_path: Path) -> None:
    (run,) = fedsim.run(small(stop={"rounds": 2}), out=tmp_path).runs
    assert read_json(run / "manifest.json")["computing"] == {
        "evaluator": "one-by-one",
        "precision": "float64",
    }


def test_a_run_that_another_evaluator_has_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = fedsim.run(small(stop={"rounds": 2}), out=tmp_path).runs
    before = (run / "manifest.json").stat().st_mtime_ns
    fedsim.run(small(stop={"rounds": 2}), out=tmp_path)
    assert (run / "manifest.json").stat().st_mtime_ns == before
    monkeypatch.setattr(SerialEvaluator, "choice", {"evaluator": "another"})
    fedsim.run(small(stop={"rounds": 2}), out=tmp_path)
    assert read_json(run / "manifest.json")["computing"]["evaluator"] == "another"


@pytest.mark.parametrize("threads", [1, 7])
def test_the_environment_says_on_how_many_threads_to_compute(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_THREADS", str(threads))
    assert usable_threads() == threads


@pytest.mark.parametrize("weighting", ["sum", "rows", "equal"])
def test_what_is_looked_at_is_the_objective(weighting: Weighting) -> None:
    data = samples(rows=30, features=4)
    parts = [data.take(np.arange(10)), data.take(np.arange(10, 30))]
    problem = Problem.of(Squared(l2=0.1), parts, L1(weight=0.3), weighting=weighting)
    w = np.linspace(-1, 1, 4)
    assert evaluation(problem).value(w) == problem.value(w)
