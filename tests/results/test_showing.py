"""A result shows itself, draws, compares and reports; its folder stays as long as the session."""

import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import fedsim
from tests.conftest import ROOT
from tests.runs import small

VARIANTS = {"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    scenario = small(variants=VARIANTS, stop={"rounds": 30}, measures=["sparsity"])
    return fedsim.run(scenario, out=tmp_path_factory.mktemp("runs"))


def cells(page: str) -> list[str]:
    found = [unescape(cell) for cell in re.findall(r"<t[hd] [^>]*>([^<]*)<", page)]
    return [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in found]


@pytest.mark.slow
def test_print_and_a_notebook_show_the_same_tables(result: fedsim.Result) -> None:
    text, page = repr(result), result._repr_html_()
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines()]
    rows = [line for line in lines if line[0] in ("variant", "base (chb)", "gd")]
    assert [row[0] for row in rows] == 2 * ["variant", "base (chb)", "gd"]  # costs, outcomes
    # A cell without text, as that of no beacons, is no cell between the spaces of a terminal.
    assert list(filter(None, cells(page))) == [cell for row in rows for cell in row]
    rounds = result.summary["rounds"].map("{:,}".format).tolist()
    assert [row[1] for row in rows[1:3]] == rounds
    assert [row[-1] for row in rows[4:]] == result.summary["reason"].tolist()
    assert f"2 runs in {result.folder}" in text
    assert f"2 runs in {result.folder}" in page


@pytest.mark.slow
def test_the_figure_of_a_notebook_is_in_the_page(result: fedsim.Result) -> None:
    page = result._repr_html_()
    assert page.count("data:image/png;base64,") == 1
    assert "max-width: 100%" in page
    assert len(page) < 200_000


@pytest.mark.slow
def test_what_users_named_is_no_markup() -> None:
    result = fedsim.run(small(name="<b>[bold]x[/bold]", stop={"rounds": 1}))
    page = result._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;[bold]x[/bold]" in page
    assert "<b>[bold]x[/bold]: cost" in repr(result)


def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    result = fedsim.run(small(stop={"rounds": 1}), out=tmp_path / "runs")
    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    assert "cannot be read" in repr(result)


def test_it_draws_what_it_is_asked_for(result: fedsim.Result) -> None:
    figure = result.plot()
    assert len(figure.axes) == 4
    assert {axis.get_yscale() for axis in figure.axes} == {"log"}
    (axis,) = result.plot("nonzeros", "joules").axes
    assert axis.get_ylabel() == "nonzeros"
    assert re.fullmatch(r"energy \([kMm]?J\); thin line: until radios sleep", axis.get_xlabel())
    rounds = result.rounds[result.rounds["variant"] == "gd"]
    line, tail = axis.get_lines()[2:]
    assert (line.get_label(), tail.get_label()) == ("gd", "_tail")
    spent = rounds["joules"].sum()
    until_asleep = spent + rounds["joules_after"].iloc[-1]
    assert line.get_xdata()[-1] == pytest.approx(spent)  # type: ignore[index]
    assert np.allclose(np.asarray(tail.get_xdata(), float), [spent, until_asleep])
    assert np.array_equal(line.get_ydata(), rounds["nonzeros"])
    assert len(result.plot(x=("bits", "t", "joules")).axes) == 3


def test_a_notebook_shows_figures_without_pyplot(result: fedsim.Result) -> None:
    image, size = result.plot()._repr_png_()  # type: ignore[attr-defined]
    assert image.startswith(b"\x89PNG")
    assert size["width"] > size["height"] > 100


def test_what_cannot_be_drawn_is_refused(result: fedsim.Result) -> None:
    with pytest.raises(fedsim.DataError, match=r"got 'accuracy'; the rounds have .*nonzeros"):
        result.plot("accuracy")
    with pytest.raises(fedsim.DataError, match=r"got 'watts'; the rounds have round, t, .*bits"):
        result.plot(x="watts")


