"""The end of a run: its final state, what that implies for readers, and the summary's fields.

What stops a run with an error has a state of its own, named after that error ("diverged",
"deadlock", "audit"): such a run has failed. Every other state is in the table `ENDS`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from fedsim.core.errors import Diverged, RunError
from fedsim.core.text import format_number
from fedsim.results.record.manifest import check_kinds, read_mapping

DONE = "done"
"""A stop rule or the algorithm has ended the run."""

ROSE = "rose"
"""A stop rule has ended the run, and its objective is above the initial one."""

NO_CLIENTS = "no-clients"
"""Before any stop rule applied, every client had left for good: empty batteries, or offline."""


class Ending(NamedTuple):
    """How and why a run ended.

    Attributes:
        status: one of `ENDS`, or the state named after an error.
        reason: a sentence or a clause.
    """

    status: str
    reason: str

    def __str__(self) -> str:
        """Return both for a message; a reason may begin with the state."""
        return self.reason if self.reason.startswith(self.status) else ": ".join(self)


class Departure(NamedTuple):
    """A client that left for good.

    Attributes:
        client: its name in the log.
        t: when, s.
        round: the round that was in progress.
        reason: why, in a few words.
    """

    client: str
    t: float
    round: int
    reason: str

    def __str__(self) -> str:
        """Return who left, when and why, for a sentence."""
        when = f"in round {self.round} at {format_number(self.t, '.3g')} s"
        return f"{self.client} {when} ({self.reason})"


_LISTED = 3  # departures in a sentence

_MEANING = {"charge too low": "below battery.threshold, though not empty"}
"""What a reason for a departure means, where its words leave that open."""


class Departures(NamedTuple):
    """The clients that left for good before the end of a run.

    Attributes:
        reasons: their number, by the reason.
        first: the first few of them, in order.
    """

    reasons: Mapping[str, int] = MappingProxyType({})
    first: tuple[Departure, ...] = ()

    @classmethod
    def of(cls, every: Sequence[Departure]) -> "Departures":
        """Return the departures in order; all are counted, and the first few are kept."""
        ordered = sorted(every, key=lambda one: one.t)
        counts = Counter(one.reason for one in every)
        return cls(dict(counts), tuple(ordered[:_LISTED]))

    @property
    def total(self) -> int:
        """Their number."""
        return sum(self.reasons.values())

    def describe(self, clients: int) -> str:
        """Return how many of some clients left, and who, when and why; empty if none has.

        >>> one = Departure("client-3", 35.21, 4, "battery empty")
        >>> Departures({"battery empty": 2, "offline": 1}, (one,)).describe(15)
        '3 of 15 clients left for good: client-3 in round 4 at 35.2 s (battery empty), then 2 more'
        """
        if not self.reasons:
            return ""
        more = [f"then {self.total - len(self.first)} more"] if self.total > len(self.first) else []
        who = ", ".join([*map(str, self.first), *more])
        meanings = [
            f"{reason} is {_MEANING[reason]}" for reason in self.reasons if reason in _MEANING
        ]
        return "; ".join([f"{self.total} of {clients} clients left for good: {who}", *meanings])


class End(NamedTuple):
    """Properties of a final state.

    Attributes:
        complete: whether a stop rule or the algorithm ended the run, so that its costs are those of
            the whole run.
        code: the exit code of `fedsim run` after such a run.
    """

    complete: bool
    code: int


ENDS: Mapping[str, End] = {
    DONE: End(complete=True, code=0),
    ROSE: End(complete=True, code=0),
    NO_CLIENTS: End(complete=False, code=1),
}
"""The states of runs that ended without an error: log and tables are complete."""

_FAILED = End(complete=False, code=1)


def status_of(error: type[RunError]) -> str:
    """Return the state of a run that an error of this class has ended.

    >>> from fedsim.core.errors import AuditError, Deadlock, WorkDurationError
    >>> status_of(Deadlock), status_of(AuditError), status_of(WorkDurationError)
    ('deadlock', 'audit', 'work-duration')
    """
    words = re.findall("[A-Z][a-z]*", error.__name__.removesuffix("Error"))
    return "-".join(words).lower()


def end_of(status: str) -> End:
    """Return the properties of a state; a failed run has a state outside of the table."""
    return ENDS.get(status, _FAILED)


def is_whole(status: object) -> bool:
    """Return whether a run ended without an error, so that its tables are complete.

    >>> [is_whole(each) for each in ("done", "rose", "no-clients", "diverged")]
    [True, True, True, False]
    """
    return status in ENDS


def has_failed(status: object) -> bool:
    """Return whether an error has ended a run, so that it says nothing of its method's costs.

    A run whose model diverged has not failed: it shows what the method does.

    >>> [has_failed(each) for each in ("done", "no-clients", "diverged", "failed", "deadlock")]
    [False, False, False, True, True]
    """
    return not is_whole(status) and status != status_of(Diverged)


def is_empty(summary: Mapping[str, Any]) -> bool:
    """Return whether a run ended without an error in the middle of its first round.

    A run whose start meets a stop rule is complete: it has no round, and has cost nothing.

    >>> [is_empty({"status": "done", "rounds": 0, "t": t}) for t in (0.0, 3.5)]
    [False, True]
    """
    status, at_once = summary["status"], summary["t"] == 0
    return is_whole(status) and not summary["rounds"] and not (end_of(status).complete and at_once)


# The fields of a summary.


Count = Annotated[int, Field(ge=0)]


class Optimum(BaseModel):
    """The smallest objective, and the method that computed it."""

    model_config = ConfigDict(strict=True)

    value: float
    method: str
    residual: float | None


class Summary(BaseModel):
    """The fields of a summary that are read; further ones are allowed.

    Attributes:
        variant, seed, algorithm: identify the run.
        parameters: of the method, as numbers.
        concerns: conditions of the method's theory that do not hold.
        target: the gap at which the run was to stop, if any.
        targets: that, and all other figures at which it was to stop.
        counting: the model with which a round is evaluated: "rounds", or "iterates".
        may_be_silent: whether the method lets clients send nothing.
        start: the objective before the first round; None if unknown.
        clients, dimension, problem: sizes, and a hash of the clients' losses.
        reference: the optimum and the method that found it; None if unknown.
        status, reason: the final state, and the reason for the end.
        notes: remarks on a completed run.
        left: how many clients left for good before its end, by the reason.
        rounds, t: rounds done, and simulated time, s.
        tolerance: up to which the method's constraint is met; None without one.
        objective, gap: after the last round; None if not finite.
        feasible: whether the last model meets the constraint; None without one.
        looks: auxiliary evaluations by the method.
        cohort, transmissions, beacons, bits_up, bits_down, joules: totals of the run; the last is
            None in a live run without meters.
        grams: the same, of CO2; None if not tracked.
        server_joules, network_joules: energy of server and network; None if not counted.
        joules_after, grams_after: what radios take after the end until they sleep, beyond these
            totals; 0 in a live run, in which it is not known.
    """

    model_config = ConfigDict(strict=True, extra="allow")

    variant: str
    seed: Count
    algorithm: str
    parameters: dict[str, Any]
    concerns: list[str]
    target: float | None
    targets: dict[str, float] = {}
    counting: str
    may_be_silent: bool = False
    start: float | None = None
    clients: Count
    dimension: Count
    problem: str
    reference: Optimum | None
    tolerance: float | None = None
    status: str
    reason: str
    notes: list[str] = []
    left: dict[str, int] = {}
    rounds: Count
    t: float
    objective: float | None
    gap: float | None
    feasible: bool | None = None
    looks: list[str]
    cohort: Count
    transmissions: Count
    beacons: Count
    bits_up: Count
    bits_down: Count
    joules: float | None
    grams: float | None = None
    server_joules: float | None = None
    network_joules: float | None = None
    joules_after: float | None = None
    grams_after: float | None = None


def read_summary(path: Path) -> dict[str, Any]:
    """Return the summary of a run.

    Raises:
        DataError: there is none, or it is damaged.
    """
    content = read_mapping(path)
    check_kinds(Summary, content, path)
    return content
