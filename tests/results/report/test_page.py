"""The page as a file: whole, valid, without requests, and of the user's words only as words."""

import base64
import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from cycler import cycler
from matplotlib import rc_context
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.core.errors import TheoryWarning
from fedsim.results import report
from fedsim.results.analysis import PART_COLOURS
from fedsim.results.analysis.style import STATES
from fedsim.results.record.scenarios import flat
from fedsim.results.report.fleet import fleets
from fedsim.results.report.network import drawings
from fedsim.results.report.page import TABS
from fedsim.results.report.study import ReportedStudy
from tests.results.analysis.breaking import sealed, text
from tests.results.report.conftest import NAME, TARGETS
from tests.results.report.pages import Page
from tests.runs import small

KINDS = ["0: phone-mid, lte (3)", "1: pi-4, wifi (2)"]
MOST, FRAME, EACH = 500_000, 100_000, 6_000
"""Bytes of a page, of all in it that is no figure, and of a drawing on average."""


def test_tags_are_closed_in_order_and_names_are_unique(page: Page) -> None:
    assert page.open == []
    names = [facts["id"] for _, facts in page.tags if "id" in facts]
    assert len(names) == len(set(names))
    assert [tag for tag, _ in page.tags[:2]] == ["html", "head"]


def test_every_tab_has_its_panel(page: Page) -> None:
    panels = {facts["id"]: facts for _, facts in page.tags if facts.get("role") == "tabpanel"}
    tabs = [facts for _, facts in page.tags if facts.get("role") == "tab"]
    assert len(tabs) == len(panels) == len(TABS)
    for tab in tabs:
        assert panels[tab["aria-controls"]]["aria-labelledby"] == tab["id"]


def test_nothing_is_asked_of_anybody(page: Page) -> None:
    links = [
        (tag, facts[key] or "")
        for tag, facts in page.tags
        for key in ("src", "href")
        if key in facts
    ]
    own = {f"#{facts['id']}" for _, facts in page.tags if "id" in facts}
    assert [link for link in links if link[0] != "use"] == [("link", "data:,")]
    assert {place for tag, place in links if tag == "use"} <= own
    assert set(re.findall(r"url\(([^)]*)\)", page.source)) <= own
    style = page.source.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style
    assert "@import" not in style


def test_a_finished_page_does_not_load_itself_anew(page: Page) -> None:
    assert not [facts for _, facts in page.tags if "data-reload" in facts]
    assert not [facts for _, facts in page.tags if facts.get("http-equiv") == "refresh"]


def test_only_the_page_s_own_scripts_may_run(page: Page) -> None:
    (policy,) = [
        facts["content"] or ""
        for _, facts in page.tags
        if facts.get("http-equiv") == "Content-Security-Policy"
    ]
    own = [text for facts, text in page.scripts if "type" not in facts]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in own]
    assert len(own) == 1
    assert policy.split("script-src ")[1] == " ".join(f"'sha256-{each}'" for each in hashes)
    assert policy.startswith("default-src 'none';")


def test_names_are_words_and_never_tags(page: Page, study: ReportedStudy) -> None:
    assert study.name == NAME
    assert NAME in page.text
    assert not any("alert" in text for facts, text in page.scripts if "type" not in facts)
    assert len(page.scripts) == 1


def test_a_page_is_little_more_than_its_data(path: Path, page: Page) -> None:
    assert path.stat().st_size < MOST
    figures = re.findall(r'<div class="plot".*?<p class="note"', page.source, re.DOTALL)
    assert len(page.source) - sum(map(len, figures)) < FRAME
    drawn = {own.drawing for each in page.figures.values() for own in each.values()}
    assert sum(map(len, drawn)) / len(drawn) < EACH


@pytest.mark.slow
def test_a_page_is_the_same_bytes_again(path: Path, runs: Path, tmp_path: Path) -> None:
    again = report.write(runs, tmp_path / "b.html", targets=TARGETS)
    assert again.read_bytes() == path.read_bytes()
    assert [each.name for each in tmp_path.iterdir()] == ["b.html"]


def test_the_scenario_is_shown_with_what_the_variants_change(
    page: Page, study: ReportedStudy
) -> None:
    assert study.first.written in page.text
    (caption,) = [each for each in page.tables if each.startswith("Where the variants differ")]
    rows = {(row[0], row[1]): row[2:] for row in page.tables[caption][1:]}
    assert rows["tree (chb)", "wire.values"] == ["float64", "float32"]
    assert rows["gd", "algorithm.kind"] == ["chb", "gd"]
    own = dict(flat(study.variants["tree"].scenario))
    assert own["network.gateways"] == 2


def test_variants_of_one_fleet_share_its_drawing(study: ReportedStudy) -> None:
    found = fleets(study)
    assert [names for names, _ in found] == [["base (chb)", "gd"], ["tree (chb)"]]
    star, tree = (drawings(study, run, "one")["bits"] for _, run in found)
    assert [key.name for key in star.keys][:-1] == ["server", *KINDS]  # the last is the widest
    assert [key.name for key in tree.keys][:-1] == ["server", "gateway", *KINDS]
    assert [len(each.table.rows) for each in (star, tree) if each.table] == [5, 7]


