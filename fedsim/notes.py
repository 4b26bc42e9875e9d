"""Notes: what a scenario says that has no effect, or not the one that its words suggest.

They are no errors, and no conditions of a theory. `fedsim check` and `fedsim run` print them alike,
before anything runs where that can be known; `Result.notes` holds them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import BaseModel

from fedsim.algorithms.local import GrowingBatch
from fedsim.building import Job
from fedsim.probe import ROUNDS, Opening, opening
from fedsim.verdict import RISEN

RUNS = "runs"
"""The key of what is said of the runs that a folder has from before."""


class Note(NamedTuple):
    """A note.

    Attributes:
        about: the variant, or the run.
        key: of the scenario, a figure, or `RUNS`.
        text: a sentence.
    """

    about: str
    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.about}: {self.key}: {self.text}"


Tell = Callable[[Note], None]
"""Told of every note as it is known."""


def untold(note: Note) -> None:
    """Nobody is told."""


def marked(labels: Mapping[str, str], notes: Sequence[Note]) -> dict[str, str]:
    """Return the labels of variants, with a word at those of which a run has ended badly."""
    risen = {note.about.split(", seed")[0] for note in notes if note.key == RISEN}
    return {name: label + " (rose)" * (name in risen) for name, label in labels.items()}


def once(notes: Sequence[Note]) -> list[Note]:
    """Return the notes of runs, of several seeds that have one alike the first."""
    alike: dict[tuple[str, str], list[Note]] = {}
    for note in notes:
        alike.setdefault((note.about.split(", seed")[0], note.key), []).append(note)
    return [
        first._replace(text=f"{first.text} ({len(more)} more of its seeds alike)")
        if more
        else first
        for first, *more in alike.values()
    ]


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


def _of_each(jobs: Sequence[Job], openings: Mapping[str, Opening]) -> Iterator[Note]:
    yield from _repeated(jobs)
    for job in jobs:
        yield from _unlimited(job)
        yield from _full_batches(job, job.algorithm, "algorithm")
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


def _full_batches(job: Job, block: BaseModel, key: str) -> Iterator[Note]:
    """Yield where a batch is larger than what any client has."""
    most = max(loss.rows for loss in job.problem.losses)
    for name in type(block).model_fields:
        value, where = getattr(block, name), f"{key}.{name}"
        size = value.start if isinstance(value, GrowingBatch) else value
        if name == "batch" and size is not None and size > most:
            text = (
                f"seen {size:g}, but no client has more than {most} samples: every gradient is one"
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
            f"seen {count}, but neither the problem nor the first {ROUNDS} rounds draw a random"
            " number: unless later ones do, all seeds make the same run"
        )
        yield Note(job.variant.name, "seeds", text)
