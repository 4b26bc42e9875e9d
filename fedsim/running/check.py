"""The function `check(scenario) -> Check`: a dry run with the cost of its first rounds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from math import inf, isclose
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel

from fedsim.algorithms.local_steps import GrowingBatch
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import nearest, reject_renamed
from fedsim.core.errors import FedsimError
from fedsim.core.ports import Array
from fedsim.core.text import DIGITS, digits_apart, quantity, unbroken, visible
from fedsim.problems import ProgramProblem
from fedsim.results.record.regimes import RoundMessages, errors_of_energy, errors_of_models
from fedsim.results.record.scenarios import Note
from fedsim.running.no_effect import ineffective_settings
from fedsim.running.probe import ROUNDS, Extent, Opening, extent, group_costs, opening
from fedsim.scenario import Plan, load
from fedsim.scenario.building import Builder, Job
from fedsim.scenario.building.confidential import privacy_notes
from fedsim.scenario.building.estimates import estimate_notes
from fedsim.scenario.building.feasibility import deadline
from fedsim.scenario.plan import Written
from fedsim.sim.arrays.fits import why_events, why_objects, why_slower

if TYPE_CHECKING:  # importing networkx takes 0.2 s: only when there is a graph
    from rich.table import Table

    from fedsim.scenario.from_graph import AnyGraph

_ROUNDING = 1e-9  # relative

# Preflight notes on a scenario; see `Note` in `fedsim.results.record.scenarios`.


def added_notes(plan: Plan) -> Iterator[Note]:
    """Yield a note for each variant that an override adds, on purpose or by a misspelt name.

    An override that replaces all variants misspells none.
    """
    others = [variant.name for variant in plan.variants if variant.name not in plan.added]
    if not others:
        return
    for name in plan.added:
        hint = nearest(name, others)
        base = next((variant.name for variant in plan.variants if variant.own), "")
        way = f"; keys of {base} are set without variants.{base}" if base else ""
        text = f"an override adds this variant; the scenario has {', '.join(others)}{hint}{way}"
        yield Note(name, "variants", text)


def preflight_notes(
    jobs: Sequence[Job], openings: Mapping[str, Opening] | None = None
) -> Iterator[Note]:
    """Yield the notes on jobs before any run; one note for variants that share it.

    Args:
        jobs: one a variant.
        openings: the first rounds of their runs by variant, as far as known already.
    """
    return _shared(_of_each(jobs, openings or {}))


def theory_notes(jobs: Sequence[Job]) -> Iterator[Note]:
    """Yield the conditions of theory that methods do not meet; one note for variants that share it.

    Args:
        jobs: one a variant.
    """
    return _shared(
        Note(job.variant.name, f"algorithm.{concern.key}", concern.text)
        for job in jobs
        for concern in job.concerns
    )


def _shared(notes: Iterable[Note]) -> Iterator[Note]:
    """Yield notes, one for all variants that have the same."""
    alike: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        alike.setdefault((note.key, note.text), []).append(note.about)
    for (key, text), variants in alike.items():
        yield Note(", ".join(variants), key, text)


def accuracy_notes(jobs: Sequence[Job], openings: Mapping[str, Opening]) -> Iterator[Note]:
    """Yield the errors of times of messages and of energy; one for variants that share them."""
    times: dict[str, list[str]] = {}
    energies: dict[str, list[str]] = {}
    for job in jobs:
        scenario = job.scenario.model_dump(mode="json", include={"network", "fleet"})
        rounds = openings[job.variant.name].rounds
        messages = RoundMessages.of_round(rounds[-1].traffic.as_dict()) if rounds else None
        network, fleet = scenario["network"], scenario["fleet"]
        for sentences in errors_of_models(network, fleet, messages, brief=True):
            times.setdefault(". ".join(sentences), []).append(job.variant.name)
        found = [": ".join(each) for each in errors_of_energy(fleet, brief=True)]
        if found:
            energies.setdefault(" ".join(found), []).append(job.variant.name)
    for key, alike in (("network.model", times), ("energy", energies)):
        for text, variants in alike.items():
            yield Note(", ".join(variants), key, text)


def graph_notes(jobs: Sequence[Job]) -> Iterator[Note]:
    """Yield descriptions of graphs of peers and of media; one note for variants that share one."""
    alike: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        if (overlay := job.deployment.overlay) is not None:
            from fedsim.physics.spectral import describe_any

            text = describe_any(overlay)
            if not getattr(job.algorithm, "weighs", True):
                text = text.partition(", spectral gap")[0]  # the method has no mixing weights
            alike.setdefault(("peers", text), []).append(job.variant.name)
        if (medium := job.deployment.medium) is not None:
            alike.setdefault(("medium", medium.describe()), []).append(job.variant.name)
    for (key, text), names in alike.items():
        yield Note(", ".join(names), f"network.{key}", text)


class ReplyTimes(NamedTuple):
    """How long clients take to reply in rounds that wait for all replies, s.

    Attributes:
        shortest: as `Opening.replies`, shape (M,).
        first: as `Opening.first_replies`, shape (M,): the radio has to leave idle.
    """

    shortest: Array
    first: Array

    @property
    def known(self) -> "ReplyTimes":
        """The times of the clients that have replied, shape (n,)."""
        replied = ~np.isnan(self.shortest)
        return ReplyTimes(self.shortest[replied], self.first[replied])

    def digits_beside(self, limit: float) -> int:
        """Return the digits with which none of the times looks like a deadline that it is not."""
        return digits_apart(limit, np.concatenate([self.shortest, self.first]).tolist())


def deadline_notes(jobs: Sequence[Job], replies: Mapping[str, ReplyTimes]) -> Iterator[Note]:
    """Yield deadlines that not all clients can meet; one note for variants that share it.

    Args:
        jobs: one a variant.
        replies: the times of replies without a deadline, by variant.
    """
    alike: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        key, span = deadline(job.scenario)
        known = replies[job.variant.name].known
        count, met, cold = len(known.first), (known.shortest <= span), (known.first <= span)
        if span < inf and not (met & cold).all():
            digits = known.digits_beside(span)
            text = f"got {quantity(span, 's', digits)}, which {met.sum():,} of {count:,} clients"
            text += " can meet"
            if cold.sum() < met.sum():
                text += f", but only {cold.sum():,} in their first reply, from an idle radio"
            text += f": {describe_replies(known, digits)}"
            alike.setdefault((key, text), []).append(job.variant.name)
    for (key, text), names in alike.items():
        yield Note(", ".join(names), key, text)


def _reply_times(job: Job, began: Opening) -> ReplyTimes:
    """Return the times of replies in rounds that wait for all of them; NaN where there are none."""
    apart = job.tiers or job.setup.overlay is not None or job.participation.asynchronous
    if apart:
        return ReplyTimes(*np.full((2, job.clients), np.nan))
    patient = opening(job, patient=True) if deadline(job.scenario)[1] < inf else began
    return ReplyTimes(patient.replies, patient.first_replies)


def describe_replies(times: ReplyTimes, digits: int = DIGITS) -> str:
    """Return how long a round takes by client, and the first one if it takes longer.

    >>> warm, cold = np.array([0.5, np.nan, 2.0, 1.0]), np.array([0.5, np.nan, 2.5, 1.0])
    >>> describe_replies(ReplyTimes(warm, warm))
    'a reply takes 500 ms (fastest client), 1 s (median) to 2 s (slowest)'
    >>> describe_replies(ReplyTimes(warm[2:3], cold[2:3]))
    "a reply takes 2 s; a client's first reply, from an idle radio, takes 2.5 s"
    """
    known = times.known
    warm, cold = _range_of(known.shortest, digits), _range_of(known.first, digits)
    text = f"a reply takes {warm}"
    return (
        text
        if warm == cold
        else f"{text}; a client's first reply, from an idle radio, takes {cold}"
    )


def _range_of(times: Array, digits: int) -> str:
    """Return the least, median and largest of times, s, or the one that all are."""
    figures = float(times.min()), float(np.median(times)), float(times.max())
    fastest, middle, slowest = (quantity(each, "s", digits) for each in figures)
    if fastest == slowest:
        return fastest
    return f"{fastest} (fastest client), {middle} (median) to {slowest} (slowest)"


def tier_notes(jobs: Sequence[Job]) -> Iterator[Note]:
    """Yield descriptions of tiers; one note for variants that share them."""
    alike: dict[str, list[str]] = {}
    for job in jobs:
        if (tree := job.deployment.hierarchy) is not None:
            methods = [job.algorithm.kind, *(tier.method.kind for tier in job.tiers)]
            rounds = [tier.rounds for tier in job.scenario.tiers]
            text = tree.describe(methods, rounds)
            alike.setdefault(text, []).append(job.variant.name)
    for text, names in alike.items():
        yield Note(", ".join(names), "tiers", text)


def event_notes(jobs: Sequence[Job]) -> Iterator[Note]:
    """Yield why rounds or segments take a slower path; one note per reason."""
    alike: dict[tuple[str, str], list[str]] = {}
    for job in jobs:
        if why := why_events(job.setup) or why_slower(job.setup):
            instead = "in arrays" if job.setup.overlay is None else "in a kernel"
            text = f"simulated event by event, not {instead}: {why}"
            alike.setdefault(("rounds", text), []).append(job.variant.name)
        if why := why_objects(job.setup):
            text = f"segments are simulated as objects, not by kernels: {why}"
            alike.setdefault(("network.tcp", text), []).append(job.variant.name)
    for (key, text), names in alike.items():
        yield Note(", ".join(names), key, text)


def _of_each(jobs: Sequence[Job], openings: Mapping[str, Opening]) -> Iterator[Note]:
    yield from _duplicate_variants(jobs)
    for job in jobs:
        yield from _chosen_by_readers(job)
        yield from _unlimited_notes(job)
        yield from _long_sleeps(job)
        if job.infeasible:
            text = f"{job.infeasible}, so there is no optimum, and no gap to it"
            yield Note(job.variant.name, "algorithm", text)
        yield from _full_batches(job, job.algorithm, "algorithm")
        yield from _unassigned_rows(job)
        yield from _rounded_values(job)
        yield from (Note(job.variant.name, *note) for note in estimate_notes(job))
        private = privacy_notes(job.terms, job.scenario)
        yield from (Note(job.variant.name, *note) for note in private)
        first_rounds = openings.get(job.variant.name)
        yield from _identical_seeds(job, first_rounds)
        yield from ineffective_settings(job, first_rounds)


def _chosen_by_readers(job: Job) -> Iterator[Note]:
    """Yield what readers of files chose: columns, units, rows and cells that are left out."""
    name, problem = job.variant.name, job.problem
    for text in () if isinstance(problem, ProgramProblem) else problem.naming.notes:
        yield Note(name, "problem.data", text)
    for text, key in job.remarks.items():
        yield Note(name, key, text)


def _duplicate_variants(jobs: Sequence[Job]) -> Iterator[Note]:
    """Yield notes on variants that are the same scenario as an earlier one."""
    first: dict[tuple[str, str, tuple[int, ...]], str] = {}
    for job in jobs:
        rest = job.scenario.model_dump_json(exclude={"algorithm"})
        key = rest, job.algorithm.model_dump_json(), tuple(job.variant.seeds)
        name = first.setdefault(key, job.variant.name)
        if name != job.variant.name:
            text = (
                f"identical to {name}, so the same scenario runs twice (a block is merged key by"
                " key with the base's block of the same kind)"
            )
            yield Note(job.variant.name, "variants", text)


def _unlimited_notes(job: Job) -> Iterator[Note]:
    """Yield a note if the number of rounds is a default."""
    stop = job.scenario.stop
    if "rounds" not in stop.model_fields_set:
        text = f"not given: a run ends after {stop.rounds:,} rounds by default"
        yield Note(job.variant.name, "stop.rounds", text)


def _long_sleeps(job: Job) -> Iterator[Note]:
    """Yield notes on radios that sleep for long, so that a message may wait for hours."""
    for block in ("fleet", "tiers"):
        for number, group in enumerate(getattr(job.scenario, block)):
            key, text = group.radio.unreachable
            if key:
                yield Note(job.variant.name, f"{block}.{number}.radio.{key}", text)


def _unassigned_rows(job: Job) -> Iterator[Note]:
    """Yield a note if the split leaves rows out: the optimum then excludes these rows."""
    problem = job.problem
    if isinstance(problem, ProgramProblem) or not (count := problem.unassigned):
        return
    split = job.scenario.problem.split
    text = (
        f"{split.kind} assigns {count:,} of {count + int(problem.rows.sum()):,} training rows to no"
        " client, and the objective leaves them out"
    )
    if getattr(split, "remainder", "") == "drop":
        text += "; remainder: spread assigns them"
    yield Note(job.variant.name, "problem.split", text)


def _rounded_values(job: Job) -> Iterator[Note]:
    """Yield a note if the wire format rounds the numbers of clients' own programs."""
    form, problem = job.scenario.wire.values, job.problem  # noqa: PD011 - no table
    if isinstance(problem, ProgramProblem) and problem.number_bytes > form.size:
        bits = 8 * problem.number_bytes
        text = (
            f"got {form.value}, but the model of {problem.loss.kind} has numbers of {bits} bits,"
            f" which are rounded for sending; float{bits} sends them exactly"
        )
        yield Note(job.variant.name, "wire.values", text)


