"""Unsettled energy: what has been spent already, and is charged when a span ends.

Work, messages and the states of radios are metered and logged at their ends. Energy at another
instant, as at the end of a round, also has the parts of open spans that lie before it. They are
what would be charged if the world ended then.
"""

from collections.abc import Iterable
from typing import NamedTuple

from fedsim.core.ports import ClientId


class OpenSpan(NamedTuple):
    """A span that has begun, and is not charged yet.

    Attributes:
        client: the client that spends the energy.
        begin: the time at which it began, s.
        joules: the energy so far beyond idle power, J.
    """

    client: ClientId
    begin: float
    joules: float


def nothing_open() -> Iterable[OpenSpan]:
    """Return no spans."""
    return ()
