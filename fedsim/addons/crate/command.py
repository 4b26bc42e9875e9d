"""The command that archives a study."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import app, check_out
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.core.text import format_number


@app.command("crate")
def crate_command(
    place: Annotated[
        Path, typer.Argument(metavar="DIR", help="a folder written by `fedsim run`, with all runs")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="the archive to write; crate.zip in DIR if not given"),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="a title; that of the scenario if not given")
    ] = "",
    description: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="what the study is about; the question of the scenario if not given",
        ),
    ] = "",
    licence: Annotated[
        str,
        typer.Option(
            "--licence", "--license", metavar="TEXT", help="address of the licence, or a sentence"
        ),
    ] = "",
    authors: Annotated[
        list[str] | None,
        typer.Option(
            "--author", metavar="NAME", help='"NAME <ORCID address>" or a name; may be repeated'
        ),
    ] = None,
) -> None:
    """Archive a study for a repository of research data, with a description of every file.

    The archive is an RO-Crate: a ZIP file with the scenarios, logs,
    tables and figures, and ro-crate-metadata.json, which states the
    software, the inputs and the time of each file.
    """
    from fedsim.addons.crate import write_crate

    with _errors():
        if out is not None:
            check_out(out, file=True)
        file = write_crate(
            place,
            out,
            name=name,
            description=description,
            licence=licence,
            authors=authors or (),
        )
    size = format_number(file.stat().st_size / 1e6, ".2g")
    _out.print(f"archive in {escape(str(file))}, {size} MB")
