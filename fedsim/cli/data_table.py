"""The table of `fedsim check` by client: samples, labels, missing cells, and differences."""

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from fedsim.cli.job_table import describe_partition, differences_of_clients, split_table
from fedsim.core.tables import listing
from fedsim.core.text import format_number
from fedsim.problems import Problem, ProgramProblem
from fedsim.problems.heterogeneity import CLASSES, label_counts
from fedsim.scenario.building import Job

_MANY = 40
"""Of more clients than this, the largest and the smallest are shown."""

_EACH = 12  # largest clients shown, and as many of the smallest


def data_table(job: Job) -> Table | Group:
    """Return a table of the samples of each client.

    If the data describes its clients, the table has their names, labels and missing cells, and a
    test of whether all clients have the same distribution of labels. Else it is the split's.
    """
    problem = job.problem
    if isinstance(problem, ProgramProblem) or problem.naming.missing is None:
        return split_table(job)
    text = Text("\n".join(f"- {line}" for line in differences_of_clients(job)))
    return Group(_by_client(job), text, Text(""))


def _by_client(job: Job) -> Table:
    problem = job.problem
    rows, naming = problem.rows, problem.naming
    names = naming.clients or tuple(f"client {number}" for number in range(len(rows)))
    shown = np.arange(len(rows))
    if len(rows) > _MANY:
        order = np.argsort(-rows, kind="stable")
        shown = np.concatenate([order[:_EACH], order[-_EACH:]])
    distinct = np.unique(problem.labels)
    classes = len(distinct) <= CLASSES
    heads = [naming.label(float(label)) for label in distinct] if classes else ["label, mean"]
    cells = _shares(problem) if classes else _means(problem)
    missing = naming.missing if naming.missing is not None else np.zeros(len(rows))
    lines = [
        (names[m], f"{rows[m]:,}", *cells[m], f"{format_number(100 * missing[m], '.3g')} %")
        for m in shown.tolist()
    ]
    test = f", {problem.test.rows:,} for testing" if problem.test else ""
    few = f"; the {_EACH} largest and the {_EACH} smallest" if len(rows) > _MANY else ""
    return listing(
        f"{describe_partition(job)}: {rows.sum():,} samples over {len(rows):,} clients{test}{few}",
        ("client", "samples", *heads, "missing"),
        lines,
    )


def _shares(problem: Problem) -> list[list[str]]:
    """Return the share of each label among every client's rows."""
    _, counts = label_counts(problem.labels, problem.rows)
    return [[f"{format_number(100 * n / row.sum(), '.0f')} %" for n in row] for row in counts]


def _means(problem: Problem) -> list[list[str]]:
    parts = np.split(problem.labels, np.cumsum(problem.rows)[:-1])
    return [[format_number(labels.mean(), ".4g")] for labels in parts]
