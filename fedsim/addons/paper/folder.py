"""The folder of a paper: it is written atomically, and folders of other calls are kept."""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from fedsim.addons.paper.bibliography import bibtex
from fedsim.addons.paper.figures import LeftOut, PaperFigure, paper_figures
from fedsim.addons.paper.methods import as_latex, as_markdown, digest, methods, references
from fedsim.addons.paper.settings import settings_table
from fedsim.core.atomic import write_whole
from fedsim.core.errors import DataError
from fedsim.core.extras import VERSION
from fedsim.core.text import visible
from fedsim.results.analysis import Comparison, PaperStyle, paper_tables
from fedsim.results.analysis.latex import PaperTable, latex_prose, markdown_text
from fedsim.results.analysis.saving import check_format
from fedsim.results.analysis.seeds import Band
from fedsim.results.record.outputs import Call, output
from fedsim.results.report.study import ReportedStudy

README = "README.md"

_INCLUDED = ("pdf", "pgf", "png")
"""Formats of figures that LaTeX can include; the first requested one is."""


def write_paper(
    folder: Path,
    out: Path | None = None,
    *,
    style: str = "ieee",
    columns: int = 1,
    formats: Sequence[str] = ("pdf",),
    targets: Sequence[str] = (),
    against: str | None = None,
    confidence: float = 0.95,
    band: Band = "min-max",
) -> Path:
    """Write figures, tables, a methods paragraph and references of a study into a folder.

    Args:
        folder: OUT with all its runs, one variant's folder in it, or one run's folder.
        out: the folder to write; `paper` in the study's folder if None. If it exists with files of
            another call, or edited files, the name becomes `paper-2` and so on.
        style: "ieee", "acm", "neurips", "nature", or a style file of matplotlib.
        columns: the number of columns of a page that figures and tables span, 1 or 2.
        formats: formats of figures: pdf, svg, png, pgf.
        targets: such as "gap=1e-5"; if empty, the target of the runs' stop rule.
        against: the variant that the others are compared with; the first one if None.
        confidence: confidence level of intervals.
        band: the band around the means of curves.

    Returns:
        The folder.

    Raises:
        DataError: there are no runs, no such style, format or target, or PGF is requested but TeX
            is not installed.
        OutputError: a file cannot be written.
    """
    look = PaperStyle.read(style)
    wanted = _check_formats(formats)
    comparison = Comparison.of([folder], targets, against, confidence)
    study = ReportedStudy(comparison)
    options = _options(style, columns, wanted, targets, against, confidence, band)
    command = shlex.join(["fedsim", "paper", str(folder), *options])
    tables = [*paper_tables(comparison, columns), settings_table(study)]
    every = list(paper_figures(comparison, band))
    figures = [each for each in every if isinstance(each, PaperFigure)]
    texts = dict(_texts(study, tables, wide=columns > 1))
    facts: dict[str, Any] = {"columns": columns, "figures": figures, "tables": tables}
    facts |= {
        "style": look,
        "ending": next((ending for ending in _INCLUDED if ending in wanted), ""),
    }
    texts["main.tex"] = _render("main.tex", facts)
    facts |= {"command": command, "version": VERSION, "study": study, "formats": wanted}
    facts["left_out"] = [each for each in every if isinstance(each, LeftOut)]
    texts[README] = _render("README.md", {**facts, "digest": digest(study)})
    with output(Call.of("paper", [folder], words=options), out or folder / "paper") as draft:
        for name, text in texts.items():
            write_whole(draft.path / name, text.encode())
        _draw(figures, look, columns, wanted, draft.path / "figures")
    return draft.place


def _check_formats(formats: Sequence[str]) -> list[str]:
    """Return the formats of figures.

    Raises:
        DataError: no format is given, or one is unknown or cannot be written here.
    """
    endings = [check_format(each.strip(), each) for each in formats]
    if not endings:
        raise DataError("formats", "got no format; expected some of pdf, svg, png, pgf")
    return endings


def _draw(
    figures: Sequence[PaperFigure],
    look: PaperStyle,
    columns: int,
    formats: Sequence[str],
    folder: Path,
) -> None:
    """Draw the figures in all formats, as wide as their columns."""
    with look.apply():
        for figure in figures:
            for ending in formats:
                figure.draw(look.width(columns), folder / f"{figure.name}.{ending}")


def _texts(
    study: ReportedStudy, tables: Sequence[PaperTable], *, wide: bool
) -> Iterator[tuple[str, str]]:
    """Yield names and contents of text files, except the document and the README."""
    paragraph = methods(study)
    yield "methods.md", as_markdown(paragraph)
    yield "methods.tex", as_latex(paragraph)
    yield "references.bib", bibtex(references(study))
    for table in tables:
        yield f"tables/{table.name}.tex", table.latex(wide=wide and table.name.startswith("costs"))
        yield f"tables/{table.name}.md", table.markdown()


def _options(
    style: str,
    columns: int,
    formats: Sequence[str],
    targets: Sequence[str],
    against: str | None,
    confidence: float,
    band: str,
) -> list[str]:
    """Return the command-line options that write the same folder."""
    options = ["--style", style, "--columns", str(columns), "--formats", ",".join(formats)]
    for target in targets:
        options += ["--target", target]
    if against is not None:
        options += ["--against", against]
    return [*options, "--confidence", f"{confidence:g}", "--band", band]


def _render(name: str, facts: dict[str, Any]) -> str:
    environment = Environment(  # noqa: S701 - what it writes is LaTeX and Markdown
        loader=PackageLoader("fedsim.addons.paper"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
        keep_trailing_newline=True,
    )
    environment.filters["prose"] = latex_prose
    environment.filters["text"] = markdown_text
    environment.filters["code"] = _one_line
    return environment.get_template(name).render(**facts)


def _one_line(text: str) -> str:
    """Return a text on one line, for an indented line of code."""
    return visible(text).replace("\n", r"\n").replace("\t", " ")
