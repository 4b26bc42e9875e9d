"""run(scenario) -> Result."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, get_args

from fedsim.blocks.renamed import renamed
from fedsim.blocks.spec import Spec
from fedsim.building import Builder, Job
from fedsim.errors import OccupiedError, TheoryWarning
from fedsim.protocol.carriage import Carry
from fedsim.record.lock import held, shared
from fedsim.record.notes import Note, Tell, untold
from fedsim.record.studies import study_in
from fedsim.record.writing import check_folder
from fedsim.results import Result
from fedsim.running import cluster as clusters
from fedsim.running import places
from fedsim.running.campaign import Campaign, Engine, Pool
from fedsim.running.execution import Watch
from fedsim.running.foreseen import foreseen
from fedsim.running.notebook import notebook_bar
from fedsim.running.session import session_folder
from fedsim.running.shard import WHOLE, Shard
from fedsim.running.study import changes, check_place, study_of
from fedsim.running.tasks import Order
from fedsim.scenario import Plan, Scenario, load


@renamed
def run(
    source: str | Path | Mapping[str, Any] | Scenario,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    watch: Watch | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    fresh: bool = False,
    carry: Carry = "values",
    tell: Tell = untold,
    cluster: str | None = None,
    shard: str | None = None,
) -> Result:
    """Run every variant of a scenario under every seed.

    A run that diverges, or in which everybody waits for ever, keeps what it has written and says
    so in the column `status` of the summary; the other runs go on. They also do where one fails
    for want of memory, say, or by an error in code of your own; that is raised at the end.

    A run that `out` holds whole, made from the same scenario, data, code and versions, is kept; all
    others are made. `out` may keep runs of variants that an edited scenario no longer has;
    `study.json` has those it has.

    Args:
        source: a YAML file, a mapping, or a `Scenario`.
        out: where the run folders go; if None, a temporary folder, until this session ends.
        overrides: "key=value" texts that replace what the scenario says.
        blocks: classes of one's own that the scenario may name by their kind.
        watch: told of rounds, a few times a second at least; if None, a notebook shows a bar.
        jobs: how many runs go on at once, in processes of their own where more than one.
        executor: where they go on instead, such as `client.get_executor()` of a cluster of Dask's;
            it is not shut down.
        fresh: make all runs anew.
        carry: "bytes" encodes and decodes every message; "values", which is faster, hands over
            what that would give. The logs are the same.
        tell: told, before anything runs, of what the scenario says without effect, and of what
            becomes of runs that `out` has from an earlier state of it; then of each run that fails.
        cluster: where they go on instead: the scheduler of a cluster of Dask's, as in
            "tcp://host:8786", or "local:4" for 4 workers on this machine.
        shard: "3/16" makes the third of sixteen shares of the runs; others may make the other
            shares into the same folder, at the same time.

    Raises:
        ScenarioError, BlockError: the scenario, or one of `blocks`, is wrong; nothing has run.
        DataError: `out` holds runs of another scenario, which would be written over, or there is
            no such shard or cluster, or several of `jobs`, `executor` and `cluster` are given.
        OccupiedError: somebody else is writing into `out`; nothing has run.
        OutputError: something cannot be written.
        RunError: runs have failed, or the cluster is gone; the others are made.
        ValueError: there are fewer than 1 jobs, `carry` is not known.

    Warns:
        TheoryWarning: a condition of a method's theory does not hold.
    """
    share = WHOLE if shard is None else Shard.parsed(shard)
    if jobs < 1:
        raise ValueError(f"at least 1 job is needed; seen {jobs}")
    clusters.check_choice(jobs, executor, cluster)
    plan = load(source, overrides=overrides, blocks=blocks)
    builder, place = Builder(plan, _known(carry)), None if out is None else Path(out)
    notes = _foreseen(plan, builder, place, tell, fresh=fresh)

    aside = share != WHOLE or cluster is not None or executor is not None

    def make(folder: Path) -> Result:
        with places.opened(folder) if aside else nullcontext() as outside:
            campaign = Campaign(Order(plan, folder, fresh, carry, outside), share, tell)
            count = len(campaign.runs)
            with nullcontext(watch) if watch else notebook_bar(plan.name, count) as told:
                runs = _made(campaign, builder, told, jobs, executor, cluster)
        return Result(folder, runs, notes)

    if place is None:
        return _temporary(plan, make)
    if share != WHOLE:
        return _shared(plan, place, make, fresh=fresh)
    return _kept(plan, place, make, fresh=fresh)


def _made(
    campaign: Campaign,
    builder: Builder,
    watch: Watch,
    jobs: int,
    executor: Executor | None,
    cluster: str | None,
) -> tuple[Path, ...]:
    """Make the runs of a campaign where it is wanted, and return their folders."""
    if cluster is not None:
        with clusters.opened(cluster) as engine:
            return campaign.by(engine, watch)
    if executor is not None:
        return campaign.by(_engine(executor), watch)
    return campaign.in_processes(jobs, watch) if jobs != 1 else campaign.in_turn(builder, watch)


def _engine(executor: Executor) -> Engine:
    """Return what makes runs by an executor: Dask's tells how far they are."""
    client = clusters.client_of(executor)
    return Pool(executor) if client is None else clusters.Cluster(client)


