"""A scenario from its text to its folders and tables."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.problems import Problem
from fedsim.results.record.read import run_folders
from fedsim.results.record.schema import ARROW_SCHEMA
from fedsim.running.run import RunProgress
from fedsim.scenario import ProblemSpec
from fedsim.scenario.building.evaluation import problem_of
from tests.runs import SMALL, files, small


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
            "clients.parquet", "events.parquet", "manifest.json", "models.parquet",
            "rounds.parquet", "scenario.yaml", "summary.json",
        ]  # fmt: skip
        assert list(pd.read_parquet(folder / "events.parquet").columns) == ARROW_SCHEMA.names


def test_the_tables_of_a_result_are_frames_of_all_runs() -> None:
    result = fedsim.run(small(seeds=2))
    assert result.rounds["round"].tolist() == 2 * [*range(31)]
    assert len(result.clients) == 2 * 5
    assert result.summary["seed"].tolist() == [1, 2]
    assert result.events["variant"].unique().tolist() == ["base"]
    assert isinstance(result.events["event"].dtype, pd.CategoricalDtype)


def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        fedsim.run(small(), out=tmp_path / name)
    assert files(tmp_path / "one") == files(tmp_path / "two")


def test_rounds_are_in_the_folder_while_a_run_goes_on(tmp_path: Path) -> None:
    seen: dict[int, int] = {}

    def look(progress: RunProgress) -> None:
        parts = tmp_path / "base/seed-1/rounds.parts"
        seen[progress.round] = sum(len(pd.read_feather(each)) for each in parts.glob("*.arrow"))

    fedsim.run(small(stop={"rounds": 100}), out=tmp_path, watch=look)
    assert seen[63] == 0
    assert seen[64] == seen[99] == 64  # of these the first is the start


def test_another_seed_splits_the_rows_another_way() -> None:
    result = fedsim.run(small(seeds=2))
    objectives = result.rounds.groupby("seed")["objective"].last()
    assert objectives.nunique() == 2


PROGRAM = """
import sys, fedsim, json
out = fedsim.run(json.loads(sys.argv[1]), out=sys.argv[2]).folder
print(json.loads((out / "base/seed-1/manifest.json").read_text())["events"]["sha256"])
"""


@pytest.mark.slow
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


def test_a_result_has_its_own_runs_only_whatever_else_is_in_the_folder(tmp_path: Path) -> None:
    fedsim.run(small(seeds=2, variants={"old": {"seed": 7}}), out=tmp_path)
    result = fedsim.run(small(), out=tmp_path)
    assert len(run_folders(tmp_path)) == 4
    assert result.summary[["variant", "seed"]].to_numpy().tolist() == [["base", 1]]
    assert len(result.rounds) == 31


def test_tables_keep_the_order_of_the_scenario() -> None:
    variants = {name: {"stop": {"rounds": 2}} for name in ("zeta", "alpha", "mid")}
    result = fedsim.run(small(variants=variants))
    assert result.summary["variant"].tolist() == ["base", "zeta", "alpha", "mid"]
    assert list(result.rounds["variant"].unique()) == ["base", "zeta", "alpha", "mid"]


def test_variants_share_what_is_random() -> None:
    """The split is drawn alike, so two variants that differ in nothing are one run."""
    result = fedsim.run(small(variants={"twin": {"name": "twin"}}))
    base, twin = (
        frame.drop(columns="variant").reset_index(drop=True)
        for _, frame in result.rounds.groupby("variant", sort=False, observed=True)
    )
    pd.testing.assert_frame_equal(base, twin)


def test_the_data_of_a_seed_are_built_once_for_all_variants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[int] = []

    def counted(spec: ProblemSpec, clients: int | None, seed: int, *others: Any) -> Problem:
        built.append(seed)
        return problem_of(spec, clients, seed, *others)

    monkeypatch.setattr("fedsim.scenario.building.builder.problem_of", counted)
    variants = {name: {"name": name} for name in ("one", "two")}
    result = fedsim.run(small(stop={"rounds": 1}, variants=variants, seeds=3))
    assert built == [1, 2, 3]
    order = [[name, seed] for name in ("base", "one", "two") for seed in (1, 2, 3)]
    assert result.summary[["variant", "seed"]].to_numpy().tolist() == order
