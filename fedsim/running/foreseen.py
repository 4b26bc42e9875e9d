"""What can be noted of a scenario before anything runs; see `fedsim.record.notes`."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import BaseModel

from fedsim.algorithms.local import GrowingBatch
from fedsim.building import Job
from fedsim.problems import ProgramProblem
from fedsim.record.notes import RUNS, Note
from fedsim.running.execution import unidentified
from fedsim.running.probe import ROUNDS, Opening, opening
from fedsim.scenario import Plan


def foreseen(jobs: Sequence[Job], openings: Mapping[str, Opening] | None = None) -> Iterator[Note]:
    """Yield what can be said before anything runs; what is said of several variants, once.

    Args:
        jobs: one a variant.
        openings: how their runs begin, by variant, as far as somebody has looked already.
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
        if reason := unidentified(variant.scenario):
            alike.setdefault(reason, []).append(variant.name)
    for reason, names in alike.items():
        text = (
            f"what was handed over in Python cannot be compared for certain ({reason}): these runs"
            " are made again every time"
        )
        yield Note(", ".join(names), RUNS, text)


def _of_each(jobs: Sequence[Job], openings: Mapping[str, Opening]) -> Iterator[Note]:
    yield from _repeated(jobs)
    for job in jobs:
        yield from _unlimited(job)
        yield from _full_batches(job, job.algorithm, "algorithm")
        yield from _narrow(job)
        yield from _alike(job, openings.get(job.variant.name))


def _repeated(jobs: Sequence[Job]) -> Iterator[Note]:
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


def _unlimited(job: Job) -> Iterator[Note]:
    """Yield that rounds end by a default."""
    stop = job.scenario.stop
    if "rounds" not in stop.model_fields_set:
        text = f"not given: a run ends after {stop.rounds:,} rounds at the latest, by default"
        yield Note(job.variant.name, "stop.rounds", text)


def _narrow(job: Job) -> Iterator[Note]:
    """Yield that numbers are rounded on the wire which clients' own programs compute with."""
    form, problem = job.scenario.wire.values, job.problem
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
