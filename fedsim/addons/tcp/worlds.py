"""Simulation of the segments of episodes: as objects on a calendar, or as compiled kernels.

Both perform the same operations in the same order, so that all times agree to the last bit, and the
choice only affects speed. Kernels are loaded, or compiled, after many simulated segments: loading
takes as long as some hundred thousand of them.
"""

from collections.abc import Callable
from math import inf
from typing import Any, Protocol

from fedsim.addons.tcp.path import TcpLane
from fedsim.addons.tcp.transfer import TcpTransfer
from fedsim.addons.tcp.window import Window
from fedsim.core.progress import activity
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar

MANY = 200_000
"""Messages of an episode after which the list of used lanes is cleared of duplicates."""


COMPILED_FROM = 300_000.0
"""Simulated segments of a run after which further ones are left to kernels."""

MOST_COUNTED = 1000.0
"""Segments counted per message at most: the rest of a long one flows as a stream."""

COMPILED = ("drop-tail",)
"""Queue disciplines that the kernels implement."""

LOADING = "loading TCP's kernels, which takes some ten seconds the first time"


class PacketMessage(Protocol):
    """A message whose segments are simulated.

    Attributes:
        over: whether all bits have arrived or the message was stopped.
        passed: returns the bits that have arrived by a time.
    """

    over: bool
    passed: Callable[[float], float]

    @property
    def again_bits(self) -> int:
        """The bits that were retransmitted so far."""
        ...

    def stop(self) -> None:
        """Cancel the message."""
        ...


class PacketWorld(Protocol):
    """Links that some lanes share, and the segments on them, starting from idle links.

    Attributes:
        now: the time since idle links, s.
        compiled: whether kernels simulate the segments.
    """

    compiled: bool
    now: float

    def first_end(self) -> float:
        """Return a time before which no message can arrive, s; inf if none is under way."""
        ...

    def run_before(self, when: float, other: Calendar | None = None, since: float = 0.0) -> None:
        """Simulate events before a time: see `Calendar.run_before`."""
        ...

    def launch(
        self,
        lane: TcpLane,
        rate: float,
        bits: float,
        finished: Callable[[Any], None],
        token: object,
    ) -> PacketMessage:
        """Start a message on a new connection, at a rate of its radio, bit/s."""
        ...

    def empty_at(self) -> float:
        """Return when the last used queue is empty, if nothing more comes, s."""
        ...

    def clear(self) -> None:
        """Reset all links to idle at time 0."""
        ...


class EventWorld:
    """A world of objects on a private calendar.

    Args:
        law: TCP's parameters.
        clock: the calendar of its lanes.
        worlds: counts the segments.
    """

    compiled = False

    def __init__(self, law: Tcp, clock: Calendar, worlds: "PacketWorlds") -> None:
        self._law, self._clock, self._worlds = law, clock, worlds
        self._used: list[TcpLane] = []  # lanes whose queues have been used
        # The method of the calendar itself, as it runs once per wake-up.
        self.run_before = clock.run_before

    @property
    def now(self) -> float:
        """See `PacketWorld.now`."""
        return self._clock.now

    @now.setter
    def now(self, now: float) -> None:
        self._clock.now = now

    def first_end(self) -> float:
        """See `PacketWorld.first_end`: the next event may be an end."""
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
        # A fading radio has another rate in each message, and a lane one message at a time.
        lane.path.own.rate = rate
        # Counted up to a limit, as the rest of a long message flows as a stream.
        self._worlds.segments += 1 + min(bits / lane.path.segment, MOST_COUNTED)
        window = Window(self._law, lane.path.payload)
        return TcpTransfer(lane, window, bits, finished, token, opened=False)

    def empty_at(self) -> float:
        """See `PacketWorld.empty_at`."""
        # Without lanes nothing was ever sent, and the links are quiet at any time.
        return max([lane.path.empty_at(self._clock.now) for lane in self._used], default=-inf)

    def clear(self) -> None:
        """See `PacketWorld.clear`."""
        self._clock.clear()
        for lane in self._used:
            lane.path.clear()
        self._used = []


class PacketWorlds:
    """Creates the worlds of a run: of objects first, of kernels once they pay.

    Args:
        law: TCP's parameters.

    Attributes:
        segments: the number of segments simulated as objects.
    """

    def __init__(self, law: Tcp) -> None:
        self._law = law
        self.segments = 0.0

    @property
    def known(self) -> bool:
        """Whether kernels implement the queue discipline."""
        return self._law.discipline in COMPILED

    @property
    def pay(self) -> bool:
        """Whether enough segments were simulated for kernels to pay."""
        return self.segments >= COMPILED_FROM and self.known

    def make(self, clock: Calendar) -> PacketWorld:
        """Return a world of objects whose lanes use this calendar."""
        return EventWorld(self._law, clock, self)

    def better(self, world: PacketWorld) -> PacketWorld:
        """Return the world for an episode that starts anew: the same, or one of kernels."""
        # Only as an episode begins anew: a world in progress has a state that is not translated.
        if world.compiled or not self.pay:
            return world
        # The old world is left idle, and its queues empty.
        world.clear()
        with activity(LOADING):
            from fedsim.addons.tcp.compiled.world import CompiledWorld, load  # a compiler: 0.5 s

            load()
        return CompiledWorld(self._law)
