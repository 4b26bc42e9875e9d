"""Participation without rounds."""

from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import DurationOrNone, Fraction
from fedsim.core.blocks.spec import Spec, as_written
from fedsim.core.ports import Array
from fedsim.protocol.participation.rounds import (
    HEARTBEAT,
    IN_TIME,
    LEAST_CHARGE,
    NOTICED,
    Early,
    Noticed,
    charge_decides,
    check_heartbeat,
)

# Lazily generated orders of clients: a round of a large fleet needs only the first few.

WHOLE = 10_000
"""For up to this number of clients, we draw a whole permutation: it takes 0.1 ms."""

_FIRST = 1_024
"""The number of places in the first stretch; later ones are up to eight times as long."""


def permutation(clients: int, rng: np.random.Generator) -> Iterable[int]:
    """Return all client numbers in a random order.

    The caller may consume any part of it: later draws from the same generator do not change.
    """
    if clients > WHOLE:
        # A generator of its own: a lazy draw from `rng` would shift all later draws.
        return _shuffle(clients, rng.spawn(1)[0])
    order: Iterable[int] = rng.permutation(clients)
    return order


def _shuffle(clients: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield clients in a random order, drawn as far as it is consumed.

    This is the Fisher-Yates shuffle, which stores only the places that it has moved.
    """
    moved: dict[int, int] = {}
    for begin, end in _stretches(clients):
        places = np.arange(begin, end)
        for place, other in zip(
            range(begin, end), rng.integers(places, clients).tolist(), strict=True
        ):
            # `moved` maps a place to the client that now stands there; places that were never
            # touched hold their own number.
            yield moved.get(other, other)
            moved[other] = moved.pop(place, place)


def ascending(keys: Array) -> Iterator[int]:
    """Yield the positions of keys in ascending order, ties in order, sorted as far as consumed.

    >>> list(ascending(np.array([3.0, 1.0, 2.0, 1.0])))
    [1, 3, 2, 0]
    """
    yielded = 0
    for _, end in _stretches(len(keys)):
        # All keys up to the largest of this stretch, so that equal keys are never divided between
        # two stretches, and ties stay in order.
        least = np.flatnonzero(keys <= np.partition(keys, end - 1)[end - 1])
        order = least[np.argsort(keys[least], kind="stable")]
        for begin in range(yielded, len(order), _FIRST):  # equal keys can make a stretch long
            yield from order[begin : begin + _FIRST].tolist()
        yielded = len(order)


def _stretches(count: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of consecutive stretches of positions, each longer than the last one."""
    begin, end = 0, min(_FIRST, count)
    while begin < end:
        yield begin, end
        begin, end = end, min(8 * end, count)


class AsynchronousParticipation(Spec):
    """No rounds: the server processes replies as they arrive and sends the client new work.

    With a buffer it makes one update of a fixed number of replies.
    """

    # Replies count for whichever round is open; a busy client gets no second request (Nguyen et
    # al., FedBuff, AISTATS 2022). After a timeout the buffer stays and busy clients are asked
    # again.

    asynchronous: ClassVar[bool] = True

    kind: Literal["asynchronous"] = Field(
        default="asynchronous", description="a client that has replied is sampled again"
    )
    buffer: int = Field(default=1, ge=1, description="replies per update of the model")
    concurrency: int | None = Field(
        default=None, ge=1, description="number of clients that compute at a time; null: all"
    )
    give_up: DurationOrNone = as_written(
        None,
        (
            "time after the last update at which the server stops waiting for busy clients:"
            " the model stays, and they are sampled again"
        ),
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

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield the nature of a server without rounds."""
        yield "kind", Nature(reacts=f"got {self.kind}: the order of arrival decides what happens")
        yield from charge_decides(self.least_charge)

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
        """Return the policy itself: it has no shares to resolve."""
        return self

    @property
    def counts(self) -> Mapping[str, int]:
        """The concurrency, if there is one, and the buffer."""
        at_work = {} if self.concurrency is None else {"concurrency": self.concurrency}
        return {**at_work, "buffer": self.buffer}

    def early(self) -> Iterator[Early]:
        """Yield the rules that let the server proceed without busy clients."""
        if self.round_timeout < inf:
            yield Early("give_up", f"{self.round_timeout:g} s", IN_TIME)

    @property
    def asked(self) -> int | None:
        """The number of concurrently busy clients; None for all."""
        return self.concurrency

    @property
    def round_timeout(self) -> float:
        """The timeout after the last update, s; infinite for none."""
        return inf if self.give_up is None else self.give_up

    def goal(self, cohort: int) -> float:
        """Return the number of replies in an update."""
        return self.buffer

    def least(self, cohort: int) -> int:
        """Return 0, since there is no deadline."""
        return 0

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        """Return a random permutation."""
        return permutation(len(samples), rng)
