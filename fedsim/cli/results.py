"""Commands that read results: compare, report, trace, status, robust; and examples, init."""

from collections.abc import Iterator, Mapping
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import (
    AsJson,
    Base,
    Gzip,
    Jobs,
    OnCluster,
    Overrides,
    PaperColumns,
    PaperStyles,
    Place,
    Places,
    Plugins,
    Quiet,
    Targets,
    app,
    check_out,
    comparison_options,
    within,
)
from fedsim.cli.app import err as _err
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import mention_size as _mention_size
from fedsim.cli.app import out as _out
from fedsim.cli.app import suggest as _next
from fedsim.cli.app import write_output as _write_output

if TYPE_CHECKING:
    from fedsim.analysis import Comparison
    from fedsim.robustness.result import Robustness
    from fedsim.running.watching import Snapshot


_Against = Annotated[
    str | None,
    typer.Option(metavar="VARIANT", help="the variant that the others are compared with"),
]
_Worlds = Annotated[int, typer.Option(min=1, metavar="N", help="least number of sampled worlds")]
_SurveySeed = Annotated[
    int, typer.Option(min=1, metavar="SEED", help="seed of the sampling of worlds")
]


@app.command()
def compare(
    places: Places,
    targets: Targets = None,
    against: _Against = None,
    confidence: Annotated[
        float, typer.Option(metavar="LEVEL", help="confidence level of the intervals")
    ] = 0.95,
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
        typer.Option(metavar="COLUMN", help="of the figure: round, bits, t, joules, or a measure"),
    ] = None,
    y: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="of the figure: gap, objective, a measure, or a cost"),
    ] = None,
    style: PaperStyles = "ieee",
    columns: PaperColumns = 1,
    csv: Annotated[bool, typer.Option("--csv", help="print the costs as CSV alone")] = False,  # noqa: FBT002 - a flag
    as_json: Annotated[bool, typer.Option("--json", help="print all tables as JSON alone")] = False,  # noqa: FBT002 - a flag
    latex: Annotated[bool, typer.Option("--latex", help="print the costs in LaTeX alone")] = False,  # noqa: FBT002 - a flag
    quiet: Quiet = False,  # noqa: FBT002 - a flag
) -> None:
    """Compare the costs of variants to reach a target, with confidence intervals.

    With a file as `--out`, one figure of the curves is drawn into it,
    as wide as a column of a paper.
    """
    from fedsim.cli.compare_output import Request, write_files

    with _errors():
        wanted = Request.of(out, (x, y), csv=csv, as_json=as_json, latex=latex)
        if out is not None:
            check_out(out, file=wanted.figure)
        comparison = _comparison(places, targets, against, confidence)
        for said in wanted.answer(comparison, places, style, columns):
            typer.echo(said, nl=False)
        if wanted.alone:
            return
        _print_comparison(comparison)
        place = write_files(comparison, places, out, confidence)
    _out.print(f"tables and figures in {escape(str(place))}")
    if len(places) == 1:
        from fedsim.cli.next_steps import after_comparison

        _next(*after_comparison(comparison, places[0]), quiet=quiet)


def _comparison(
    places: list[Path], targets: list[str] | None, against: str | None, confidence: float
) -> "Comparison":
    """Return a comparison; where no run has ended, print how far each came, and fail."""
    from fedsim import analysis
    from fedsim.errors import DataError

    try:
        return analysis.Comparison.of(places, targets or (), against, confidence)
    except DataError:
        if (table := analysis.so_far(places)) is not None:
            _out.print(table)  # all there is while no run has ended
        raise


def _print_comparison(comparison: "Comparison") -> None:
    """Print endings, answers, tables and notes."""
    endings = comparison.endings  # above the tables, which do not show missing runs
    for text in endings:
        _err.print(escape(text), style="yellow")
    for text in comparison.answers:
        _out.print(f"{escape(text)}\n")
    for table in comparison.tables():
        _out.print(table)
    for text in comparison.notes:
        if text not in endings:
            _err.print(escape(text), style="yellow")


