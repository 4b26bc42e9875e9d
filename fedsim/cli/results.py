"""Commands that read what runs have written."""

import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import app
from fedsim.cli.options import Gzip, Place, Places, Targets
from fedsim.cli.terminal import check_out, within
from fedsim.cli.terminal import err as _err
from fedsim.cli.terminal import errors as _errors
from fedsim.cli.terminal import out as _out
from fedsim.cli.terminal import suggest as _next


@app.command()
def compare(
    places: Places,
    targets: Targets = None,
    against: Annotated[
        str | None, typer.Option(help="the variant that the others are compared with")
    ] = None,
    confidence: Annotated[float, typer.Option(help="of the intervals")] = 0.95,
    out: Annotated[
        Path | None, typer.Option(help="where files go; comparison in the first DIR if not given")
    ] = None,
) -> None:
    """Compare what variants have cost to reach a target, and say how sure that is."""
    from fedsim import analysis
    from fedsim.errors import DataError

    with _errors():
        if out is not None:
            check_out(out)
        try:
            comparison = analysis.Comparison.of(places, targets or (), against, confidence)
        except DataError:
            if (table := analysis.so_far(places)) is not None:
                _out.print(table)  # nothing more can be said, where no run has ended
            raise
        endings = comparison.endings  # above the tables: they do not show who is missing
        for text in endings:
            _err.print(escape(text), style="yellow")
        for text in comparison.answers:
            _out.print(f"{escape(text)}\n")
        for table in comparison.tables():
            _out.print(table)
        for text in comparison.notes:
            if text not in endings:
                _err.print(escape(text), style="yellow")
        out = out or within(places[0], "comparison")
        comparison.write(out)
    _out.print(f"tables and figures in {escape(str(out))}")
    folder = shlex.quote(str(places[0]))
    _next(f"fedsim report {folder}", f"fedsim robust {folder}")


@app.command("report")
def report_command(
    place: Place,
    targets: Targets = None,
    out: Annotated[
        Path | None, typer.Option(help="the file to write; report.html in DIR where not given")
    ] = None,
) -> None:
    """Write one HTML page that tells a study; it opens without a network."""
    from fedsim import report

    with _errors():
        if out is not None:
            check_out(out, file=True)
        page = report.write(place, out, targets or ())
    _out.print(f"report in {escape(str(page))}")


@app.command()
def trace(
    place: Place,
    rounds: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="these rounds alone, such as 10:20")
    ] = None,
    clients: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="these clients alone, such as 0:99")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="a file or folder; trace.json beside each log if not given")
    ] = None,
    *,
    gzip: Gzip = False,
) -> None:
    """Write what every client was doing as a trace, to be opened at https://ui.perfetto.dev."""
    from fedsim import analysis

    with _errors():
        if out is not None:
            check_out(out, file=out.name.endswith((".json", ".json.gz")))
        for file, count in analysis.write_traces(place, out, rounds, clients, gzip=gzip):
            _out.print(f"{count:,} events in {escape(str(file))}")
