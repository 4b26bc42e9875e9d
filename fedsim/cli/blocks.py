"""Commands about blocks: list them, print their schema, fetch data."""

import json
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import AsJson, Plugins, app
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
        str | None, typer.Argument(metavar="NAME", help="one block of the table, such as top-k")
    ] = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """List the blocks that a scenario can name: algorithms, compressors, devices, ...

    Without TABLE, print an overview. With TABLE, print its blocks and
    their sources. With TABLE and NAME, print one block with its
    parameters.
    """
    from fedsim.cli import describe
    from fedsim.cli.describe import block_lines
    from fedsim.cli.json_output import of_parts, of_table, print_json
    from fedsim.core.blocks.wording import unknown
    from fedsim.core.errors import DataError
    from fedsim.scenario.registries import blocks_in, catalogue

    with _errors():
        known = catalogue(blocks_in(plugins or ()))
        if table is None and as_json:
            print_json({"tables": describe.contents(known)})
            return
        if table is None:
            _out.print(describe.overview(known, _out.width))
            _out.print("`fedsim list TABLE` shows a table, `fedsim list TABLE NAME` one block.")
            return
        listed = describe.listings(known, _remark)
        tables = {title.replace(" ", "-"): listing for title, listing in listed}
        if table not in (*tables, _ALL):
            hint = describe.held_by(table, known)
            text = f"unknown table: {unknown(table, [*tables, _ALL], hint)}"
            raise DataError("list", text)
        if name is not None:
            parts = list(block_lines(table, name, known))
            if as_json:
                print_json({"table": table, "name": name, **of_parts(parts)})
                return
            for part in parts:
                _out.print(part)
            return
    selected = tables if table == _ALL else {table: tables[table]}
    if as_json:
        print_json({title: of_table(listing)["rows"] for title, listing in selected.items()})
        return
    for listing in selected.values():
        _out.print(listing)


@app.command("schema")
def schema_command(plugins: Plugins = None) -> None:
    """Print the JSON Schema of a scenario, for an editor to complete and check it."""
    from fedsim.scenario.editor_schema import editor_schema
    from fedsim.scenario.registries import blocks_in

    with _errors():
        document = editor_schema(blocks_in(plugins or ()))
    print(json.dumps(document, indent=2))  # noqa: T201 - to be piped into a file, unstyled


@app.command("fetch")
def fetch_command(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="name of a data set or of traces; if not given, all are listed"
        ),
    ] = None,
) -> None:
    """Download a data set of the catalogue, or published traces, into the user's cache.

    Without NAME, list all of them with size, licence, authors and use.
    """
    from fedsim.cli.downloads import fetch_named, public_table

    with _errors():
        if name is None:
            _out.print(public_table())
            _out.print("`fedsim fetch NAME` downloads one into the cache and verifies it.")
            return
        for path in fetch_named(name):
            _out.print(escape(str(path)))
