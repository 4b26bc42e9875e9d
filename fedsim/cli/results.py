"""Commands that read results: compare, report, trace, status; and examples, init."""

from collections.abc import Iterator
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import (
    Against,
    AsJson,
    Gzip,
    Overrides,
    PaperColumns,
    PaperStyles,
    Place,
    Places,
    Plugins,
    Practical,
    Quiet,
    Targets,
    app,
    check_out,
    comparison_options,
    practical_difference,
    print_answer,
)
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import mention_size as _mention_size
from fedsim.cli.app import out as _out
from fedsim.cli.app import suggest as _next
from fedsim.cli.app import warn as _warn
from fedsim.cli.app import write_output as _write_output

if TYPE_CHECKING:
    from fedsim.results.analysis import Comparison
    from fedsim.running.watching import Snapshot


@app.command()
def compare(
    places: Places,
    targets: Targets = None,
    against: Against = None,
    by: Annotated[
        str | None,
        typer.Option(
            metavar="COST",
            help="the cost that the answer is about: energy, time, bits, rounds or CO2; energy if"
            " not given, or CO2 if the runs state their electricity",
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="time between trainings, such as '1 day': how many a battery lasts for",
        ),
    ] = None,
    confidence: Annotated[
        float, typer.Option(metavar="LEVEL", help="confidence level of the intervals")
    ] = 0.95,
    practical: Practical = "1%",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="folder for the files; comparison in the first DIR if not given; or a file for"
            " one figure, such as gap.pdf",
        ),
    ] = None,
    x: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="x axis of the figure: round, bits, t, joules, or a measure"
        ),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN", help="y axis of the figure: gap, objective, a measure, or a cost"
        ),
    ] = None,
    style: PaperStyles = "ieee",
    columns: PaperColumns = 1,
    csv: Annotated[bool, typer.Option("--csv", help="print only the costs, as CSV")] = False,
    as_json: AsJson = False,
    latex: Annotated[bool, typer.Option("--latex", help="print only the costs, in LaTeX")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare the costs of variants to reach a target, with confidence intervals.

    If `--out` is a file, draw one figure of the curves into it, as
    wide as a column of a paper.
    """
    from fedsim.cli.compare_output import Request, write_files
    from fedsim.core.errors import DataError

    with _errors() as work:
        request = Request.of(out, (x, y), csv=csv, as_json=as_json, latex=latex)
        if every is not None and request.alone and request.form != "json":
            raise DataError("every", "--every needs the tables: leave out the option of one output")
        if out is not None:
            check_out(out, file=request.figure)
        share = practical_difference(practical)
        comparison = _comparison(places, targets, against, (confidence, share), by, every)
        for text in request.answer(comparison, places, style, columns):
            typer.echo(text, nl=False)
        if request.alone:
            return
        _print_comparison(comparison)
        work.begin()
        place = write_files(comparison, places, out, confidence)
    _out.print(f"tables and figures in {escape(str(place))}")
    if len(places) == 1:
        from fedsim.cli.next_steps import after_comparison

        _next(*after_comparison(comparison, places[0]), quiet=quiet)


def _comparison(
    places: list[Path],
    targets: list[str] | None,
    against: str | None,
    level: tuple[float, float],
    by: str | None,
    every: str | None,
) -> "Comparison":
    """Return a comparison; if no run has ended, print the progress of each run, and raise."""
    from fedsim.core.errors import DataError
    from fedsim.results import analysis

    try:
        return analysis.Comparison.of(places, targets or (), against, *level, by, every)
    except DataError:
        if (table := analysis.so_far(places)) is not None:
            _out.print(table)
        raise


def _print_comparison(comparison: "Comparison") -> None:
    """Print endings, answers, tables and notes."""
    endings = comparison.endings  # above the tables, which do not show missing runs
    for text in endings:  # with the tables, where an output is piped into a file
        _out.print(escape(text), style="yellow")
    for parts in comparison.explained_answers:
        print_answer(parts)
    print_answer(comparison.totals)
    if longest := comparison.battery_answer:
        _out.print(f"{escape(longest)}\n")
    for table in comparison.tables():
        _out.print(table)
    for text in comparison.notes:
        if text not in endings:
            _warn(text)


@app.command("report")
def report_command(
    place: Place,
    targets: Targets = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="the file to write; report.html in DIR if not given"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page about a study, which opens offline."""
    from fedsim.cli.next_steps import after_comparison
    from fedsim.results import analysis, report
    from fedsim.results.record.outputs import check_page

    page = out or place / "report.html"
    with _errors():
        if out is not None:
            check_out(out, file=True)
        check_page(out)
        comparison = analysis.Comparison.of([place], targets or ())
        with _write_output("report", [place], page, comparison_options(comparison)) as draft:
            report.write_comparison(comparison, draft.path)
    for parts in comparison.explained_answers:
        print_answer(parts)
    _out.print(f"report in {escape(str(draft.place))}")
    _next(*after_comparison(comparison, place, reported=True), quiet=quiet)


@app.command()
def trace(
    place: Place,
    rounds: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="only these rounds, such as 10:20")
    ] = None,
    clients: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="only these clients, such as 0:99")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE|DIR", help="file or folder; trace.json beside each log if not given"
        ),
    ] = None,
    *,
    gzip: Gzip = False,
) -> None:
    """Write the activity of all clients as a trace for https://ui.perfetto.dev."""
    from fedsim.results import analysis

    with _errors():
        if out is not None:
            check_out(out, file=out.name.endswith((".json", ".json.gz")))
        for file, count in analysis.write_traces(place, out, rounds, clients, gzip=gzip):
            _out.print(f"{count:,} events in {escape(str(file))}")


