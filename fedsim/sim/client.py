"""A client of the simulated world: an inbox, a processor, and the handler that runs on them."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from types import CoroutineType
from typing import Any, cast

from fedsim.ports import SERVER, SILENCE, ClientId, Message, Silence, node_name
from fedsim.protocol.client import ClientProtocol
from fedsim.protocol.envelope import Envelope
from fedsim.record.schema import Event
from fedsim.sim.engine.light_task import Driver, LightTask
from fedsim.sim.engine.loop import SimLoop
from fedsim.sim.network.transport import ServerLanes
from fedsim.sim.worker import Equipment, Worker

_SILENT = int(Event.SILENT)

Handler = Callable[[Any, Any], Any]
"""`Algorithm.handle`, a coroutine function of the client and the message."""


Failed = Callable[[str, BaseException], None]
"""Callback for a client that stopped answering before the world ended, with the reason."""


class SimClient(Worker, Driver):
    """Implements `fedsim.ports.Client`.

    It handles one message at a time, in the order of arrival, for as long as the world
    runs: what a handler remembers is never seen half changed. Its task runs it in place of a
    coroutine, which would take as much memory as the client.

    Attributes:
        driven: the handler that is under way, if any.
    """

    __slots__ = (
        "_aborted",
        "_asked",
        "_busy",
        "_done",
        "_ended",
        "_failed",
        "_handle",
        "_inbox",
        "_network",
        "_task",
        "driven",
    )

    _end: ClientProtocol

    def __init__(
        self,
        end: ClientProtocol,
        network: ServerLanes,
        equipment: Equipment,
        handle: Handler,
        failed: Failed,
    ) -> None:
        super().__init__(end, equipment)
        self._network = network
        self._handle = handle
        self._failed = failed
        self._inbox: deque[Envelope] | None = None  # made when the first message has to wait
        self._task: LightTask | None = None  # made for the first message
        self._busy = False  # from a message's arrival to when there is none left
        self._asked: Envelope  # what it answers
        self.driven: Coroutine[Any, Any, Message | Silence] | None = None
        self._aborted = False
        self._ended = False
        self._done: asyncio.Future[None] | None = None  # set once the handler is broken off

    # -- what it does ------------------------------------------------------------------

    def send(self, _: None, /) -> object:
        """Go on, or begin to answer; see `Driver.send`."""
        return self._go_on(None)

    def throw(self, error: BaseException, /) -> object:
        """Be broken off; see `Driver.throw`."""
        if self.driven is None:  # before it began
            raise error
        return self._go_on(error)

    def _go_on(self, error: BaseException | None) -> object:
        """Answer a message, and then those that have come meanwhile, up to where one waits."""
        while True:
            if self.driven is None:
                made = self._handle(self, self._end.open(self._asked))
                self.driven = made if type(made) is CoroutineType else _await_all(made)
            try:
                if error is None:
                    return self.driven.send(None)
                return self.driven.throw(error)
            except StopIteration as end:
                self._finish(end.value)
            except asyncio.CancelledError:
                if not self._aborted or self._ended:
                    raise
                self._recover()
            self.driven = error = None
            if self._ended or not self._inbox:
                raise StopIteration
            self._asked = self._inbox.popleft()

    def _finish(self, reply: Message | Silence) -> None:
        """Do with a reply what is left to do."""
        if self._aborted:  # it was told to stop, and had something to say all the same
            self.undelivered(self.id, reply)
            self._recover()
        elif not self._ended:
            self._answer(self._asked, reply)

    def _answer(self, asked: Envelope, reply: Message | Silence) -> None:
        """Send a reply, or do what silence asks for."""
        envelope = self._end.answer(asked, reply)
        if reply is SILENCE:
            self._log.append(self._calendar.now, 0.0, _SILENT, self.id, SERVER, asked.round)
        if envelope is not None:
            envelope.word = self._log.word(envelope.message.label)
            self._network.send_up(self.id, envelope)

    def _recover(self) -> None:
        """Be ready for the next message: what was broken off is over."""
        self._aborted = False
        if self._task is not None:
            self._task.uncancel()

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return node_name(self.id)

    def on_end(self, failure: BaseException | None) -> None:
        """Take note that there is nothing left to answer, or that it answers no more."""
        self.driven = None
        if self._done is not None:
            _settle(self._done, failure)
        elif failure is None:
            self._busy = False
        elif not self._ended:
            self._failed(self.name, failure)

    # -- what happens to it ------------------------------------------------------------

    def receive(self, _: ClientId, envelope: Envelope) -> None:
        """Take a message that has arrived."""
        if self._busy or self._ended:
            if not self._ended:
                self._hold(envelope)
            return
        self._busy = True
        if self._task is None:
            loop = cast("SimLoop", asyncio.get_running_loop())
            self._task = LightTask(loop, self)
            self._waits = self._task
        self._asked = envelope
        self._task.start(self)

    def _hold(self, envelope: Envelope) -> None:
        if self._inbox is None:
            self._inbox = deque()
        self._inbox.append(envelope)

    def abort(self) -> None:
        """Drop what it works on and what waits for it: the client cannot go on."""
        self._inbox = None
        if self.driven is not None and not self._aborted and self._task is not None:
            self._aborted = True
            self._task.cancel()

    def end(self) -> "asyncio.Future[None] | None":
        """Take no more messages, and answer none: the world ends.

        Returns:
            A future that is done once its handler has been broken off; None where none runs.
        """
        self._ended = True
        if self._task is None or not self._task.cancel():
            return None
        self._done = asyncio.get_running_loop().create_future()
        return self._done


async def _await_all(made: Awaitable[Message | Silence]) -> Message | Silence:
    """Return what comes of whatever else can be awaited."""
    return await made


def _settle(done: "asyncio.Future[None]", failure: BaseException | None) -> None:
    """Say that something is over, and with which error; a cancellation is none."""
    if failure is None or isinstance(failure, asyncio.CancelledError):
        done.set_result(None)
    else:
        done.set_exception(failure)
