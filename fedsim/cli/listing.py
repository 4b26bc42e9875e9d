"""Commands that say what a scenario can name, and fetch data for it."""

import json
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import Plugins, app
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import remark as _remark

_ALL = "all"


@app.command("list")
def list_command(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="one table, such as compressors; or all")
    ] = None,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="one block of it, such as top-k")
    ] = None,
    plugins: Plugins = None,
) -> None:
    """List what a scenario can name: algorithms, compressors, devices, ..., with sources.

    Without TABLE an overview; with TABLE what is in it; with NAME one block, with its parameters.
    """
    from fedsim.blocks.wording import unknown
    from fedsim.cli import describe
    from fedsim.cli.describe import block_lines
    from fedsim.errors import DataError
    from fedsim.scenario.registries import blocks_in, catalogue

    with _errors():
        known = catalogue(blocks_in(plugins or ()))
        if table is None:
            _out.print(describe.overview(known, _out.width))
            _out.print("`fedsim list TABLE` shows one, `fedsim list TABLE NAME` one block of it.")
            return
        listed = describe.listings(known, _remark)
        tables = {title.replace(" ", "-"): each for title, each in listed}
        if table not in (*tables, _ALL):
            hint = describe.held_by(table, known)
            text = f"there is no such table: {unknown(table, [*tables, _ALL], hint)}"
            raise DataError("list", text)
        if name is not None:
            for part in block_lines(table, name, known):
                _out.print(part)
            return
    for each in tables.values() if table == _ALL else [tables[table]]:
        _out.print(each)


@app.command("schema")
def schema_command(plugins: Plugins = None) -> None:
    """Print the JSON Schema of a scenario, for an editor to complete and check it."""
    from fedsim.scenario import schema
    from fedsim.scenario.registries import blocks_in

    with _errors():
        document = schema(blocks_in(plugins or ()))
    print(json.dumps(document, indent=2))  # noqa: T201 - to be piped into a file, unstyled


@app.command("fetch")
def fetch_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="of data or traces; a list of them if not given"),
    ] = None,
) -> None:
    """Download a data set of the catalogue, or published traces, into the user's cache.

    Without NAME: what there is, how large, under which licence, its authors and its use.
    """
    from fedsim.cli.downloads import fetch_named, public_table

    with _errors():
        if name is None:
            _out.print(public_table())
            _out.print("`fedsim fetch NAME` gets one into the cache, and checks it.")
            return
        for path in fetch_named(name):
            _out.print(escape(str(path)))
