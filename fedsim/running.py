"""run(scenario) -> Result."""

import warnings
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from fedsim.blocks.renamed import renamed
from fedsim.blocks.spec import Spec
from fedsim.building import Builder, Job
from fedsim.campaign import Campaign
from fedsim.errors import TheoryWarning
from fedsim.execution import Watch, unwatched
from fedsim.notes import Note, Tell, foreseen, untold
from fedsim.ports import Array
from fedsim.record import read
from fedsim.record.lock import held
from fedsim.record.read_models import model_of, read_models
from fedsim.scenario import Scenario, load
from fedsim.study import changes, check_place, study_of


@dataclass(frozen=True)
class Result:
    """What a scenario's runs have written, as pandas tables; see `fedsim.record.schema`.

    Attributes:
        folder: OUT, with a folder `<variant>/seed-<n>` per run.
        runs: the folders of the runs, in the order of the scenario and of all tables.
        foreseen: what was to be said before anything ran: of runs that the folder had from an
            earlier state of the scenario, or that were not priced as they are of such a one, and
            of the scenario.
    """

    folder: Path
    runs: tuple[Path, ...]
    foreseen: tuple[Note, ...] = ()

    @cached_property
    def events(self) -> pd.DataFrame:
        """The event logs, one row a span."""
        return read.read_all(self.runs, "events")

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """The round tables, one row a round; costs are those of the round."""
        return read.read_all(self.runs, "rounds")

    @cached_property
    def clients(self) -> pd.DataFrame:
        """The client tables, one row a client and run."""
        return read.read_all(self.runs, "clients")

    @cached_property
    def models(self) -> pd.DataFrame:
        """The models that were kept, one row each, in the column model as arrays in their shape."""
        return read_models(self.runs)

    def model(
        self,
        variant: str = "base",
        seed: int | None = None,
        round: int | None = None,  # noqa: A002 - as the column is called
    ) -> Array:
        """Return one model in its shape, (d,) or a matrix, and read no other run's.

        Args:
            variant: of the run.
            seed: of the run; may be left out where the variant has one only.
            round: after which; the last one if None.

        Raises:
            ValueError: there is no such run, or the model was not kept; the text says which are.
            DataError: a file is damaged.
        """
        return model_of(self.runs, variant, seed, round)

    @cached_property
    def summary(self) -> pd.DataFrame:
        """One row a run: how it ended, what it reached and what it cost."""
        return read.read_summaries(self.runs)

    @property
    def notes(self) -> tuple[Note, ...]:
        """What has no effect, or not the one that is meant: of the scenario, then of its runs."""
        return *self.foreseen, *self.seen

    @cached_property
    def seen(self) -> tuple[Note, ...]:
        """What is to be said of the runs, now that they have ended."""
        return tuple(
            Note(f"{row['variant']}, seed {row['seed']}", *text.split(": ", 1))
            for row in self.summary.to_dict("records")
            for text in (row["notes"] if isinstance(row.get("notes"), list) else ())
        )


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
        tell: told of what the scenario says without effect, and of what becomes of runs that
            `out` has from an earlier state of it, before anything runs.

    Raises:
        ScenarioError: the scenario is wrong; nothing has run then.
        BlockError: one of `blocks` cannot be used; likewise.
        DataError: `out` holds runs of another scenario, which would be written over: one of
            another file, or of another name where either was made in Python.
        OccupiedError: somebody else is writing into `out`; nothing has run then.
        OutputError: something cannot be written.
        ValueError: there are fewer than 1 jobs.

    Warns:
        TheoryWarning: a condition of a method's theory does not hold.
    """
    plan = load(source, overrides=overrides, blocks=blocks)
    study = study_of(plan)
    if out is not None and not fresh:
        check_place(study, Path(out))
    builder = Builder(plan)
    checked = builder.check()
    for job in checked:
        _warn(job)
    before = () if out is None else changes(plan, Path(out))
    said = *before, *foreseen(checked)
    for note in said:
        tell(note)
    if out is None:
        temporary = TemporaryDirectory(prefix="fedsim-", ignore_cleanup_errors=True)
        campaign = Campaign(plan, Path(temporary.name), fresh=fresh)
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
        campaign = Campaign(plan, Path(out), fresh=fresh)
        study.write(campaign.out)
        runs = campaign.make_all(builder, jobs, executor, watch)
        return Result(campaign.out, runs, said)


def _warn(job: Job) -> None:
    """Tell which conditions of its theory the method of a variant does not meet."""
    for concern in job.concerns:
        text = f"{job.variant.name}: algorithm.{concern.key}: {concern.text}"
        warnings.warn(text, TheoryWarning, stacklevel=4)
