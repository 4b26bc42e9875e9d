"""Notes on settings of a scenario that have no effect on its runs, found before any run."""

from collections.abc import Iterator

import numpy as np

from fedsim.core.text import format_number
from fedsim.problems import ProgramProblem
from fedsim.problems.heterogeneity import CLASSES
from fedsim.protocol.participation import CarbonAwareParticipation
from fedsim.protocol.stop_rules import Patience
from fedsim.results.record.scenarios import Note
from fedsim.running.probe import Opening
from fedsim.scenario.building import Job
from fedsim.scenario.building.slow_devices import slow_devices
from fedsim.sim.known import known_fleet
from fedsim.wire import Dense, Identity

_LARGEST = 10**6
"""A vector of more values is not compressed for a note."""

_HOURS = 10_000
"""Changes of the intensity of electricity that are looked through: those of more than a year."""

_BY_LABEL = ("dirichlet", "label-mix", "by-label")
"""The splits that deal out each label by itself."""

_FEW_EACH = 5
"""A target with fewer rows per distinct value is taken for a number, not for a class."""


def ineffective_settings(job: Job, opening: Opening | None) -> Iterator[Note]:
    """Yield notes on settings of a job that change nothing, or cannot be met.

    Args:
        job: a variant.
        opening: its first rounds; None where nobody has simulated them.
    """
    last = opening.rounds[-1] if opening and opening.rounds else None
    share = 0.0
    if last is not None and last.seconds > 0:
        share = float(last.clients["compute_s"].max()) / last.seconds
    for key, text in (
        *_unmet_stops(job),
        *_labels(job),
        *_compression(job),
        *_intensity(job),
        *slow_devices(job.deployment, share),
    ):
        yield Note(job.variant.name, key, text)


Found = Iterator[tuple[str, str]]


def _unmet_stops(job: Job) -> Found:
    """Yield stop rules that no round of a run can meet."""
    stop = job.scenario.stop
    for rule in stop.rules:
        if isinstance(rule, Patience) and rule.rounds >= stop.rounds:
            text = f"got {rule.rounds} rounds, but a run has {stop.rounds}: it never ends a run"
            yield "stop.patience", text
    best, target = job.reference, stop.objective
    if best is None or target is None or job.personal or job.algorithm.constrained:
        return
    if not best.certified:
        return  # a smaller value may exist
    if target < best.value - 1e-9 * abs(best.value):
        smallest = format_number(best.value, ".6g")
        text = f"got {target:g}, but the smallest objective is {smallest}: it never ends a run"
        yield "stop.objective", text


def _labels(job: Job) -> Found:
    """Yield labels of one class, and splits by label of a real-valued target."""
    problem = job.problem
    if isinstance(problem, ProgramProblem):
        return  # only the clients know their labels
    labels = np.asarray(problem.labels)
    distinct = np.unique(labels)
    if len(distinct) == 1 and len(labels) > 1:
        text = (
            f"all {len(labels):,} labels are {distinct[0]:g}: any model that predicts it is perfect"
        )
        yield "problem.data", text
    split = job.scenario.problem.split.kind
    if split not in _BY_LABEL or len(distinct) <= CLASSES:
        return
    whole = bool(np.all(distinct == np.round(distinct)))
    if not whole or len(labels) < _FEW_EACH * len(distinct):
        least, most = problem.rows.min(), problem.rows.max()
        size = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        text = (
            f"got {split}, which treats each of the target's {len(distinct):,} distinct values in"
            f" {len(labels):,} rows as a class: clients get {size} rows with the same targets on"
            " average; shards divides the sorted target, clusters divides by features"
        )
        yield "problem.split", text


def _compression(job: Job) -> Found:
    """Yield compressors whose payload is longer than the vector in full."""
    count, wire = job.sent_values, job.scenario.wire
    for way in ("up", "down"):
        compressor = getattr(wire, way).compressor
        # A user-defined compressor may have effects that a trial would not show.
        custom = not type(compressor).__module__.startswith("fedsim.")
        if custom or isinstance(compressor, Identity) or count > _LARGEST:
            continue
        vector, rng = np.random.default_rng(0).standard_normal(count), np.random.default_rng(1)
        payload = compressor.sender()(vector, rng, wire.values)
        longest, plain = compressor.longest(vector, payload), Dense.length(vector, wire.values)
        if longest > plain:
            text = (
                f"got {compressor.kind}, which takes {longest:,} bits for the {count:,} values of"
                f" the model; uncompressed they take {plain:,} bits, so it saves nothing"
            )
            yield f"wire.{way}.compressor", text


def _intensity(job: Job) -> Found:
    """Yield a threshold of carbon intensity that the clients' electricity never meets."""
    policy = job.participation
    if not isinstance(policy, CarbonAwareParticipation) or policy.below is None:
        return
    fleet = known_fleet(job.setup)
    grid = None if fleet is None else fleet.grid
    if fleet is None or grid is None:
        return
    count, when, least = min(policy.asked or fleet.count, fleet.count), 0.0, np.inf
    for _ in range(_HOURS):
        least = min(least, float(np.partition(grid.at(when), count - 1)[:count].mean()))
        when = grid.next_change(when)
        if least <= policy.below or when == np.inf:
            break
    if least > policy.below:
        text = (
            f"got {policy.below:g} g/kWh, but the cleanest {count} clients never have less than"
            f" {format_number(least, '.3g')} g/kWh: no hour meets it"
        )
        yield "participation.below", text
