"""Replay: a method that repeats the messages and work of a recorded run without computing.

A replay is only valid while the method would have had the same inputs. The replay runs in a world
with new times, and compares each step of that world with the history. It ends with an error at the
first departure: a client that is sampled but was not in the original run, a client that does not
reply but did, a message lost for good, or a stop rule that is not met at the end of the history.
A log cannot show what the method would have done next. The error names the round, the client and
the key of the scenario.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from fedsim.addons.repricing.history import RunHistory
from fedsim.core.errors import RepricingError
from fedsim.core.ports import SILENCE, Array, Client, ClientId, Message, Silence, Work
from fedsim.protocol.secrecy.agreement import LEAST
from fedsim.protocol.secrecy.messages import KeyRequest, MaskedInput
from fedsim.protocol.secrecy.server import ALONE
from fedsim.sim.tiers import RoundsOracle
from fedsim.sim.worlds.main_task import ENDED
from fedsim.sim.worlds.server import RoundServer

_NOTHING = np.zeros(0)
Refuse = Callable[[str, int, ClientId | None], RepricingError]
"""Returns the error of a world that departs from the history, given text, round and client."""


@dataclass(frozen=True, slots=True)
class SizedPayload:
    """A payload of a known size without values."""

    bits: int

    @property
    def values(self) -> Array:
        """Placeholder values, which are never used."""
        return _NOTHING


@dataclass(frozen=True, slots=True)
class ReplayedMessage(Message):
    """A message with a label and a size."""

    content: SizedPayload


@cache
def replay_message(label: str, bits: int) -> Message:
    """Return a message with this label in the log; equal messages are one object."""
    message: Message = _message_type(label)(SizedPayload(bits))
    return message


@cache
def _message_type(label: str) -> type[ReplayedMessage]:
    return type(label, (ReplayedMessage,), {"__slots__": ()})


class ReplayedMethod:
    """Implements `fedsim.sim.config.Method` by the history of a run, for all its servers.

    Args:
        history: the history of the run.
        looks: the ports that the method has read; the replay reads them, too, so that the new
            summary records them.
        refuse: see `Refuse`.
        mid_round: the keys of the original's stop rules that may end it in the middle of a round.

    Attributes:
        counts: the recorded figures that the server's tally of its rule of aggregation has.
    """

    counts: Collection[str] = ()

    def __init__(
        self,
        history: RunHistory,
        looks: Sequence[str],
        refuse: Refuse,
        mid_round: Collection[str] = (),
    ) -> None:
        self._history = history
        self._mid_round = mid_round
        self._looks = looks
        self._refuse = refuse
        self._committed = 0
        self._due: dict[ClientId, int] = {}  # the tasks of the open exchanges
        self._secret = KeyRequest.label in history.tasks.received
        self._visits = {gateway: iter(each) for gateway, each in history.visits.items()}

    def memory(self, initial: Array) -> None:
        """Allocate no state."""

    def undelivered(self, client: Client, message: Message) -> None:
        """Refuse: the server received this message in the original run."""
        raise self._refuse("a message of it is lost for good", client.round, client.id)

    def evaluate(self, model: Array) -> float:
        """Return the recorded objective of the last round, or of the start."""
        objective = self._history.objective[self._committed]
        if objective is None:
            number = self._committed
            text = f"ends with round {number}, which was not evaluated in the original run"
            raise self._refuse(text, number, None)
        return objective

    def observe(self, model: Array) -> Mapping[str, Any]:
        """Return the other recorded figures of that round."""
        recorded = self._history.measures[self._committed]
        return {name: figure for name, figure in recorded.items() if name not in self.counts}

    async def serve(self, server: RoundServer) -> None:
        """Run the recorded server, or a visit of the server above to a gateway."""
        if server.id in self._visits:
            await self._visit(server)
        else:
            await self._serve_top(server)

    async def _visit(self, server: RoundServer) -> None:
        for exchange in next(self._visits[server.id]):
            await self._exchange(server, exchange)
        while True:  # the gateway ends this coroutine after its rounds
            server.commit(_NOTHING)

    async def _serve_top(self, server: RoundServer) -> None:
        history = self._history
        for number, (begin, end) in enumerate(pairwise([0, *history.commits])):
            for exchange in range(begin, end):
                await self._exchange(server, exchange)
            self._committed = number + 1
            server.repeat(history.measures[number + 1])
            server.commit(_NOTHING)
        # The history is used up, and no stop rule has ended the new run: what the method would do
        # next is unknown.
        if history.reason != ENDED:
            text = _beyond(len(history.commits), history.reason, self._mid_round)
            raise self._refuse(text, server.round, None)
        for exchange in range(history.commits[-1] if history.commits else 0, history.served):
            await self._exchange(server, exchange)

    async def _exchange(self, server: RoundServer, number: int) -> None:
        exchanges, tasks = self._history.exchanges, self._history.tasks
        span = range(exchanges.first[number], exchanges.first[number + 1])
        due = {tasks.client[task]: task for task in span}
        self._due |= due
        requests = {
            tasks.client[task]: replay_message(tasks.received[task], tasks.received_bits[task])
            for task in span
        }
        to = None if exchanges.sampled[number] else list(due)
        first = requests[min(requests)]
        # A sampled cohort is not known in advance: every client gets a message, and a client that
        # is in the cohort here but was not in the original run is refused in `handle`.
        each = dict.fromkeys(server.clients, first) | requests if to is None else requests
        message = first if exchanges.shared[number] else each
        if self._secret:  # under secure aggregation a client counts once, when it is asked for keys
            server.count_cohort(first.label == KeyRequest.label)
        replies = await server.exchange(message, to=to)
        # `handle` removes the task of each client that is asked. What is left was not asked, or its
        # message was lost.
        unasked = [client for client in due if client in self._due]
        if unasked or len(replies) != exchanges.replies[number]:
            received = {reply.client for reply in replies}
            expected = [tasks.client[task] for task in span if tasks.message[task]]
            missing = [*unasked, *(client for client in expected if client not in received)]
            raise self._refuse("does not reply, but did in the original", server.round, missing[0])
        if 0 < len(replies) < LEAST and replies[0].message.label == MaskedInput.label:
            server.leave_out([reply.client for reply in replies], ALONE)

    async def handle(self, client: Client, message: Message) -> Message | Silence:
        """Run a recorded client: the same work, and the same reply."""
        # Read for the record alone: `looks` of the new run then names the same ports.
        for look in self._looks:
            getattr(client, look)
        tasks, task = self._history.tasks, self._due.pop(client.id, None)
        if task is None:
            text = "is sampled, but was not in the original"
            raise self._refuse(text, client.round, client.id)
        # A gateway's work is its rounds with the nodes below, which run in the simulator as usual.
        if client.id in self._visits:
            await client.compute(_ROUNDS)
        for work in range(tasks.begin[task], tasks.end[task]):
            price = tasks.operations[work], tasks.samples[work]
            await client.compute(Work(_nothing, None, (), *price))
        label = tasks.message[task]
        return replay_message(label, tasks.bits[task]) if label else SILENCE


def _nothing() -> Array:
    return _NOTHING


_ROUNDS = RoundsOracle(0).sgd_steps(_NOTHING, 0.0, ())
"""The work of a gateway: none."""


def _beyond(rounds: int, reason: str, mid_round: Collection[str]) -> str:
    """Explain why a log has no data beyond its last round."""
    if reason.partition(":")[0] in mid_round:
        return (
            f"the log ends in the middle of round {rounds + 1} ({reason}), and lacks the rest of"
            " it, which this run would need"
        )
    return f"the log ends after round {rounds} ({reason}), but this run would continue"
