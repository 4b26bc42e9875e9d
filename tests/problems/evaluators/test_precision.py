"""The keys precision, evaluator and observe: what a run of them is, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.results.analysis.figures import convergence
from fedsim.results.analysis.seeds import over_seeds
from fedsim.results.record.folder import read_json
from fedsim.results.record.read import read_run
from fedsim.scenario.building import Builder
from tests.runs import files, small
from tests.tiers import some

FEDAVG: dict[str, Any] = {"kind": "fedavg", "step_size": 0.001, "local_steps": 3, "batch": 20}


def run(out: Path, **changes: Any) -> Path:
    scenario = small(**{"algorithm": FEDAVG, "stop": {"rounds": 7}, **changes})
    (folder,) = fedsim.run(scenario, out=out).runs
    return folder


def check(scenario: dict[str, Any]) -> None:
    Builder(fedsim.load(scenario)).check()


def rounds(folder: Path) -> pd.DataFrame:
    return pd.DataFrame(read_run(folder, "rounds"))


def costs(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=["objective", "gap"])


def test_compiled_runs_follow_the_reference_and_never_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = rounds(run(tmp_path / "one-by-one"))
    found = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("FEDSIM_THREADS", threads)
        folder = run(tmp_path / threads, evaluator="compiled")
        found.append(files(folder))
        table = rounds(folder)
        pd.testing.assert_frame_equal(costs(table), costs(reference))
        np.testing.assert_allclose(table["objective"], reference["objective"], rtol=1e-10)
    assert found[0] == found[1] == found[2]
    made = read_json(folder / "manifest.json")["computing"]
    assert made["evaluator"] == "compiled"
    assert made["compiler"].startswith("numba ")


@pytest.mark.parametrize("evaluator", some(["one-by-one", "compiled"], "one-by-one"))
def test_single_precision_rounds_what_is_learnt_and_no_message(
    tmp_path: Path, evaluator: str
) -> None:
    double = rounds(run(tmp_path / "double", evaluator=evaluator))
    folder = run(tmp_path / "single", evaluator=evaluator, precision="float32")
    single = rounds(folder)
    assert read_json(folder / "manifest.json")["computing"]["precision"] == "float32"
    pd.testing.assert_frame_equal(costs(single), costs(double))  # bits on the wire among them
    np.testing.assert_allclose(single["objective"], double["objective"], rtol=1e-5)
    assert (single["objective"] != double["objective"])[1:].all()  # after the common start


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_the_optimum_of_single_samples_is_that_of_their_values_in_double(
    tmp_path: Path, loss: str, layout: str
) -> None:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((60, 5)) * (rng.random((60, 5)) < 0.7)
    y = np.where(X @ np.arange(5.0) + rng.standard_normal(60) > 0, 1.0, -1.0)
    lines = {"own": X, "rounded": X.astype(np.float32).astype(np.float64)}
    found = {}
    for name, precision in (("own", "float32"), ("rounded", "float64"), ("own", "float64")):
        rows = [
            f"{label:+.0f} " + " ".join(f"{k + 1}:{v!r}" for k, v in enumerate(row.tolist()) if v)
            for label, row in zip(y, lines[name], strict=True)
        ]
        (tmp_path / f"{name}.svm").write_text("\n".join(rows) + "\n", encoding="utf-8")
        problem = {
            "loss": {"kind": loss, "l2": 0.1},
            "data": {"kind": "libsvm", "path": str(tmp_path / f"{name}.svm"), "layout": layout},
            "split": {"kind": "contiguous"},
        }
        method = {"kind": "gd", "step_size": "1/L"}
        scenario = small(problem=problem, algorithm=method, precision=precision)
        (job,) = Builder(fedsim.load(scenario)).check()
        assert job.reference is not None
        found[name, precision] = job.reference.value, job.parameters["step_size"]
    np.testing.assert_allclose(found["own", "float32"], found["rounded", "float64"], rtol=1e-12)
    assert found["own", "float64"] != found["rounded", "float64"]


def test_only_rounds_that_are_asked_for_and_the_last_are_looked_at(tmp_path: Path) -> None:
    whole = rounds(run(tmp_path / "whole", measures=["sparsity"]))
    seldom = rounds(run(tmp_path / "seldom", measures=["sparsity"], observe={"every": 3}))
    looked = [0, 3, 6, 7]
    measured = ["objective", "gap", "nonzeros"]
    assert seldom.columns.tolist() == whole.columns.tolist()
    some = seldom["round"].isin(looked)
    pd.testing.assert_frame_equal(seldom[some], whole[some], check_dtype=False)
    assert seldom.loc[~some, measured].isna().all(axis=None)
    rest = [name for name in whole.columns if name not in measured]
    pd.testing.assert_frame_equal(seldom[rest], whole[rest])


@pytest.mark.slow
@pytest.mark.parametrize(
    "stop",
    [{"time": "3 s"}, {"bits": "30 kbit"}, {"energy": "20 J"}],
    ids=["time", "bits", "energy"],
)
def test_the_last_round_is_looked_at_whatever_ends_the_run(
    tmp_path: Path, stop: dict[str, Any]
) -> None:
    whole = rounds(run(tmp_path / "whole", stop={"rounds": 500, **stop}))
    folder = run(tmp_path / "seldom", stop={"rounds": 500, **stop}, observe={"every": 1000})
    seldom, summary = rounds(folder), read_json(folder / "summary.json")
    assert 1 < len(whole) < 500
    looked = seldom["round"][seldom["objective"].notna()]
    assert looked.tolist() == [0, seldom["round"].iloc[-1]]
    assert seldom["objective"].iloc[-1] == whole["objective"].iloc[-1] == summary["objective"]


def test_a_gap_is_seen_where_the_observer_looks(tmp_path: Path) -> None:
    method = {"kind": "gd", "step_size": "1/L"}
    gap = rounds(run(tmp_path / "all", algorithm=method))["gap"].iloc[4]
    stop = {"rounds": 500, "gap": float(gap)}
    often = run(tmp_path / "often", algorithm=method, stop=stop)
    seldom = run(tmp_path / "seldom", algorithm=method, stop=stop, observe={"every": 3})
    assert [rounds(folder)["round"].iloc[-1] for folder in (often, seldom)] == [5, 6]


def test_a_model_that_is_not_finite_ends_a_run_that_nobody_looks_at(tmp_path: Path) -> None:
    wild = {**FEDAVG, "step_size": 1e30}
    with pytest.warns(fedsim.TheoryWarning, match="step_size"):
        folder = run(tmp_path, algorithm=wild, stop={"rounds": 90}, observe={"every": 80})
    summary = read_json(folder / "summary.json")
    assert summary["status"] == "diverged"
    assert "not finite" in summary["reason"]


def test_a_loss_without_compiled_kernels_is_refused() -> None:
    problem = {
        "loss": {"kind": "neyman-pearson"},
        "data": {"kind": "sklearn", "name": "breast-cancer"},
        "split": {"kind": "iid"},
    }
    with pytest.raises(fedsim.ScenarioError, match="no kernels for the loss neyman-pearson"):
        check(small(problem=problem, algorithm=FEDAVG, evaluator="compiled"))


def test_curves_join_the_rounds_that_were_looked_at(tmp_path: Path) -> None:
    table = rounds(run(tmp_path, observe={"every": 3}))
    curves = [axis.get_lines()[0] for axis in convergence(table, {"base": "base"}).axes]
    assert all(np.asarray(curve.get_xdata(), float).size == 4 for curve in curves)
    assert np.asarray(curves[0].get_xdata(), float).tolist() == [0, 3, 6, 7]
    assert np.isfinite(np.asarray(curves[0].get_ydata(), float)).all()
    common = over_seeds(table, "gap", log=True)
    assert common["round"].tolist() == [0, 3, 6, 7]
    assert common[["mean", "low", "high"]].notna().all(axis=None)
