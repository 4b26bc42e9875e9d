"""Text is shown as it is: no pictures, no markup, nothing that hides or turns what follows."""

import io
import json
from pathlib import Path

import pytest
from matplotlib.text import Text
from rich.console import Console
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app, progress
from fedsim.cli.app import err, out
from fedsim.core.text import visible
from fedsim.results import report
from fedsim.results.analysis import Comparison
from fedsim.running.run import RunProgress
from tests.runs import small

NAME = "a:bug: [red]b[/] \u202ec\u2066 $x^2$ <i>\x9b\u200f"
SEEN = r"a:bug: [red]b[/] \u202ec\u2066 $x^2$ <i>\x9b\u200f"


def test_what_hides_is_shown_by_its_number() -> None:
    assert visible(NAME) == SEEN
    assert visible("é 中\u00a0文\u200d\n") == "é 中\u00a0文\u200d\n"
    assert visible("\u2028\ud800\x00\ufeff\u2069") == r"\u2028\ud800\x00\ufeff\u2069"


def test_the_terminal_shows_a_name_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(small(name=NAME, stop={"rounds": 1})), encoding="utf-8")
    said = CliRunner().invoke(app, ["run", str(path), "--out", str(tmp_path / "out")])
    assert said.exit_code == 0, said.output
    assert f"{SEEN}: cost of" in said.stdout
    wrong = CliRunner().invoke(app, ["check", str(tmp_path / NAME.replace("/", "|"))])
    assert SEEN.replace("/", "|") in wrong.stderr


def test_progress_shows_a_name_as_it_is() -> None:
    written = io.StringIO()
    console = Console(file=written, width=200)
    with progress.progress_table(console, 1) as watch:
        watch(RunProgress(NAME, 1, "gd", 1, ended=True))
    assert SEEN in written.getvalue()


@pytest.mark.parametrize("console", [out, err])
def test_both_consoles_take_text_as_it_is(console: Console) -> None:
    assert console.render_str("a:bug:\x1b", markup=False).plain == r"a:bug:\x1b"


def test_the_page_and_the_figures_show_a_name_as_it_is(tmp_path: Path) -> None:
    result = fedsim.run(small(name=NAME, stop={"rounds": 2}), out=tmp_path / "out")
    page = report.write(result.folder).read_text(encoding="utf-8")
    assert "<title>" in page
    assert r"\u202ec\u2066 $x^2$ &lt;i&gt;\x9b\u200f" in page
    assert not {*"\u202e\u2066\x9b\u200f"} & {*page.split("<script")[0]}


@pytest.mark.slow
def test_labels_of_figures_are_no_formulas(tmp_path: Path) -> None:
    places = [tmp_path / "$a$", tmp_path / "_b"]
    for place in places:
        fedsim.run(small(stop={"rounds": 2}), out=place)
    figures = Comparison.of(places).figures()
    assert figures
    for figure in figures.values():
        figure.draw_without_rendering()
        texts = [text.get_text() for text in figure.findobj(Text)]
        assert r"\$a\$/base (chb)" in texts
        assert " _b/base (chb)" in texts
