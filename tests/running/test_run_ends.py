"""How runs end: by rules, by divergence, by defects, by a kill, or before they begin."""

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import fedsim
from fedsim.algorithms import GradientDescent
from fedsim.core.ports import Client, Server
from fedsim.results.record.read import read_run, run_folders
from fedsim.sim.engine import light_task
from tests.runs import SMALL, small
from tests.tiers import every


def test_a_run_that_diverges_keeps_its_finite_rounds_and_the_others_go_on(tmp_path: Path) -> None:
    scenario = small(
        algorithm={"kind": "gd", "step_size": 10.0},
        stop={"rounds": 2000},
        variants={"calm": {"algorithm": {"step_size": 1e-5}, "stop": {"rounds": 5}}},
    )
    with pytest.warns(fedsim.TheoryWarning, match="base: algorithm.step_size: got 10, .* 2/L = "):
        result = fedsim.run(scenario, out=tmp_path)
    wild, calm = result.summary.to_dict("records")
    assert (wild["status"], calm["status"]) == ("diverged", "done")
    rounds = read_run(tmp_path / "base/seed-1", "rounds")
    assert np.isfinite(rounds["objective"]).all()
    last = len(rounds) - 1
    assert rounds["round"].tolist() == [*range(last + 1)]
    assert f"diverged in round {last + 1}" in wild["reason"]
    assert f"round {last} was the last finite one" in wild["reason"]
    assert wild["rounds"] == last
    X = scale(load_diabetes().data)[: 442 // 5 * 5]
    assert "step_size is 10" in wild["reason"]
    named = float(wild["reason"].rpartition("1/L = ")[2])
    assert named == pytest.approx(1 / (np.linalg.norm(X, 2) ** 2 + 5), rel=0.05)  # of other rows


KILLED = """
import fedsim, os, sys, json
def watch(progress):
    if progress.round == 200:
        os.kill(os.getpid(), 9)
fedsim.run(json.loads(sys.argv[1]), out=sys.argv[2], watch=watch)
"""


@pytest.mark.slow
def test_what_a_killed_run_has_written_can_be_read_and_does_not_look_whole(tmp_path: Path) -> None:
    scenario = json.dumps(small(stop={"rounds": 1000}))
    done = subprocess.run([sys.executable, "-c", KILLED, scenario, str(tmp_path)], check=False)
    assert done.returncode == -9
    (folder,) = run_folders(tmp_path)
    assert not (folder / "events.parquet").exists()
    assert not (folder / "summary.json").exists()
    events = read_run(folder, "events")
    assert len(events) > 1000
    assert events["t"].is_monotonic_increasing
    assert fedsim.run(small(stop={"rounds": 2}), out=tmp_path).summary["status"].tolist() == [
        "done"
    ]
    assert not (folder / "events.parts").exists()


class Broken(GradientDescent):
    """An algorithm with a defect in its handler."""

    kind: Literal["broken"] = "broken"  # type: ignore[assignment]

    async def handle(self, client: Client[Any], message: Any) -> Any:
        if client.now > 0.1:
            raise ZeroDivisionError("a defect")
        return await super().handle(client, message)


class Wild(GradientDescent):
    """An algorithm whose first model is not finite."""

    kind: Literal["wild"] = "wild"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        server.commit(np.full_like(server.initial, np.nan))


def test_a_run_without_a_finite_round_has_the_start_alone() -> None:
    scenario = small(
        algorithm={"kind": "wild", "step_size": "1/L"},
        variants={"calm": {"algorithm": {"kind": "gd", "step_size": "1/L"}}},
    )
    result = fedsim.run(scenario, blocks=[Wild])
    assert result.summary["status"].tolist() == ["diverged", "done"]
    assert "no round was finite" in result.summary["reason"][0]
    wild = read_run(result.runs[0], "rounds")
    assert wild["round"].tolist() == [0]
    assert wild["objective"].item() == result.summary["start"][0]


def test_an_algorithm_of_one_s_own_runs_by_its_kind_and_its_errors_are_its_own(
    tmp_path: Path,
) -> None:
    scenario = small(algorithm={"kind": "broken", "step_size": "1/L"})
    with pytest.raises(ZeroDivisionError, match="a defect"):
        fedsim.run(scenario, out=tmp_path, blocks=[Broken])
    folder = tmp_path / "base/seed-1"
    assert not (folder / "summary.json").exists()
    assert not (folder / "events.parquet").exists()
    assert len(read_run(folder, "events")) > 0


def test_an_earlier_run_in_the_folder_is_gone_before_the_next_begins(tmp_path: Path) -> None:
    fedsim.run(small(), out=tmp_path)
    with pytest.raises(ZeroDivisionError):
        fedsim.run(
            small(algorithm={"kind": "broken", "step_size": "1/L"}),
            out=tmp_path,
            blocks=[Broken],
        )
    assert not (tmp_path / "base/seed-1/summary.json").exists()


@every(
    ("stop", "reason"),
    [
        ({"rounds": 3}, "rounds"),
        ({"gap": 1e3}, "gap"),
        ({"bits": "20 kbit"}, "bits"),
        ({"energy": "5 J"}, "energy"),
    ],
)
def test_every_stop_rule_ends_the_run_at_the_first_round_that_meets_it(
    stop: dict[str, Any], reason: str
) -> None:
    result = fedsim.run(small(stop={"rounds": 500, **stop}))
    row = result.summary.iloc[0]
    assert row["reason"].startswith(reason)
    totals = result.rounds[["bits_up", "bits_down", "joules"]].cumsum()
    limits = {
        "rounds": result.rounds["round"] >= 3,
        "gap": result.rounds["gap"] < 1e3,
        "bits": totals["bits_up"] + totals["bits_down"] >= 20e3,
        "energy": totals["joules"] >= 5.0,
    }
    assert limits[reason].tolist() == [False] * (len(result.rounds) - 1) + [True]


def test_time_ends_the_run_at_the_very_moment() -> None:
    result = fedsim.run(small(stop={"rounds": 500, "time": "1 s"}))
    row = result.summary.iloc[0]
    assert (row["reason"], row["t"]) == ("time: 1 s", 1.0)
    assert result.rounds["t"].max() < 1.0
    assert result.rounds["bits_up"].sum() < row["bits_up"]  # of a round that was broken off


def test_faults_of_the_data_carry_the_line_of_the_scenario(tmp_path: Path) -> None:
    scenario = tmp_path / "wrong.yaml"
    scenario.write_text(
        "problem:\n  loss: {kind: squared}\n  data:\n    kind: libsvm\n    path: missing.txt\n"
        "algorithm: {kind: gd, step_size: 1/L}\nfleet: [{count: 2}]\n"
    )
    with pytest.raises(fedsim.ScenarioError) as caught:
        fedsim.run(scenario)
    (fault,) = caught.value.faults
    assert fault.where.endswith("wrong.yaml:5")
    assert fault.key == "problem.data.path"


def test_a_gap_cannot_be_asked_of_a_problem_without_an_optimum() -> None:
    problem = {**SMALL["problem"], "loss": {"kind": "mlp", "output": "squared", "hidden": 2}}
    scenario = small(problem=problem, algorithm={"kind": "gd", "step_size": 0.1}, stop={"gap": 1.0})
    with pytest.raises(fedsim.ScenarioError, match="no optimum is known"):
        fedsim.run(scenario)


def test_a_relative_step_size_needs_a_smoothness_constant() -> None:
    problem = {**SMALL["problem"], "loss": {"kind": "mlp", "output": "squared", "hidden": 2}}
    with pytest.raises(fedsim.ScenarioError, match=r"algorithm\.step_size: got 1/L, but the loss"):
        fedsim.run(small(problem=problem))


@pytest.mark.slow
@pytest.mark.parametrize("place", ["_enter_task", "_leave_task"])
def test_an_interrupt_between_two_steps_of_the_loop_ends_the_run_as_any_other(
    place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The task that was taking a turn never ends, and the server waits for it: no deadlock."""
    turns = iter(range(40))
    usual = getattr(light_task, place)

    def interrupted(*arguments: object) -> None:
        usual(*arguments)
        if next(turns, None) == 30:
            raise KeyboardInterrupt

    monkeypatch.setattr(light_task, place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        fedsim.run(small())
    gc.collect()
    assert not caplog.text
