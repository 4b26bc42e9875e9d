"""Participation in rounds: when a round closes, for every sampling scheme."""

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, inf
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import DurationOrNone, Fraction, ShareOrNone
from fedsim.core.blocks.spec import Spec, as_written
from fedsim.core.ports import Array

LEAST_CHARGE = "clients whose battery holds less are skipped"
_GIVE_UP = (
    "time after the broadcast at which a round with too few replies is abandoned: the model stays,"
    " and the next round samples anew. Default: 10 min if messages can be lost for good, otherwise"
    " never"
)

NOTICED = (
    "when the server notices that a client it waits for has left: at-once, as its connection ends;"
    " heartbeat, at the next heartbeat; or deadline, when the round is closed or abandoned"
)
HEARTBEAT = "time between two heartbeats, from time 0 on; their messages are not charged"

Noticed = Literal["at-once", "heartbeat", "deadline"]
"""When the server notices that a client has left."""


def check_heartbeat(noticed: Noticed, heartbeat: float | None) -> None:
    """Check that a heartbeat interval is set if, and only if, `noticed` needs one.

    Raises:
        ValueError: the interval is missing or unused; in a form that pydantic accepts.
    """
    if noticed == "heartbeat" and heartbeat is None:
        text = 'missing: noticed is heartbeat; give the time between two beats, such as "10 s"'
        raise failure(("heartbeat", text, heartbeat))
    if noticed != "heartbeat" and heartbeat is not None:
        text = f"given beside noticed: {noticed}, which has no beats; give noticed: heartbeat"
        raise failure(("heartbeat", text, heartbeat))


IN_TIME, FIRST = "which clients answer in time decides", "the first ones to answer decide"
"""Which replies an early-closing round aggregates: those in time, or the first ones."""


class Early(NamedTuple):
    """A rule that may close a round before every recipient has replied.

    Attributes:
        key: the key in the block.
        seen: its value, for messages.
        decides: `IN_TIME`, `FIRST` or a similar phrase.
    """

    key: str
    seen: str
    decides: str


class Rounds(Spec):
    """Base class of round-based participation: when a round closes.

    It closes when every recipient has reported. With a quorum it may close at that share of
    reports: at once without a deadline, otherwise not before the deadline. With a deadline alone it
    closes at the deadline, whatever is missing. A reply to an abandoned round is late (Bonawitz et
    al., MLSys 2019).
    """

    asynchronous: ClassVar[bool] = False

    kind: str
    deadline: DurationOrNone = as_written(None, "time after the broadcast at which the round ends")
    quorum: ShareOrNone = as_written(
        None, "share of the sampled clients whose replies close the round"
    )
    give_up: DurationOrNone = as_written(None, _GIVE_UP)
    late: Literal["keep", "drop"] = Field(
        default="keep",
        description=(
            "a reply that misses its round is kept for a later one, or dropped; with"
            " `silence: {kind: deadline}`, silence.late decides"
        ),
    )
    least_charge: Fraction = as_written("0 %", LEAST_CHARGE)
    noticed: Noticed = Field(default="at-once", description=NOTICED)
    heartbeat: DurationOrNone = as_written(None, HEARTBEAT)

    @model_validator(mode="after")
    def _beats(self) -> Self:
        check_heartbeat(self.noticed, self.heartbeat)
        return self

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield the rules by which replies in time, or batteries, decide about the aggregate."""
        for key, seen, decides in self.early():
            yield key, Nature(reacts=f"got {seen}: {decides} the aggregate of a round")
        yield from charge_decides(self.least_charge)

    def among(self, clients: int) -> Self:
        """Return the policy with shares of the fleet resolved to numbers of clients."""
        return self

    @property
    def asks_all(self) -> bool:
        """Whether every client is asked in every round."""
        return True

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of clients among its parameters, by key."""
        return {}

    @property
    def over_selects(self) -> bool:
        """Whether more clients are asked than replies are waited for."""
        return False

    def early(self) -> Iterator[Early]:
        """Yield the rules that may close a round before every recipient has replied."""
        if self.closes_after < inf:
            yield Early("deadline", f"{self.closes_after:g} s", IN_TIME)
        if self.quorum is not None and self.quorum < 1:
            yield Early("quorum", f"{self.quorum:g}", FIRST)
        if self.round_timeout < inf:
            yield Early("give_up", f"{self.round_timeout:g} s", IN_TIME)

    @property
    def wanted(self) -> int | None:
        """The number of replies that a round aims for; None for all."""
        return None

    @property
    def asked(self) -> int | None:
        """The cohort size, or the number of concurrently busy clients; None without sampling."""
        return None

    @property
    def closes_after(self) -> float:
        """The deadline of a round after its broadcast, s; infinite for none."""
        return inf if self.deadline is None else self.deadline

    @property
    def round_timeout(self) -> float:
        """The time from its broadcast at which a round is abandoned, s; infinite for none."""
        return inf if self.give_up is None else self.give_up

    @property
    def keep_late(self) -> bool:
        """Whether a reply to a closed round counts for the next one."""
        return self.late == "keep"

    def goal(self, cohort: int) -> float:
        """Return the number of reports that closes a round of this cohort size immediately."""
        if self.quorum is not None and self.deadline is None:
            return at_least(self.quorum * cohort)
        return inf

    def least(self, cohort: int) -> int:
        """Return the number of reports from which the deadline closes a round."""
        return at_least((self.quorum or 0.0) * cohort)

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return the clients in sampling order; see `Sample.order`."""
        return range(len(samples))


class FullParticipation(Rounds):
    """Every client takes part in every round."""

    kind: Literal["full"] = Field(default="full", description="all clients")


def charge_decides(least: float) -> Iterator[tuple[str, Nature]]:
    """Yield that batteries decide which clients take part, if a least charge is required."""
    if least:
        text = f"got {100 * least:g} %: batteries decide which clients take part"
        yield "least_charge", Nature(reacts=text)


def at_least(count: float) -> int:
    """Return the least whole number that is at least a count, such as a share of clients.

    >>> at_least(1.1 * 10), at_least(2 / 3 * 9), at_least(0.67 * 100), at_least(2.5)
    (11, 6, 67, 3)
    """
    # A product such as 1.1 x 10 is just above a whole number, by rounding.
    return ceil(count * (1 - 1e-12))