def _full_batches(job: Job, block: BaseModel, key: str) -> Iterator[Note]:
    """Yield notes on batches that are larger than the samples of any client."""
    most = int(job.problem.rows.max())
    for name in type(block).model_fields:
        value, where = getattr(block, name), f"{key}.{name}"
        size = value.start if isinstance(value, GrowingBatch) else value
        if name == "batch" and size is not None and size > most:
            text = (
                f"got {size:g}, but no client has more than {most} samples: every gradient is over"
                " all samples of a client"
            )
            yield Note(job.variant.name, where, text)
        elif isinstance(value, BaseModel):
            yield from _full_batches(job, value, where)


def _identical_seeds(job: Job, first_rounds: Opening | None) -> Iterator[Note]:
    """Yield a note if all seeds make the same run, as far as the first rounds show."""
    count = len(job.variant.seeds)
    if count == 1 or job.drawn:
        return
    try:
        began = first_rounds or opening(job)
    except FedsimError:
        raise
    except Exception:  # noqa: BLE001 - of user-defined code: the run itself reports it
        return
    if len(began.rounds) == ROUNDS and not began.drew:
        text = (
            f"got {count}, but neither the problem nor the first {ROUNDS} rounds draw a random"
            " number: unless later rounds do, all seeds give the same run"
        )
        yield Note(job.variant.name, "seeds", text)


