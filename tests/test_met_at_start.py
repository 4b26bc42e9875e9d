"""A run whose start meets its goal: it has no round, costs nothing, and every reader takes it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli.app import app
from fedsim.core.errors import DataError
from fedsim.results.analysis import (
    Comparison,
    plot_participation,
    plot_round,
    plot_silence,
    speedup,
)
from tests.addons.repricing.prices import small
from tests.runs import files

GD: dict[str, Any] = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}
GOALS: list[dict[str, Any]] = [
    {"stop": {"gap": 1e9}},
    {"stop": {"objective": 1e9}},
    {"measures": ["train_accuracy"], "stop": {"train_accuracy": 0.0}},
]
COSTS = ["transmissions", "beacons", "bits_up", "bits_down", "t", "joules"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start") / "out"
    fedsim.run(small(stop={"gap": 1e9}, variants=GD), out=folder)
    return folder


@pytest.mark.parametrize("goal", GOALS, ids=["gap", "objective", "measure"])
def test_it_ends_before_its_first_round_at_no_cost(goal: dict[str, Any], tmp_path: Path) -> None:
    result = fedsim.run(small(**goal), out=tmp_path)
    (summary,) = result.summary.to_dict("records")
    assert (summary["status"], summary["rounds"]) == ("done", 0)
    assert not any(summary[cost] for cost in COSTS)
    assert summary["objective"] == summary["start"] == result.rounds["objective"].item()
    assert result.rounds["round"].tolist() == [0]
    assert not result.rounds[COSTS].to_numpy().any()
    kept = files(tmp_path)
    assert fedsim.open(tmp_path).summary["rounds"].tolist() == [0]
    fedsim.run(small(**goal), out=tmp_path)
    assert files(tmp_path) == kept


def test_its_target_is_reached_in_round_0(made: Path) -> None:
    (case,) = Comparison.of([made]).cases
    assert case.costs["reached"].all()
    assert not case.costs[["round", *COSTS]].to_numpy().any()
    assert set(case.pairs["verdict"]) == {"the same (one seed)"}
    assert set(case.pairs["ratio"]) == {1.0}


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("compare", []),
        ("report", []),
        ("robust", ["--worlds", "16"]),
        ("explore", []),
        ("paper", ["--formats", "svg"]),
        ("trace", []),
        ("reprice", ["--set", "fleet.0.radio=wifi", "--out", "priced"]),
        ("status", []),
    ],
)
@pytest.mark.filterwarnings("error")
def test_every_command_takes_it(
    command: str, options: list[str], made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, [command, str(made), *options], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    if command in {"compare", "reprice"}:
        said = "the start model already meets a gap below 1e+09: every cost is 0"
        assert " ".join(result.output.split()).count(said) == 1
    if command == "reprice":
        assert fedsim.open("priced").rounds["round"].tolist() == [0, 0]


def test_its_rounds_are_neither_drawn_nor_traced(made: Path) -> None:
    result = fedsim.open(made)
    for draw in (plot_round, plot_participation, plot_silence):
        with pytest.raises(DataError, match="no run has completed a round"):
            draw(result, variant="gd")
    traced = CliRunner().invoke(app, ["trace", str(made / "gd/seed-1"), "--rounds", "1:2"])
    assert traced.exit_code == 2
    assert "the run has no round" in " ".join(traced.stderr.split())


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_there_is_no_ratio_to_a_cost_of_0(tmp_path: Path) -> None:
    """One variant starts at the target and the other one works for it: their problems differ."""
    plain = small("gd", rounds=30)
    loss = {**plain["problem"]["loss"], "l2": 100.0}
    variants = {"far": {}, "near": {"problem": {"loss": loss}}}
    result = fedsim.run(plain | {"variants": variants}, out=tmp_path / "out")
    start = result.rounds[result.rounds["round"] == 0].set_index("variant")["gap"]
    gap = float(start["near"] * 1.01)
    assert start["far"] > gap > result.summary.set_index("variant")["gap"]["far"]
    ratios = {}
    for name in variants:
        comparison = Comparison.of([tmp_path / "out"], [f"gap={gap!r}"], name)
        comparison.write(tmp_path / name)
        pairs = comparison.cases[0].pairs.set_index("cost")
        ratios[name] = pairs["ratio"][["round", "bits", "t", "joules"]].to_numpy(float)
        table = fedsim.robust(tmp_path / "out", target=f"gap={gap!r}", worlds=16, against=name)
        assert table.notes
        table.write(tmp_path / f"robust-{name}")
        assert "inf" not in " ".join(map(repr, (comparison, table)))
    assert (ratios["far"] == 0).all()
    assert np.isnan(ratios["near"]).all()
    found = speedup(result.rounds, gap, "far").set_index("variant")["speedup"]
    assert found["far"] == 1
    assert np.isnan(found["near"])
    fedsim.explore(tmp_path / "out", target=f"gap={gap!r}")
    result.report(tmp_path / "page.html")
