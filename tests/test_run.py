"""A scenario from its text to its tables."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import scale

import fedsim
from fedsim.algorithms import GradientDescent
from fedsim.ports import Client, Server
from fedsim.record.read import read_run, run_folders
from fedsim.record.schema import ARROW_SCHEMA

SMALL: Mapping[str, Any] = {
    "name": "small",
    "problem": {
        "loss": {"kind": "squared", "scale": "sum", "l2": 1.0},
        "data": {"kind": "sklearn", "name": "diabetes", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
    },
    "algorithm": {"kind": "chb", "step_size": "1/L"},
    "wire": {"values": "float64"},
    "fleet": [
        {"count": 3, "device": "phone-mid", "radio": "lte"},
        {"count": 2, "device": "pi-4", "radio": "wifi"},
    ],
    "stop": {"rounds": 30},
}


def small(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


def files(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder of runs."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_run_writes_its_folder(tmp_path: Path) -> None:
    fedsim.run(
        small(variants={"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}, seeds=2),
        out=tmp_path,
    )
    assert [str(path.relative_to(tmp_path)) for path in run_folders(tmp_path)] == [
        "base/seed-1", "base/seed-2", "gd/seed-1", "gd/seed-2",
    ]  # fmt: skip
    for folder in run_folders(tmp_path):
        assert sorted(path.name for path in folder.iterdir()) == [
            "clients.parquet", "events.parquet", "manifest.json", "rounds.parquet",
            "scenario.yaml", "summary.json",
        ]  # fmt: skip
        assert list(pd.read_parquet(folder / "events.parquet").columns) == ARROW_SCHEMA.names


def test_the_tables_of_a_result_are_frames_of_all_runs() -> None:
    result = fedsim.run(small(seeds=2))
    assert len(result.rounds) == 2 * 30
    assert len(result.clients) == 2 * 5
    assert result.summary["seed"].tolist() == [1, 2]
    assert result.events["variant"].unique().tolist() == ["base"]
    assert isinstance(result.events["event"].dtype, pd.CategoricalDtype)


def test_a_temporary_result_goes_with_the_result() -> None:
    result = fedsim.run(small())
    folder = result.folder
    assert folder.exists()
    del result
    assert not folder.exists()


def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fedsim.run(small(), out=tmp_path / name)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_another_seed_splits_the_rows_another_way() -> None:
    result = fedsim.run(small(seeds=2))
    objectives = result.rounds.groupby("seed")["objective"].last()
    assert objectives.nunique() == 2


PROGRAM = """
import sys, fedsim, json
out = fedsim.run(json.loads(sys.argv[1]), out=sys.argv[2]).folder
print(json.loads((out / "base/seed-1/manifest.json").read_text())["events"]["sha256"])
"""


def test_the_trace_does_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    hashes = set()
    for seed in ("0", "1", "4711"):
        out = subprocess.run(
            [sys.executable, "-c", PROGRAM, json.dumps(SMALL), str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        )
        hashes.add(out.stdout)
    assert len(hashes) == 1


def test_the_resolved_scenario_in_the_folder_runs_again_to_the_same_log(tmp_path: Path) -> None:
    fedsim.run(small(), out=tmp_path / "one")
    fedsim.run(tmp_path / "one/base/seed-1/scenario.yaml", out=tmp_path / "two")
    name = "base/seed-1/events.parquet"
    assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_round_costs_are_those_of_the_log() -> None:
    """Add up the log by hand, round by round, and compare with the round table."""
    result = fedsim.run(small())
    events, rounds = result.events, result.rounds
    up = events[(events["event"] == "send") & (events["node"] != "server")]
    down = events[(events["event"] == "send") & (events["node"] == "server")]
    bits = ["payload_bits", "header_bits", "transport_bits"]
    by_round = rounds.set_index("round")
    carries = up["payload_bits"] > 0
    for column, logged in {
        "bits_up": up.groupby("round")[bits].sum().sum(axis=1),
        "bits_down": down.groupby("round")[bits].sum().sum(axis=1),
        "transmissions": up[carries].groupby("round").size(),
        "beacons": up[~carries].groupby("round").size(),
    }.items():
        assert (logged.reindex(by_round.index, fill_value=0) == by_round[column]).all()
    assert np.allclose(events.groupby("round")["joules"].sum().loc[1:], by_round["joules"])


def test_energy_and_time_of_one_round_by_hand() -> None:
    """One client, one round: every second and joule from the data sheet."""
    device = {"kind": "custom", "speed": "1 Mflop/s", "active": "3 W", "idle": "1 W"}
    radio = {
        "kind": "custom", "up": "10 kbit/s", "down": "20 kbit/s", "latency": "100 ms",
        "energy_up": "2 uJ/bit", "energy_down": "1 uJ/bit", "base": "0.5 W",
    }  # fmt: skip
    scenario = small(
        fleet=[{"device": device, "radio": radio}],
        network={"server": {"latency": "50 ms"}},
        stop={"rounds": 1},
    )
    result = fedsim.run(scenario)
    bits = 8 * (2 + 4 + 10 * 8) + 120  # ten float64 values as a Dense payload, and a header
    download, upload = bits / 20e3, bits / 10e3
    compute = (4 * 442 * 10) / 1e6
    (row,) = result.summary.to_dict("records")
    seconds = 0.15 + download + compute + 0.15 + upload
    assert row["t"] == pytest.approx(seconds, rel=1e-3)  # the penalty's own few operations
    (client,) = result.clients.to_dict("records")
    assert client["compute_s"] == pytest.approx(compute, rel=5e-3)
    assert client["receive_joules"] == pytest.approx(0.5 * download + 1e-6 * bits, rel=1e-12)
    assert client["send_joules"] == pytest.approx(0.5 * upload + 2e-6 * bits, rel=1e-12)
    assert client["compute_joules"] == pytest.approx(2.0 * client["compute_s"], rel=1e-12)
    assert client["idle_joules"] == pytest.approx(1.0 * row["t"], rel=1e-12)
    assert client["joules"] == pytest.approx(row["joules"], rel=1e-12)


def test_a_run_that_diverges_keeps_its_finite_rounds_and_the_others_go_on(tmp_path: Path) -> None:
    scenario = small(
        algorithm={"kind": "gd", "step_size": 10.0},
        stop={"rounds": 2000},
        variants={"calm": {"algorithm": {"step_size": 1e-5}, "stop": {"rounds": 5}}},
    )
    result = fedsim.run(scenario, out=tmp_path)
    wild, calm = result.summary.to_dict("records")
    assert (wild["status"], calm["status"]) == ("diverged", "done")
    rounds = read_run(tmp_path / "base/seed-1", "rounds")
    assert np.isfinite(rounds["objective"]).all()
    assert f"diverged in round {len(rounds) + 1}" in wild["reason"]
    assert f"round {len(rounds)} was the last finite one" in wild["reason"]
    assert wild["rounds"] == len(rounds)
    X = scale(load_diabetes().data)[: 442 // 5 * 5]
    assert "step_size is 10" in wild["reason"]
    named = float(wild["reason"].rpartition("1/L = ")[2])
    assert named == pytest.approx(1 / (np.linalg.norm(X, 2) ** 2 + 5), rel=0.05)  # of other rows


def test_the_gradient_norm_is_measured_at_the_model_of_the_round() -> None:
    problem = {
        "loss": {"kind": "squared", "scale": "sum"},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "contiguous"},
    }
    gd = {"kind": "gd", "step_size": 0.01}
    result = fedsim.run(small(problem=problem, algorithm=gd, measures=["gradient_norm"]))
    X, y = (part[: 442 // 5 * 5] for part in load_diabetes(return_X_y=True))
    w, norms = np.zeros(10), []
    for _ in range(30):
        gradient = X.T @ (X @ w - y)
        norms.append(np.linalg.norm(gradient))
        w = w - 0.01 * gradient
    assert np.allclose(result.rounds["gradient_norm"], norms, rtol=1e-10)


def test_the_summary_has_the_parameters_as_numbers() -> None:
    result = fedsim.run(small(algorithm={"kind": "chb", "step_size": "0.5/L", "censor": 0.2}))
    (row,) = result.summary.to_dict("records")
    eps1 = 0.2 / (row["parameters.step_size"] * 5) ** 2
    assert row["parameters.eps1"] == pytest.approx(eps1, rel=1e-12)
    assert row["parameters.momentum"] == 0.4


def test_silence_by_deadline_costs_time_and_no_bits() -> None:
    beacon = fedsim.run(small())
    deadline = fedsim.run(small(silence={"kind": "deadline", "after": "1 s"}))
    same = ["objective", "transmissions", "bits_down"]
    pd.testing.assert_frame_equal(beacon.rounds[same], deadline.rounds[same])
    assert beacon.rounds["beacons"].sum() > 0
    assert deadline.rounds["beacons"].sum() == 0
    spared = 120 * beacon.rounds["beacons"].sum()  # the header of every beacon
    assert beacon.rounds["bits_up"].sum() - deadline.rounds["bits_up"].sum() == spared
    quiet = deadline.rounds["transmissions"] < 5
    lasted = deadline.rounds["t"].diff().fillna(deadline.rounds["t"])
    assert np.allclose(lasted[quiet], 1.0)  # nobody can tell silence from slowness before
    assert (lasted[~quiet] < 1.0).all()


def test_replies_that_miss_the_deadline_count_for_the_next_round() -> None:
    """LTE clients need 70 ms and the deadline is at 50 ms: their news is a round old."""
    result = fedsim.run(small(silence={"kind": "deadline", "after": "50 ms"}))
    late = result.events[result.events["event"] == "late"]
    assert set(late["node"].astype(str)) == {"client-0", "client-1", "client-2"}
    assert set(late["detail"].astype(str)) == {"kept for the next round"}
    assert (result.summary["status"] == "done").all()
    assert result.rounds["objective"].iloc[-1] < result.rounds["objective"].iloc[0]


KILLED = """
import fedsim, os, sys, json
def watch(job, number, objective, gap):
    if number == 200:
        os.kill(os.getpid(), 9)