_TIMED, _TIMED_ALL = 0.1, 1.0
"""Longest time for which rounds are timed, s: of one variant, and of all together."""

_FIGURES = {
    "time": ("round_s", "s"),
    "energy": ("joules", "J"),
    "bits down": ("bits_down", "bit"),
    "bits up": ("bits_up", "bit"),
}
"""Heads of the table: columns of `Check.variants`, and their units."""


_LARGE = 1000
"""A round of fewer clients takes milliseconds, whichever way it is played."""


@dataclass(frozen=True, repr=False)
class Check:
    """The runs of a scenario and the costs of their first rounds; a notebook shows it as a table.

    Attributes:
        plan: the scenarios, complete, with their seeds.
        extent: the number of runs, and how long they take on this machine.
        variants: one row per variant: algorithm, clients, dimension (of the model), optimum (the
            smallest objective; NaN if unknown), and the cost of one round for all clients together:
            round_s, bits_down, bits_up, joules, asked (the size of the cohort, with all that
            gateways ask). The round is the same for all variants (round): the second one, or the
            first if a variant ends with it. A variant without a complete round has round 0.
        costs: one row per variant, round and group of the fleet: the mean cost per client.
        notes: settings without effect, or with an unexpected one.
        concerns: conditions of a method's theory that do not hold.
        accuracy: how far the times of messages are from packets.
        events: why rounds are played event by event, and not in arrays, and segments under TCP as
            objects, and not by kernels, which takes less time.
        jobs: the variants, each built under its first seed.
        openings: the first rounds of their runs, by variant.
        replies: by variant, the shortest time from the server's message to each client's reply,
            and that of its first reply, s, both of shape (M,), in rounds that wait for all replies;
            NaN where there is none.
        graphs: of peers: degrees, diameter, spectral gap, and the exchanges that bring them
            together; and tiers of gateways.
    """

    plan: Plan
    extent: Extent
    variants: pd.DataFrame
    costs: pd.DataFrame
    notes: tuple[Note, ...]
    concerns: tuple[Note, ...]
    accuracy: tuple[Note, ...]
    events: tuple[Note, ...]
    jobs: tuple[Job, ...] = field(repr=False)
    openings: Mapping[str, Opening] = field(repr=False)
    graphs: tuple[Note, ...] = ()
    replies: Mapping[str, ReplyTimes] = field(default_factory=dict, repr=False)

    @property
    def title(self) -> str:
        """The number of runs and their estimated time."""
        return str(self.extent)

    @property
    def first_round(self) -> str:
        """What the first round costs more than the second one; empty if nothing.

        The table has one round of all variants: the first starts with idle radios, and is not
        compared with a second.
        """
        pairs = [each.rounds for each in self.openings.values() if len(each.rounds) == ROUNDS]
        parts = [
            _range_of_extra([(first.seconds, second.seconds) for first, second in pairs], "s"),
            _range_of_extra(
                [(first.traffic.joules, second.traffic.joules) for first, second in pairs], "J"
            ),
        ]
        extra = " and ".join(filter(None, parts))
        text = f"The first round starts with idle radios: it takes {extra} more than the second."
        single = [name for name, each in self.openings.items() if len(each.rounds) == 1]
        shown = f"The table shows the first round: {', '.join(single)} ends with it."
        return " ".join([*([shown] if pairs and single else []), *([text] if extra else [])])

    @property
    def after_the_last(self) -> str:
        """What radios take after the last round until they sleep; empty if nothing."""
        ends = [each.rounds[-1].joules_after for each in self.openings.values() if each.rounds]
        extra = _range_of_extra([(joules, 0.0) for joules in ends], "J")
        return f"After the last round radios take {extra} more until they sleep." if extra else ""

    @property
    def models(self) -> tuple[Note, ...]:
        """Graphs, rounds and accuracy; for many clients also why rounds are played by events."""
        large = bool((self.variants["asked"] >= _LARGE).any())
        models = (*self.graphs, *self._rounds, *self.accuracy)
        return (*models, *self.events) if large else models

    @property
    def _rounds(self) -> Iterator[Note]:
        """How long a round takes by client; one note for variants that share it."""
        alike: dict[str, list[str]] = {}
        for job in self.jobs:
            known = self.replies[job.variant.name].known
            if len(known.first):
                digits = known.digits_beside(deadline(job.scenario)[1])
                text = describe_replies(known, digits)
                if len(self.openings[job.variant.name].rounds) == 1:  # no reply of a warm radio
                    text = f"a client's first reply takes {_range_of(known.first, digits)}"
                alike.setdefault(text, []).append(job.variant.name)
        yield from (Note(", ".join(names), "round", text) for text, names in alike.items())

    @property
    def lines(self) -> tuple[str, ...]:
        """What the first round costs more, then all notes, concerns and errors of models."""
        notes = (*self.notes, *self.concerns, *self.graphs, *self._rounds, *self.accuracy)
        return (*filter(None, [self.first_round, self.after_the_last]), *map(str, notes))

    def __repr__(self) -> str:
        from fedsim.core.tables import as_text  # every run loads this module, and draws no table

        return "\n".join([self.title, as_text(self.table()), *self.lines])

    def _repr_html_(self) -> str:
        """Return HTML for notebooks."""
        from fedsim.core.tables import as_html

        notes = "".join(f"<li>{escape(unbroken(visible(text)))}</li>" for text in self.lines)
        title = f"<p>{escape(unbroken(visible(self.title)))}</p>\n"
        return title + as_html(self.table()) + (f"<ul>{notes}</ul>" if notes else "")

    def table(self) -> "Table":
        """Return the costs of a round as a table for the terminal, one row per variant."""
        from rich.markup import escape as escaped

        from fedsim.core.tables import plain

        table = plain("costs of a round, all clients")
        table.add_column("variant")
        table.add_column("method")
        for head in ("round", "clients", *_FIGURES):
            table.add_column(head, justify="right")
        for row in self.variants.to_dict("records"):
            figures = [quantity(row[name], unit) for name, unit in _FIGURES.values()]
            ended = [str(row["round"]), f"{row['asked']:,}", *figures] if row["round"] else ["none"]
            table.add_row(escaped(row["variant"]), row["algorithm"], *ended)
        return table


