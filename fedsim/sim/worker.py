"""A worker of the simulated world: a processor, a loss, a random stream and a battery."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import inf, nan
from typing import Any, Protocol

import numpy as np

from fedsim.computing import Evaluator
from fedsim.computing.serial import finite
from fedsim.errors import Diverged, WorkDurationError
from fedsim.ports import Array, ClientId, Message, Oracle, Payload, Silence, Work
from fedsim.protocol.carriage import Packing
from fedsim.protocol.envelope import BEACON
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.processor import Processor
from fedsim.sim.power.supply import Supply

# Clock access of methods, recorded because their results may depend on it.


class Clocked:
    """Has the `now` of the ports.

    Args:
        calendar: the simulated time.
        looks: takes note of what the method looks at.
    """

    __slots__ = ("_calendar", "_looks")

    def __init__(self, calendar: Calendar, looks: set[str]) -> None:
        self._calendar = calendar
        self._looks = looks

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        self._looks.add("now")
        return self._calendar.now


_COMPUTE = int(Event.COMPUTE)

TakeBack = Callable[[Any, Any], None]
"""`Algorithm.undelivered`, a function of the client and its message."""


class Waits(Protocol):
    """Lets a worker wait."""

    def until(self, when: float) -> Awaitable[None]:
        """Wait until a time."""
        ...


class ProtocolEnd(Protocol):
    """What a worker needs of its end of the protocol.

    Attributes:
        id: the node's number.
        round: the one that it is in.
    """

    id: ClientId
    round: int

    @property
    def packing(self) -> Packing:
        """What packs its messages."""
        ...

    def take_back(self, message: Message) -> None:
        """Forget a message that is known to be lost, as if it had never been packed."""
        ...


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a worker works with.

    Attributes:
        calendar: the simulated time.
        processor, supply: its own; None on mains.
        evaluator: computes the numeric work.
        log, traffic: where it is written down and charged.
        oracle: its loss.
        state: the algorithm's own.
        rng: returns the random stream of a purpose and an entity.
        take_back: see `TakeBack`.
        looks: takes note of what the method looks at.
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


class Worker(Clocked):
    """What `fedsim.ports.Client` and `fedsim.ports.Node` have in common.

    Attributes:
        id: its number.
        oracle: its loss.
        state: the algorithm's own.
        processor: its own.
    """

    __slots__ = (
        "_end",
        "_evaluator",
        "_log",
        "_make_rng",
        "_rng",
        "_slow",
        "_speed",
        "_supply",
        "_take_back",
        "_traffic",
        "_waits",
        "id",
        "oracle",
        "processor",
        "state",
    )

    def __init__(self, end: ProtocolEnd, equipment: Equipment) -> None:
        super().__init__(equipment.calendar, equipment.looks)
        self.id = end.id
        self.oracle = equipment.oracle
        self.state = equipment.state
        self.processor = equipment.processor
        self._end = end
        self._make_rng = equipment.rng
        self._supply = equipment.supply
        device = equipment.processor.device
        self._speed = None if device.slowdown.drawn else device.constant
        self._take_back = equipment.take_back
        self._evaluator = equipment.evaluator
        self._log = equipment.log
        self._traffic = equipment.traffic
        self._waits: Waits  # set by the task that runs it
        self._rng: np.random.Generator | None = None  # of what it draws from first
        self._slow: np.random.Generator | None = None

    @property
    def round(self) -> int:
        """The number of the round that it is in."""
        return self._end.round

    @property
    def pack(self) -> Callable[..., Payload]:
        """See `fedsim.ports.Client.pack`."""
        return self._end.packing.pack

    @property
    def rng(self) -> np.random.Generator:
        """This client's own random stream; made when it is first drawn from."""
        if self._rng is None:
            self._rng = self._make_rng("client", self.id)
        return self._rng

    @property
    def _slowdowns(self) -> np.random.Generator:
        """The stream of how much slower than nominal its tasks are."""
        if self._slow is None:
            self._slow = self._make_rng("slowdown", self.id)
        return self._slow

    @property
    def battery(self) -> float | None:
        """The state of charge in [0, 1]; None on mains."""
        self._looks.add("battery")
        return None if self._supply is None else self._supply.share

    def undelivered(self, _: ClientId, reply: Message | Silence) -> None:
        """Tell the algorithm that a message of this node is known to be lost."""
        if isinstance(reply, Message) and reply is not BEACON:
            self._end.take_back(reply)
            self._take_back(self, reply)

    async def compute(self, work: Work, begun: Callable[[int], None] | None = None) -> Array:
        """See `fedsim.ports.Client.compute`.

        Work that is cancelled is charged up to that moment.

        Raises:
            Diverged: a vector that was computed is not finite.
        """
        if not 0.0 <= work.operations < inf:
            raise ValueError(f"work has a finite number of operations, not {work.operations}")
        ticket = self._evaluator.submit(work)
        for number in range(1, work.pieces + 1):
            if begun is not None:
                begun(number)
            now = self._calendar.now
            seconds = work.operations / self._speed if self._speed else self._duration(work)
            begin, end = self.processor.reserve(now, seconds)
            if end > now:
                try:
                    await self._waits.until(end)
                except asyncio.CancelledError:
                    self._evaluator.withdraw(ticket)
                    self.processor.release(self._calendar.now, begin, end)
                    self._charge(max(self._calendar.now - begin, 0.0))
                    raise
            self._charge(end - begin, work.operations, work.samples)
        result = self._evaluator.result(ticket)
        if not finite(result):
            raise Diverged(self._end.round, f"client {self.id} has computed what is not finite")
        return result

    def _duration(self, work: Work) -> float:
        """Return how long work takes on this device, this time.

        Raises:
            WorkDurationError: it never ends, or ends before it begins.
        """
        device = self.processor.device
        seconds = device.seconds(work.operations, work.samples)
        if device.slowdown.drawn:
            seconds *= device.slowdown.draw(self._slowdowns)
        if not 0.0 <= seconds < inf:
            raise WorkDurationError(
                f"{work.operations:g} operations on {work.samples:g} samples would take"
                f" {seconds:g} s on the device {device.kind} of client {self.id}; its `seconds`"
                f" and the factors of its slowdown {device.slowdown.kind} are finite and at least 0"
            )
        return seconds

    def _charge(self, seconds: float, operations: float = 0.0, samples: float = 0.0) -> None:
        joules = self.processor.spend(seconds)
        self._traffic.joules += joules
        now = self._calendar.now
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
