"""The command that says which conclusions survive the doubt about constants."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import app
from fedsim.cli.options import Jobs, OnCluster, Place, Plugins
from fedsim.cli.terminal import check_out, within
from fedsim.cli.terminal import err as _err
from fedsim.cli.terminal import errors as _errors
from fedsim.cli.terminal import out as _out

_Target = Annotated[
    str | None, typer.Option(metavar="COLUMN=NUMBER", help="what to reach, such as gap=1e-5")
]
_Doubts = Annotated[
    list[str] | None,
    typer.Option(
        "--doubt",
        metavar="PRESET.FIELD=LOW..HIGH",
        help='an interval in place of the preset\'s: "lte.tail_time=1 s..15 s"',
    ),
]
_Runs = Annotated[
    int,
    typer.Option(
        min=0, help="where runs cannot be priced: so many worlds in which they are made again"
    ),
]


@app.command()
def robust(
    place: Place,
    target: _Target = None,
    against: Annotated[
        str | None, typer.Option(help="the variant that the others are compared with")
    ] = None,
    worlds: Annotated[int, typer.Option(min=1, help="so many are drawn at the least")] = 2048,
    seed: Annotated[int, typer.Option(min=1, help="of the drawing of worlds")] = 1,
    doubts: _Doubts = None,
    runs: _Runs = 0,
    jobs: Jobs = 1,
    cluster: OnCluster = None,
    plugins: Plugins = None,
    out: Annotated[
        Path | None, typer.Option(help="where files go; robustness in DIR if not given")
    ] = None,
) -> None:
    """Say which conclusions of a study survive the doubt about its constants.

    Worlds are drawn from the interval of every preset's figure that the study uses; each run is
    priced in each of them, without training. What was priced before is kept.
    """
    from fedsim.robustness import robust as survey
    from fedsim.scenario.registries import blocks_in

    with _errors():
        out = out or within(place, "robustness")
        check_out(out)
        known = survey(
            place,
            target=target,
            against=against,
            worlds=worlds,
            seed=seed,
            doubts=_intervals(doubts or []),
            runs=runs,
            out=out,
            blocks=blocks_in(plugins or ()),
            jobs=jobs,
            cluster=cluster,
        )
        for table in known.tables():
            _out.print(table)
        for text in known.notes:
            _err.print(escape(text), style="yellow")
        known.write(out)
    _out.print(f"tables and figures in {escape(str(out))}")


def _intervals(texts: list[str]) -> dict[str, str]:
    """Return the intervals that were given, by the constants' names.

    Raises:
        DataError: one of them is none.
    """
    from fedsim.errors import DataError

    intervals = {}
    for text in texts:
        name, equals, interval = text.partition("=")
        if not equals:
            wanted = 'give a constant and its interval, such as "lte.tail_time=1 s..15 s"'
            raise DataError("doubt", f"--doubt: got {text!r}; {wanted}")
        intervals[name.strip()] = interval.strip()
    return intervals
