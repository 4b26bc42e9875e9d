"""The command that says how far a study is."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import app
from fedsim.cli.options import Overrides, Plugins
from fedsim.cli.terminal import errors as _errors
from fedsim.cli.terminal import out as _out

if TYPE_CHECKING:
    from fedsim.running.status import Status


@app.command("status")
def status_command(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY", help="what `fedsim run` writes into, or a scenario"),
    ],
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option(help="where the runs of a scenario go, if not runs/NAME")
    ] = None,
    plugins: Plugins = None,
) -> None:
    """Say how far a study is: what is done, going on, failed and left, and how long that takes."""
    from fedsim.running.status import status
    from fedsim.running.study import study_of
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in
    from fedsim.tables import listing

    with _errors():
        if study.is_dir():
            found = status(study)
        else:
            plan = load(study, overrides=overrides or (), blocks=blocks_in(plugins or ()))
            found = status(out or Path("runs") / plan.folder_name, study_of(plan))
        parts = [(each.done, each.going, each.failed, each.left) for each in found.variants]
        rows = [
            (each.variant, *(str(len(part)) for part in states))
            for each, states in zip(found.variants, parts, strict=True)
        ]
        sums = [sum(map(len, column)) for column in zip(*parts, strict=True)]
        if len(rows) > 1:
            rows.append(("all", *map(str, sums)))
        heads = ("variant", "done", "going on", "failed", "left")
        _out.print(listing(escape(f"{found.name}, in {found.folder}"), heads, rows))
        for each in found.variants:
            for seed, reason in each.reasons.items():
                _out.print(escape(f"{each.variant}, seed {seed}: {reason}"), style="red")
        _out.print(_ahead(found, sum(sums[1:2] + sums[3:])))


def _ahead(found: "Status", count: int) -> str:
    """Return what is to be awaited: so many runs have not ended."""
    from fedsim.running.extent import duration

    if not count:
        return "nothing is left"
    known = found.seconds == found.seconds
    time = f"{duration(found.seconds)} to go" if known else "no run has ended by which to say when"
    who = "" if found.held else "; no process is running: repeat the command to resume"
    return f"{time}{who}"