@app.command("report")
def report_command(
    place: Place,
    targets: Targets = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="the file to write; report.html in DIR if not given"),
    ] = None,
    quiet: Quiet = False,  # noqa: FBT002 - a flag
) -> None:
    """Write one HTML page about a study; it opens without a network."""
    from fedsim import analysis, report
    from fedsim.cli.next_steps import after_comparison
    from fedsim.record.outputs import check_page

    page = out or place / "report.html"
    with _errors():
        if out is not None:
            check_out(out, file=True)
        check_page(out)
        comparison = analysis.Comparison.of([place], targets or ())
        with _write_output("report", [place], page, comparison_options(comparison)) as made:
            report.write_comparison(comparison, made.path)
    for text in comparison.answers:
        _out.print(f"{escape(text)}\n")
    _out.print(f"report in {escape(str(made.place))}")
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
    from fedsim import analysis

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
    as_json: AsJson = False,  # noqa: FBT002 - a flag
) -> None:
    """Show the progress of a study: runs done, running, failed and pending, and the time left."""
    from fedsim.running.folder import status, study_of
    from fedsim.running.watching import Snapshot
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in
    from fedsim.text import listing

    with _errors():
        if study.is_dir():
            found = status(study)
        else:
            plan = load(study, overrides=overrides or (), blocks=blocks_in(plugins or ()))
            found = status(out or Path("runs") / plan.folder_name, study_of(plan))
        if as_json:
            from fedsim.cli.json_output import of_status, print_json

            print_json(of_status(Snapshot.of(found)))
            return
        parts = [(each.done, each.running, each.failed, each.pending) for each in found.variants]
        rows = [
            (each.variant, *(str(len(part)) for part in states))
            for each, states in zip(found.variants, parts, strict=True)
        ]
        sums = [sum(map(len, column)) for column in zip(*parts, strict=True)]
        if len(rows) > 1:
            rows.append(("all", *map(str, sums)))
        heads = ("variant", "done", "running", "failed", "pending")
        _out.print(listing(escape(f"{found.name}, in {found.folder}"), heads, rows))
        for each in found.variants:
            for seed, reason in each.reasons.items():
                _out.print(escape(f"{each.variant}, seed {seed}: {reason}"), style="red")
        now = Snapshot.of(found)
        for said in _describe_running(now):
            _out.print(escape(said))
        _out.print(_ahead(now, sum(sums[1:2] + sums[3:])))
        _mention_size(found.folder)


def _describe_running(now: "Snapshot") -> Iterator[str]:
    """Yield how far each run in progress is that reports it."""
    from fedsim.running.probe import duration
    from fedsim.running.watching import time_left

    for run in now.running.values():
        if run.rounds:
            left = time_left(run)
            time = f", {duration(left)} left at most" if not isnan(left) else ""
            yield f"{run.variant}, seed {run.seed}: round {run.round:,} of {run.rounds:,}{time}"


def _ahead(now: "Snapshot", count: int) -> str:
    """Return the estimated time until all runs have ended, `count` of which have not."""
    from fedsim.running.probe import duration

    if not count:
        return "all runs have ended"
    seconds = now.seconds
    known = not isnan(seconds)
    time = f"{duration(seconds)} left at most" if known else "time left: not known yet"
    hint = "" if now.status.held else "; no process is running: repeat the command to resume"
    return f"{time}{hint}"


@app.command("watch")
def watch_command(
    place: Annotated[Path, typer.Argument(metavar="DIR", help="a folder that `fedsim run` writes")],
) -> None:
    """Show a study while it runs, in another process too, until its runs have ended.

    In a terminal it is a page with curves, the time left, workers and
    events; elsewhere a line every ten seconds.
    """
    from fedsim.cli.live_page import follow

    with _errors():
        follow(_out, place)


