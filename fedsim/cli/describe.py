"""What there is to choose from, and what a job consists of, as tables for people."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from fedsim.analysis import listing
from fedsim.blocks.catalogue import NOTHING_GIVEN, Catalogue, Failed
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.building import Job
from fedsim.physics.radios import LORA, RADIOS
from fedsim.ports import Array
from fedsim.scenario import DEVICES, Preset
from fedsim.scenario.registries import REGISTRIES

_FEW_CLIENTS = 8
"""Up to so many clients have a column each in the table of the split."""

_FEW_LABELS = 20
"""Up to so many distinct labels are classes; more are taken for the values of a regression."""

_PRESETS: Mapping[str, Mapping[str, Preset]] = {"devices": DEVICES, "radios": {**RADIOS, **LORA}}


def listings(
    known: Catalogue = NOTHING_GIVEN, failed: Failed | None = None
) -> Iterator[tuple[str, Table]]:
    """Yield a table for everything that a scenario names by its kind, each with its name.

    Args:
        known: what a scenario can name.
        failed: told of each installed block that cannot be used, which is left out then.

    Raises:
        BlockError: an installed one cannot be used, and nobody is to be told.
    """
    sourced = [each for each in REGISTRIES if _declares(each, "source")]
    for registry in sourced:
        yield registry.title or registry.several, _listing(registry, known, failed)
    for title, presets in _PRESETS.items():
        lines = [(name, _values(preset), preset.basis) for name, preset in presets.items()]
        yield title, listing(title, ("preset", "values", "source"), lines)
    for registry in REGISTRIES:
        if registry not in sourced:
            yield (
                registry.title or registry.several,
                _listing(registry, known, failed),
            )


def _listing(registry: Registry[Spec], known: Catalogue, failed: Failed | None) -> Table:
    """Return the table of a kind of block; of compressors with what each promises."""
    said = {"law": "class and constant", "source": "source"}
    further = [name for name in said if _declares(registry, name)]
    heads = ["kind", "what it is", *(said[name] for name in further)]
    rows = [
        (_kind(model, registry), _first_line(model), *(getattr(model, name) for name in further))
        for model in known.every(registry, failed)
    ]
    return listing(registry.title or registry.several, heads, rows)


def _declares(registry: Registry[Spec], name: str) -> bool:
    """Say whether every class of a registry has a class attribute."""
    return registry.base is not None and name in registry.base.__class_vars__


def _kind(model: type[Any], registry: Registry[Spec]) -> str:
    return ", ".join(registry.names_of(model))


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
