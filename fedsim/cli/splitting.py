"""Which client of a job has how many samples, as a table for people."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from fedsim.building import Job
from fedsim.ports import Array
from fedsim.problems import ProgramLoss, ProgramProblem
from fedsim.tables import listing

_FEW_CLIENTS = 8
"""Up to so many clients have a column each in the table of the split."""

_FEW_LABELS = 20
"""Up to so many distinct labels are classes; more are taken for the values of a regression."""


def split_table(job: Job) -> Table:
    """Return which client has how many samples, and of which labels where these are few.

    Of many clients it says, for each group of the fleet, the smallest figure, the median and
    the largest.
    """
    rows = job.problem.rows
    if len(rows) <= _FEW_CLIENTS:
        columns = {f"client {m}": np.array([m]) for m in range(len(rows))}
    else:
        members = np.array(job.members)
        columns = {f"group {g}": np.flatnonzero(members == g) for g in range(len(job.groups))}
    lines = [("samples", *[_range(rows[mine]) for mine in columns.values()])]
    own = isinstance(job.problem, ProgramProblem)  # whose labels nobody else knows
    for label, shares in () if own else _label_shares(job.problem.labels, rows):
        cells = [_range(np.rint(100 * shares[mine]), " %") for mine in columns.values()]
        lines.append((f"label {label:g}", *cells))
    test = job.problem.test
    held = f", {test.rows:,} to test on" if test else ""
    return listing(
        f"{_dealt(job)}: {rows.sum():,} samples over {len(rows):,} clients{held}",
        ("least / median / most" if len(rows) > _FEW_CLIENTS else "", *columns),
        lines,
    )


def _dealt(job: Job) -> str:
    """Say by what samples came to clients: by a split, or by the clients' own programs."""
    problem = job.scenario.problem
    if isinstance(problem.loss, ProgramLoss):
        return f"clients of {problem.loss.kind}"
    return f"split {problem.split.kind}"


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
