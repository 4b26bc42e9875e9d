"""The command conformance."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fedsim.cli.app import Overrides, app
from fedsim.cli.app import err as _err
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import theory as _theory

_REFUSED = "refused"
_GOOD = ("kept", "done", _REFUSED)
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
    scenarios. A step size without a default is 0.1/L. The exit code is 1 if a
    check fails.

    A run that diverges is only a failure with FILE, which sets the step size.
    """
    from fedsim.addons.conformance.user_blocks import rows_by_block
    from fedsim.core.errors import DataError
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in

    outcomes: list[str] = []
    accepted = _GOOD if file else (*_GOOD, _DIVERGED)
    with _errors(), _theory():
        if overrides and file is None:
            text = "got --set without a scenario; name the FILE that it changes after the plugin"
            raise DataError("set", text)
        blocks = blocks_in([plugin])
        plan = None if file is None else load(file, overrides=overrides or (), blocks=blocks)
        for title, rows in rows_by_block(blocks, plan):
            _out.print(Text(title), style="bold", highlight=False)
            of_block = [_print_row(*list(row.values())[:3]) for row in rows]
            outcomes += of_block
            _print_meanings(of_block, within_scenario=file is not None)
        failed, total = sum(each not in accepted for each in outcomes), len(outcomes)
        verdict = f"{failed} of {total} checks failed" if failed else f"all {total} checks passed"
        _out.print(f"{escape(plugin.name)}: {verdict}", style="red" if failed else "green")
        if failed and file is None:
            text = f"defaults were checked; fedsim conformance {plugin} FILE checks the values"
            _err.print(f"{text} of a scenario")
    raise typer.Exit(1 if failed else 0)


def _print_row(check: str, outcome: str, reason: str) -> str:
    """Print a check as soon as it is made, and return its outcome."""
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column(width=len(_DIVERGED))
    line.add_column(overflow="fold")
    line.add_row(Text(outcome), Text(f"{check}: {reason}" if reason else check))
    _out.print(line)
    return outcome


def _print_meanings(outcomes: list[str], *, within_scenario: bool) -> None:
    """Say what the less obvious outcomes of a block's checks mean."""
    if outcomes == ["failed"]:
        _out.print("The method fails without difficulties, so it is not tried with them.")
    if _REFUSED in outcomes:
        _out.print(
            "refused: fedsim does not run the method in this world, and says why before the run;"
            " this counts as passed"
        )
    if diverged := outcomes.count(_DIVERGED):
        text = f"{diverged} of {len(outcomes)} runs diverged, so they check little; this breaks no"
        given = "" if within_scenario else ", in a scenario FILE"
        _err.print(f"{text} promise: the step may be too large. Try a smaller one{given}")
    _out.print()
