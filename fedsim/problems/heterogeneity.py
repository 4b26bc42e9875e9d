"""Heterogeneity of clients: their sizes, and a test of whether their labels differ."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array
from fedsim.core.text import format_number

CLASSES = 20
"""Labels with at most this many distinct values are treated as classes."""

_EXPECTED = 5.0  # rows per cell, from which on the chi-squared distribution is accurate
_SHARE = 0.2  # of the cells may have fewer (Cochran's rule)
LEVEL = 0.05
"""Below this probability, labels count as different between clients."""


class LabelTest(NamedTuple):
    """A test of the hypothesis that the labels of all clients have one distribution.

    Attributes:
        name: the name of the statistic.
        statistic: its value.
        freedom: degrees of freedom.
        p: the probability of this or a larger value under the hypothesis.
        rough: whether p is only approximate, because too many cells have few expected rows.
    """

    name: str
    statistic: float
    freedom: int
    p: float
    rough: bool

    def __str__(self) -> str:
        p = "p < 0.0001" if self.p < 1e-4 else f"p = {format_number(self.p, '.2g')}"
        value = format_number(self.statistic, ".4g")
        text = f"{self.name} = {value}, {self.freedom} degrees of freedom, {p}"
        if self.p < LEVEL:
            verdict = "labels differ between clients: the data is not iid"
        else:
            verdict = "no evidence that labels differ between clients"
        rough = ", roughly, as some clients have few rows of a label" if self.rough else ""
        return f"{verdict} ({text}{rough})"


def label_counts(labels: Array, rows: NDArray[np.int64]) -> tuple[Array, NDArray[np.int64]]:
    """Return the distinct labels, and the number of rows with each of them per client.

    Args:
        labels: the labels of all rows, client by client, shape (n,).
        rows: the number of rows of each client, shape (M,).

    Returns:
        The labels, ascending, shape (labels,), and the counts, shape (M, labels).
    """
    distinct, kinds = np.unique(labels, return_inverse=True)
    owners = np.repeat(np.arange(len(rows)), rows)
    counts = np.bincount(owners * len(distinct) + kinds, minlength=len(rows) * len(distinct))
    return distinct, counts.reshape(len(rows), -1)


def label_test(labels: Array, rows: NDArray[np.int64]) -> LabelTest | None:
    """Test whether clients differ in their labels; None if there is nothing to compare.

    Classes are compared by Pearson's chi-squared test on the table of clients and labels, and real
    numbers by the test of Kruskal and Wallis.

    Args:
        labels: the labels of all rows, client by client, shape (n,).
        rows: the number of rows of each client, shape (M,).
    """
    from scipy import stats  # takes a second, and few commands need it

    if len(rows) < 2 or len(np.unique(labels)) < 2:
        return None
    if len(np.unique(labels)) <= CLASSES:
        test = stats.chi2_contingency(label_counts(labels, rows)[1], correction=False)
        rough = float((test.expected_freq < _EXPECTED).mean()) > _SHARE
        return LabelTest("chi-squared", float(test.statistic), int(test.dof),
                         float(test.pvalue), rough)  # fmt: skip
    parts = np.split(labels, np.cumsum(rows)[:-1])
    statistic, p = stats.kruskal(*parts)
    few = bool((rows < _EXPECTED).any())
    return LabelTest("Kruskal-Wallis H", float(statistic), len(rows) - 1, float(p), few)


def size_sentence(rows: NDArray[np.int64]) -> str:
    """Return a sentence on how much the sizes of clients differ.

    >>> size_sentence(np.array([10, 40]))
    'the largest client has 4 times the rows of the smallest (40 and 10)'
    """
    least, most = int(rows.min()), int(rows.max())
    if least == most:
        return f"every client has {least:,} rows"
    ratio = format_number(most / least, ".3g")
    sizes = f"({most:,} and {least:,})"
    return f"the largest client has {ratio} times the rows of the smallest {sizes}"