def test_the_figure_says_data_fleet_and_seeds_and_has_a_row_a_measure(
    result: fedsim.Result,
) -> None:
    figure = result.shown.overview()
    names = [axis.get_ylabel() for axis in figure.axes[::4]]
    assert names[0].startswith("objective gap")
    assert names[1:] == ["nonzeros"]
    assert [axis.get_yscale() for axis in figure.axes] == 4 * ["log"] + 4 * ["linear"]
    said = figure.axes[0].get_title(loc="left")
    assert said.endswith("; seed 1")
    assert len(said.split("; ")) == 3


def test_a_table_of_the_first_variants_says_of_how_many_they_are(result: fedsim.Result) -> None:
    few, every = result.shown.costs(1), result.shown.costs(2)
    assert "; the first 1 of 2 variants" in str(few.title)
    assert "the first" not in str(every.title)
    assert (few.row_count, every.row_count) == (1, 2)


@pytest.mark.slow
def test_of_many_variants_the_first_are_shown() -> None:
    sweep = {"algorithm.momentum": [number / 100 for number in range(41)]}
    result = fedsim.run(small(sweep=sweep, stop={"rounds": 2}))
    rows = [line for line in repr(result).splitlines() if " J  " in line]
    assert len(rows) == 40
    assert "the first 40 of 41 variants" in repr(result)
    assert result._repr_html_().count("<tr>") == 2 * (1 + 40)  # costs, and outcomes
    (legend,) = result.shown._strip().legends
    assert len(legend.get_texts()) == 12


def test_what_has_not_ended_is_drawn_all_the_same(tmp_path: Path) -> None:
    fedsim.run(small(stop={"rounds": 3}), out=tmp_path)
    (tmp_path / "base/seed-1/summary.json").unlink()
    found = fedsim.open(tmp_path)
    assert "no run has ended" in repr(found)
    assert "no run has ended" in found._repr_html_()
    (axis,) = found.plot(x="round").axes
    assert list(axis.get_lines()[0].get_xdata()) == [0, 1, 2, 3]  # type: ignore[arg-type]


@pytest.mark.slow
def test_it_compares_and_reports(result: fedsim.Result, tmp_path: Path) -> None:
    reached = result.summary["gap"].max()
    comparison = result.compare(f"gap={reached * 1.01}", against="gd")
    assert comparison.against == "gd"
    assert "paired difference from gd" in repr(comparison)
    assert "Pareto-optimal" in comparison._repr_html_()
    page = result.report(tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_the_summary_begins_with_what_was_reached_and_what_it_cost(result: fedsim.Result) -> None:
    columns = result.summary.columns.tolist()
    assert columns[:7] == ["variant", "algorithm", "seed", "status", "rounds", "objective", "gap"]
    assert columns[7:13] == ["transmissions", "beacons", "bits_up", "bits_down", "t", "joules"]
    aside = [name for name in columns if name in {"cohort", "start", "concerns", "notes", "looks"}]
    assert columns[-1 - len(aside) :] == [*aside, "problem"]
    assert {"concerns", "notes"} <= {*aside}


SESSION = """
import fedsim
from tests.runs import small
scenario = small(stop={"rounds": 1})
places = [fedsim.run(scenario).folder for _ in range(2)]
assert len(set(places)) == 2
assert all((place / "base/seed-1/summary.json").exists() for place in places)
result = fedsim.run(scenario)
assert "until this session ends" in repr(result)
try:
    fedsim.run(small(problem=3))
except fedsim.ScenarioError:
    print(*sorted(place.name for place in result.folder.parent.iterdir()), result.folder.parent)
"""


@pytest.mark.slow
def test_what_nobody_named_a_folder_for_stays_until_the_session_ends() -> None:
    command = [sys.executable, "-c", SESSION]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    *names, home = done.stdout.split()
    assert names == ["small", "small-2", "small-3"]
    assert not Path(home).exists()
    assert done.stderr == ""
