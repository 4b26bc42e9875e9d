"""What there is to choose from, and what a job consists of, as tables for people."""

from collections.abc import Iterator, Mapping, Sequence
from math import floor, inf
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedsim.algorithms import ALGORITHMS
from fedsim.analysis import listing, quantity
from fedsim.building import Job
from fedsim.ports import Array
from fedsim.probe import RoundCost, round_cost
from fedsim.problems import LOSSES, SOURCES, SPLITS
from fedsim.scenario import (
    AVAILABILITY,
    CHARGING,
    DEVICES,
    LORA,
    NETWORKS,
    PACKET_LOSSES,
    PARTICIPATION,
    RADIO_KINDS,
    RADIOS,
    SILENCES,
    SLOWDOWNS,
    TRACES,
    Preset,
)
from fedsim.wire import COMPRESSORS, HEADER_BITS, Dense

_SOURCED: Mapping[str, Sequence[type[Any]]] = {
    "algorithms": ALGORITHMS,
    "losses": LOSSES,
    "data": SOURCES,
    "splits": SPLITS,
}
_KINDS: Mapping[str, Sequence[type[Any]]] = {
    "radio kinds": RADIO_KINDS,
    "networks": NETWORKS,
    "participation": PARTICIPATION,
    "silence": SILENCES,
    "availability": AVAILABILITY,
    "charging": CHARGING,
    "slowdowns": SLOWDOWNS,
    "packet losses": PACKET_LOSSES,
    "traces": TRACES,
}
_HEADS = (
    *("clients", "device", "radio", "samples", "bits down", "bits up"),
    *("download", "compute", "upload", "energy", "battery"),
)
_PRESETS: Mapping[str, Mapping[str, Preset]] = {"devices": DEVICES, "radios": {**RADIOS, **LORA}}


def listings() -> Iterator[tuple[str, Table]]:
    """Yield a table for everything that a scenario names by its kind, each with its name."""
    for title, models in _SOURCED.items():
        sourced = [(_kind(model), _first_line(model), model.source) for model in models]
        yield title, listing(title, ("kind", "what it is", "source"), sourced)
    yield "compressors", _compressors()
    for title, presets in _PRESETS.items():
        lines = [(name, _values(preset), preset.basis) for name, preset in presets.items()]
        yield title, listing(title, ("preset", "values", "source"), lines)
    for title, models in _KINDS.items():
        rows = [(_kind(model), _first_line(model)) for model in models]
        yield title, listing(title, ("kind", "what it is"), rows)


def _compressors() -> Table:
    """Return the compressors with what each promises of its error."""
    rows = [(_kind(one), _first_line(one), one.law, one.source) for one in COMPRESSORS]
    return listing("compressors", ("kind", "what it is", "class and constant", "source"), rows)


def _kind(model: type[Any]) -> str:
    fields = model.model_fields
    return str(fields["topology" if "topology" in fields else "kind"].default)


def _values(preset: Preset) -> str:
    """Return what a preset says, without what is nothing."""
    said = {key: str(value) for key, value in preset.values.items()}  # noqa: PD011 - a mapping
    nothing = ("0 W", "0 mW", "0 J/bit", "0 s")
    return ", ".join(f"{key} {text}" for key, text in said.items() if text not in nothing)


def _first_line(model: type) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def job_table(job: Job) -> Group:
    """Return what one job would run: sizes, method, and a full round for each kind of client.

    A full round is the model down, one gradient, and a vector of the model's length up, from
    all clients at once; see `fedsim.probe`.
    """
    cost = round_cost(job)
    groups = range(len(job.groups))
    columns = [_round_of(job, number, cost) for number in groups]
    table = listing(
        f"{job.variant.name}: {job.algorithm.kind}, {len(job.members)} clients",
        ("a full round", *[f"group {number}" for number in groups]),
        list(zip(_HEADS, *columns, strict=True)),
    )
    lines = [*_facts(job), *_ends(job, cost)]
    return Group(table, Text("\n".join(lines)), Text(""))


def _facts(job: Job) -> Iterator[str]:
    yield ", ".join(f"{name} = {value:g}" for name, value in job.parameters.items())
    initial = job.setup.initial
    bits = Dense.of(initial, job.scenario.wire.values).bits
    values = job.scenario.wire.values.value  # noqa: PD011 - the name of a format
    yield (
        f"model of {job.problem.dimension} values, {bits} bits and a header of "
        f"{HEADER_BITS}; {values} on the wire"
    )
    if job.reference is None:
        yield "no optimum is known"
    else:
        yield f"optimum {job.reference.value:.10g}, by {job.reference.method}"


def _ends(job: Job, cost: RoundCost) -> Iterator[str]:
    yield f"a full round takes {quantity(cost.seconds, 's')}"
    first = int(np.argmin(cost.rounds))
    if cost.rounds[first] < inf:
        group = job.groups[job.members[first]]
        rounds = floor(cost.rounds[first])
        yield (
            f"the first battery is empty after {rounds:,} of them, from its charge at the start "
            f"({group.device.kind} over {group.radio.kind}), if nothing charges it"
        )


def _round_of(job: Job, number: int, cost: RoundCost) -> tuple[str, ...]:
    """Return a column of `job_table`: the means of the clients of one group."""
    mine = np.flatnonzero(np.array(job.members) == number)
    rows = [job.problem.losses[client].rows for client in mine]
    mean: pd.Series[float] = cost.clients.iloc[mine].mean()
    return (
        str(len(mine)),
        job.groups[number].device.kind,
        job.groups[number].radio.kind,
        f"{min(rows)}" if min(rows) == max(rows) else f"{min(rows)} to {max(rows)}",
        quantity(mean["bits_down"], "bit"),
        quantity(mean["bits_up"], "bit"),
        quantity(mean["receive_s"], "s"),
        quantity(mean["compute_s"], "s"),
        quantity(mean["send_s"], "s"),
        quantity(mean["joules"], "J"),
        _share(cost.drained[mine]),
    )


def _share(drained: Array) -> str:
    """Return the share of a battery that a round takes."""
    return "mains" if np.isnan(drained).all() else f"{100 * float(drained.mean()):.2g} %"
