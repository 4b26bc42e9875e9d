"""check(scenario) -> Check: what would run, and what its first rounds cost, without a run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import pandas as pd
from rich.table import Table

from fedsim.blocks.renamed import renamed
from fedsim.blocks.spec import Spec
from fedsim.building import Builder, Job
from fedsim.record.notes import Note
from fedsim.running.foreseen import foreseen
from fedsim.running.probe import Opening, opening
from fedsim.scenario import Plan, load
from fedsim.scenario.plan import Written
from fedsim.tables import as_html, as_text, plain, quantity
from fedsim.visible import visible

_COSTS = ("bits_down", "bits_up", "receive_s", "compute_s", "send_s", "joules")


@dataclass(frozen=True, repr=False)
class Check:
    """What would run; a notebook shows it as a table.

    Attributes:
        plan: the scenarios, complete, with their seeds.
        variants: a row a variant: algorithm, clients, dimension (of the model), optimum (the
            least objective; NaN where none is known), and what its second round costs all clients
            together, or its only one: round_s, bits_down, bits_up, joules.
        costs: a row a variant, round and group of the fleet: the means over the group's clients
            of what the round costs one.
        notes: what has no effect, or not the one that is meant, and which conditions of a
            method's theory do not hold.
    """

    plan: Plan
    variants: pd.DataFrame
    costs: pd.DataFrame
    notes: tuple[Note, ...]

    @property
    def title(self) -> str:
        """How much would run."""
        count = sum(len(variant.seeds) for variant in self.plan.variants)
        several = len(self.plan.variants)
        seeds = max(len(variant.seeds) for variant in self.plan.variants)
        return (
            f"{self.plan.name}: {several} variant{'s' * (several > 1)} x {seeds}"
            f" seed{'s' * (seeds > 1)} = {count} run{'s' * (count > 1)}; what round 2 costs"
        )

    def __repr__(self) -> str:
        return "\n".join([as_text(self._table()), *map(str, self.notes)])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        notes = "".join(f"<li>{escape(visible(str(note)))}</li>" for note in self.notes)
        return as_html(self._table()) + (f"<ul>{notes}</ul>" if notes else "")

    def _table(self) -> Table:
        table = plain(self.title)
        table.add_column("variant")
        table.add_column("method")
        for head in ("clients", "dimension", "time", "bits down", "bits up", "energy"):
            table.add_column(head, justify="right")
        for row in self.variants.to_dict("records"):
            counts = (quantity(row[name]) for name in ("clients", "dimension"))
            costs = (
                quantity(row[name], unit)
                for name, unit in (
                    *(("round_s", "s"), ("bits_down", "bit")),
                    *(("bits_up", "bit"), ("joules", "J")),
                )
            )
            table.add_row(row["variant"], row["algorithm"], *counts, *costs)
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
    plan = load(source, overrides=overrides, blocks=blocks)
    jobs = Builder(plan).check()
    openings = {job.variant.name: opening(job) for job in jobs}
    pairs = [(job, openings[job.variant.name]) for job in jobs]
    concerns = [
        Note(job.variant.name, f"algorithm.{concern.key}", concern.text)
        for job in jobs
        for concern in job.concerns
    ]
    return Check(
        plan,
        pd.DataFrame([_variant(job, began) for job, began in pairs]),
        pd.DataFrame([row for job, began in pairs for row in _groups(job, began)]),
        (*foreseen(jobs, openings), *concerns),
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
        return {**row, **dict.fromkeys(("round_s", "bits_down", "bits_up", "joules"), np.nan)}
    last = began.rounds[-1]
    spent = last.traffic
    costs = {"bits_down": spent.bits_down, "bits_up": spent.bits_up, "joules": spent.joules}
    return {**row, "round_s": last.seconds, **costs}


def _groups(job: Job, began: Opening) -> Iterator[dict[str, object]]:
    """Yield a row for every round and group of the fleet."""
    members = np.array(job.members)
    for number, cost in enumerate(began.rounds, 1):
        for index, group in enumerate(job.groups):
            mine = members == index
            yield {
                "variant": job.variant.name,
                "round": number,
                "group": index,
                "clients": int(mine.sum()),
                "device": group.device.kind,
                "radio": group.radio.kind,
                **cost.clients.loc[mine, list(_COSTS)].mean().to_dict(),
            }
