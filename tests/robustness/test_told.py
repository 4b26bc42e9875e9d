"""Where the doubt is told beside: `compare`, the report, and the example that designs."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.analysis import Comparison
from fedsim.errors import DataError
from tests.robustness.test_robust import study
from tests.scripts import script


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A finished study with its robustness, in which one verdict is made unsure."""
    fedsim.run(study(seeds=1), out=tmp_path / "runs")
    place = tmp_path / "runs" / "robustness"
    fedsim.robust(tmp_path / "runs", worlds=40).write(place)
    table = pd.read_csv(place / "verdicts.csv")
    one = (table["variant"] == "gd") & (table["against"] == "chb") & (table["cost"] == "joules")
    table.loc[one, "probability"] = 0.63
    table.to_csv(place / "verdicts.csv", index=False)
    return tmp_path / "runs"


def told(folder: Path) -> list[str]:
    return [note for note in Comparison.of([folder]).notes if "see fedsim robust" in note]


def test_compare_says_which_verdict_is_fragile(folder: Path) -> None:
    sentences = told(folder)
    worlds = pd.read_csv(folder / "robustness" / "verdicts.csv")["worlds"].max()
    wanted = f"gd takes fewer joules than chb in 63 % of {worlds} worlds alone: see fedsim robust"
    assert wanted in sentences
    assert not [each for each in sentences if "less time" in each and "63 %" in each]


def test_compare_says_what_is_close_where_nobody_has_looked(tmp_path: Path) -> None:
    near = {"gd": {"algorithm": {"kind": "gd", "step_size": "0.5/L"}}}
    fedsim.run(study(seeds=1, variants=near), out=tmp_path)
    costs = Comparison.of([tmp_path]).cases[0].costs
    ratio = costs["joules"].max() / costs["joules"].min()
    assert 1 < ratio < 1.1
    assert any("fewer joules of" in each and "within 10 %" in each for each in told(tmp_path))


def test_verdicts_of_another_target_are_not_told(folder: Path) -> None:
    comparison = Comparison.of([folder], ["objective=1e9"])
    assert not [note for note in comparison.notes if "63 %" in note]


def test_a_table_that_is_none_is_a_readable_error(folder: Path) -> None:
    (folder / "robustness" / "verdicts.csv").write_bytes(b"\x00\xff")
    with pytest.raises(DataError, match="is no table of fedsim robust"):
        _ = Comparison.of([folder]).notes


def test_the_report_has_a_section(folder: Path) -> None:
    page = fedsim.open(folder).report().read_text(encoding="utf-8")
    assert "worlds of the constants&#39; doubt" in page
    assert "63 %" in page


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # one threshold is beyond it
def test_designs_are_ranked_with_their_doubt(tmp_path: Path, capsys: Any) -> None:
    designing = script("designing")
    figure = tmp_path / "designing.png"
    words = ["--rounds", "8", "--worlds", "40", "--out", tmp_path / "runs", "--figure", figure]
    designing.main(list(map(str, words)))
    assert "designs, the cheapest in energy first" in capsys.readouterr().out
    assert figure.read_bytes().startswith(b"\x89PNG")
    known = fedsim.robust(tmp_path / "runs", worlds=40)
    table = designing.designs(known, 1e-9)
    assert len(table) == 12
    assert (table["within"] == 0).all()
    assert (designing.designs(known, 1e9)["within"] == 1).all()
    assert (table["joules_low"] <= table["joules"]).all()
    assert (table["joules"] <= table["joules_high"]).all()
    assert table["joules"].is_monotonic_increasing


@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # one study censors beyond it
def test_claims_are_told_with_their_probability(tmp_path: Path) -> None:
    sureness, page = script("sureness"), tmp_path / "sureness.md"
    words = ["--rounds", "3", "--worlds", "20", "--out", tmp_path / "runs", "--page", page]
    sureness.main(list(map(str, words)))
    lines = page.read_text(encoding="utf-8").splitlines()
    claims = [claim for study in sureness.STUDIES for claim in study.claims]
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| study")]
    assert len(rows) == len(claims)
    published = sureness.PAGE.read_text(encoding="utf-8").splitlines()
    titles = [line.split("|")[1:3] for line in rows]
    assert [line.split("|")[1:3] for line in published if line.startswith("| ")][1:] == titles
