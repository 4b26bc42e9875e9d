"""The command `fedsim`, to which the other modules here add what it can do.

These name commands and their options, and import what a command needs once it is called: of all
that fedsim takes, most commands need little, and `fedsim --help` nothing.
"""

import typer

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Simulate federated optimisation over a network: scenario in, event log and tables out.",
)
