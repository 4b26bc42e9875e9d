"""Participation without rounds."""

# ruff: noqa: ARG002 - a policy may need less than it is handed

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.choice import failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import DurationOrNone, Fraction
from fedsim.blocks.spec import Spec
from fedsim.ports import Array
from fedsim.protocol.participation.orders import permutation
from fedsim.protocol.participation.rounds import (
    HEARTBEAT,
    IN_TIME,
    LEAST_CHARGE,
    NOTICED,
    Early,
    Noticed,
    check_heartbeat,
)


class AsynchronousParticipation(Spec):
    """No rounds: the server reacts to what arrives, and asks the client again.

    With a buffer it reacts to every so many replies.
    """

    # Whichever round they answer; who has not replied is not asked again (Nguyen et al., FedBuff,
    # AISTATS 2022). Where it gives up, it keeps what has come, and asks anew whom it waited for.

    asynchronous: ClassVar[bool] = True

    kind: Literal["asynchronous"] = Field(
        default="asynchronous", description="whoever has answered is asked again"
    )
    buffer: int = Field(default=1, ge=1, description="replies that make an update")
    concurrency: int | None = Field(
        default=None, ge=1, description="clients at work at a time; all, where null"
    )
    give_up: DurationOrNone = as_written(
        None,
        "when those at work are not waited for any more, from the last update on: the model stays,"
        " and they are asked anew",
    )
    least_charge: Fraction = as_written("0 %", LEAST_CHARGE)
    noticed: Noticed = Field(default="at-once", description=NOTICED)
    heartbeat: DurationOrNone = as_written(None, HEARTBEAT)

    asks_all: ClassVar[bool] = False
    closes_after: ClassVar[float] = inf
    keep_late: ClassVar[bool] = True
    over_selects: ClassVar[bool] = False
    quorum: ClassVar[None] = None
    wanted: ClassVar[None] = None

    @model_validator(mode="after")
    def _fills(self) -> Self:
        check_heartbeat(self.noticed, self.heartbeat)
        at_work = self.concurrency
        if at_work is not None and self.buffer > at_work:
            text = (
                f"got {self.buffer}, but {at_work} clients work at a time, so that the buffer"
                f" would never fill; give {at_work} or less"
            )
            raise failure(("buffer", text, self.buffer))
        return self

    def among(self, clients: int) -> Self:
        """Return the policy: nothing in it is a share."""
        return self

    @property
    def counts(self) -> Mapping[str, int]:
        """The concurrency, where it is one, and the buffer."""
        at_work = {} if self.concurrency is None else {"concurrency": self.concurrency}
        return {**at_work, "buffer": self.buffer}

    def early(self) -> Iterator[Early]:
        """Yield what lets the server go on without those who are at work."""
        if self.patience < inf:
            yield Early("give_up", f"{self.patience:g} s", IN_TIME)

    @property
    def asked(self) -> int | None:
        """How many work at a time; None for all."""
        return self.concurrency

    @property
    def patience(self) -> float:
        """So long after the last update those at work are asked anew, s; infinite for never."""
        return inf if self.give_up is None else self.give_up

    def goal(self, cohort: int) -> float:
        """Return the replies that make an update."""
        return self.buffer

    def least(self, cohort: int) -> int:
        """Return 0: there is no deadline."""
        return 0

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return a random permutation."""
        return permutation(len(samples), rng)
