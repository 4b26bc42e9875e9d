"""The claims of further methods in a reduced form: what the script makes of its runs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

import fedsim
from tests.scripts import script

pytestmark = pytest.mark.slow

paper = script("papers/further")


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask each claim at two values of what varies, one step size each, and at a large gap."""
    monkeypatch.setattr(paper, "TARGET", 0.03)
    few = {}
    for part, claim in paper.CLAIMS.items():
        values = sorted({case.x for case in claim.cases})[:2]
        cases = (replace(case, tuned=case.tuned[:1]) for case in claim.cases if case.x in values)
        few[part] = replace(claim, cases=tuple(cases))
    monkeypatch.setattr(paper, "CLAIMS", few)


def text(*parts: Any) -> str:
    """Return what a console shows."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(*parts, sep="\n")
    return capture.get()


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("part", paper.PARTS)
def test_a_part_says_what_is_published_and_what_was_measured(part: str, tmp_path: Path) -> None:
    (table,), said = paper.run(part, tmp_path / "runs", ["seeds=1"], tmp_path)
    shown = text(table)
    for case in paper.CLAIMS[part].cases:
        assert case.method in shown
    assert said.startswith("Published: ")
    assert "Measured" in said
    assert "nan" not in said
    assert (tmp_path / f"further-{part}.png").read_bytes().startswith(b"\x89PNG")


def test_every_scenario_is_right_as_it_stands() -> None:
    for part in paper.PARTS:
        fedsim.load(paper.SCENARIOS / f"further-{part}.yaml")


def test_a_cost_that_goes_as_a_power_has_its_exponent() -> None:
    table = pd.DataFrame({"method": "M", "x": [1.0, 4.0, 16.0], "round": [3.0, 6.0, 12.0]})
    (said,) = [paper.exponents("round", "rounds", "x")(table)]
    assert said == "Measured: rounds go as a power of x of 0.50 for M."


def test_what_compressions_cost_is_held_against_the_sum_and_the_product() -> None:
    rounds = {"neither": 100, "up": 200, "down": 300, "both": 420}
    table = pd.DataFrame({"method": list(rounds), "x": 3.0, "round": list(rounds.values())})
    assert "420 rounds, where a sum gives 400 and a product 600" in paper.additive(table)


def test_of_what_is_tuned_the_fewest_rounds_count(tmp_path: Path) -> None:
    case = paper.Case("descent", 1.0, ("seeds=1",), paper.steps([0.5, 1]))
    best = paper.spent(case, "scaffnew", tmp_path, [])
    alone = paper.spent(replace(case, tuned=case.tuned[1:]), "scaffnew", tmp_path, [])
    assert best == alone
    assert best["tuned"] == "1/L_max"


def test_who_does_not_get_there_has_no_costs(tmp_path: Path) -> None:
    case = paper.CLAIMS["scaffnew"].cases[0]
    best = paper.spent(case, "scaffnew", tmp_path, ["stop.rounds=2"])
    assert pd.isna(best["round"])
    assert " - " in text(paper.shown(pd.DataFrame([best]), "scaffnew"))
