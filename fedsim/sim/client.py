"""A client of the virtual world: an inbox, a processor, and a handler that runs on them."""

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np

from fedsim.ports import Array, ClientId, Message, Oracle, Payload, Silence, Work
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.evaluator import Evaluator
from fedsim.sim.network.lanes import Envelope
from fedsim.sim.power.processor import Processor

_COMPUTE = int(Event.COMPUTE)

Handler = Callable[[Any, Any], Any]
"""`Algorithm.handle`, a coroutine function of the client and the message."""

Answer = Callable[[ClientId, Envelope, Message | Silence], None]
"""Takes the reply to a message to wherever it goes."""


class SimClient:
    """Implements `fedsim.ports.Client`.

    It handles one message at a time, in the order of arrival, for as long as the world
    runs: what a handler remembers is never seen half changed.
    """

    battery: float | None = None

    def __init__(
        self,
        client: ClientId,
        *,
        calendar: Calendar,
        processor: Processor,
        evaluator: Evaluator,
        log: EventLog,
        traffic: Traffic,
        oracle: Oracle,
        state: Any,  # noqa: ANN401 - the algorithm's own
        pack: Callable[[Array], Payload],
        rng: np.random.Generator,
    ) -> None:
        self.id = client
        self.oracle = oracle
        self.state = state
        self.pack = pack
        self.rng = rng
        self.processor = processor
        self._calendar = calendar
        self._evaluator = evaluator
        self._log = log
        self._traffic = traffic
        self._inbox: deque[Envelope] = deque()
        self._awaited: asyncio.Future[Envelope] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._round = 0
        self._ended = False

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        return self._calendar.now

    async def run(self, handle: Handler, answer: Answer) -> None:
        """Answer messages until the world ends."""
        self._loop = asyncio.get_running_loop()
        while not self._ended:
            if self._inbox:
                envelope = self._inbox.popleft()
            else:
                self._awaited = asyncio.Future(loop=self._loop)
                envelope = await self._awaited
            self._round = envelope.round
            reply = await handle(self, envelope.message)
            if not self._ended:
                answer(self.id, envelope, reply)

    def end(self) -> None:
        """Take no more messages, and answer none: the world ends."""
        self._ended = True

    def receive(self, _: ClientId, envelope: Envelope) -> None:
        """Take a message that has arrived."""
        if self._ended:
            return
        if self._awaited is not None:
            awaited, self._awaited = self._awaited, None
            awaited.set_result(envelope)
        else:
            self._inbox.append(envelope)

    async def compute(self, work: Work) -> Array:
        """See `fedsim.ports.Client.compute`.

        Work that is cancelled is charged up to that moment.
        """
        if not 0.0 <= work.operations < inf:
            raise ValueError(f"work has a finite number of operations, not {work.operations}")
        now = self._calendar._now
        begin, end = self.processor.reserve(now, work.operations)
        ticket = self._evaluator.submit(work)
        if end > now:
            finished: asyncio.Future[None] = asyncio.Future(loop=self._loop)
            self._calendar.call(end, _finish, finished)
            try:
                await finished
            except asyncio.CancelledError:
                self.processor.release(self.now, begin, end)
                self._charge(max(self.now - begin, 0.0))
                raise
        self._charge(end - begin)
        return self._evaluator.result(ticket)

    def _charge(self, seconds: float) -> None:
        joules = self.processor.spend(seconds)
        self._traffic.joules += joules
        now = self._calendar._now
        self._log.append(now, seconds, _COMPUTE, self.id, NO_PEER, self._round, -1, 0, 0, 0, joules)


def _finish(finished: "asyncio.Future[None]") -> None:
    """Wake up who waits for a processor, unless it was cancelled meanwhile."""
    if not finished.done():
        finished.set_result(None)
