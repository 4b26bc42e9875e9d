"""The auditor: holds a run's files against each other and against what its scenario promises.

It reads the log, the tables and the scenario, and shares no code with the ledger that keeps
the books while a run goes on.
"""

from collections.abc import Callable, Iterator

from . import between, books, carbon, conduct, noticing
from .evidence import Evidence

Check = Callable[[Evidence], Iterator[str]]

CHECKS: tuple[Check, ...] = (
    books.order,
    books.messages,
    books.traffic,
    books.clients,
    books.energy,
    books.energy_by_round,
    books.rest,
    books.outside,
    carbon.carbon,
    conduct.presence,
    conduct.answers,
    conduct.spans,
    conduct.batteries,
    conduct.rounds,
    conduct.cohorts,
    conduct.deadlines,
    conduct.ends,
    conduct.lateness,
    conduct.abandoned,
    noticing.closings,
    noticing.at_work,
)
AMONG_PEERS: dict[Check, Check] = {books.messages: between.legs, conduct.answers: between.told_once}
"""The checks that take the places of others where there is no server."""

_MOST = 3


def audit(run: Evidence) -> list[str]:
    """Return what is wrong, a few findings a check; nothing where all is well."""
    return [
        f"{check.__name__}: {text}"
        for check in (AMONG_PEERS.get(each, each) if run.peers else each for each in CHECKS)
        for _, text in zip(range(_MOST), check(run), strict=False)
    ]
