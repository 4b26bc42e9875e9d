"""What `fedsim check` says of a whole study: how many runs, what differs, what a round costs."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.running import check as checking

STUDY = """\
name: small study
problem:
  loss: {kind: squared, scale: sum, l2: 1}
  data: {kind: sklearn, name: diabetes}
algorithm: {kind: chb, step_size: 1/L}
fleet: [{count: 3, device: phone-mid, radio: lte}]
stop: {rounds: 20}
seeds: 5
variants:
  gd: {algorithm: gd}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path


def check(file: Path, *arguments: str) -> list[str]:
    result = CliRunner().invoke(app, ["check", str(file), *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.slow
def test_the_first_line_counts_the_runs(file: Path) -> None:
    valid, first = check(file)[:2]
    assert valid == f"{file} is valid"
    assert first.startswith("small study: 2 variants x 5 seeds = 10 runs, a")
    assert "stop.rounds" not in first
    one = check(file, "--set", "variants={}", "--set", "seeds=1", "--set", "stop.gap=1e-3")[1]
    assert one.startswith("small study: 1 variant x 1 seed = 1 run, a")
    assert one.endswith(", or less if a stop rule ends runs early")


def test_then_come_the_costs_of_a_round_and_what_differs(file: Path) -> None:
    lines = check(file)
    assert len(lines) <= 40  # a screen
    differs = next(n for n, line in enumerate(lines) if "differs from base in" in line)
    costs = next(n for n, line in enumerate(lines) if "costs of a round, all clients" in line)
    split = next(n for n, line in enumerate(lines) if "split contiguous" in line)
    assert costs < differs < split
    assert "gd" in lines[differs + 3]
    assert "algorithm.kind: gd" in lines[differs + 3]
    assert [line.split()[0] for line in lines[costs + 4 : costs + 6]] == ["base", "gd"]
    assert any(line.startswith("Not included: computation") for line in lines)


def test_details_come_after_the_same_lines(file: Path) -> None:
    brief, full = check(file), check(file, "--details")
    assert full[2 : len(brief) - 1] == brief[2:-1]  # the first line has the time that it takes
    assert sum("round 2, all clients" in line for line in full) == 2  # of each variant
    assert any(line.split()[:1] == ["upload"] for line in full)


@pytest.mark.slow
def test_of_many_variants_one_is_shown_in_full(file: Path) -> None:
    swept = ["--set", "sweep={algorithm.step_size: {linear: [0.001, 0.002, 8]}}"]
    lines = check(file, "--set", "variants={}", *swept)
    assert lines[1].startswith("small study: 8 variants x 5 seeds = 40 runs")
    assert sum("step_size = " in line for line in lines) == 1
    assert sum("algorithm.step_size: 0.00" in line for line in lines) == 7


def test_the_command_prints_what_is_found_in_python(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fedsim.check(file)
    monkeypatch.setattr(checking, "check_plan", lambda plan: found)
    lines = check(file)
    assert lines[1] == found.title
    told = repr(found).splitlines()
    assert [line.rstrip() for line in lines if line.startswith((" base  ", " gd  "))][:2] == [
        line for line in told if line.startswith((" base  ", " gd  "))
    ]
