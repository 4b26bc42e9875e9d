"""A client of the virtual world: an inbox, a processor, and a handler that runs on them."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from fedsim.ports import SERVER, SILENCE, ClientId, Message, Silence
from fedsim.protocol.client import ClientEnd
from fedsim.protocol.envelope import Envelope
from fedsim.record.schema import Event
from fedsim.sim.network.transport import Network
from fedsim.sim.worker import Equipment, Worker

_SILENT = int(Event.SILENT)

Handler = Callable[[Any, Any], Any]
"""`Algorithm.handle`, a coroutine function of the client and the message."""


class SimClient(Worker):
    """Implements `fedsim.ports.Client`.

    It handles one message at a time, in the order of arrival, for as long as the world
    runs: what a handler remembers is never seen half changed.
    """

    def __init__(self, end: ClientEnd, network: Network, equipment: Equipment) -> None:
        super().__init__(end, equipment)
        self._end: ClientEnd = end
        self._network = network
        self._inbox: deque[Envelope] = deque()
        self._awaited: asyncio.Future[Envelope] | None = None
        self._task: asyncio.Task[Any] | None = None
        self._handling = False
        self._aborted = False
        self._ended = False

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
