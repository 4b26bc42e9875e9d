"""The command that writes a first scenario: the quickstart, or one generated from a table."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import app
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import remark as _remark

if TYPE_CHECKING:
    from fedsim.problems.tables.guess import Guess

_IGNORED = "/runs/\n"

_NOTES = """\
`{name}.yaml` asks: {question}

    fedsim check {name}.yaml            is it valid, and what does a round cost?
    fedsim run {name}.yaml              all variants; logs, tables and a figure in runs/{name}
    fedsim compare runs/{name}          cost of each variant to the target
    fedsim report runs/{name}           one page with all results

Change a value in the file and run it again: runs that the edit does not affect are kept. `--set`
changes a value for one command: fedsim run {name}.yaml --set fleet.0.radio=nb-iot --out runs/nb-iot

    fedsim list                         blocks that a scenario can name
    fedsim examples                     more scenarios

The first line of `{name}.yaml` lets editors with a YAML language server complete and check it by
`fedsim.schema.json`. With another version of fedsim: fedsim schema > fedsim.schema.json
"""


@app.command("init")
def init_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="the folder, created if necessary")
    ] = Path(),
    table: Annotated[
        Path | None,
        typer.Option("--from", metavar="FILE", help="a table, such as CSV, Excel or Parquet"),
    ] = None,
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="with --from: the column of labels")
    ] = "",
    client: Annotated[
        str, typer.Option(metavar="COLUMN", help="with --from: the column of clients")
    ] = "",
    drop: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="with --from: a column to leave out; may be repeated"),
    ] = None,
    header: Annotated[
        bool | None,
        typer.Option(help="with --from: whether the first line names the columns; else detected"),
    ] = None,
) -> None:
    """Write a first scenario into a folder: the quickstart, or one generated from your table.

    With --from, show the type and role of each column, and write a
    scenario of three variants that runs on the table.
    """
    from fedsim.core.atomic import write_whole
    from fedsim.core.errors import DataError
    from fedsim.scenario.editor_schema import FILE, FIRST_LINE, editor_schema

    with _errors():
        if table is None and (target or client or drop or header is not None):
            text = "--target, --client, --drop and --header need a table; give --from"
            raise DataError("init", text)
        if table is None:
            first = _quickstart()
        else:
            first = _of_table(table, folder, target, client, tuple(drop or ()), header=header)
        name, question, written = first
        scenario = folder / f"{name}.yaml"
        if scenario.exists():
            text = f"{scenario} exists: nothing was written; give another folder"
            raise DataError("init", text)
        files = {
            scenario.name: FIRST_LINE + written,
            FILE: json.dumps(editor_schema()),
            "README.md": _NOTES.format(name=name, question=question),
            ".gitignore": _IGNORED,
        }
        files = {name: text for name, text in files.items() if not (folder / name).exists()}
        for file, text in files.items():
            write_whole(folder / file, text.encode())
    _out.print(f"{', '.join(files)} in {escape(str(folder.absolute()))}")
    where = "" if folder.absolute() == Path.cwd() else f"cd {escape(str(folder))} && "
    _out.print(f"next: {where}fedsim {'run' if table is None else 'check'} {name}.yaml")


def _quickstart() -> tuple[str, str, str]:
    """Return the name, the question and the text of the quickstart."""
    from fedsim.scenario import load
    from fedsim.scenario.examples import FIRST, example

    written = example(FIRST).read_text(encoding="utf-8")
    return FIRST, load(FIRST).variants[0].question, written


def _of_table(
    path: Path,
    folder: Path,
    target: str,
    client: str,
    drop: tuple[str, ...],
    *,
    header: bool | None,
) -> tuple[str, str, str]:
    """Return name, question and text of a scenario for a table; print the roles of its columns."""
    from fedsim.cli.from_table import name_of, notes, roles_table, scenario_text
    from fedsim.problems.tables.guess import guess

    seen: Guess = guess(path, target, client, drop, header=header)
    written = scenario_text(seen, path, folder)
    _out.print(roles_table(seen, path))
    for note in notes(seen):
        _remark(note)
    return name_of(path), written.partition("\n")[0].removeprefix("# "), written
