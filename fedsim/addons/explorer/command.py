"""The command that writes the explorer of a study."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import Place, Plugins, app, check_out
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.core.text import format_number


@app.command("explore")
def explore_command(
    place: Place,
    target: Annotated[
        str | None, typer.Option(metavar="COLUMN=NUMBER", help="the target, such as gap=1e-5")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="the file to write; explorer.html in DIR if not given"),
    ] = None,
    plugins: Plugins = None,
) -> None:
    """Write one HTML page with sliders that re-price a study in the browser, offline."""
    from fedsim.addons.explorer import explore
    from fedsim.scenario.registries import blocks_in

    with _errors():
        if out is not None:
            check_out(out, file=True)
        page = explore(place, out, target=target, blocks=blocks_in(plugins or ()))
    _out.print(
        f"explorer in {escape(str(page))}, {format_number(page.stat().st_size / 1e6, '.2g')} MB"
    )
