"""The function `check(scenario) -> Check`: a dry run with the cost of its first rounds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from time import perf_counter

import numpy as np
import pandas as pd
from pydantic import BaseModel
from rich.markup import escape as escaped
from rich.table import Table

from fedsim.algorithms.local_steps import GrowingBatch
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import reject_renamed
from fedsim.building import Builder, Job
from fedsim.problems import ProgramProblem
from fedsim.record.scenarios import RUNS, Note
from fedsim.running.probe import ROUNDS, Extent, Opening, extent, group_costs, opening
from fedsim.running.run import no_identity
from fedsim.scenario import Plan, load
from fedsim.scenario.plan import Written
from fedsim.text import as_html, as_text, plain, quantity, visible

# Preflight notes on a scenario; see `fedsim.record.notes`.


def foreseen(jobs: Sequence[Job], openings: Mapping[str, Opening] | None = None) -> Iterator[Note]:
    """Yield what can be said before anything runs; what is said of several variants, once.

    Args:
        jobs: one a variant.
        openings: the first rounds of their runs, by variant, where known already.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for note in _of_each(jobs, openings or {}):
        alike.setdefault((note.key, note.text), []).append(note.about)
    for (key, text), variants in alike.items():
        yield Note(", ".join(variants), key, text)


def unresumable(plan: Plan) -> Iterator[Note]:
    """Yield which runs are made again whenever they are asked for, and why."""
    alike: dict[str, list[str]] = {}
    for variant in plan.variants:
        if reason := no_identity(variant.scenario):
            alike.setdefault(reason, []).append(variant.name)
    for reason, names in alike.items():
        text = (
            f"what was handed over in Python cannot be compared for certain ({reason}): these runs"
            " are made again every time"
        )
        yield Note(", ".join(names), RUNS, text)


def _of_each(jobs: Sequence[Job], openings: Mapping[str, Opening]) -> Iterator[Note]:
    yield from _repeats(jobs)
    for job in jobs:
        yield from _unlimited_notes(job)
        yield from _full_batches(job, job.algorithm, "algorithm")
        yield from _narrow(job)
        yield from _alike(job, openings.get(job.variant.name))


def _repeats(jobs: Sequence[Job]) -> Iterator[Note]:
    """Yield which variants are the same scenario as one before them."""
    first: dict[tuple[str, str, tuple[int, ...]], str] = {}
    for job in jobs:
        rest = job.scenario.model_dump_json(exclude={"algorithm"})
        key = rest, job.algorithm.model_dump_json(), tuple(job.variant.seeds)
        name = first.setdefault(key, job.variant.name)
        if name != job.variant.name:
            text = (
                f"the same scenario as {name}, which is run twice: all that it sets is set there"
                " already (a block is merged key by key with the base's block of the same kind)"
            )
            yield Note(job.variant.name, "variants", text)


def _unlimited_notes(job: Job) -> Iterator[Note]:
    """Yield that rounds end by a default."""
    stop = job.scenario.stop
    if "rounds" not in stop.model_fields_set:
        text = f"not given: a run ends after {stop.rounds:,} rounds at the latest, by default"
        yield Note(job.variant.name, "stop.rounds", text)


def _narrow(job: Job) -> Iterator[Note]:
    """Yield that numbers are rounded on the wire which clients' own programs compute with."""
    form, problem = job.scenario.wire.values, job.problem  # noqa: PD011 - no table
    if isinstance(problem, ProgramProblem) and problem.number_bytes > form.size:
        bits = 8 * problem.number_bytes
        text = (
            f"got {form.value}, but the model of {problem.loss.kind} has numbers of {bits} bits,"
            f" which are rounded on the way; float{bits} sends them as they are"
        )
        yield Note(job.variant.name, "wire.values", text)


def _full_batches(job: Job, block: BaseModel, key: str) -> Iterator[Note]:
    """Yield where a batch is larger than what any client has."""
    most = int(job.problem.rows.max())
    for name in type(block).model_fields:
        value, where = getattr(block, name), f"{key}.{name}"
        size = value.start if isinstance(value, GrowingBatch) else value
        if name == "batch" and size is not None and size > most:
            text = (
                f"got {size:g}, but no client has more than {most} samples: every gradient is one"
                " on all of them"
            )
            yield Note(job.variant.name, where, text)
        elif isinstance(value, BaseModel):
            yield from _full_batches(job, value, where)


def _alike(job: Job, known: Opening | None) -> Iterator[Note]:
    """Yield that several seeds make the same run, as far as the first rounds show."""
    count = len(job.variant.seeds)
    if count == 1 or job.drawn:
        return
    began = known or opening(job)
    if len(began.rounds) == ROUNDS and not began.drew:
        text = (
            f"got {count}, but neither the problem nor the first {ROUNDS} rounds draw a random"
            " number: unless later ones do, all seeds make the same run"
        )
        yield Note(job.variant.name, "seeds", text)


_TIMED, _TIMED_ALL = 0.1, 1.0
"""Seconds for which the rounds of a variant are timed at the most, and those of all of them."""

