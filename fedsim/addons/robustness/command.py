"""The command robust: the robustness of conclusions to uncertain constants."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import (
    Against,
    AsJson,
    Base,
    Jobs,
    OnCluster,
    Place,
    Plugins,
    Practical,
    Quiet,
    app,
    check_out,
    practical_difference,
    within,
)
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import suggest as _next
from fedsim.cli.app import warn as _warn
from fedsim.cli.app import write_output as _write_output

if TYPE_CHECKING:
    from fedsim.addons.robustness.result import Robustness

_Worlds = Annotated[
    int, typer.Option(min=1, metavar="N", help="number of sampled worlds, at least")
]
_SurveySeed = Annotated[
    int, typer.Option(min=1, metavar="SEED", help="seed of the sampling of worlds")
]
_Target = Annotated[
    str | None, typer.Option(metavar="COLUMN=NUMBER", help="the target, such as gap=1e-5")
]
_Intervals = Annotated[
    list[str] | None,
    typer.Option(
        "--interval",
        metavar="PRESET.FIELD=LOW..HIGH",
        help='an interval that replaces the preset\'s: "lte.tail_time=1 s..15 s"',
    ),
]
_Runs = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="if runs cannot be re-priced: number of worlds in which to repeat them",
    ),
]


@app.command()
def robust(
    place: Place,
    target: _Target = None,
    against: Against = None,
    worlds: _Worlds = 2048,
    seed: _SurveySeed = 1,
    intervals: _Intervals = None,
    runs: _Runs = 0,
    jobs: Jobs = 1,
    cluster: OnCluster = None,
    plugins: Plugins = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="folder for the files; robustness in DIR if not given"),
    ] = None,
    base: Base = None,
    practical: Practical = "1%",
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find which conclusions of a study survive the uncertainty of its constants.

    A world has one value of every constant, drawn from its interval.
    Every run is re-priced in every world, without training. Prices
    that an earlier command has stored are reused.
    """
    from fedsim.addons.robustness import robust as survey
    from fedsim.addons.robustness.pricing import describe_saved_prices
    from fedsim.cli.next_steps import command
    from fedsim.running.interrupts import explain_state
    from fedsim.scenario.registries import blocks_in

    with _errors() as work:
        out = out or within(place, "robustness")
        check_out(out)
        explain_state(partial(describe_saved_prices, out))
        known = survey(
            place,
            target=target,
            against=against,
            worlds=worlds,
            seed=seed,
            intervals=_intervals(intervals or []),
            runs=runs,
            out=out,
            blocks=blocks_in(plugins or ()),
            jobs=jobs,
            cluster=cluster,
            base=base,
            practical=practical_difference(practical),
        )
        work.begin()
        sampled = {"worlds": worlds, "seed": seed, "intervals": intervals, "runs": runs}
        options = {**sampled, "practical": known.practical}
        _report_robustness(known, place, out, options, as_json=as_json)
    if not as_json:
        _next(command("report", place), quiet=quiet)


def _report_robustness(
    known: "Robustness", place: Path, out: Path, options: Mapping[str, object], *, as_json: bool
) -> None:
    """Write the tables, and print the answer, tables and notes, or JSON instead."""
    from fedsim.cli.json_output import print_json

    if not as_json:
        _print_robustness(known)
    arguments = {"target": str(known.target), "against": known.against, **options}
    with _write_output("robust", [place], out, arguments) as output:
        known.write(output.path)
    if as_json:
        print_json(of_robustness(known, output.place))
    else:
        _out.print(f"tables and figures in {escape(str(output.place))}")


def _print_robustness(known: "Robustness") -> None:
    if answer := known.answer():
        _out.print(f"{escape(answer)}\n")
    for table in known.tables():
        _out.print(table)
    for text in known.notes:
        _warn(text)


def _intervals(texts: list[str]) -> dict[str, str]:
    """Return intervals by the names of constants.

    Raises:
        DataError: a text does not have the form NAME=LOW..HIGH.
    """
    from fedsim.core.errors import DataError

    intervals = {}
    for text in texts:
        name, equals, interval = text.partition("=")
        if not equals:
            wanted = 'expected a constant and its interval, such as "lte.tail_time=1 s..15 s"'
            raise DataError("interval", f"--interval: got {text!r}; {wanted}")
        intervals[name.strip()] = interval.strip()
    return intervals


def of_robustness(known: "Robustness", folder: Path) -> dict[str, object]:
    """Return the document of `fedsim robust`.

    Args:
        known: the result.
        folder: the folder with its files.
    """
    from fedsim.cli.json_output import rows_of

    frames = {name: rows_of(frame) for name, frame in known.frames().items() if name != "worlds"}
    return {
        "folder": folder,
        "target": str(known.target),
        "against": known.against,
        "answer": known.answer(),
        "notes": list(known.notes),
        **frames,
    }
