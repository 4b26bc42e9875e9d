"""Commands that say what a scenario can name, and fetch data for it."""

import json
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import app
from fedsim.cli.options import Plugins
from fedsim.cli.terminal import errors as _errors
from fedsim.cli.terminal import out as _out
from fedsim.cli.terminal import remark as _remark


@app.command("list")
def list_command(
    name: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="one table alone, such as compressors")
    ] = None,
    plugins: Plugins = None,
) -> None:
    """List what a scenario can name: algorithms, compressors, devices, ..., with sources."""
    from fedsim.blocks.wording import unknown
    from fedsim.cli import describe
    from fedsim.errors import DataError
    from fedsim.scenario.registries import blocks_in, catalogue

    with _errors():
        listed = describe.listings(catalogue(blocks_in(plugins or ())), _remark)
        tables = {title.replace(" ", "-"): table for title, table in listed}
        if name is not None and name not in tables:
            raise DataError("list", f"there is no such table: {unknown(name, list(tables))}")
    for table in tables.values() if name is None else [tables[name]]:
        _out.print(table)


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
    name: Annotated[str, typer.Argument(help="of the catalogue, as `fedsim list data` has it")],
) -> None:
    """Download a data set of the catalogue into the user's cache."""
    from fedsim.problems import fetch

    with _errors():
        _out.print(escape(str(fetch(name))))