def _known(carry: Carry) -> Carry:
    """Return a way for messages to go.

    Raises:
        ValueError: there is none of this name.
    """
    if carry not in get_args(Carry):
        raise ValueError(f"carry is one of {', '.join(get_args(Carry))}; seen {carry!r}")
    return carry


def _foreseen(
    plan: Plan, builder: Builder, out: Path | None, tell: Tell, *, fresh: bool
) -> tuple[Note, ...]:
    """Check what is to run and where it goes; return the notes on it, of which `tell` is told."""
    if out is not None:
        check_folder(out)
    if out is not None and not fresh:
        check_place(study_of(plan), out)
    jobs = builder.check()
    for job in jobs:
        _warn(job)
    before = () if out is None else changes(plan, out)
    notes = *before, *foreseen(jobs)
    for note in notes:
        tell(note)
    return notes


def _temporary(plan: Plan, make: Callable[[Path], Result]) -> Result:
    """Make the runs in a folder that stays for as long as the session."""
    folder = session_folder(plan.name)
    try:
        study_of(plan).write(folder)
        return replace(make(folder), temporary=True)
    except BaseException:
        rmtree(folder, ignore_errors=True)
        raise


def _kept(plan: Plan, out: Path, make: Callable[[Path], Result], *, fresh: bool) -> Result:
    """Make the runs in a folder that nobody else writes into meanwhile."""
    with held(out):
        _take_up(plan, out, fresh=fresh)
        return make(out)


def _shared(plan: Plan, out: Path, make: Callable[[Path], Result], *, fresh: bool) -> Result:
    """Make the runs in a folder that others write other shares of the same plan into."""
    study = study_of(plan)

    def check() -> None:
        if study_in(out) != study:
            text = "others make runs of another state of the scenario there"
            raise OccupiedError(f"{out} is in use: {text}; give another folder with --out")

    with shared(out, lambda: _take_up(plan, out, fresh=fresh), check):
        return make(out)


def _take_up(plan: Plan, out: Path, *, fresh: bool) -> None:
    """Make a folder that of a plan, while nobody else can write into it."""
    if not fresh:
        check_place(study_of(plan), out)  # as somebody else may have left it since
    places.clear(out)
    study_of(plan).write(out)


def _warn(job: Job) -> None:
    """Tell which conditions of its theory the method of a variant does not meet."""
    for concern in job.concerns:
        text = f"{job.variant.name}: algorithm.{concern.key}: {concern.text}"
        warnings.warn(text, TheoryWarning, stacklevel=5)
