"""A client of the virtual world: an inbox, a processor, and a handler that runs on them."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from fedsim.ports import SERVER, SILENCE, ClientId, Message, Silence, node_name
from fedsim.protocol.client import ClientEnd
from fedsim.protocol.envelope import Envelope
from fedsim.record.schema import Event
from fedsim.sim.network.transport import Network
from fedsim.sim.worker import Equipment, Worker

_SILENT = int(Event.SILENT)

Handler = Callable[[Any, Any], Any]
"""`Algorithm.handle`, a coroutine function of the client and the message."""


Failed = Callable[["asyncio.Task[None]"], None]
"""Told of a task that has stopped answering before the world has ended."""


class SimClient(Worker):
    """Implements `fedsim.ports.Client`.

    It handles one message at a time, in the order of arrival, for as long as the world
    runs: what a handler remembers is never seen half changed. It has a task of its own while it
    handles messages; whoever has none to handle has no task.
    """

    def __init__(
        self,
        end: ClientEnd,
        network: Network,
        equipment: Equipment,
        handle: Handler,
        failed: Failed,
    ) -> None:
        super().__init__(end, equipment)
        self._end: ClientEnd = end
        self._network = network
        self._name = node_name(end.id)
        self._handle = handle
        self._failed = failed
        self._inbox: deque[Envelope] = deque()
        self._task: asyncio.Task[None] | None = None
        self._handling = False
        self._aborted = False
        self._ended = False

    async def _run(self, envelope: Envelope) -> None:
        """Answer a message, and then those that have come meanwhile."""
        over = False
        try:
            while not over:
                message = self._end.open(envelope)
                self._handling = True
                try:
                    reply = await self._handle(self, message)
                except asyncio.CancelledError:
                    if not self._aborted or self._ended:
                        raise
                    self._recover()
                else:
                    self._take(envelope, reply)
                self._handling = False
                over = self._ended or not self._inbox
                if not over:
                    envelope = self._inbox.popleft()
        finally:
            self._handling = False
            if over:
                self._task = None
            elif not self._ended and self._task is not None:
                self._task.add_done_callback(self._failed)

    def _take(self, asked: Envelope, reply: Message | Silence) -> None:
        """Take what the handler has said to a message."""
        if self._aborted:  # it was told to stop, and had something to say all the same
            self.undelivered(self.id, reply)
            self._recover()
        elif not self._ended:
            self._answer(asked, reply)

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

    def end(self) -> "asyncio.Task[None] | None":
        """Take no more messages, and answer none: the world ends.

        Returns:
            What it is still about, which has been cancelled; None for nothing.
        """
        self._ended = True
        if self._task is not None:
            self._task.remove_done_callback(self._failed)
            self._task.cancel()
        return self._task

    def receive(self, _: ClientId, envelope: Envelope) -> None:
        """Take a message that has arrived."""
        if self._ended:
            return
        if self._task is not None:
            self._inbox.append(envelope)
            return
        self._loop = loop = asyncio.get_running_loop()
        # Not by the loop's own way: a task that is in nobody's set needs no number to hash by.
        self._task = asyncio.Task(self._run(envelope), loop=loop, name=self._name)
