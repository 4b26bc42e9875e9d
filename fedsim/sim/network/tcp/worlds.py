"""Where the segments of episodes pass: objects on a calendar, or the same as compiled kernels.

Both do the same operations in the same order, so that all times are the same to the last bit, and
which one it is may be chosen for speed. The kernels are loaded, or compiled, once many segments
were simulated: that takes as long as some hundred thousand of them do.
"""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from fedsim.physics.tcp import Tcp
from fedsim.progress import activity
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.tcp.path import TcpLane
from fedsim.sim.network.tcp.transfer import TcpTransfer
from fedsim.sim.network.tcp.window import Window

MANY = 200_000
"""Of messages of an episode: then the lanes that they used are looked through for repeated ones."""


COMPILED_FROM = 300_000.0
"""From how many simulated segments of a run on these are left to kernels."""

MOST_COUNTED = 1000.0
"""Of a message: the rest of a long one flows as a stream."""

COMPILED = ("drop-tail",)
"""The disciplines of queues that there are kernels for."""

LOADING = "loading TCP's kernels, which takes some ten seconds the first time"


class PacketMessage(Protocol):
    """A message whose segments are simulated.

    Attributes:
        over: whether all has arrived, or it was stopped.
        passed: returns the bits that have arrived by a time.
    """

    over: bool
    passed: Callable[[float], float]

    @property
    def again_bits(self) -> int:
        """The bits that were sent again so far."""
        ...

    def stop(self) -> None:
        """Cancel it."""
        ...


class PacketWorld(Protocol):
    """Links that some lanes share, and the segments on them, from idle links on.

    Attributes:
        now: the time since then, s.
        compiled: whether kernels let them pass.
    """

    compiled: bool
    now: float

    def first_end(self) -> float:
        """Return before when no message can have arrived, s; inf for never."""
        ...

    def run_before(self, when: float, other: Calendar | None = None, since: float = 0.0) -> None:
        """Let happen what is due before a time: see `Calendar.run_before`."""
        ...

    def launch(
        self,
        lane: TcpLane,
        rate: float,
        bits: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> PacketMessage:
        """Let a message begin now on a new connection, at a rate of its radio, bit/s."""
        ...

    def empty_at(self) -> float:
        """Return when the last queue is empty that was used, if nothing more comes, s."""
        ...

    def clear(self) -> None:
        """Go back to the beginning, with idle links."""
        ...


class EventWorld:
    """A world of objects, on a calendar of its own.

    Args:
        law: TCP's parameters.
        clock: the calendar of its lanes.
        worlds: counts the segments.
    """

    compiled = False

    def __init__(self, law: Tcp, clock: Calendar, worlds: "PacketWorlds") -> None:
        self._law, self._clock, self._worlds = law, clock, worlds
        self._used: list[TcpLane] = []  # lanes whose queues have been used
        self.run_before = clock.run_before

    @property
    def now(self) -> float:
        """See `PacketWorld.now`."""
        return self._clock.now

    @now.setter
    def now(self, now: float) -> None:
        self._clock.now = now

    def first_end(self) -> float:
        """See `PacketWorld.first_end`: what is due next may be an end."""
        return self._clock.next_time

    def launch(
        self,
        lane: TcpLane,
        rate: float,
        bits: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> TcpTransfer:
        """See `PacketWorld.launch`."""
        self._used.append(lane)
        if len(self._used) > MANY:
            self._used = list(dict.fromkeys(self._used))
        lane.path.own.rate = rate
        self._worlds.segments += 1 + min(bits / lane.path.segment, MOST_COUNTED)
        window = Window(self._law, lane.path.payload)
        return TcpTransfer(lane, window, bits, finished, token, opened=False)

    def empty_at(self) -> float:
        """See `PacketWorld.empty_at`."""
        return max([lane.path.empty_at(self._clock.now) for lane in self._used], default=-inf)

    def clear(self) -> None:
        """See `PacketWorld.clear`."""
        self._clock.clear()
        for lane in self._used:
            lane.path.clear()
        self._used = []


class PacketWorlds:
    """Makes the worlds of a run: of objects first, and of kernels once that pays.

    Args:
        law: TCP's parameters.

    Attributes:
        segments: that were simulated as objects.
    """

    def __init__(self, law: Tcp) -> None:
        self._law = law
        self.segments = 0.0

    @property
    def known(self) -> bool:
        """Whether there are kernels for what is to be simulated."""
        return self._law.discipline in COMPILED

    @property
    def pay(self) -> bool:
        """Whether it is time for kernels."""
        return self.segments >= COMPILED_FROM and self.known

    def make(self, clock: Calendar) -> PacketWorld:
        """Return a world of objects, whose lanes have this calendar."""
        return EventWorld(self._law, clock, self)

    def better(self, world: PacketWorld) -> PacketWorld:
        """Return a world to go on with from idle links: the same, or one of kernels."""
        if world.compiled or not self.pay:
            return world
        world.clear()
        with activity(LOADING):
            from fedsim.sim.network.tcp.compiled.world import CompiledWorld, load  # noqa: PLC0415 - a compiler: 0.5 s

            load()
        return CompiledWorld(self._law)