fedsim.run(json.loads(sys.argv[1]), out=sys.argv[2], watch=watch)
"""


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

    async def handle(self, client: Client, message: Any) -> Any:
        if client.now > 0.1:
            raise ZeroDivisionError("a defect")
        return await super().handle(client, message)


class Wild(GradientDescent):
    """An algorithm whose first model is not finite."""

    kind: Literal["wild"] = "wild"  # type: ignore[assignment]

    async def serve(self, server: Server) -> None:
        server.commit(np.full_like(server.initial, np.nan))


def test_a_run_without_a_finite_round_has_an_empty_table() -> None:
    scenario = small(
        algorithm={"kind": "wild", "step_size": "1/L"},
        variants={"calm": {"algorithm": {"kind": "gd", "step_size": "1/L"}}},
    )
    result = fedsim.run(scenario, algorithms=[Wild])
    assert result.summary["status"].tolist() == ["diverged", "done"]
    assert "no round was finite" in result.summary["reason"][0]
    assert list(result.rounds["variant"].unique()) == ["calm"]
    assert read_run(result.runs[0], "rounds").empty


def test_an_algorithm_of_one_s_own_runs_by_its_kind_and_its_errors_are_its_own(
    tmp_path: Path,
) -> None:
    scenario = small(algorithm={"kind": "broken", "step_size": "1/L"})
    with pytest.raises(ZeroDivisionError, match="a defect"):
        fedsim.run(scenario, out=tmp_path, algorithms=[Broken])
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
            algorithms=[Broken],
        )
    assert not (tmp_path / "base/seed-1/summary.json").exists()


def test_a_result_has_its_own_runs_only_whatever_else_is_in_the_folder(tmp_path: Path) -> None:
    fedsim.run(small(seeds=2, variants={"old": {"seed": 7}}), out=tmp_path)
    result = fedsim.run(small(), out=tmp_path)
    assert len(run_folders(tmp_path)) == 4
    assert result.summary[["variant", "seed"]].to_numpy().tolist() == [["base", 1]]
    assert len(result.rounds) == 30


def test_tables_keep_the_order_of_the_scenario() -> None:
    variants = {name: {"stop": {"rounds": 2}} for name in ("zeta", "alpha", "mid")}
    result = fedsim.run(small(variants=variants))
    assert result.summary["variant"].tolist() == ["base", "zeta", "alpha", "mid"]
    assert list(result.rounds["variant"].unique()) == ["base", "zeta", "alpha", "mid"]


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        ({"rounds": 3}, "rounds"),
        ({"gap": 1e3}, "gap"),
        ({"time": "1 s"}, "time"),
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
        "time": result.rounds["t"] >= 1.0,
        "bits": totals["bits_up"] + totals["bits_down"] >= 20e3,
        "energy": totals["joules"] >= 5.0,
    }
    assert limits[reason].tolist() == [False] * (len(result.rounds) - 1) + [True]


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
    with pytest.raises(fedsim.ScenarioError, match=r"problem\.loss"):
        fedsim.run(small(problem=problem))


def test_variants_share_what_is_random() -> None:
    """The split is drawn alike, so two variants that differ in nothing are one run."""
    result = fedsim.run(small(variants={"twin": {"name": "twin"}}))
    base, twin = (
        frame.drop(columns="variant").reset_index(drop=True)
        for _, frame in result.rounds.groupby("variant", sort=False, observed=True)
    )
    pd.testing.assert_frame_equal(base, twin)
