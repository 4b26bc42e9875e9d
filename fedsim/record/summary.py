"""The end of a run: its final state, what that implies for readers, and the summary's fields.

What stops a run with an error has a state of its own, named after that error ("diverged",
"deadlock", "audit"): such a run has failed. Every other state is in the table `ENDS`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from fedsim.errors import RunError
from fedsim.record.manifest import check_kinds, read_mapping

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


# The fields of a summary.


Count = Annotated[int, Field(ge=0)]


class Optimum(BaseModel):
    """The least objective, and how it was found."""

    model_config = ConfigDict(strict=True)

    value: float
    method: str
    residual: float | None


class Summary(BaseModel):
    """The fields that are read of a summary; further ones are allowed.

    Attributes:
        variant, seed, algorithm: which run it is of.
        parameters: the method's, as the numbers that ran.
        concerns: what the theory of the method does not cover.
        target: the gap at which the run was to stop, if any.
        targets: that, and all other figures at which it was to stop.
        start: the objective before the first round; None where it is not known.
        clients, dimension, problem: sizes, and a hash of the clients' losses.
        reference: the optimum, and how it was found; None where none is known.
        status, reason: how the run ended, as `fedsim.record.summary` has it, and why.
        notes: remarks on a completed run.
        rounds, t: how far it came, in seconds.
        objective, gap: after the last round; None where they are not finite.
        looks: auxiliary evaluations that the method made.
        cohort, transmissions, beacons, bits_up, bits_down, joules: totals of the run.
        grams: the same, of CO2; None if not tracked.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    variant: str
    seed: Count
    algorithm: str
    parameters: dict[str, Any]
    concerns: list[str]
    target: float | None
    targets: dict[str, float] = {}
    start: float | None = None
    clients: Count
    dimension: Count
    problem: str
    reference: Optimum | None
    status: str
    reason: str
    notes: list[str] = []
    rounds: Count
    t: float
    objective: float | None
    gap: float | None
    looks: list[str]
    cohort: Count
    transmissions: Count
    beacons: Count
    bits_up: Count
    bits_down: Count
    joules: float
    grams: float | None = None


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary of a run.

    Raises:
        DataError: there is none, or it is damaged.
    """
    content = read_mapping(path)
    check_kinds(Summary, content, path)
    return content
