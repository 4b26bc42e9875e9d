"""A client of the virtual world: an inbox, a processor, and a handler that runs on them."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import cached_property
from math import inf, nan
from typing import Any

import numpy as np

from fedsim.computing import Evaluator
from fedsim.ports import SERVER, SILENCE, Array, ClientId, Message, Oracle, Silence, Work
from fedsim.protocol.client import ClientEnd
from fedsim.protocol.envelope import BEACON, Envelope
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.transport import Network
from fedsim.sim.power.processor import Processor
from fedsim.sim.power.supply import Supply

_COMPUTE, _SILENT = int(Event.COMPUTE), int(Event.SILENT)

Handler = Callable[[Any, Any], Any]
"""`Algorithm.handle`, a coroutine function of the client and the message."""

TakeBack = Callable[[Any, Any], None]
"""`Algorithm.undelivered`, a function of the client and its message."""


class SimClient:
    """Implements `fedsim.ports.Client`.

    It handles one message at a time, in the order of arrival, for as long as the world
    runs: what a handler remembers is never seen half changed.
    """

    def __init__(
        self,
        end: ClientEnd,
        *,
        calendar: Calendar,
        network: Network,
        processor: Processor,
        supply: Supply | None,
        evaluator: Evaluator,
        log: EventLog,
        traffic: Traffic,
        oracle: Oracle,
        state: Any,  # noqa: ANN401 - the algorithm's own
        rng: Callable[..., np.random.Generator],
        take_back: TakeBack,
        looks: set[str],
    ) -> None:
        self.id = end.id
        self.oracle = oracle
        self.state = state
        self.pack = end.pack
        self._end = end
        self._network = network
        self._make_rng = rng
        self.processor = processor
        self._supply = supply
        model = processor.model
        self._speed = model.speed
        self._quick = model.slowdown is None and model.cycles_per_sample is None
        self._take_back = take_back
        self._looks = looks
        self._calendar = calendar
        self._evaluator = evaluator
        self._log = log
        self._traffic = traffic
        self._inbox: deque[Envelope] = deque()
        self._awaited: asyncio.Future[Envelope] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[Any] | None = None
        self._handling = False
        self._aborted = False
        self._ended = False

    @property
    def round(self) -> int:
        """The number of the round whose message is being handled."""
        return self._end.round

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        self._looks.add("now")
        return self._calendar.now

    @cached_property
    def rng(self) -> np.random.Generator:
        """This client's own random stream; made when it is first drawn from."""
        return self._make_rng("client", self.id)

    @cached_property
    def _slowdowns(self) -> np.random.Generator:
        """The stream of how much slower than nominal its tasks are."""
        return self._make_rng("slowdown", self.id)

    @property
    def battery(self) -> float | None:
        """The state of charge in [0, 1]; None on mains."""
        self._looks.add("battery")
        return None if self._supply is None else self._supply.share

    async def run(self, handle: Handler) -> None:
        """Answer messages until the world ends."""
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        while not self._ended:
            if self._inbox:
                envelope = self._inbox.popleft()
            else:
                self._awaited = asyncio.Future(loop=self._loop)
                envelope = await self._awaited
            message = self._end.open(envelope)
            self._handling = True
            try:
                reply = await handle(self, message)
            except asyncio.CancelledError:
                if not self._aborted or self._ended:
                    raise
                self._recover()
            else:
                if self._aborted:  # it was told to stop, and had something to say all the same
                    self.undelivered(self.id, reply)
                    self._recover()
                elif not self._ended:
                    self._answer(envelope, reply)
            self._handling = False

    def _answer(self, asked: Envelope, reply: Message | Silence) -> None:
        """Send a reply, or do what silence asks for."""
        envelope = self._end.answer(asked, reply)
        if reply is SILENCE:
            self._log.append(self._calendar._now, 0.0, _SILENT, self.id, SERVER, asked.round)
        if envelope is not None:
            envelope.word = self._log.word(envelope.message.label)
            self._network.send_up(self.id, envelope)

    def _recover(self) -> None:
        """Be ready for the next message: what was broken off is over."""
        self._aborted = False
        if self._task is not None:
            self._task.uncancel()

    def abort(self) -> None:
        """Drop what it works on and what waits for it: the client cannot go on."""
        self._inbox.clear()
        if self._handling and not self._aborted and self._task is not None:
            self._aborted = True
            self._task.cancel()

    def undelivered(self, _: ClientId, reply: Message | Silence) -> None:
        """Tell the algorithm that a reply of this client is known to be lost."""
        if isinstance(reply, Message) and reply is not BEACON:
            self._end.take_back(reply)
            self._take_back(self, reply)

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

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.ports.Client.compute`.

        Work that is cancelled is charged up to that moment.
        """
        if not 0.0 <= work.operations < inf:
            raise ValueError(f"work has a finite number of operations, not {work.operations}")
        ticket = self._evaluator.submit(work)
        for number in range(1, work.pieces + 1):
            if begun is not None:
                begun(number)
            now = self._calendar._now
            seconds = work.operations / self._speed if self._quick else self._duration(work)
            begin, end = self.processor.reserve(now, seconds)
            if end > now:
                finished: asyncio.Future[None] = asyncio.Future(loop=self._loop)
                self._calendar.call(end, _finish, finished)
                try:
                    await finished
                except asyncio.CancelledError:
                    self._evaluator.withdraw(ticket)
                    self.processor.release(self._calendar.now, begin, end)
                    self._charge(max(self._calendar.now - begin, 0.0))
                    raise
            self._charge(end - begin, work.operations, work.samples)
        return self._evaluator.result(ticket)

    def _duration(self, work: Work) -> float:
        """Return how long work takes on this device, this time."""
        model = self.processor.model
        seconds = model.nominal(work.operations, work.samples)
        return seconds * (1.0 if model.slowdown is None else model.slowdown.draw(self._slowdowns))

    def _charge(self, seconds: float, operations: float = 0.0, samples: float = 0.0) -> None:
        joules = self.processor.spend(seconds)
        self._traffic.joules += joules
        now = self._calendar._now
        charge = nan if self._supply is None else self._supply.share
        self._log.append(
            now,
            seconds,
            _COMPUTE,
            self.id,
            NO_PEER,
            self._end.round,
            -1,
            0,
            0,
            0,
            joules,
            charge,
            -1,
            operations,
            samples,
        )


def _finish(finished: "asyncio.Future[None]") -> None:
    """Wake up who waits for a processor, unless it was cancelled meanwhile."""
    if not finished.done():
        finished.set_result(None)
