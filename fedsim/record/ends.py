"""Final states of runs, and what each implies for a reader of the results.

What stops a run with an error has a state of its own, named after that error ("diverged",
"deadlock", "audit"): such a run has failed. Every other state is in the table `ENDS`.
"""

from collections.abc import Mapping
from typing import NamedTuple

from fedsim.errors import RunError

DONE = "done"
"""A stop rule, or the end of the algorithm, has ended the run."""

ROSE = "rose"
"""A stop rule has ended the run, and its objective is above where it began."""

NO_CLIENTS = "no-clients"
"""Before any stop rule applied, every client had left for good: empty batteries, or offline."""


class Ending(NamedTuple):
    """How and why a run ended.

    Attributes:
        status: one of `ENDS`, or what an error is called.
        reason: a sentence or a clause.
    """

    status: str
    reason: str

    def __str__(self) -> str:
        """Return both, as a message has them; a reason may begin with the state."""
        return self.reason if self.reason.startswith(self.status) else ": ".join(self)


class End(NamedTuple):
    """Properties of a final state.

    Attributes:
        complete: whether a stop rule or the algorithm itself ended the run, so that its costs are
            those of the whole run that was asked for.
        code: the exit code of `fedsim run` where a run ends like this.
    """

    complete: bool
    code: int


ENDS: Mapping[str, End] = {
    DONE: End(complete=True, code=0),
    ROSE: End(complete=True, code=0),
    NO_CLIENTS: End(complete=False, code=1),
}
"""The states of runs that came to an end without an error: log and tables are whole."""

_FAILED = End(complete=False, code=1)


def status_of(error: type[RunError]) -> str:
    """Return the state of a run that such an error has ended.

    >>> from fedsim.errors import AuditError, Deadlock
    >>> status_of(Deadlock), status_of(AuditError)
    ('deadlock', 'audit')
    """
    return error.__name__.removesuffix("Error").lower()


def end_of(status: str) -> End:
    """Return what a state means; that of a failed run has no entry in the table."""
    return ENDS.get(status, _FAILED)


def is_whole(status: object) -> bool:
    """Return whether a run came to an end without an error, so that its tables can be relied on.

    >>> [is_whole(each) for each in ("done", "rose", "no-clients", "diverged")]
    [True, True, True, False]
    """
    return status in ENDS
