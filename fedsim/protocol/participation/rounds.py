"""Participation in rounds: when a round closes, whoever is asked in it."""

# ruff: noqa: ARG002 - a policy may need less than it is handed

from collections.abc import Iterable, Iterator, Mapping
from math import ceil, inf
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.quantities import DurationOrNone, Fraction, ShareOrNone
from fedsim.blocks.spec import Spec, as_written
from fedsim.ports import Array

LEAST_CHARGE = "clients whose battery holds less are skipped"
_GIVE_UP = (
    "when a round is given up in which too few have reported, from its broadcast on: the model"
    " stays, and the next round asks anew; where null, after 10 min if a message that is lost for"
    " good could keep a round from closing"
)

NOTICED = (
    "when the server notices that a client it waits for has gone: at-once, as its connection ends;"
    " heartbeat, at the next beat; or deadline, not before the round is closed or given up"
)
HEARTBEAT = "time between two beats, from time 0 on; their messages are not charged"

Noticed = Literal["at-once", "heartbeat", "deadline"]
"""When the server notices that a client has gone."""


def check_heartbeat(noticed: Noticed, heartbeat: float | None) -> None:
    """Make sure that there is a time between beats where it is needed, and nowhere else.

    Raises:
        ValueError: there is none, or one that nothing uses; as a model's validator raises it.
    """
    if noticed == "heartbeat" and heartbeat is None:
        text = 'missing: noticed is heartbeat; give the time between two beats, such as "10 s"'
        raise failure(("heartbeat", text, heartbeat))
    if noticed != "heartbeat" and heartbeat is not None:
        text = f"given beside noticed: {noticed}, which has no beats; give noticed: heartbeat"
        raise failure(("heartbeat", text, heartbeat))


IN_TIME, FIRST = "who answers in time decides", "the first ones to answer decide"
"""On whom it depends what a round adds up, where it does not wait for all."""


class Early(NamedTuple):
    """What may close a round before all who were asked have answered.

    Attributes:
        key: of the block.
        seen: what stands there, for messages.
        who: `IN_TIME`, `FIRST` or words like these.
    """

    key: str
    seen: str
    who: str


class Rounds(Spec):
    """What all participation in rounds has: when a round closes.

    It closes when all who were asked have reported. With a quorum it may close once so many
    have: without a deadline at once, with one not before the deadline. With a deadline alone
    it closes then, whoever is missing. A reply to a round that was given up is late (Bonawitz
    et al., "Towards Federated Learning at Scale", MLSys 2019: abandonment).
    """

    asynchronous: ClassVar[bool] = False

    kind: str
    deadline: DurationOrNone = as_written(None, "from the broadcast to the end of the round")
    quorum: ShareOrNone = as_written(None, "share of those asked whose reports let the round close")
    give_up: DurationOrNone = as_written(None, _GIVE_UP)
    late: Literal["keep", "drop"] = Field(
        default="keep",
        description="what misses its round: kept for a later one, or dropped; where silence is"
        " waited for, silence.late says",
    )
    least_charge: Fraction = as_written("0 %", LEAST_CHARGE)
    noticed: Noticed = Field(default="at-once", description=NOTICED)
    heartbeat: DurationOrNone = as_written(None, HEARTBEAT)

    @model_validator(mode="after")
    def _beats(self) -> Self:
        check_heartbeat(self.noticed, self.heartbeat)
        return self

    def among(self, clients: int) -> Self:
        """Return the policy for a fleet of so many: what is a share of it as a number."""
        return self

    @property
    def asks_all(self) -> bool:
        """Whether every client is asked in every round."""
        return True

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of clients that it speaks of, by their keys."""
        return {}

    @property
    def over_selects(self) -> bool:
        """Whether more are asked than a round waits for."""
        return False

    def early(self) -> Iterator[Early]:
        """Yield what may close a round before all who were asked have answered."""
        if self.closes_after < inf:
            yield Early("deadline", f"{self.closes_after:g} s", IN_TIME)
        if self.quorum is not None and self.quorum < 1:
            yield Early("quorum", f"{self.quorum:g}", FIRST)
        if self.patience < inf:
            yield Early("give_up", f"{self.patience:g} s", IN_TIME)

    @property
    def wanted(self) -> int | None:
        """How many replies a round is after; None for those of all."""
        return None

    @property
    def asked(self) -> int | None:
        """How many are asked, or at work at a time; None for all, of whom none is drawn."""
        return None

    @property
    def closes_after(self) -> float:
        """So long after its broadcast a round is overdue, s; infinite for never."""
        return inf if self.deadline is None else self.deadline

    @property
    def patience(self) -> float:
        """So long after its broadcast a round is given up, s; infinite for never."""
        return inf if self.give_up is None else self.give_up

    @property
    def keep_late(self) -> bool:
        """Whether a reply to a round that has closed counts for the next one."""
        return self.late == "keep"

    def goal(self, cohort: int) -> float:
        """Return the number of reports that closes a round of so many at once."""
        if self.quorum is not None and self.deadline is None:
            return at_least(self.quorum * cohort)
        return inf

    def least(self, cohort: int) -> int:
        """Return the number of reports without which not even the deadline closes a round."""
        return at_least((self.quorum or 0.0) * cohort)

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return the clients in the order in which they are drawn; see `Sample.order`."""
        return range(len(samples))


class FullParticipation(Rounds):
    """Every client takes part in every round."""

    kind: Literal["full"] = Field(default="full", description="all clients")


def at_least(share: float) -> int:
    """Return the least number of clients that is a share of them; 1.1 times 10 is 11, not 12."""
    return ceil(share * (1 - 1e-12))