_FIGURES = {
    "time": ("round_s", "s"),
    "energy": ("joules", "J"),
    "bits down": ("bits_down", "bit"),
    "bits up": ("bits_up", "bit"),
}
"""Heads of the table: columns of `Check.variants`, and their units."""


@dataclass(frozen=True, repr=False)
class Check:
    """What would run; a notebook shows it as a table.

    Attributes:
        plan: the scenarios, complete, with their seeds.
        extent: how many runs there are, and how long they take on this machine.
        variants: a row a variant: algorithm, clients, dimension (of the model), optimum (the
            least objective; NaN where none is known), and what its second round costs all clients
            together, or its only one: round (0 where none has ended), round_s, bits_down,
            bits_up, joules, asked (how many clients).
        costs: a row a variant, round and group of the fleet: the means over the group's clients
            of what the round costs one.
        notes: what has no effect, or not the one that is meant.
        concerns: which conditions of a method's theory do not hold.
        jobs: the variants, each built under its first seed.
        openings: how their runs begin, by variant.
    """

    plan: Plan
    extent: Extent
    variants: pd.DataFrame
    costs: pd.DataFrame
    notes: tuple[Note, ...]
    concerns: tuple[Note, ...]
    jobs: tuple[Job, ...] = field(repr=False)
    openings: Mapping[str, Opening] = field(repr=False)

    @property
    def title(self) -> str:
        """How much would run."""
        return str(self.extent)

    @property
    def told(self) -> tuple[str, ...]:
        """What is noted, a line each."""
        return tuple(map(str, (*self.notes, *self.concerns)))

    def __repr__(self) -> str:
        return "\n".join([self.title, as_text(self.table()), *self.told])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        notes = "".join(f"<li>{escape(visible(text))}</li>" for text in self.told)
        title = f"<p>{escape(visible(self.title))}</p>\n"
        return title + as_html(self.table()) + (f"<ul>{notes}</ul>" if notes else "")

    def table(self) -> Table:
        """Return what a round costs, a row a variant, as rich draws it in a terminal."""
        table = plain("costs of a round, all clients")
        table.add_column("variant")
        table.add_column("method")
        for head in ("round", "asked", *_FIGURES):
            table.add_column(head, justify="right")
        for row in self.variants.to_dict("records"):
            figures = [quantity(row[name], unit) for name, unit in _FIGURES.values()]
            ended = [str(row["round"]), f"{row['asked']:,}", *figures] if row["round"] else ["none"]
            table.add_row(escaped(row["variant"]), row["algorithm"], *ended)
        return table


@reject_renamed
def check(
    source: Written, *, overrides: Sequence[str] = (), blocks: Sequence[type[Spec]] = ()
) -> Check:
    """Validate a scenario, and find what its first two rounds cost; nothing is written.

    Args:
        source: a YAML file or the name of an example, a mapping, or a `Scenario`.
        overrides: "key=value" texts that replace what the scenario says.
        blocks: classes of one's own that the scenario may name by their kind.

    Raises:
        ScenarioError, BlockError: the scenario, or one of `blocks`, is wrong.
        DataError: its data cannot be read.
    """
    return check_plan(load(source, overrides=overrides, blocks=blocks))


def check_plan(plan: Plan) -> Check:
    """Find what the first two rounds of each variant of a plan cost; nothing is written.

    Raises:
        ScenarioError: the data cannot be read, or the world not be built.
    """
    started = perf_counter()
    jobs = tuple(Builder(plan).check())
    built = perf_counter() - started
    timed = min(_TIMED, _TIMED_ALL / len(jobs))
    openings = {job.variant.name: opening(job, timed) for job in jobs}
    pairs = [(job, openings[job.variant.name]) for job in jobs]
    concerns = tuple(
        Note(job.variant.name, f"algorithm.{concern.key}", concern.text)
        for job in jobs
        for concern in job.concerns
    )
    return Check(
        plan,
        extent(plan, jobs, openings, built),
        pd.DataFrame([_variant(job, began) for job, began in pairs]),
        pd.concat([group_costs(*pair) for pair in pairs], ignore_index=True),
        tuple(foreseen(jobs, openings)),
        concerns,
        jobs,
        openings,
    )


def _variant(job: Job, began: Opening) -> dict[str, object]:
    """Return the row of a variant."""
    row: dict[str, object] = {
        "variant": job.variant.name,
        "algorithm": job.algorithm.kind,
        "clients": len(job.members),
        "dimension": job.problem.dimension,
        "optimum": np.nan if job.reference is None else job.reference.value,
    }
    if not began.rounds:
        none = dict.fromkeys(("round_s", "bits_down", "bits_up", "joules"), np.nan)
        return {**row, "round": 0, **none, "asked": 0}
    last = began.rounds[-1]
    spent = last.traffic
    costs = {"bits_down": spent.bits_down, "bits_up": spent.bits_up, "joules": spent.joules}
    time = {"round": len(began.rounds), "round_s": last.seconds}
    return {**row, **time, **costs, "asked": spent.cohort}
