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
    table = listing(
        f"{job.variant.name}: {job.algorithm.kind}, {len(job.groups)} clients",
        ("clients", "device", "radio", "samples", "download", "compute", "upload", "energy"),
        [_round_of(job, group, own) for group, own in _by_group(job).items()],
    )
    table.caption = "\n".join(_facts(job))
    table.caption_justify = "left"
    return table


def _first_line(model: type) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _facts(job: Job) -> Iterator[str]:
    method = job.algorithm.model_dump(exclude={"kind"}, exclude_none=True)
    yield ", ".join(f"{name} = {value:g}" for name, value in method.items())
    vector = job.setup.pack_down(job.setup.initial).bits
    yield (
        f"model of {job.problem.dimension} values, {vector} bits and a header of {HEADER_BITS}; "
        f"{job.scenario.wire.values.value} on the wire"
    )
    if job.reference is None:
        yield "no optimum is known"
    else:
        yield f"optimum {job.reference.value:.10g}, by {job.reference.method}"


def _by_group(job: Job) -> dict[int, list[int]]:
    """Return the clients of each group of the fleet."""
    groups: dict[int, list[int]] = {}
    identities = [id(group) for group in job.groups]
    for client, identity in enumerate(identities):
        groups.setdefault(identities.index(identity), []).append(client)
    return groups


def _round_of(job: Job, first: int, clients: list[int]) -> tuple[str, ...]:
    """Return a row of `job_table` for clients of one group, at the mean of their samples."""
    group: Group = job.groups[first]
    rows = [job.problem.losses[client].rows for client in clients]
    work = [job.problem.losses[client].gradient_operations for client in clients]
    bits = job.setup.pack_down(job.setup.initial).bits + HEADER_BITS
    latency = group.radio.latency + job.scenario.network.server.latency
    down, up = bits / group.radio.down, bits / group.radio.up
    compute = sum(work) / len(work) / group.device.speed
    return (
        str(len(clients)),
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
