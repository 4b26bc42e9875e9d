"""Participation: who is asked in a round, and when the round closes."""

# ruff: noqa: ARG002 - an order may need less than its base hands over

from abc import abstractmethod
from collections.abc import Iterable
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Duration, Fraction, Share
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.ports import Array
from fedsim.protocol.participation import by_weight

_LEAST = "clients whose battery holds less are skipped"
_GIVE_UP = (
    "when a round is given up in which too few have reported, from its broadcast on: the model"
    " stays, and the next round asks anew; where null, after 10 min if a message that is lost for"
    " good could keep a round from closing"
)


class Rounds(Spec):
    """What all participation in rounds has: when a round closes.

    It closes when all who were asked have reported. With a quorum it may close once so many
    have: without a deadline at once, with one not before the deadline. With a deadline alone
    it closes then, whoever is missing.
    """

    kind: str
    deadline: Duration | None = as_written(None, "from the broadcast to the end of the round")
    quorum: Share | None = as_written(
        None, "share of those asked whose reports let the round close"
    )
    give_up: Duration | None = as_written(None, _GIVE_UP)
    late: Literal["keep", "drop"] = Field(
        default="keep",
        description="what misses its round: kept for a later one, or dropped; where silence is"
        " waited for, silence.late says",
    )
    least_charge: Fraction = as_written("0 %", _LEAST)


class FullParticipation(Rounds):
    """Every client takes part in every round."""

    kind: Literal["full"] = Field(default="full", description="all clients")


class Sample(Rounds):
    """What sampling has: how many are wanted, how many more are asked, and in which order."""

    count: int | None = Field(default=None, ge=1, description="how many clients a round")
    share: Share | None = as_written(None, "how many, as a share of all, in place of count")
    over: float = Field(
        default=1.0, ge=1, description="so many times as many are asked, the first ones count"
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if self.count is None and self.share is None:
            raise failure(("count", "missing: give count or share", None))
        if self.count is not None and self.share is not None:
            raise failure(("share", "seen beside count; give one of the two", self.share))
        return self

    @abstractmethod
    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return all clients, from 0, in the order in which they are taken until enough are asked.

        Who cannot take part at the time is passed over.

        Args:
            samples: how many each client has, shape (M,).
            number: how many draws there were before.
            rng: the stream of the draws.
        """


class UniformParticipation(Sample):
    """A sample without replacement, every client as likely as any other."""

    kind: Literal["uniform"] = Field(default="uniform", description="a sample of all clients")

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return a random permutation."""
        order: Iterable[int] = rng.permutation(len(samples))
        return order


class WeightedParticipation(Sample):
    """A sample without replacement, clients of more weight more likely."""

    kind: Literal["weighted"] = Field(default="weighted", description="a weighted sample")
    by: Literal["samples"] = Field(default="samples", description="what a client weighs")

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return an order in which the next client is drawn in proportion to its samples."""
        return by_weight(samples, number, rng)


class AsynchronousParticipation(Spec):
    """No rounds: the server reacts to what arrives, and asks the client again.

    With a buffer it reacts to every so many replies.
    """

    kind: Literal["asynchronous"] = Field(
        default="asynchronous", description="whoever has answered is asked again"
    )
    buffer: int = Field(default=1, ge=1, description="replies that make an update")
    concurrency: int | None = Field(
        default=None, ge=1, description="clients at work at a time; all, where null"
    )
    give_up: Duration | None = as_written(
        None,
        "when those at work are not waited for any more, from the last update on: the model stays,"
        " and they are asked anew",
    )
    least_charge: Fraction = as_written("0 %", _LEAST)


Participation = (
    FullParticipation | UniformParticipation | WeightedParticipation | AsynchronousParticipation
)
PARTICIPATION: Registry[Spec] = Registry(
    "participation",
    (
        FullParticipation,
        UniformParticipation,
        WeightedParticipation,
        AsynchronousParticipation,
    ),
    Sample,
    plural="participation",
)
"""The kinds of participation."""

AnyParticipation = Annotated[Participation, OneOf(PARTICIPATION)]
"""A field that takes one of them."""