@reject_renamed
def check(
    source: Written,
    *,
    overrides: Sequence[str] = (),
    blocks: Sequence[type[Spec]] = (),
    graph: "AnyGraph | None" = None,
) -> Check:
    """Validate a scenario, and find the costs of its first two rounds; nothing is written.

    Args:
        source: a YAML file or the name of an example, a mapping, or a `Scenario`.
        overrides: "key=value" texts that replace values of the scenario.
        blocks: user-defined classes that the scenario may name by their kind.
        graph: of networkx, as for `run`.

    Raises:
        ScenarioError, BlockError: the scenario, or one of `blocks`, is invalid.
        DataError: its data cannot be read.

    Example:
        >>> fedsim.check("censoring", overrides=["stop={rounds: 2}"]).title.partition(", ")[0]
        'censoring: 3 variants x 1 seed = 3 runs'
    """
    return check_plan(load(source, overrides=overrides, blocks=blocks, graph=graph))


def check_plan(plan: Plan) -> Check:
    """Find the costs of the first two rounds of each variant of a plan; nothing is written.

    Raises:
        ScenarioError: the data cannot be read, or the world cannot be built.
    """
    started = perf_counter()
    jobs = tuple(Builder(plan).check())
    built = perf_counter() - started
    timed = min(_TIMED, _TIMED_ALL / len(jobs))
    openings = {job.variant.name: opening(job, timed) for job in jobs}
    pairs = [(job, openings[job.variant.name]) for job in jobs]
    common = min((len(began.rounds) for _, began in pairs if began.rounds), default=0)
    replies = {job.variant.name: _reply_times(job, began) for job, began in pairs}
    return Check(
        plan,
        extent(plan, jobs, openings, built),
        pd.DataFrame([_variant(job, began, common) for job, began in pairs]),
        pd.concat([group_costs(*pair) for pair in pairs], ignore_index=True),
        (*added_notes(plan), *preflight_notes(jobs, openings), *deadline_notes(jobs, replies)),
        (*theory_notes(jobs),),
        (*accuracy_notes(jobs, openings),),
        (*event_notes(jobs),),
        jobs,
        openings,
        (*graph_notes(jobs), *tier_notes(jobs)),
        replies,
    )


