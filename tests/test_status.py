"""How far a study is, by its folder, and what a shard's command says."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.record.folder import SUMMARY
from fedsim.running.folder import Status, status
from fedsim.running.run import RunProgress
from tests.runs import small

SWEPT: dict[str, Any] = small(sweep={"algorithm.censor": [0.01, 0.1]}, seeds=3, stop={"rounds": 3})


def fedsim_said(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(SWEPT))  # which is YAML
    return path


def counts(out: Path) -> list[tuple[int, ...]]:
    return [
        tuple(map(len, (each.done, each.running, each.failed, each.pending)))
        for each in status(out).variants
    ]


def test_while_it_goes_on_it_is_said_what_goes_on(tmp_path: Path) -> None:
    seen: list[Status] = []

    def watch(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.round == 2 and not reached.ended:
            seen.append(status(tmp_path))

    fedsim.run(SWEPT, out=tmp_path, watch=watch)
    assert [(each.done, each.running, each.pending) for each in seen[0].variants] == [
        ((1,), (2,), (3,)),
        ((1,), (), (2, 3)),
    ]
    assert seen[0].held
    assert seen[0].seconds > 0
    assert [(each.done, each.running, each.pending) for each in seen[1].variants] == [
        ((1, 2), (), (3,)),
        ((1,), (2,), (3,)),
    ]
    assert counts(tmp_path) == [(3, 0, 0, 0)] * 2


def test_what_was_cut_off_is_left_and_what_has_failed_says_why(tmp_path: Path) -> None:
    def cut_off(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.round:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(SWEPT, out=tmp_path, watch=cut_off)
    assert counts(tmp_path) == [(1, 0, 0, 2)] * 2

    def failing(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.variant == "censor-0.1" and reached.round:
            raise ZeroDivisionError("of somebody's own")

    with pytest.raises(ZeroDivisionError, match="of somebody's own"):
        fedsim.run(SWEPT, out=tmp_path, watch=failing)
    assert counts(tmp_path) == [(3, 0, 0, 0), (2, 0, 1, 0)]
    said = fedsim_said("status", tmp_path)
    assert said.exit_code == 0
    assert "censor-0.1, seed 2: of somebody's own" in said.output
    fedsim.run(SWEPT, out=tmp_path)
    assert counts(tmp_path) == [(3, 0, 0, 0)] * 2


def test_several_that_fail_are_named_together(tmp_path: Path) -> None:
    def failing(reached: RunProgress) -> None:
        if reached.seed == 2 and reached.round:
            raise ZeroDivisionError(f"in {reached.variant}")

    with pytest.raises(fedsim.RunError) as caught:
        fedsim.run(SWEPT, out=tmp_path, watch=failing)
    head, *told = str(caught.value).splitlines()
    assert head.startswith("2 of 6 runs have failed; the others are complete, and the same command")
    assert told == [
        "censor-0.01, seed 2: in censor-0.01",
        "censor-0.1, seed 2: in censor-0.1",
    ]
    assert counts(tmp_path) == [(2, 0, 1, 0)] * 2


def test_a_clock_that_jumps_is_not_believed(tmp_path: Path) -> None:
    fedsim.run(SWEPT, out=tmp_path)
    day, year = 86_400, 365 * 86_400
    ends = {1: -80 * year, 2: 60, 3: 90 * year}
    for scenario in tmp_path.glob("censor-0.01/*/scenario.yaml"):
        seed = int(scenario.parent.name[-1])
        os.utime(scenario, (day, day))
        os.utime(scenario.parent / SUMMARY, (day + ends[seed], day + ends[seed]))
        if seed == 3:
            os.utime(scenario, (day, day + ends[seed] - 60))
    shutil.rmtree(tmp_path / "censor-0.1")
    found = status(tmp_path)
    assert found.variants[0].seconds == 60
    assert found.seconds == 3 * 60
    os.utime(tmp_path / "censor-0.01/seed-3/scenario.yaml", (day, day))  # it lasted 90 years
    assert fedsim_said("status", tmp_path).exit_code == 0


@pytest.mark.slow
def test_shards_are_made_one_by_one_and_a_scenario_says_what_is_left(
    scenario: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert (
        fedsim_said("status", scenario, "--out", out)
        .output.rstrip()
        .endswith("no process is running: repeat the command to resume")
    )
    said = fedsim_said("run", scenario, "--out", out, "--shard", "1/4")
    assert said.exit_code == 0, said.output
    assert "shard 1/4: 2 of the runs are in" in said.output
    assert len(list(out.rglob(SUMMARY))) == 2
    said = fedsim_said("status", scenario, "--out", out)
    assert re.search(r"all +2 +0 +0 +4", said.output)
    assert fedsim_said("compare", out).exit_code == 0
    for number in (2, 3, 4):
        assert fedsim_said("run", scenario, "--out", out, "--shard", f"{number}/4").exit_code == 0
    assert "all runs have ended" in fedsim_said("status", out).output
    empty = fedsim_said("run", scenario, "--out", out, "--shard", "9/9")
    assert empty.exit_code == 0
    assert "0 of the runs" in empty.output


@pytest.mark.parametrize("words", [("--shard", "5/4"), ("--jobs", "2", "--cluster", "local:2")])
def test_what_cannot_be_is_refused_in_a_line(
    words: tuple[str, ...], scenario: Path, tmp_path: Path
) -> None:
    said = fedsim_said("run", scenario, "--out", tmp_path / "out", *words)
    assert said.exit_code == 2
    assert len(said.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_of_no_study_is_refused(tmp_path: Path) -> None:
    said = fedsim_said("status", tmp_path)
    assert said.exit_code == 2
    assert "holds no study" in said.stderr
