"""What there is to choose from, and what a job consists of, as tables for people."""

from collections.abc import Iterator, Sequence
from math import isinf
from typing import Any

from rich.table import Table

from fedsim.algorithms import ALGORITHMS
from fedsim.analysis import listing, quantity
from fedsim.build import Job
from fedsim.problems import LOSSES, SOURCES, SPLITS
from fedsim.scenario import DEVICES, RADIOS, Group
from fedsim.wire import HEADER_BITS


def listings() -> Iterator[Table]:
    """Yield a table for everything that a scenario names by its kind, sources included."""
    classes: dict[str, Sequence[type[Any]]] = {
        "algorithms": ALGORITHMS,
        "losses": LOSSES,
        "data": SOURCES,
        "splits": SPLITS,
    }
    for title, models in classes.items():
        rows = [
            (str(model.model_fields["kind"].default), _first_line(model), model.source)
            for model in models
        ]
        yield listing(title, ("kind", "what it is", "source"), rows)
    for title, presets in {"devices": DEVICES, "radios": RADIOS}.items():
        heads = list(next(iter(presets.values())).values)
        lines = [(name, *preset.values.values(), preset.basis) for name, preset in presets.items()]
        yield listing(title, ("preset", *heads, "source"), lines)


def job_table(job: Job) -> Table:
    """Return what one job would run: sizes, method, and a full round for each kind of client.

    A full round is the model down, one gradient, and a vector of the model's length up, on
    an otherwise idle server link.
    """
    bits = _model_bits(job) + HEADER_BITS
    table = listing(
        f"{job.variant.name}: {job.algorithm.kind}, {len(job.members)} clients",
        ("clients", "device", "radio", "samples", "download", "compute", "upload", "energy"),
        [_round_of(job, number, bits) for number in range(len(job.groups))],
    )
    table.caption = "\n".join(_facts(job))
    table.caption_justify = "left"
    return table


def _first_line(model: type) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _facts(job: Job) -> Iterator[str]:
    yield ", ".join(f"{name} = {value:g}" for name, value in job.parameters.items())
    yield (
        f"model of {job.problem.dimension} values, {_model_bits(job)} bits and a header of "
        f"{HEADER_BITS}; {job.scenario.wire.values.value} on the wire"
    )
    if job.reference is None:
        yield "no optimum is known"
    else:
        yield f"optimum {job.reference.value:.10g}, by {job.reference.method}"


def _model_bits(job: Job) -> int:
    return job.setup.pack_down(job.setup.initial).bits


def _round_of(job: Job, number: int, bits: int) -> tuple[str, ...]:
    """Return a row of `job_table` for the clients of one group, at the mean of their samples."""
    group = job.groups[number]
    pairs = zip(job.members, job.problem.losses, strict=True)
    losses = [loss for member, loss in pairs if member == number]
    rows, work = zip(*[(loss.rows, loss.gradient_operations) for loss in losses], strict=True)
    latency = group.radio.latency + job.scenario.network.server.latency
    down, up = bits / group.radio.down, bits / group.radio.up
    compute = sum(work) / len(work) / group.device.speed
    return (
        str(len(losses)),
        group.device.kind,
        group.radio.kind,
        f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}",
        quantity(latency + down, "s"),
        quantity(compute, "s"),
        quantity(latency + up, "s"),
        quantity(_joules(group, down, compute, up, bits, 2 * latency), "J"),
    )


def _joules(
    group: Group, down: float, compute: float, up: float, bits: int, latency: float
) -> float:
    """Return the energy of a full round, idle power included."""
    radio, device = group.radio, group.device
    seconds = down + compute + up + latency
    busy = (device.active - device.idle) * compute
    air = radio.base * (down + up) + (radio.energy_up + radio.energy_down) * bits
    return busy + air + (0.0 if isinf(seconds) else device.idle * seconds)
