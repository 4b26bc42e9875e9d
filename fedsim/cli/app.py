"""The command `fedsim`, to which the other modules here add what it can do.

These name commands and their options, and import what a command needs once it is called: of all
that fedsim takes, most commands need little, and `fedsim --help` nothing.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fedsim.extras import VERSION

_ORDER = ("run", "check", "status", "compare", "report", "examples", "init", "list")


class _Commands(TyperGroup):
    """The commands, first those that are needed first."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - the library's own click
        """Return the names of all commands, as `--help` lists them."""
        every = super().list_commands(ctx)
        return [*_ORDER, *(name for name in every if name not in _ORDER)]


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Simulate federated optimisation over a network: scenario in, event log and tables out.",
)


def _version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    """Print the version and end, where it is asked for."""
    if asked:
        typer.echo(f"fedsim {VERSION}")
        raise typer.Exit


@app.callback()
def every(
    version: Annotated[  # noqa: FBT002 - a flag
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="print the version"),
    ] = False,
) -> None:
    """Take what stands before the command."""
