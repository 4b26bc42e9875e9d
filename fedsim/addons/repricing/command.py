"""The command reprice."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import Base, Place, Plugins, Quiet, app, check_out, print_answer, within
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import remark as _remark
from fedsim.cli.app import suggest as _next


@app.command("reprice")
def reprice_command(
    place: Place,
    overrides: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="replace a value of radios, devices or links: fleet.0.radio=nb-iot",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="folder for the re-priced runs; repriced in DIR if not given"
        ),
    ] = None,
    base: Base = None,
    by_seed: Annotated[
        bool, typer.Option("--by-seed", help="one row per seed, in place of median and range")
    ] = False,
    plugins: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Re-price finished runs with other radios, devices or links, without training."""
    from fedsim.addons.repricing.api import price_table, reprice_each
    from fedsim.addons.repricing.conditions import NO_OVERRIDE
    from fedsim.cli.next_steps import command
    from fedsim.core.errors import DataError
    from fedsim.results.record.read import run_folders
    from fedsim.scenario.registries import blocks_in

    with _errors() as work:
        if not overrides and run_folders(place):
            raise DataError("set", NO_OVERRIDE)
        if out is not None:
            check_out(out)
        out = out or within(place, "repriced")
        blocks = blocks_in(plugins or ())
        result, refused = reprice_each(
            place, overrides or (), out, base=base, blocks=blocks, tell=_remark
        )
        work.begin()
        print_answer(result.shown.explained_answer())
        _out.print(price_table(place, result.runs, by_seed=by_seed))
        _out.print(f"event logs and tables in {escape(str(out))}")
        if refused is not None:
            raise refused
    several = result.summary["variant"].nunique() > 1
    _next(command("compare" if several else "report", out), quiet=quiet)
