"""FedSGM beyond its figures in a reduced form: what the script makes of its runs."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

import fedsim
from tests.scripts import script

pytestmark = pytest.mark.slow

paper = script("papers/fedsgm_theory")


def text(table: Any) -> str:
    """Return a table as it is printed."""
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")
@pytest.mark.parametrize("part", paper.PARTS)
def test_a_part_says_what_is_published_and_what_was_measured(part: str, tmp_path: Path) -> None:
    overrides = ["seeds=1", "stop.rounds=12"]
    if part == "theory":
        overrides += [f"variants.{name}.stop.rounds=15" for name in ("long", "soft-long")]
    (table,), said = paper.run(part, tmp_path, overrides, tmp_path)
    assert (tmp_path / f"fedsgm-{part}.png").read_bytes().startswith(b"\x89PNG")
    shown = text(table)
    assert all(label in shown for label in paper.LABELS[part].values())
    assert said.startswith("Published")
    assert "Measured" in said
    plan = fedsim.load(paper.SCENARIOS / f"fedsgm-{part}.yaml")
    assert {variant.name for variant in plan.variants} == set(paper.LABELS[part])


def test_the_theory_s_steps_keep_what_the_theorem_promises(tmp_path: Path) -> None:
    """The mean of the near-feasible models has g <= eps."""
    out, path = tmp_path / "runs", paper.SCENARIOS / "fedsgm-theory.yaml"
    overrides = ["seeds=1", *(f"variants.{name}.stop.rounds=20" for name in ("long", "soft-long"))]
    ends = paper.ends(fedsim.run(path, out=out, overrides=overrides))
    own = ends.set_index("variant").loc[["base", "soft", "compressed"]]
    assert (own["constraint"] <= own["tolerance"]).all()


def table(constraint: float) -> pd.DataFrame:
    """Return the ends of two runs."""
    return pd.DataFrame(
        {
            "variant": ["base", "soft"],
            "seed": 1,
            "broken": [12, 3],
            "objective": [0.1, 0.2],
            "constraint": [0.1, constraint],
            "tolerance": [0.2, 0.4],
        }
    )


def test_the_ratio_is_that_of_rounds_that_broke_the_constraint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paper, "PAIRS", {"theory": (("base", "soft"),)})
    (said,) = paper.ratios(table(0.1), "theory")
    assert said == "4.0 times fewer (theory, hard, mean), f 2.0 times as high"


def test_a_promise_that_is_broken_is_said() -> None:
    assert "NOT" not in paper.promised(table(0.4))
    assert "does NOT hold" in paper.promised(table(0.41))
