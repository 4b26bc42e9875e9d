"""Commands that make runs: run, check."""

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from fedsim.cli.app import (
    AsJson,
    File,
    Fresh,
    HowCarried,
    Jobs,
    OnCluster,
    Out,
    Overrides,
    Plugins,
    Quiet,
    Share,
    Trackers,
    WatchPage,
    app,
    check_out,
    check_watch,
)
from fedsim.cli.app import errors as _errors
from fedsim.cli.app import mention_size as _mention_size
from fedsim.cli.app import note as _note
from fedsim.cli.app import out as _out
from fedsim.cli.app import remark as _remark
from fedsim.cli.app import suggest as _next
from fedsim.cli.app import theory as _theory

if TYPE_CHECKING:
    from fedsim.results.record.scenarios import Note
    from fedsim.results.result import Result
    from fedsim.running.check import Check
    from fedsim.running.folder import Shard
    from fedsim.scenario import Plan


@app.command("run")
def run_command(
    file: File,
    overrides: Overrides = None,
    out: Out = None,
    jobs: Jobs = 1,
    fresh: Fresh = False,
    plugins: Plugins = None,
    carry: HowCarried = "values",
    cluster: OnCluster = None,
    shard: Share = None,
    track: Trackers = None,
    quiet: Quiet = False,
    watch: WatchPage = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario: all variants, all seeds; end with an answer, a table and a figure.

    The answer compares the cheapest variant that reached the target
    with the next cheapest one; `fedsim compare` has all pairs.

    Complete runs of the same scenario, data and code are kept. Runs
    with other values move to OUT/.earlier, and return when the scenario
    has these values again. A folder of another scenario is not changed.
    """
    from fedsim.cli.downloads import offer_downloads
    from fedsim.cli.next_steps import TypedRun, after_run
    from fedsim.cli.progress import print_ends, report_part, variant_names
    from fedsim.cli.showing import show_runs
    from fedsim.running.api import run_plan
    from fedsim.running.campaign import once
    from fedsim.running.folder import WHOLE, check_place, study_of
    from fedsim.running.interrupts import explain_state
    from fedsim.running.tracking import choose_trackers, split_blocks
    from fedsim.scenario import load

    with _errors() as work:
        explain_state(lambda: "No run has begun. Repeat the command to start.")
        check_watch(watch=watch, quiet=quiet)
        share = _share(shard, jobs, cluster)
        settings, (blocks, further) = overrides or (), split_blocks(plugins or ())
        trackers = choose_trackers(track or (), further)
        typed = TypedRun(file, settings, plugins or (), out)
        plan = load(file, overrides=settings, blocks=blocks)
        out = out or Path("runs") / plan.folder_name
        check_out(out)
        offer_downloads(plan)
        if not fresh:
            check_place(study_of(plan), out)
        count, labels, before = _count(plan, share), variant_names(plan), _dates_of_ends(out)
        make = partial(run_plan, plan, out=out, jobs=jobs, cluster=cluster, share=share)
        make = partial(make, trackers=trackers)
        show = show_runs(out, count, labels, quiet=quiet, watch=watch)
        make = partial(
            make, fresh=fresh, carry=carry, tell=partial(_tell, quiet=quiet), check=False
        )
        rescued, ended = list["Result"](), set[tuple[str, int]]()
        try:
            with show as callback, _theory():
                explain_state(partial(_saved, plan, out, share, ended if fresh else None))
                watch_runs = once(work.follow(callback), ended)
                result = make(watch=watch_runs, rescue=rescued.append)
        except Exception as error:
            for part in rescued if share == WHOLE and not as_json else ():
                report_part(part, count, error)
            raise
        work.begin()
        # Before the tables, so that failures are not missed.
        code = print_ends(result, labels, reported=share == WHOLE and not as_json)
        kept = _count_kept(result, before)
        _print_result(result, kept, share, as_json=as_json, quiet=quiet)
        if not as_json:
            _next(*after_run(result, typed) if shard is None else (), quiet=quiet)
            _mention_size(out)
    raise typer.Exit(code)


def _saved(
    plan: "Plan", out: Path, share: "Shard", ended: Collection[tuple[str, int]] | None
) -> str:
    """Return how many runs of a shard are saved, and how to go on.

    Args:
        plan: the runs.
        out: their folder.
        share: the shard.
        ended: the runs that count, those of this call; None for all in the folder.
    """
    from fedsim.running.folder import status, study_of
    from fedsim.running.watching import Snapshot, describe_saved

    runs = share.of([(variant.name, seed) for variant in plan.variants for seed in variant.seeds])
    done = Snapshot(status(out, study_of(plan))).done
    return describe_saved(
        sum(run in done and (ended is None or run in ended) for run in runs), len(runs)
    )


def _tell(note: "Note", *, quiet: bool) -> None:
    """Print a note on the scenario or a run that failed; a quiet command prints the needed ones."""
    from fedsim.results.record.scenarios import NEEDED

    if not quiet or note.key in NEEDED:
        _remark(note)


def _print_result(
    result: "Result", kept: int, share: "Shard", *, as_json: bool, quiet: bool
) -> None:
    """Print the results: answer, tables and figure, or a JSON document."""
    from fedsim.cli.json_output import of_run, print_json
    from fedsim.cli.progress import draw_overview, report
    from fedsim.running.folder import WHOLE

    count, whole = len(result.runs), share == WHOLE
    if as_json:
        shard = None if whole else f"{share.number}/{share.shares}"
        print_json(of_run(result, kept, shard, draw_overview(result) if whole else None))
    elif whole:
        report(result, quiet=quiet)
        if kept:
            _out.print(f"{kept} runs kept, {count - kept} made")
    else:
        where = f"{share.number}/{share.shares}: {count} of the runs are in {result.folder}"
        _out.print(f"shard {escape(where)}")


def _dates_of_ends(out: Path) -> dict[Path, int]:
    """Return when each ended run in a folder was completed: the date of its summary, in ns."""
    from fedsim.results.record.folder import SUMMARY

    return {path.parent: path.stat().st_mtime_ns for path in out.glob(f"*/*/{SUMMARY}")}


def _count_kept(result: "Result", before: Mapping[Path, int]) -> int:
    """Return the number of runs that existed before and were not repeated."""
    after = _dates_of_ends(result.folder)
    return sum(folder in before and before[folder] == after.get(folder) for folder in result.runs)


def _count(plan: "Plan", share: "Shard") -> int:
    """Return the number of runs in a shard of a plan."""
    return len(share.of([seed for variant in plan.variants for seed in variant.seeds]))


def _share(shard: str | None, jobs: int, cluster: str | None) -> "Shard":
    """Return the shard to make.

    Raises:
        DataError: the shard is invalid, or both jobs and a cluster are requested.
    """
    from fedsim.running.cluster import check_choice
    from fedsim.running.folder import WHOLE, Shard

    check_choice(jobs, None, cluster)
    return WHOLE if shard is None else Shard.parse(shard)


@app.command()
def check(
    file: File,
    overrides: Overrides = None,
    plugins: Plugins = None,
    details: Annotated[
        bool,
        typer.Option(
            "--details",
            help="also show labels per client, costs per group of clients, all settings",
        ),
    ] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Validate a scenario and show what a round costs, without running it."""
    from fedsim.cli.downloads import offer_downloads
    from fedsim.cli.job_table import LEFT_OUT, LEFT_OUT_BESIDE, differences, overview
    from fedsim.cli.next_steps import TypedRun
    from fedsim.running.check import check_plan
    from fedsim.scenario import load
    from fedsim.scenario.registries import blocks_in

    with _errors():
        plan = load(file, overrides=overrides or (), blocks=blocks_in(plugins or ()))
        offer_downloads(plan)
        checked = check_plan(plan)
        if as_json:
            from fedsim.cli.json_output import of_check, print_json

            print_json(of_check(checked))
            return
        _out.print(f"{escape(str(file))} is valid", style="green")
        _out.print(escape(checked.title))
        _out.print(checked.table())
        for text in filter(None, [checked.first_round, checked.after_the_last]):
            _out.print(escape(text))
        counted = all(job.scenario.infrastructure for job in checked.jobs)
        _out.print(LEFT_OUT_BESIDE if counted else LEFT_OUT)
        for concern in checked.concerns:
            _note(str(concern))
        for note in checked.notes:
            _remark(note)
        if len(checked.jobs) > 1:
            _out.print(differences(plan))
        every = ", ".join(job.variant.name for job in checked.jobs)
        models = [
            (model.key, model.text if model.about == every else f"{model.about}: {model.text}")
            for model in checked.models
        ]
        _out.print(overview(checked.jobs, checked.openings, models))
        typed = TypedRun(file, overrides or (), plugins or ())
        if details:
            _print_details(checked)
        else:
            _out.print(
                "More: --details shows labels, costs per group of clients, and all settings."
            )
    _next(typed.again(), quiet=quiet)


def _print_details(checked: "Check") -> None:
    """Print the data of each problem, and the tables of each variant."""
    from fedsim.cli.data_table import data_table
    from fedsim.cli.job_table import IN_FULL, job_table

    problem = None
    for number, job in enumerate(checked.jobs):
        if job.problem is not problem:
            _out.print(data_table(job))
        problem = job.problem
        if not number or len(checked.jobs) <= IN_FULL:
            _out.print(job_table(job, checked.openings[job.variant.name]))
