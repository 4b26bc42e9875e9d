"""The command conformance."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import Overrides, app
from fedsim.cli.app import err as _err
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import theory as _theory

_GOOD = ("kept", "done", "refused")
_DIVERGED = "diverged"


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

    Without FILE, blocks are tested with their defaults, in small built-in
    scenarios. The exit code is 1 if a check fails.

    A run that diverges is only a failure with FILE, which sets the step size.
    """
    from fedsim.addons.conformance.user_blocks import check_blocks
    from fedsim.core.errors import DataError
    from fedsim.core.tables import listing
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in

    failed, total, diverged, runs = 0, 0, 0, 0
    accepted = _GOOD if file else (*_GOOD, _DIVERGED)
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
            failed += int((~checks["outcome"].isin(accepted)).sum())
            total += len(checks)
            if (checks["outcome"] == _DIVERGED).any():
                diverged += int((checks["outcome"] == _DIVERGED).sum())
                runs += len(checks)
        if diverged:
            text = f"{diverged} of {runs} runs diverged, so they check little; this breaks no"
            given = "" if file else ", in a scenario FILE"
            _err.print(f"{text} promise: the step may be too large. Try a smaller one{given}")
        verdict = f"{failed} of {total} checks failed" if failed else f"all {total} checks passed"
        _out.print(f"{escape(plugin.name)}: {verdict}", style="red" if failed else "green")
        if failed and file is None:
            text = f"defaults were checked; fedsim conformance {plugin} FILE checks the values"
            _err.print(f"{text} of a scenario")
    raise typer.Exit(1 if failed else 0)
