"""FedSGM's paper in a reduced form: what the script makes of its runs, and the claim."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

import fedsim
from tests.scripts import script

pytestmark = pytest.mark.slow

paper = script("papers/fedsgm")


def text(table: Any) -> str:
    """Return a table as it is printed."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def test_soft_switching_breaks_the_constraint_in_about_a_quarter_of_the_rounds(
    tmp_path: Path,
) -> None:
    (counts, spent), finding = paper.run("switching", tmp_path / "runs", ["seeds=1"], tmp_path)
    result = fedsim.run(paper.SCENARIO, out=tmp_path / "runs/switching", overrides=["seeds=1"])
    broken = paper.ends(result.rounds).set_index("variant")["broken"]
    for name in paper.KEPT:
        assert 2.5 < broken[paper.HARD[name]] / broken[paper.SOFT[name]] < 6
    last = result.rounds.groupby("variant")[["objective", "constraint"]].last()
    assert (last["constraint"] < 0.11).all()
    assert (last["objective"] < 0.06).all()  # 0.69 at the start
    for variant in paper.HARD.values():
        assert f"{broken[variant]:.1f}" in text(counts)
    assert "LTE" not in finding
    assert "hard, k/d = 0.1" in text(spent)
    assert {file.name for file in tmp_path.glob("*.png")} == {"fedsgm-f.png", "fedsgm-g.png"}


def test_costs_of_rounds_add_up_to_those_of_runs() -> None:
    rounds = pd.DataFrame(
        {
            "variant": ["base"] * 3 + ["soft-10"] * 2,
            "seed": 1,
            "round": [1, 2, 3, 1, 2],
            "t": [3.0, 4.0, 6.0, 1.0, 5.0],
            "joules": [1.0, 1.0, 2.0, 7.0, 8.0],
            "bits_up": [10, 10, 10, 5, 5],
            "bits_down": [1, 2, 3, 0, 1],
            "violated": [1, 0, 1, 0, 1],
        }
    )
    table = paper.costs(rounds)
    assert table.loc["base", list(paper.COSTS)].tolist() == [3, 36, 6.0, 4.0]
    assert table.loc["soft-10", list(paper.COSTS)].tolist() == [2, 11, 5.0, 15.0]
    broken = [f"broken {cost}" for cost in paper.COSTS]
    assert table.loc["base", broken].tolist() == [2, 24, 5.0, 3.0]
    assert table.loc["soft-10", broken].tolist() == [1, 6, 4.0, 8.0]


def test_the_steps_are_swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "STEPS", (0.1, 0.3))
    overrides = ["seeds=2", "stop.rounds=6"]
    (table,), finding = paper.run("steps", tmp_path / "runs", overrides, tmp_path)
    assert not finding
    rows = [line.split() for line in text(table).splitlines()]
    assert [row[:2] for row in rows if row and row[0] in {"0.1", "0.3"}] == [
        [step, kept] for step in ("0.1", "0.3") for kept in ("0.1", "0.5", "1")
    ]
    assert (tmp_path / "fedsgm-steps.png").read_bytes().startswith(b"\x89PNG")