# Commands to start from: the scenarios shipped with fedsim, and a new folder.


@app.command("examples")
def examples_command(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="print this one, as a file to start from")
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002 - a flag
) -> None:
    """List the scenarios that come with fedsim, each with its question; `fedsim run NAME` runs it.

    With the name of one, print it.
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
    from fedsim.record.scenarios import parse
    from fedsim.scenario.examples import example

    if name is None:
        print_json({"examples": of_table(examples_table())["rows"]})
        return
    file = example(name)
    text = file.read_text(encoding="utf-8")
    print_json({"name": name, "text": text, "scenario": parse(text, Path(str(file)))})


# The robustness of conclusions to uncertain constants.

_Target = Annotated[
    str | None, typer.Option(metavar="COLUMN=NUMBER", help="the target, such as gap=1e-5")
]
_Intervals = Annotated[
    list[str] | None,
    typer.Option(
        "--interval",
        metavar="PRESET.FIELD=LOW..HIGH",
        help='an interval in place of the preset\'s: "lte.tail_time=1 s..15 s"',
    ),
]
_Arrays = Annotated[
    str,
    typer.Option(
        metavar="LIBRARY", help="numpy, or jax on its default device, such as a GPU (.[jax])"
    ),
]
_Runs = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="if runs cannot be re-priced: number of worlds in which they are repeated",
    ),
]


@app.command()
def robust(
    place: Place,
    target: _Target = None,
    against: _Against = None,
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
    arrays: _Arrays = "numpy",
    quiet: Quiet = False,  # noqa: FBT002 - a flag
    as_json: AsJson = False,  # noqa: FBT002 - a flag
) -> None:
    """Find which conclusions of a study survive the uncertainty of its constants.

    Worlds are sampled from the interval of every preset's figure that
    the study uses; each run is re-priced in each of them, without
    training. Stored prices of an earlier command are reused.
    """
    from fedsim.cli.next_steps import command
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
            intervals=_intervals(intervals or []),
            runs=runs,
            out=out,
            blocks=blocks_in(plugins or ()),
            jobs=jobs,
            cluster=cluster,
            base=base,
            arrays=arrays,  # type: ignore[arg-type]  # checked there
        )
        options = {"worlds": worlds, "seed": seed, "intervals": intervals, "runs": runs}
        _report_robustness(known, place, out, options, as_json=as_json)
    if not as_json:
        _next(command("report", place), quiet=quiet)


def _report_robustness(
    known: "Robustness", place: Path, out: Path, options: Mapping[str, object], *, as_json: bool
) -> None:
    """Print and write the answer, tables and notes; or write them, and print JSON alone."""
    from fedsim.cli.json_output import of_robustness, print_json

    if not as_json:
        _print_robustness(known)
    given = {"target": str(known.target), "against": known.against, **options}
    with _write_output("robust", [place], out, given) as made:
        known.write(made.path)
    if as_json:
        print_json(of_robustness(known, made.place))
    else:
        _out.print(f"tables and figures in {escape(str(made.place))}")


def _print_robustness(known: "Robustness") -> None:
    """Print answer, tables and notes."""
    if said := known.answer():
        _out.print(f"{escape(said)}\n")
    for table in known.tables():
        _out.print(table)
    for text in known.notes:
        _err.print(escape(text), style="yellow")


def _intervals(texts: list[str]) -> dict[str, str]:
    """Return the given intervals, by the names of constants.

    Raises:
        DataError: one is not of the form NAME=LOW..HIGH.
    """
    from fedsim.errors import DataError

    intervals = {}
    for text in texts:
        name, equals, interval = text.partition("=")
        if not equals:
            wanted = 'expected a constant and its interval, such as "lte.tail_time=1 s..15 s"'
            raise DataError("interval", f"--interval: got {text!r}; {wanted}")
        intervals[name.strip()] = interval.strip()
    return intervals
