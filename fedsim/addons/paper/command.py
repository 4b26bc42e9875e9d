"""The command that writes the figures, tables and texts of a paper."""

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.markup import escape

from fedsim.cli.app import (
    PaperColumns,
    PaperStyles,
    Place,
    Targets,
    app,
    check_out,
    errors,
)
from fedsim.cli.app import out as _out


@app.command("paper")
def paper_command(
    place: Place,
    targets: Targets = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="VARIANT", help="the variant that the others are compared with"),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="LEVEL", help="confidence level of the intervals")
    ] = 0.95,
    style: PaperStyles = "ieee",
    columns: PaperColumns = 1,
    formats: Annotated[
        str, typer.Option(metavar="FORMAT,...", help="formats of figures: pdf, svg, png, pgf")
    ] = "pdf",
    band: Annotated[
        Literal["min-max", "std", "interval", "none"],
        typer.Option(metavar="min-max|std|interval|none", help="band around the means of curves"),
    ] = "min-max",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="the folder to write; paper in DIR, or paper-2, ... if not given"
        ),
    ] = None,
) -> None:
    """Write figures, tables, methods and references for a paper.

    Figures are as wide as a column of the style, with embedded fonts;
    tables are LaTeX and Markdown; a methods paragraph states what was
    simulated. The file main.tex includes all of it.
    """
    from fedsim.addons.paper import write_paper

    with errors():
        if out is not None:
            check_out(out)
        folder = write_paper(
            place,
            out,
            style=style,
            columns=columns,
            formats=formats.split(","),
            targets=targets or (),
            against=against,
            confidence=confidence,
            band=band,
        )
    _out.print(f"figures, tables, methods and references in {escape(str(folder))}")