def _range_of_extra(pairs: Sequence[tuple[float, float]], unit: str) -> str:
    """Return by how much the first of each pair exceeds the second; empty if by nothing.

    A round's cost is a difference of sums, so rounds that cost the same may differ by rounding.

    >>> _range_of_extra([(2.5, 1), (3, 1)], "J"), _range_of_extra([(1, 1), (3, 1)], "J")
    ('1.5 J to 2 J', 'up to 2 J')
    >>> _range_of_extra([(3, 1), (3, 1)], "J"), _range_of_extra([(1, 2)], "J")
    ('2 J', '')
    >>> _range_of_extra([(0.1 + 0.2, 0.3)], "J"), _range_of_extra([(3, 1), (0.1 + 0.2, 0.3)], "J")
    ('', 'up to 2 J')
    """
    alike = partial(isclose, rel_tol=_ROUNDING)
    extra = [0.0 if alike(first, second) else first - second for first, second in pairs]
    low, high = min(extra, default=0.0), max(extra, default=0.0)
    if high <= 0:
        return ""
    least, most = quantity(low, unit), quantity(high, unit)
    return most if least == most else f"up to {most}" if low <= 0 else f"{least} to {most}"


def _variant(job: Job, began: Opening, number: int) -> dict[str, object]:
    """Return the row of a variant, with the cost of one of its first rounds by number."""
    row: dict[str, object] = {
        "variant": job.variant.name,
        "algorithm": job.algorithm.kind,
        "clients": job.clients,
        "dimension": job.problem.dimension,
        "optimum": np.nan if job.reference is None else job.reference.value,
    }
    if not began.rounds:
        none = dict.fromkeys(("round_s", "bits_down", "bits_up", "joules"), np.nan)
        return {**row, "round": 0, **none, "asked": 0}
    cost = began.rounds[number - 1]
    spent = cost.traffic
    costs = {"bits_down": spent.bits_down, "bits_up": spent.bits_up, "joules": spent.joules}
    return {**row, "round": number, "round_s": cost.seconds, **costs, "asked": spent.cohort}
