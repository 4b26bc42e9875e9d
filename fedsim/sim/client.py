"""A client of the simulated world: an inbox, a processor, and the handler that runs on them.

`Worker` is the part that it shares with the nodes of a graph.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from math import inf
from types import CoroutineType
from typing import Any, cast

import numpy as np

from fedsim.core.errors import WorkDurationError
from fedsim.core.ports import (
    SILENCE,
    Array,
    ClientId,
    Message,
    Oracle,
    Payload,
    Silence,
    Work,
    node_name,
)
from fedsim.physics.devices import DeviceLaw
from fedsim.problems.evaluators import Evaluator
from fedsim.protocol.transport import BEACON, ClientProtocol, Envelope
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.engine.light_task import Driver, LightTask, settle
from fedsim.sim.engine.loop import SimLoop
from fedsim.sim.network.transport import ServerLanes
from fedsim.sim.participant import Belongings, Endpoint, Follows, TakeBack, Waits
from fedsim.sim.power.processor import Processor
from fedsim.sim.power.supply import Supply, harvested, state_of_charge
from fedsim.sim.power.unsettled import OpenWork
from fedsim.sim.worlds.client_work import check_result, submit_work
from fedsim.sim.worlds.clock import Clock, Clocked

_COMPUTE = int(Event.COMPUTE)


@dataclass(frozen=True, slots=True)
class Equipment:
    """The equipment of a worker.

    Attributes:
        calendar: the calendar.
        processor, supply: processor and battery of the worker; the battery is None on mains.
        evaluator: computes the numeric work.
        log, traffic: the event log, and the totals of costs.
        oracle: the worker's loss.
        state: the algorithm's state of the worker.
        rng: returns the random stream of a purpose and an entity.
        take_back: see `TakeBack`.
        looks: the set to which the names of what the method reads are added.
        work: the work in progress.
    """

    calendar: Calendar
    processor: Processor
    supply: Supply | None
    evaluator: Evaluator
    log: EventLog
    traffic: Traffic
    oracle: Oracle
    state: Any
    rng: Callable[..., np.random.Generator]
    take_back: TakeBack
    looks: set[str]
    work: OpenWork


class Participant(Clocked):
    """The part of `fedsim.core.ports.Client` that does not depend on the passing of time.

    Attributes:
        id: the number of the node.
        oracle: its loss.
        state: the algorithm's state of it.
    """

    __slots__ = (
        "_device",
        "_evaluator",
        "_make_rng",
        "_protocol",
        "_rng",
        "_slow",
        "_speed",
        "_take_back",
        "id",
        "oracle",
        "state",
    )

    def __init__(
        self, protocol: Endpoint, clock: Clock, device: DeviceLaw, parts: Belongings
    ) -> None:
        super().__init__(clock, parts.looks)
        self.id = protocol.id
        self.oracle = parts.oracle
        self.state = parts.state
        self._protocol = protocol
        self._make_rng = parts.rng
        self._device = device
        # None if each piece of work has a duration of its own, to be drawn or computed by the
        # device.
        self._speed = None if device.slowdown.drawn else device.constant
        self._take_back = parts.take_back
        self._evaluator = parts.evaluator
        self._rng: np.random.Generator | None = None  # created at the first draw
        self._slow: np.random.Generator | None = None

    @property
    def name(self) -> str:
        """The name of the node in reports."""
        return node_name(self.id)

    @property
    def round(self) -> int:
        """The number of the round that the node is in."""
        return self._protocol.round

    @property
    def weight(self) -> float:
        """See `fedsim.core.ports.Client.weight`."""
        return self.oracle.weight

    @property
    def pack(self) -> Callable[..., Payload]:
        """See `fedsim.core.ports.Client.pack`."""
        return self._protocol.packing.pack

    @property
    def rng(self) -> np.random.Generator:
        """The node's own random stream, created at its first draw."""
        if self._rng is None:
            self._rng = self._make_rng("client", self.id)
        return self._rng

    @property
    def _slowdowns(self) -> np.random.Generator:
        if self._slow is None:
            self._slow = self._make_rng("slowdown", self.id)
        return self._slow

    def undelivered(self, _: ClientId, reply: Message | Silence) -> None:
        """Report to the algorithm that a message of this node is lost."""
        # A beacon stands for silence: the method has sent nothing that it could take back.
        if isinstance(reply, Message) and reply is not BEACON:
            self._protocol.take_back(reply)
            self._take_back(self, reply)

    def _submit(self, work: Work) -> object:
        """Submit work to the evaluator: see `submit_work`."""
        ticket: object = submit_work(self._evaluator, self._protocol.packing.narrow(work))
        return ticket

    def _collect(self, ticket: object) -> Array:
        """Return the result of completed work: see `check_result`."""
        evaluator = self._evaluator
        result = evaluator.result(ticket)
        return check_result(evaluator, ticket, result, self.id, self._protocol.round)

    def _duration(self, work: Work) -> float:
        """Sample the duration of work on this device, s.

        Raises:
            WorkDurationError: it never ends, or ends before it begins.
        """
        device = self._device
        seconds = device.seconds(work.operations, work.samples)
        if device.slowdown.drawn:
            seconds *= device.slowdown.draw(self._slowdowns)
        if not 0.0 <= seconds < inf:
            raise WorkDurationError(
                f"{work.operations:g} operations on {work.samples:g} samples would take"
                f" {seconds:g} s on the device {device.kind} of client {self.id}; its `seconds` and"
                f" the factors of its slowdown {device.slowdown.kind} must be finite and at least 0"
            )
        return seconds


