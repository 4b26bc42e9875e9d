"""What there is to choose from, and what a job consists of, as tables for people."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from fedsim.algorithms import ALGORITHMS
from fedsim.analysis import listing
from fedsim.building import Job
from fedsim.ports import Array
from fedsim.problems import LOSSES, MEASURES, PENALTIES, SOURCES, SPLITS, STARTS
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
from fedsim.wire import COMPRESSORS

_SOURCED: Mapping[str, Sequence[type[Any]]] = {
    "algorithms": ALGORITHMS,
    "losses": LOSSES,
    "penalties": PENALTIES,
    "data": SOURCES,
    "splits": SPLITS,
    "starts": STARTS,
}
_KINDS: Mapping[str, Sequence[type[Any]]] = {
    "measures": MEASURES,
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
_FEW_CLIENTS = 8
"""Up to so many clients have a column each in the table of the split."""

_FEW_LABELS = 20
"""Up to so many distinct labels are classes; more are taken for the values of a regression."""

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
    said = {key: str(value) for key, value in preset.values.items()}
    nothing = ("0 W", "0 mW", "0 J/bit", "0 s")
    return ", ".join(f"{key} {text}" for key, text in said.items() if text not in nothing)


def _first_line(model: type) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def split_table(job: Job) -> Table:
    """Return which client has how many samples, and of which labels where these are few.

    Of many clients it says, for each group of the fleet, the smallest figure, the median and
    the largest.
    """
    rows = np.array([part.rows for part in job.problem.samples])
    if len(rows) <= _FEW_CLIENTS:
        columns = {f"client {m}": np.array([m]) for m in range(len(rows))}
    else:
        members = np.array(job.members)
        columns = {f"group {g}": np.flatnonzero(members == g) for g in range(len(job.groups))}
    lines = [("samples", *[_range(rows[mine]) for mine in columns.values()])]
    for label, shares in _label_shares(job.problem.labels, rows):
        cells = [_range(np.rint(100 * shares[mine]), " %") for mine in columns.values()]
        lines.append((f"label {label:g}", *cells))
    test = job.problem.test
    held = f", {test.rows:,} to test on" if test else ""
    return listing(
        f"split {job.scenario.problem.split.kind}: {rows.sum():,} samples over "
        f"{len(rows):,} clients{held}",
        ("least / median / most" if len(rows) > _FEW_CLIENTS else "", *columns),
        lines,
    )


def _label_shares(labels: Array, rows: NDArray[np.int_]) -> Iterator[tuple[float, Array]]:
    """Yield each label with its share of every client's samples, shape (M,), if they are few.

    Args:
        labels: of all samples, client by client.
        rows: how many samples each client has, shape (M,).
    """
    distinct, kinds = np.unique(labels, return_inverse=True)
    if len(distinct) > _FEW_LABELS:
        return
    owners = np.repeat(np.arange(len(rows)), rows)
    counts = np.bincount(owners * len(distinct) + kinds, minlength=len(rows) * len(distinct))
    for label, own in zip(distinct, counts.reshape(len(rows), -1).T, strict=True):
        yield float(label), own / rows


def _range(figures: NDArray[Any], unit: str = "") -> str:
    """Return one whole number, or the least, the median and the largest of several."""
    least, middle, most = (f"{figure:.0f}" for figure in np.percentile(figures, (0, 50, 100)))
    return f"{least}{unit}" if least == most else f"{least} / {middle} / {most}{unit}"
