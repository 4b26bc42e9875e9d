"""check(scenario) -> Check: what would run, and what its first rounds cost, without a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from time import perf_counter

import numpy as np
import pandas as pd
from rich.markup import escape as escaped
from rich.table import Table

from fedsim.blocks.renamed import renamed
from fedsim.blocks.spec import Spec
from fedsim.building import Builder, Job
from fedsim.record.notes import Note
from fedsim.running.extent import Extent, extent
from fedsim.running.foreseen import foreseen
from fedsim.running.probe import Opening, opening
from fedsim.running.shares import group_costs
from fedsim.scenario import Plan, load
from fedsim.scenario.plan import Written
from fedsim.tables import as_html, as_text, plain, quantity
from fedsim.visible import visible

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


@renamed
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
    return checked(load(source, overrides=overrides, blocks=blocks))


def checked(plan: Plan) -> Check:
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
