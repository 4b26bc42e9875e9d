"""Unsettled energy: what has been spent already, and is charged when a span ends.

Work, messages and the states of radios are metered and logged at their ends. Energy at another
instant, as at the end of a round, also has the parts of open spans that lie before it. They are
what would be charged if the world ended then.
"""

from collections.abc import Iterable

from fedsim.core.ports import ClientId

# A plain tuple: of thousands of radios, each may be in a tail at the end of every round.
OpenSpan = tuple[ClientId, float, float]
"""A span that is not charged yet: the client that spends the energy, the time at which the span
began, s, and its energy so far beyond idle power, J."""


def nothing_open() -> Iterable[OpenSpan]:
    """Return no spans."""
    return ()
