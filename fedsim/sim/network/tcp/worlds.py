"""Where the segments of episodes pass: objects on a calendar, or the same as compiled kernels."""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.tcp.path import TcpLane
from fedsim.sim.network.tcp.transfer import TcpTransfer
from fedsim.sim.network.tcp.window import Window

MANY = 200_000
"""Of messages of an episode: then the lanes that they used are looked through for repeated ones."""


class PacketMessage(Protocol):
    """A message whose segments are simulated."""

    over: bool

    @property
    def again_bits(self) -> int:
        """The bits that were sent again so far."""
        ...

    def passed(self, now: float, /) -> float:
        """Return the bits that have arrived by the time `now`."""
        ...

    def stop(self) -> None:
        """Cancel it."""
        ...


class PacketWorld(Protocol):
    """Links that some lanes share, and the segments on them, from idle links on.

    Attributes:
        now: the time since then, s.
    """

    now: float

    @property
    def next_time(self) -> float:
        """When the next event is due, or one that was cancelled, s; inf for none."""
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
    """

    def __init__(self, law: Tcp, clock: Calendar) -> None:
        self._law, self._clock = law, clock
        self._used: list[TcpLane] = []  # lanes whose queues have been used
        self.run_before = clock.run_before

    @property
    def now(self) -> float:
        """See `PacketWorld.now`."""
        return self._clock.now

    @now.setter
    def now(self, now: float) -> None:
        self._clock.now = now

    @property
    def next_time(self) -> float:
        """See `PacketWorld.next_time`."""
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
        return TcpTransfer(lane, Window(self._law), bits, finished, token, opened=False)

    def empty_at(self) -> float:
        """See `PacketWorld.empty_at`."""
        return max([lane.path.empty_at(self._clock.now) for lane in self._used], default=-inf)

    def clear(self) -> None:
        """See `PacketWorld.clear`."""
        self._clock.clear()
        for lane in self._used:
            lane.path.clear()
        self._used = []
