"""The commands.

Exit codes: 0 done; 1 a run failed, or there was no room for a file; 2 nothing has begun, for the
scenario or an option is wrong, or another process writes into the same folder; 128 and the number
of the signal that interrupted it: 130 after Ctrl-C, 143 after `kill`. `fedsim.__main__` runs them.
"""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from fedsim import analysis, describe, report
from fedsim.blocks.wording import unknown
from fedsim.building import Builder, missing_data
from fedsim.errors import DataError
from fedsim.foreseen import foreseen
from fedsim.outlook import job_table
from fedsim.probe import opening
from fedsim.problems import ENTRIES, fetch
from fedsim.record.notes import marked, once
from fedsim.record.result import Result
from fedsim.repricing import reprice
from fedsim.repricing.table import price_table
from fedsim.running import run
from fedsim.scenario import Plan, load, schema
from fedsim.scenario.registries import catalogue
from fedsim.study import check_place, study_of
from fedsim.terminal import err as _err
from fedsim.terminal import errors as _errors
from fedsim.terminal import note as _note
from fedsim.terminal import out as _out
from fedsim.terminal import remark as _remark
from fedsim.terminal import theory as _theory
from fedsim.watching import label, progress_table

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Simulate federated optimisation over a network: scenario in, event log and tables out.",
)

File = Annotated[Path, typer.Argument(metavar="FILE", help="a scenario in YAML")]
Places = Annotated[
    list[Path], typer.Argument(metavar="DIR...", help="what `fedsim run` has written, or a part")
]
Place = Annotated[
    Path, typer.Argument(metavar="DIR", help="what `fedsim run` has written, or a part")
]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", metavar="COLUMN=NUMBER", help="what to reach, such as gap=1e-5"),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="replace a value: algorithm.censor=0.2"),
]
Out = Annotated[
    Path | None, typer.Option(help="where the run folders go; runs/NAME where not given")
]
Jobs = Annotated[int, typer.Option(min=1, help="how many runs go on at once, in processes")]
Fresh = Annotated[bool, typer.Option("--fresh", help="make again what is there already")]


@app.command("run")
def run_command(
    file: File,
    overrides: Overrides = None,
    out: Out = None,
    jobs: Jobs = 1,
    fresh: Fresh = False,  # noqa: FBT002 - a flag
) -> None:
    """Run a scenario: all variants, all seeds; end with a table and a figure.

    Runs that are there already, of the same scenario, data and code, are kept. What the scenario
    had other values for is made again; a folder with runs of another scenario is left alone.
    """
    out = out or Path("runs") / file.stem
    with _errors():
        plan = load(file, overrides=overrides or ())
        _offer_downloads(plan)
        if not fresh:
            check_place(study_of(plan), out)
        count = sum(len(variant.seeds) for variant in plan.variants)
        with progress_table(_err, count) as watch, _theory():
            result = run(
                file,
                out=out,
                overrides=overrides or (),
                watch=watch,
                jobs=jobs,
                fresh=fresh,
                tell=_remark,
            )
        _report(plan, result)
    failed = result.summary[result.summary["status"] != "done"]
    for row in failed.to_dict("records"):
        _err.print(escape(f"{row['variant']}, seed {row['seed']}: {row['reason']}"), style="red")
    raise typer.Exit(1 if len(failed) else 0)


@app.command()
def check(file: File, overrides: Overrides = None) -> None:
    """Validate a scenario and show what would run."""
    with _errors():
        plan = load(file, overrides=overrides or ())
        _offer_downloads(plan)
        problem = None
        jobs, openings = Builder(plan).check(), {}
        for job in jobs:
            if job.problem is not problem:
                _out.print(describe.split_table(job))
            problem = job.problem
            began = openings[job.variant.name] = opening(job)
            _out.print(job_table(job, began))
            for concern in job.concerns:
                _note(f"{job.variant.name}: algorithm.{concern.key}: {concern.text}")
        for note in foreseen(jobs, openings):
            _remark(note)
    _out.print(f"{escape(str(file))} is right", style="green")


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
    out = out or places[0] / "comparison"
    with _errors():
        comparison = analysis.Comparison.of(places, targets or (), against, confidence)
        for table in comparison.tables():
            _out.print(table)
        for text in comparison.notes:
            _err.print(escape(text), style="yellow")
        comparison.write(out)
    _out.print(f"tables and figures in {escape(str(out))}")