# The progress of a study.


@app.command("status")
def status_command(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY", help="a folder of `fedsim run`, or a scenario"),
    ],
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="folder of the runs of a scenario, if not runs/NAME"),
    ] = None,
    plugins: Plugins = None,
    as_json: AsJson = False,
) -> None:
    """Show the progress of a study: runs done, running, failed and pending, and the time left."""
    from fedsim.core.tables import listing
    from fedsim.running.folder import status, study_of
    from fedsim.running.watching import Snapshot
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in

    with _errors():
        # As for `find_scenario`, a path of several parts is no example's name.
        missing = not study.exists() and not study.suffix and len(study.parts) > 1
        if study.is_dir() or missing:
            progress = status(study)
        else:
            plan = load(study, overrides=overrides or (), blocks=blocks_in(plugins or ()))
            progress = status(out or Path("runs") / plan.folder_name, study_of(plan))
        if as_json:
            from fedsim.cli.json_output import of_status, print_json

            print_json(of_status(Snapshot.of(progress)))
            return
        parts = [(it.done, it.running, it.failed, it.pending) for it in progress.variants]
        rows = [
            (variant.variant, *(str(len(seeds)) for seeds in states))
            for variant, states in zip(progress.variants, parts, strict=True)
        ]
        sums = [sum(map(len, column)) for column in zip(*parts, strict=True)]
        if len(rows) > 1:
            rows.append(("all", *map(str, sums)))
        heads = ("variant", "done", "running", "failed", "pending")
        _out.print(listing(escape(f"{progress.name}, in {progress.folder}"), heads, rows))
        for variant in progress.variants:
            for seed, reason in variant.reasons.items():
                _out.print(escape(f"{variant.variant}, seed {seed}: {reason}"), style="red")
        now = Snapshot.of(progress)
        for text in _describe_running(now):
            _out.print(escape(text))
        _out.print(_ahead(now, sum(sums[1:2] + sums[3:])))
        _mention_size(progress.folder)


def _describe_running(now: "Snapshot") -> Iterator[str]:
    """Yield round and time left of each run that reports its progress."""
    from fedsim.running.watching import describe_left, time_left

    for run in now.running.values():
        if run.rounds:
            left = time_left(run)
            time = f", {describe_left(left)}" if not isnan(left) else ""
            yield f"{run.variant}, seed {run.seed}: round {run.round:,} of {run.rounds:,}{time}"


def _ahead(now: "Snapshot", count: int) -> str:
    """Return the estimated time until the `count` unfinished runs have ended."""
    from fedsim.running.watching import describe_left, describe_saved

    if not count:
        return "all runs have ended"
    seconds = now.seconds
    time = "time left: not known yet" if isnan(seconds) else describe_left(seconds)
    if now.status.held:
        return time
    saved = f"no process is running: {describe_saved(len(now.done), len(now.runs))}"
    return saved if isnan(seconds) else f"{time}; {saved}"


@app.command("watch")
def watch_command(
    place: Annotated[Path, typer.Argument(metavar="DIR", help="a folder that `fedsim run` writes")],
) -> None:
    """Follow a study from any process until its runs have ended.

    In a terminal, show a page with curves, the time left, workers and
    events; elsewhere print a line every ten seconds.
    """
    from fedsim.cli.live_page import follow

    with _errors():
        follow(_out, place)


# Commands to start from: the scenarios shipped with fedsim, and a new folder.


@app.command("examples")
def examples_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="print this scenario, as a file to start from"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the scenarios that come with fedsim, each with its question; `fedsim run NAME` runs it.

    With NAME, print this scenario.
    """
    from fedsim.cli.downloads import examples_table
    from fedsim.scenario.examples import example

    with _errors():
        if as_json:
            _print_examples(name)
        elif name is None:
            _out.print(examples_table())
            _out.print("`fedsim run NAME` runs one, `fedsim examples NAME` prints it.")
        else:
            print(example(name).read_text(encoding="utf-8"), end="")  # noqa: T201 - to be piped


def _print_examples(name: str | None) -> None:
    """Print the examples, or one of them, as JSON."""
    from fedsim.cli.downloads import examples_table
    from fedsim.cli.json_output import of_table, print_json
    from fedsim.results.record.scenarios import parse
    from fedsim.scenario.examples import example

    if name is None:
        print_json({"examples": of_table(examples_table())["rows"]})
        return
    file = example(name)
    text = file.read_text(encoding="utf-8")
    print_json({"name": name, "text": text, "scenario": parse(text, Path(str(file)))})
