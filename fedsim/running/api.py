"""run(scenario) -> Result."""

import warnings
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from fedsim.blocks.renamed import renamed
from fedsim.blocks.spec import Spec
from fedsim.building import Builder, Job
from fedsim.errors import TheoryWarning
from fedsim.protocol.carriage import Carry
from fedsim.record.lock import held
from fedsim.record.notes import Tell, untold
from fedsim.record.result import Result
from fedsim.running.campaign import Campaign
from fedsim.running.execution import Watch, unwatched
from fedsim.running.foreseen import foreseen
from fedsim.running.study import changes, check_place, study_of
from fedsim.scenario import Scenario, load


@renamed
def run(
    source: str | Path | Mapping[str, Any] | Scenario,
    *,
    out: str | Path | None = None,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    watch: Watch = unwatched,
    jobs: int = 1,
    executor: Executor | None = None,
    fresh: bool = False,
    carry: Carry = "values",
    tell: Tell = untold,
) -> Result:
    """Run every variant of a scenario under every seed.

    A run that diverges, or in which everybody waits for ever, keeps what it has written and
    says so in the column `status` of the summary; the other runs go on. What was cut off is
    taken up again: a run that `out` holds whole, made from the same scenario, data, code and
    versions, is kept as it is, and the others are made. Where a scenario was edited, `out` may
    keep runs of variants that it no longer has; `study.json` tells which it has.

    Args:
        source: a YAML file, a mapping, or a `Scenario`.
        out: where the run folders go; a temporary folder that goes with the result if None.
        overrides: "key=value" texts that replace what the scenario says.
        blocks: classes of one's own that the scenario may name by their kind: algorithms,
            losses, compressors, splits, ...
        watch: told of every round; a few times a second where runs go on elsewhere.
        jobs: how many runs go on at once, in processes of their own where more than one.
        executor: where they go on instead, such as that of a cluster; it is not shut down.
        fresh: make all runs anew.
        carry: "bytes" lets every message go through its encoding, as it would go on the air: its
            receiver gets what it decodes. "values" hands over what that would be, which is faster.
            The logs are the same; a run that is there already is kept, whichever way it was made.
        tell: told of what the scenario says without effect, and of what becomes of runs that
            `out` has from an earlier state of it, before anything runs.

    Raises:
        ScenarioError: the scenario is wrong; nothing has run then.
        BlockError: one of `blocks` cannot be used; likewise.
        DataError: `out` holds runs of another scenario, which would be written over: one of
            another file, or of another name where either was made in Python.
        OccupiedError: somebody else is writing into `out`; nothing has run then.
        OutputError: something cannot be written.
        ValueError: there are fewer than 1 jobs, or messages are to go in a way that is not known.

    Warns:
        TheoryWarning: a condition of a method's theory does not hold.
    """
    if carry not in get_args(Carry):
        raise ValueError(f"carry is one of {', '.join(get_args(Carry))}; seen {carry!r}")
    plan = load(source, overrides=overrides, blocks=blocks)
    study = study_of(plan)
    if out is not None and not fresh:
        check_place(study, Path(out))
    builder = Builder(plan, carry)
    checked = builder.check()
    for job in checked:
        _warn(job)
    before = () if out is None else changes(plan, Path(out))
    said = *before, *foreseen(checked)
    for note in said:
        tell(note)
    if out is None:
        temporary = TemporaryDirectory(prefix="fedsim-", ignore_cleanup_errors=True)
        campaign = Campaign(plan, Path(temporary.name), fresh=fresh, carry=carry)
        try:
            study.write(campaign.out)
            runs = campaign.make_all(builder, jobs, executor, watch)
            result = Result(campaign.out, runs, said)
        except BaseException:
            temporary.cleanup()
            raise
        weakref.finalize(result, temporary.cleanup)  # goes with the result from now on
        return result
    with held(Path(out)):
        if not fresh:
            check_place(study, Path(out))  # as somebody else may have left it since
        campaign = Campaign(plan, Path(out), fresh=fresh, carry=carry)
        study.write(campaign.out)
        runs = campaign.make_all(builder, jobs, executor, watch)
        return Result(campaign.out, runs, said)


def _warn(job: Job) -> None:
    """Tell which conditions of its theory the method of a variant does not meet."""
    for concern in job.concerns:
        text = f"{job.variant.name}: algorithm.{concern.key}: {concern.text}"
        warnings.warn(text, TheoryWarning, stacklevel=4)