class Worker(Participant):
    """The part that `fedsim.core.ports.Client` and `fedsim.core.ports.Node` have in common.

    Attributes:
        processor: the processor of the worker.
    """

    __slots__ = ("_log", "_supply", "_traffic", "_waits", "_work", "processor")

    def __init__(self, protocol: Endpoint, equipment: Equipment) -> None:
        super().__init__(protocol, equipment.calendar, equipment.processor.device, equipment)
        self.processor = equipment.processor
        self._supply = equipment.supply
        self._log = equipment.log
        self._traffic = equipment.traffic
        self._work = equipment.work
        self._waits: Waits  # set by the task that runs it

    @property
    def battery(self) -> float | None:
        """The state of charge in [0, 1]; None on mains."""
        self._looks.add("battery")
        return None if self._supply is None else self._supply.share

    @property
    def harvest(self) -> float:
        """The charging power on offer now, as a share of the power at work; 1 on mains."""
        return harvested(self._supply, self._device.working())

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.core.ports.Client.compute`.

        Work that is cancelled is charged up to that moment.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        # Submitted before time passes, so that an evaluator can compute the work of all clients
        # that begin at this instant as one batch. The numbers are read only at the end of the work.
        ticket = self._submit(work)
        for number in range(1, work.pieces + 1):
            if begun is not None:
                begun(number)
            now = self._calendar.now
            # A constant speed skips `_duration`; the quotient rounds as `seconds` would.
            seconds = work.operations / self._speed if self._speed else self._duration(work)
            begin, end = self.processor.reserve(now, seconds)
            # Zero-duration work of a batching evaluator yields once, so that all ready clients
            # submit theirs first. They resume in the same order, one turn of the loop later.
            if end > now or (number == 1 and self._evaluator.together):
                entry = self._work.begin(self.id, begin, self.processor.watts)
                try:
                    await (self._waits.until(end) if end > now else asyncio.sleep(0))
                except asyncio.CancelledError:
                    # The work may still wait behind other work of this processor. Then it has not
                    # begun, and costs nothing.
                    self._evaluator.withdraw(ticket)
                    self.processor.release(self._calendar.now, begin, end)
                    self._charge(max(self._calendar.now - begin, 0.0))
                    raise
                finally:
                    self._work.end(entry)
            # `end - begin` may differ from `seconds` in the last bit. The log keeps the span that
            # passed on the clock, and energy has to be that of the same span.
            self._charge(end - begin, work.operations, work.samples)
        return self._collect(ticket)

    def _charge(self, seconds: float, operations: float = 0.0, samples: float = 0.0) -> None:
        joules = self.processor.spend(seconds)
        self._traffic.joules += joules
        now = self._calendar.now
        charge = state_of_charge(self._supply)
        # Positional: this is called for every piece of work, and keywords cost time.
        self._log.append(
            now,
            seconds,
            _COMPUTE,
            self.id,
            NO_PEER,
            self._protocol.round,
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


# The client of a star.

_SILENT = int(Event.SILENT)

Handler = Callable[[Any, Any], Any]
"""`Algorithm.handle`, a coroutine function of the client and the message."""


Failed = Callable[[str, BaseException], None]
"""Callback for a client that stopped answering before the world ended, with the reason."""


class SimClient(Worker, Driver):
    """Implements `fedsim.core.ports.Client`.

    The client handles one message at a time, in the order of arrival, for as long as the world
    runs. So no handler sees half-changed memory of another one. Work after a reply belongs to the
    handling of its message. A task drives the client directly instead of a coroutine, which would
    take as much memory as the client.

    Attributes:
        driven: the running handler, or the work after its reply, if any.
    """

    __slots__ = (
        "_aborted",
        "_asked",
        "_busy",
        "_done",
        "_ended",
        "_failed",
        "_follows",
        "_handle",
        "_inbox",
        "_network",
        "_replied",
        "_task",
        "driven",
    )

    _protocol: ClientProtocol

    def __init__(
        self,
        protocol: ClientProtocol,
        network: ServerLanes,
        equipment: Equipment,
        handle: Handler,
        failed: Failed,
        follows: Follows = None,
    ) -> None:
        super().__init__(protocol, equipment)
        self._network = network
        self._handle = handle
        self._follows = follows
        self._replied = False  # whether `driven` is the work after a reply
        self._failed = failed
        self._inbox: deque[Envelope] | None = None  # made when the first message has to wait
        self._task: LightTask | None = None  # made for the first message
        self._busy = False  # from the arrival of a message until no message is left
        self._asked: Envelope  # the message being handled
        self.driven: Coroutine[Any, Any, Any] | None = None
        self._aborted = False
        self._ended = False
        self._done: asyncio.Future[None] | None = None  # set once the handler is cancelled

    # -- handling messages -------------------------------------------------------------

    def throw(self, error: BaseException, /) -> object:
        """Raise an error where the handler waits; see `Driver.throw`."""
        if self.driven is None:  # before it began
            raise error
        return self.send(error)

    def send(self, error: BaseException | None, /) -> object:
        """Answer a message, and those that have arrived meanwhile, up to the next wait.

        Args:
            error: to be raised where the handler waits, if any.
        """
        more: Coroutine[Any, Any, None] | None
        while True:
            more = None
            # A handler starts only when the one before it has ended; see the class.
            if self.driven is None:
                coroutine = self._handle(self, self._protocol.open(self._asked))
                self.driven = (
                    coroutine if type(coroutine) is CoroutineType else _await_all(coroutine)
                )
            try:
                if error is None:
                    return self.driven.send(None)
                return self.driven.throw(error)
            except StopIteration as end:
                more = self._finish(end.value)
            except asyncio.CancelledError:
                # `abort` cancels a handler only: the task survives for messages that arrive later.
                if not self._aborted or self._ended:
                    raise
                self._recover()
            self.driven, self._replied, error = more, more is not None, None
            if more is not None:
                continue
            if self._ended or not self._inbox:
                raise StopIteration
            self._asked = self._inbox.popleft()

    def _finish(self, reply: Message | Silence) -> Coroutine[Any, Any, None] | None:
        """Send a reply, or undo it if the client was aborted.

        Returns:
            The work after the reply; None if there is none.
        """
        if self._aborted:  # the handler swallowed the cancellation, but its reply is not sent
            if not self._replied:
                self.undelivered(self.id, reply)
            self._recover()
        elif not (self._ended or self._replied):
            # The reply leaves at the instant at which the handler returns. Work after it runs as
            # the same handling of the message, so the next message waits for it, too.
            self._answer(self._asked, reply)
            return None if self._follows is None else self._follows(self)
        return None

    def _answer(self, asked: Envelope, reply: Message | Silence) -> None:
        """Send a reply, or what the silence policy asks for."""
        envelope = self._protocol.answer(asked, reply)
        if reply is SILENCE:
            server = self._protocol.server
            self._log.append(self._calendar.now, 0.0, _SILENT, self.id, server, asked.round)
        if envelope is not None:
            envelope.word = self._log.word(envelope.message.label)
            self._network.send_up(self.id, envelope)

    def _recover(self) -> None:
        """Get ready for the next message after an aborted one."""
        # The cancellation is withdrawn as well. One that was not delivered yet would otherwise end
        # the next handler.
        self._aborted = False
        if self._task is not None:
            self._task.uncancel()

    def on_end(self, failure: BaseException | None) -> None:
        """Handle the end of the task: the inbox is empty, or the handler has failed."""
        self.driven = None
        # `_done` exists only if the world ended while a handler was running: its error, if any, is
        # then raised by the task that waits for it.
        if self._done is not None:
            settle(self._done, failure)
        elif failure is None:
            self._busy = False
        elif not self._ended:
            self._failed(self.name, failure)

    # -- events ------------------------------------------------------------------------

    def receive(self, _: ClientId, envelope: Envelope) -> None:
        """Receive a message; it waits in the inbox while another one is handled."""
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
        # Most clients never need an inbox: created on demand, it takes no memory in large fleets.
        if self._inbox is None:
            self._inbox = deque()
        self._inbox.append(envelope)

    def abort(self) -> None:
        """Drop the current message and those that wait: the client cannot go on."""
        # Messages that wait were received, so they are not lost in the network: they vanish with
        # the client's memory.
        self._inbox = None
        # A second cancellation while the first is under way, say in the handler's `finally`, would
        # be delivered to that handler again.
        if self.driven is not None and not self._aborted and self._task is not None:
            self._aborted = True
            self._task.cancel()

    def end(self) -> "asyncio.Future[None] | None":
        """Accept and answer no more messages: the world ends.

        Returns:
            A future that is done once the handler has been cancelled; None if none runs.
        """
        self._ended = True
        if self._task is None or not self._task.cancel():
            return None
        self._done = asyncio.get_running_loop().create_future()
        return self._done


async def _await_all(reply: Awaitable[Message | Silence]) -> Message | Silence:
    """Await any other awaitable that a handler returns."""
    return await reply