@pytest.mark.slow
def test_one_variant_s_folder_and_one_run_s_are_studies_too(runs: Path, tmp_path: Path) -> None:
    page = Page(report.write(runs / "gd", tmp_path / "gd.html"))
    assert page.words("How every run ended", "seed") == ["1", "2", "3"]
    page = Page(report.write(runs / "gd" / "seed-2", tmp_path / "one.html"))
    assert page.words("How every run ended", "seed") == ["2"]


def test_a_comment_at_the_head_of_the_scenario_is_the_question(runs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "base" / "seed-1"
    shutil.copytree(runs / "base" / "seed-1", folder)
    written = (folder / "scenario.yaml").read_text(encoding="utf-8")
    sealed(text("scenario.yaml", f"# Is 1 < 2?\n{written}"))(folder)
    assert "<h1>Is 1 &lt; 2?</h1>" in Page(report.write(tmp_path)).source


def test_a_graph_is_drawn_as_it_was_written(tmp_path: Path) -> None:
    edges = [{"source": "server", "target": "hub"}]
    edges += [{"source": "hub", "target": f"client-{number}"} for number in range(5)]
    fedsim.run(small(network={"topology": "graph", "edges": edges}), out=tmp_path)
    page = Page(report.write(tmp_path))
    assert ">hub<" in page.figures["fleet-0"]["bits"].drawing
    assert page.words("Links by bits", "one end")[:1] == ["hub"]
    assert len(page.tables["Links by bits"]) == 1 + 6
    assert "router" in page.text


@pytest.mark.parametrize("colour", ["--c0", "--c2", "--d0", "--o0", "--ink", "--paper"])
def test_colours_have_names_that_are_others_in_the_dark(page: Page, colour: str) -> None:
    light, _, dark = page.source.partition("prefers-color-scheme: dark")
    declared = re.compile(rf"{colour}: (#[0-9A-Fa-f]{{6}});")
    (one,), (other,) = declared.findall(light), declared.findall(dark)
    assert one != other


def test_no_figure_has_a_colour_of_its_own_that_dark_pages_need_another_one_for(
    page: Page,
) -> None:
    """Of all colours only those of the parts of energy are the same in the dark: they are light."""
    drawn = "".join(own.drawing for each in page.figures.values() for own in each.values())
    colours = {colour.upper() for colour in re.findall(r":(#[0-9a-f]{6})", drawn)}
    assert colours <= {*PART_COLOURS.values(), *(colour for _, colour in STATES.values())}
    assert {f"var(--{name})" for name in ("c0", "d0", "o0", "off", "rest", "idle")} <= set(
        re.findall(r"var\([^)]*\)", drawn)
    )


def test_words_of_figures_are_words_in_the_letters_of_the_page(page: Page) -> None:
    for figures in page.figures.values():
        for own in figures.values():
            assert "<text" in own.drawing
            assert "font-family" not in own.drawing


@pytest.mark.slow
def test_the_page_does_not_depend_on_settings_of_matplotlib(
    path: Path, runs: Path, tmp_path: Path
) -> None:
    user: dict[Any, Any] = {
        "axes.facecolor": "red",
        "lines.linewidth": 9.0,
        "axes.prop_cycle": cycler(color=["k"]),
    }
    with rc_context({**user, "font.size": 30.0, "svg.fonttype": "path"}):
        again = report.write(runs, tmp_path / "b.html", targets=TARGETS)
    assert again.read_bytes() == path.read_bytes()


def test_a_run_that_diverged_is_reported_as_such(tmp_path: Path) -> None:
    algorithm = {"kind": "gd", "step_size": 1e9}
    with pytest.warns(TheoryWarning):
        fedsim.run(small(algorithm=algorithm, stop={"rounds": 300}), out=tmp_path)
    page = Page(report.write(tmp_path))
    assert page.words("How every run ended", "status") == ["diverged"]
    assert "no variant got there" in page.text


def test_a_run_without_a_round_has_a_page(tmp_path: Path) -> None:
    fedsim.run(small(stop={"rounds": 30, "time": "1 ms"}), out=tmp_path)
    page = Page(report.write(tmp_path))
    assert page.words("How every run ended", "rounds") == ["0"]
    assert not page.figures["timeline"]


@pytest.mark.parametrize("case", ["nothing", "empty", "column", "words", "unended"])
def test_what_cannot_be_reported_is_said_in_one_line(case: str, runs: Path, tmp_path: Path) -> None:
    arguments = {
        "nothing": [str(tmp_path / "nothing")],
        "empty": [str(tmp_path)],
        "column": [str(runs), "--target", "speed=3"],
        "words": [str(runs), "--target", "gap"],
        "unended": [str(tmp_path)],
    }[case]
    if case == "unended":
        folder = tmp_path / "base" / "seed-1"
        folder.mkdir(parents=True)
        (folder / "events.parquet").touch()
    result = CliRunner().invoke(app, ["report", *arguments])
    assert result.exit_code == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stdout == ""


@pytest.mark.slow
def test_the_command_says_what_compare_says_and_where_the_page_is(
    runs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(runs), "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert "page.html" in result.stdout
    compared = CliRunner().invoke(app, ["compare", str(runs), "--out", str(tmp_path / "tables")])
    opening = result.stdout.partition("\n\n")[0]
    assert opening
    assert compared.stdout.startswith(opening)
    assert out.exists()