@app.command("report")
def report_command(
    place: Place,
    targets: Targets = None,
    out: Annotated[
        Path | None, typer.Option(help="the file to write; report.html in DIR where not given")
    ] = None,
) -> None:
    """Write one HTML page that tells a study; it opens without a network."""
    with _errors():
        page = report.write(place, out, targets or ())
    _out.print(f"report in {escape(str(page))}")


@app.command()
def trace(
    place: Place,
    rounds: Annotated[
        str | None, typer.Option(metavar="FIRST:LAST", help="these rounds alone, such as 10:20")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="a file or folder; trace.json beside each log if not given")
    ] = None,
) -> None:
    """Write what every client was doing as a trace, to be opened at https://ui.perfetto.dev."""
    with _errors():
        for file, count in analysis.write_traces(place, out, rounds):
            _out.print(f"{count:,} events in {escape(str(file))}")


@app.command("reprice")
def reprice_command(
    place: Place,
    overrides: Overrides = None,
    out: Annotated[
        Path | None, typer.Option(help="where the run folders go; repriced in DIR if not given")
    ] = None,
    base: Annotated[
        Path | None, typer.Option(help="where relative paths of the scenario start; here if none")
    ] = None,
) -> None:
    """Price finished runs again: other radios, devices, batteries or links, without training."""
    out = out or place / "repriced"
    with _errors():
        result = reprice(place, overrides or (), out, base=base, tell=_remark)
        _out.print(price_table(place, result.runs))
    _out.print(f"event logs and tables in {escape(str(out))}")


@app.command("list")
def list_command(
    name: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="one table alone, such as compressors")
    ] = None,
) -> None:
    """List what a scenario can name: algorithms, compressors, devices, ..., with sources."""
    listed = describe.listings(catalogue(), _remark)
    tables = {title.replace(" ", "-"): table for title, table in listed}
    with _errors():
        if name is not None and name not in tables:
            raise DataError("list", f"there is no such table: {unknown(name, list(tables))}")
    for table in tables.values() if name is None else [tables[name]]:
        _out.print(table)


@app.command("schema")
def schema_command() -> None:
    """Print the JSON Schema of a scenario, for an editor to complete and check it."""
    print(json.dumps(schema(), indent=2))  # noqa: T201 - to be piped into a file, unstyled


@app.command("fetch")
def fetch_command(
    name: Annotated[str, typer.Argument(help=f"one of: {', '.join(ENTRIES)}")],
) -> None:
    """Download a data set of the catalogue into the user's cache."""
    with _errors():
        _out.print(escape(str(fetch(name))))


def _offer_downloads(plan: Plan) -> None:
    """Offer to download what is missing, where somebody is there to answer."""
    for name in missing_data(plan):
        question = f"{name} is not on this machine. Download {ENTRIES[name].download}?"
        if sys.stdin.isatty() and typer.confirm(question, default=True):
            fetch(name)


def _report(plan: Plan, result: Result) -> None:
    """Print the table of costs, draw the figure, and say where all of it is."""
    labels = {
        variant.name: label(variant.name, variant.scenario.algorithm.kind)
        for variant in plan.variants
    }
    rounds = result.rounds
    target = result.summary["target"].max()
    if target > 0:
        costs = analysis.cost_to_target(rounds, target)
        title = f"{plan.name}: cost to a gap below {target:g}"
    else:
        costs = analysis.final_cost(rounds)
        title = f"{plan.name}: cost of the whole run"
    costs, labels = analysis.mean_cost(costs, list(labels)), marked(labels, result.seen)
    _out.print(analysis.cost_table(costs, labels, title))
    figure = result.folder / "convergence.png"
    analysis.save(analysis.convergence(rounds, labels, plan.name), figure)
    _out.print(
        f"event logs and tables in {escape(str(result.folder))}, figure {escape(str(figure))}"
    )
    for note in once(result.seen):
        _remark(note)
