"""The command conformance."""

from pathlib import Path
from typing import Annotated

import typer

from fedsim.cli.app import Overrides, app
from fedsim.cli.app import err as _err
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import theory as _theory

_GOOD = ("kept", "done", "refused")


@app.command("conformance")
def conformance_command(
    plugin: Annotated[
        Path, typer.Argument(metavar="PLUGIN", help="a Python file with user-defined blocks")
    ],
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="a scenario that names them, with their parameters"),
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Check user-defined blocks: a compressor's contract, a loss's gradient, a method.

    Without FILE, blocks have their defaults, in small scenarios of fedsim's
    own. The exit code is 1 if a check fails.
    """
    from fedsim.addons.conformance.user_blocks import check_blocks
    from fedsim.core.errors import DataError
    from fedsim.core.tables import listing
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in

    broken = False
    with _errors(), _theory():
        if overrides and file is None:
            text = "got --set without a scenario; name the FILE that it changes after the plugin"
            raise DataError("set", text)
        blocks = blocks_in([plugin])
        plan = None if file is None else load(file, overrides=overrides or (), blocks=blocks)
        for title, checks in check_blocks(blocks, plan):
            heads = list(checks.columns[:3])
            rows = [[str(cell) for cell in row] for row in checks[heads].itertuples(index=False)]
            _out.print(listing(title, heads, rows))
            broken = broken or not checks["outcome"].isin(_GOOD).all()
        if broken and file is None:
            text = f"defaults were checked; fedsim conformance {plugin} FILE checks the values"
            _err.print(f"{text} of a scenario")
    raise typer.Exit(1 if broken else 0)
