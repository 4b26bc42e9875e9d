"""Spans of time whose energy has been spent in part, and is charged when they end.

Work, messages and the states of radios are metered and logged at their ends. Energy at another
instant, as at the end of a round, also has the parts of open spans that lie before it. They are
what would be charged if the world ended then.
"""

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedsim.core.ports import Array, ClientId


class OpenSpans(NamedTuple):
    """Spans that have begun, and are not charged yet.

    Attributes:
        clients: the client that spends the energy of each span, shape (n,).
        begins: the time at which each began, s.
        joules: the energy of each so far beyond idle power, J.
    """

    clients: NDArray[np.intp]
    begins: Array
    joules: Array

    @classmethod
    def of(cls, spans: Iterable[tuple[ClientId, float, float]]) -> Self:
        """Return spans, each given by its client, its begin and its energy."""
        columns = np.array(list(spans)).reshape(-1, 3).T
        return cls(columns[0].astype(np.intp), columns[1], columns[2])

    @classmethod
    def join(cls, parts: Iterable["OpenSpans"]) -> Self:
        """Return all spans of some parts; at least one."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    @classmethod
    def at_power(cls, clients: ArrayLike, begins: Array, watts: ArrayLike, now: float) -> Self:
        """Return spans of constant power, W, which last until now."""
        return cls(np.asarray(clients, np.intp), begins, np.asarray(watts) * (now - begins))


NOTHING_OPEN = OpenSpans.of(())
