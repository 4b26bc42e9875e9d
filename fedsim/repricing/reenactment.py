"""The re-enactment: a method that says and does again what a tape tells, and computes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from fedsim.errors import RepricingError
from fedsim.ports import SILENCE, Array, Client, ClientId, Message, Server, Silence, Work
from fedsim.repricing.tape import Tape
from fedsim.sim.main_task import ENDED

_NOTHING = np.zeros(0)
_AMID = ("time", "batteries")
"""The stop rules that end a run in the middle of a round."""

Refuse = Callable[[str, int, ClientId | None], RepricingError]
"""Makes the error that says why a tape does not fit: of a text, the round and the client."""


@dataclass(frozen=True, slots=True)
class Weight:
    """A payload of so many bits, and without values."""

    bits: int

    @property
    def values(self) -> Array:
        """No values: nobody computes with them."""
        return _NOTHING


@dataclass(frozen=True, slots=True)
class Said(Message):
    """A message of which the label and the bits are known."""

    content: Weight


@cache
def said(label: str, bits: int) -> Message:
    """Return a message that the log calls `label`; messages alike are one object."""
    message: Message = _named(label)(Weight(bits))
    return message


@cache
def _named(label: str) -> type[Said]:
    return type(label, (Said,), {"__slots__": ()})


class Reenactment:
    """Implements `fedsim.sim.setup.Method` by a tape.

    It follows the tape for as long as the world lets it: where the cohort is another, or
    somebody does not answer who did, the run that is re-enacted would have gone another way.

    Args:
        tape: of the run.
        looks: what the method has looked at, so that the new log says so, too.
        refuse: see `Refuse`.
    """

    def __init__(self, tape: Tape, looks: Sequence[str], refuse: Refuse) -> None:
        self._tape = tape
        self._looks = looks
        self._refuse = refuse
        self._committed = -1
        self._due: dict[ClientId, int] = {}  # the tasks of the exchange that is under way

    def memory(self, initial: Array) -> None:
        """Remember nothing."""

    def undelivered(self, client: Client, message: Message) -> None:  # noqa: ARG002 - a hook
        """Refuse: the server of the tape has heard this message."""
        raise self._refuse("a message of it is lost for good", client.round, client.id)

    def evaluate(self, model: Array) -> float:  # noqa: ARG002 - the tape knows
        """Return the objective of the round that is committed."""
        objective = self._tape.objective[self._committed]
        if objective is None:
            number = self._committed + 1
            raise self._refuse("ends with a round that nobody looked at then", number, None)
        return objective

    def observe(self, model: Array) -> Mapping[str, Any]:  # noqa: ARG002 - the tape knows
        """Return the further figures of that round."""
        return self._tape.measures[self._committed]

    async def serve(self, server: Server) -> None:
        """Run the server of the tape."""
        tape = self._tape
        for number, (begin, end) in enumerate(pairwise([0, *tape.commits])):
            for exchange in range(begin, end):
                await self._exchange(server, exchange)
            self._committed = number
            server.commit(_NOTHING)
        if tape.reason != ENDED:
            text = _beyond(len(tape.commits), tape.reason)
            raise self._refuse(text, server.round, None)
        for exchange in range(tape.commits[-1] if tape.commits else 0, len(tape.exchanges.one)):
            await self._exchange(server, exchange)

    async def _exchange(self, server: Server, number: int) -> None:
        exchanges, tasks = self._tape.exchanges, self._tape.tasks
        span = range(exchanges.first[number], exchanges.first[number + 1])
        self._due = {tasks.client[task]: task for task in span}
        told = {tasks.client[task]: said(tasks.told[task], tasks.told_bits[task]) for task in span}
        to = None if exchanges.drawn[number] else list(self._due)
        one = told[min(told)]
        # Of a cohort that is drawn nobody knows before who it is: all have a message, whom it
        # would not be for, and who is asked all the same is refused as one that was not asked.
        each = dict.fromkeys(server.clients, one) | told if to is None else told
        message = one if exchanges.one[number] else each
        replies = await server.exchange(message, to=to)
        if self._due or len(replies) != exchanges.said[number]:
            heard = {reply.client for reply in replies}
            spoke = [tasks.client[task] for task in span if tasks.message[task]]
            missing = [*self._due, *(client for client in spoke if client not in heard)]
            raise self._refuse("does not answer, and did then", server.round, missing[0])

    async def handle(self, client: Client, message: Message) -> Message | Silence:  # noqa: ARG002
        """Run a client of the tape: the same work, and the same answer."""
        for look in self._looks:
            getattr(client, look)
        tasks, task = self._tape.tasks, self._due.pop(client.id, None)
        if task is None:
            raise self._refuse("is asked, and was not asked then", client.round, client.id)
        for work in range(tasks.begin[task], tasks.end[task]):
            price = tasks.operations[work], tasks.samples[work]
            await client.compute(Work(_nothing, None, (), *price))
        label = tasks.message[task]
        return said(label, tasks.bits[task]) if label else SILENCE


def _nothing() -> Array:
    return _NOTHING


def _beyond(rounds: int, reason: str) -> str:
    """Say why a log has nothing for what comes after its last round."""
    if reason.partition(":")[0] in _AMID:
        return (
            f"the log ends in the middle of round {rounds + 1} ({reason}), and does not have the"
            " rest of it, which this run would begin"
        )
    return f"the log ends after round {rounds} ({reason}), and this run would go on"
