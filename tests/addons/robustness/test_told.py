"""Where the doubt is told beside: `compare`, the report, and the example that designs."""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.results.analysis import Comparison
from fedsim.results.analysis.compare.caveats import read_doubts, seal_tables
from tests.addons.robustness.test_robust import FLEET, study
from tests.conftest import ROOT
from tests.scripts import script


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study with its robustness, in which one verdict is made unsure."""
    runs = tmp_path_factory.mktemp("asked") / "runs"
    fedsim.run(study(seeds=1), out=runs)
    place = runs / "robustness"
    known = fedsim.robust(runs, worlds=40)
    known.write(place)
    table = pd.read_csv(place / "verdicts.csv")
    one = (table["variant"] == "gd") & (table["against"] == "chb") & (table["cost"] == "joules")
    table.loc[one, ["typical", "probability"]] = 0.63
    table.to_csv(place / "verdicts.csv", index=False)
    seal_tables(place, known.runs)
    return runs


@pytest.fixture
def folder(asked: Path, tmp_path: Path) -> Path:
    """The same, to be changed."""
    return Path(shutil.copytree(asked, tmp_path / "runs"))


def told(folder: Path) -> list[str]:
    return [note for note in Comparison.of([folder]).notes if "see fedsim robust" in note]


@pytest.mark.slow
def test_compare_says_which_verdict_is_fragile(folder: Path) -> None:
    sentences = told(folder)
    worlds = pd.read_csv(folder / "robustness" / "verdicts.csv")["worlds"].max()
    wanted = f"gd takes fewer joules than chb in only 63 % of {worlds} worlds: see fedsim robust"
    assert wanted in sentences
    assert not [each for each in sentences if "less time" in each and "only 63 %" in each]


def test_compare_says_what_is_close_where_nobody_has_looked(tmp_path: Path) -> None:
    louder = [{**FLEET[0], "radio": {"kind": "lte", "tail_power": "1.1 W"}}, FLEET[1]]
    near = {"louder": {"fleet": louder}}
    fedsim.run(study(seeds=1, stop={"rounds": 19}, variants=near), out=tmp_path)
    costs = Comparison.of([tmp_path]).cases[0].costs
    ratio = costs["joules"].max() / costs["joules"].min()
    assert 1.01 < ratio < 1.1
    said = "differ by less than 10 % in energy; the constants are less certain than that"
    assert any(said in each for each in told(tmp_path))


@pytest.mark.slow
def test_verdicts_of_another_target_are_not_told(folder: Path) -> None:
    comparison = Comparison.of([folder], ["objective=1e9"])
    assert not [note for note in comparison.notes if "only 63 %" in note]


def flip_a_digit(path: Path) -> None:
    content = path.read_bytes()
    place = content.rindex(b"6")
    path.write_bytes(content[:place] + b"7" + content[place + 1 :])


@pytest.mark.parametrize("name", ["verdicts.csv", "deciding.csv", "sealed.json"])
@pytest.mark.parametrize("damage", [flip_a_digit, lambda path: path.write_bytes(b"\x00\xff")])
def test_damaged_tables_of_robust_are_not_taken_for_an_answer(
    name: str, damage: Callable[[Path], object], folder: Path
) -> None:
    damage(folder / "robustness" / name)
    comparison = Comparison.of([folder])
    said = [note for note in comparison.notes if "tables that are damaged" in note]
    wrong = f"{folder / 'robustness'} has tables that are damaged, or of another version"
    assert said == [f"{wrong}: repeat fedsim robust"]
    assert not [note for note in comparison.notes if "only 63 %" in note]
    assert read_doubts(comparison.runs, str(comparison.cases[0].target)) is None


def test_tables_without_a_seal_are_not_taken_for_an_answer(folder: Path) -> None:
    (folder / "robustness" / "sealed.json").unlink()
    notes = Comparison.of([folder]).notes
    assert any("of another version" in note for note in notes)
    assert not any("only 63 %" in note for note in notes)


def test_tables_of_runs_that_were_made_again_are_not_taken_for_an_answer(folder: Path) -> None:
    """Or of fewer runs than there are; some of the runs they are of may be compared alone."""
    some = Comparison.of([folder / name for name in ("chb", "gd")])
    assert not any("made again since" in note for note in some.notes)
    fedsim.run(study(seeds=2), out=folder)
    notes = Comparison.of([folder]).notes
    wanted = f"{folder / 'robustness'} is about runs that have been repeated since"
    assert f"{wanted}: repeat fedsim robust" in notes
    assert not any("only 63 %" in note for note in notes)


@pytest.mark.slow
def test_the_report_has_a_section(folder: Path) -> None:
    page = fedsim.open(folder).report().read_text(encoding="utf-8")
    assert "worlds (sets of uncertain constants)" in page
    assert "63\N{NO-BREAK SPACE}%" in page


@pytest.mark.slow
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


@pytest.fixture(scope="module")
def sureness() -> Any:
    """The script about our own claims, whose modules lie beside it."""
    sys.path.insert(0, str(ROOT / "analysis"))
    yield script("claim_robustness")
    sys.path.remove(str(ROOT / "analysis"))


def lines_of(page: Path) -> list[str]:
    """Return the rows of a page's table."""
    lines = page.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("| ") and not line.startswith("| study")]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::fedsim.TheoryWarning")  # steps that are too long, and so on
def test_claims_are_told_with_their_probability(
    sureness: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {"front page", "best by radio, wifi", "best by radio, nb-iot", "FedExProx, mu = 20"}
    asked = [study for study in (*sureness.STUDIES, *sureness.PAPERS) if study.title in some]
    monkeypatch.setattr(sureness, "STUDIES", asked)
    monkeypatch.setattr(sureness, "PAPERS", ())
    page = tmp_path / "claim_robustness.md"
    words = ["--rounds", "3", "--worlds", "20", "--made", "1", "--out", tmp_path / "runs"]
    words += ["--page", page]
    sureness.main(list(map(str, words)))
    told = [line.split("|")[1].strip() for line in lines_of(page)]
    claims = sum(len(study.claims) for study in asked)
    assert told[:claims] == [study.title for study in asked for _ in study.claims]
    assert told[claims:][0] == "claim"
    assert {line.split("|")[2].strip() for line in lines_of(page)[claims + 1 :]} <= {"0", "1"}
    assert sum("of all |" in line for line in lines_of(page)) == 4


def test_every_claim_stands_on_the_page(sureness: Any) -> None:
    wanted = [study.title for study in (*sureness.STUDIES, *sureness.PAPERS) for _ in study.claims]
    told = [line.split("|")[1].strip() for line in lines_of(sureness.PAGE)]
    assert told[: len(wanted)] == wanted
    assert len(told) == len(wanted) + 8  # who dies first
    claims = [claim for each in (*sureness.STUDIES, *sureness.PAPERS) for claim in each.claims]
    said = [line.split("|")[2].strip() for line in lines_of(sureness.PAGE)][: len(claims)]
    for words, (variant, against, cost) in zip(said, claims, strict=True):
        assert words.startswith(f"{variant} ")
        assert ("time" if cost == "t" else "joules") in words
        assert f"than {against}" in words if against else words.endswith(" of all")
