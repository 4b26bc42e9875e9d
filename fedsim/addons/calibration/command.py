"""The command that fits a fleet's constants to a recording."""

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import Plugins, Quiet, app, check_out
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import out as _out
from fedsim.cli.app import remark as _remark
from fedsim.cli.app import suggest as _next
from fedsim.core.errors import DataError

_Log = Annotated[
    Path,
    typer.Argument(metavar="LOG", help="a folder written by `fedsim run`, or a recording"),
]
_Recorded = Annotated[
    Path, typer.Argument(metavar="FILE", help="a scenario whose fleet has the recorded clients")
]
_Further = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="FILE",
        help="a further recording; CLIENT=FILE for one client, up:FILE for a Mahimahi trace",
    ),
]
_Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", metavar="KEY", help="keep the scenario's value: radio.latency"),
]
_Fit = Annotated[
    list[str] | None,
    typer.Option("--fit", metavar="KEY", help="also fit network.server.uplink or downlink"),
]
_Each = Annotated[bool, typer.Option("--each", help="fit constants per client, not per group")]
_Rounds = Annotated[
    str | None, typer.Option(metavar="FIRST..LAST", help="use these rounds only, such as 1..50")
]
_Operations = Annotated[
    float | None,
    typer.Option(metavar="N", min=1.0, help="operations per task, if LOG lacks them"),
]
_Power = Annotated[
    list[str] | None,
    typer.Option(metavar="CLIENT=FILE", help="a power log of a client, to fit its powers to"),
]
_Place = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="scenario to write; NAME-calibrated.yaml if not given"),
]


@app.command("calibrate")
def calibrate_command(
    log: _Log,
    file: _Recorded,
    further: _Further = None,
    keep: _Keep = None,
    fit: _Fit = None,
    each: _Each = False,
    rounds: _Rounds = None,
    operations: _Operations = None,
    power: _Power = None,
    out: _Place = None,
    plugins: Plugins = None,
    quiet: Quiet = False,
) -> None:
    """Fit the constants of a fleet to a recording, and write the scenario with them.

    Speeds, rates, latencies and the spread of times are estimated by
    maximum likelihood, with intervals that `fedsim robust` samples.
    With --power, the powers of device and radio are fitted as well.
    Constants that the recording does not identify are listed.
    """
    from fedsim.addons.calibration.api import FurtherRecording, PowerFile, calibrate
    from fedsim.cli.next_steps import command
    from fedsim.scenario.registries import blocks_in

    with _errors():
        place = out or _default(file)
        check_out(place, file=True)
        if place.exists():
            raise DataError("out", f"--out: {place} exists; expected the name of a new file")
        calibration = calibrate(
            log,
            file,
            further=[FurtherRecording.of(text) for text in further or ()],
            keep=keep or (),
            fit=fit or (),
            each=each,
            rounds=None if rounds is None else _span(rounds),
            operations=operations,
            power=[PowerFile.of(text) for text in power or ()],
            blocks=blocks_in(plugins or ()),
        )
        calibration.write(file, place)
    _out.print(calibration.table())
    _out.print(escape(calibration.describe_noise()))
    for text in calibration.notes:
        _remark(text)
    _out.print(f"calibrated scenario in {escape(str(place))}")
    _next(command("run", place), quiet=quiet)


def _default(file: Path) -> Path:
    """Return a path beside the scenario; for an example, in the current folder."""
    folder = file.parent if file.exists() else Path()
    return folder / f"{file.stem}-calibrated.yaml"


def _span(text: str) -> tuple[int, int]:
    """Return the first and the last round of a range.

    Raises:
        DataError: the text is not FIRST..LAST.
    """
    match = re.fullmatch(r"([0-9]+)\.\.([0-9]+)", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        raise DataError("rounds", f"--rounds: got {text!r}; expected FIRST..LAST, such as 1..50")
    return int(match[1]), int(match[2])
