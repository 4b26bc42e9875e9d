"""What the connections of a lane have in common under `model: tcp`: way and parameters."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from fedsim.physics.packet_loss import LossProcess
from fedsim.physics.radios.base import Framing
from fedsim.physics.tcp import Tcp
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.flows import Changed
from fedsim.sim.network.tcp.queue import LinkQueue


@dataclass(frozen=True, slots=True)
class TcpStage:
    """A link on the way of a lane's messages.

    Attributes:
        queue: in front of it.
        delay: behind it, s.
        shared: whether other lanes' messages pass it.
    """

    queue: LinkQueue
    delay: float
    shared: bool


@dataclass(frozen=True)
class TcpPath:
    """The way of a lane's segments, and that of their acknowledgements.

    Attributes:
        stages: the links, in order.
        radio: the number of the radio's.
        back: how long an acknowledgement takes, s.
        packets: how messages are cut into segments.
        crowded: whether the handshakes of all that share a queue may be too many for it.
    """

    stages: Sequence[TcpStage]
    radio: int
    back: float
    packets: Framing
    crowded: bool

    @property
    def own(self) -> LinkQueue:
        """The radio's queue."""
        return self.stages[self.radio].queue

    @cached_property
    def shared(self) -> tuple[LinkQueue, ...]:
        """The queues that others use too."""
        return tuple([stage.queue for stage in self.stages if stage.shared])

    @cached_property
    def header(self) -> float:
        """The bits of a segment without payload."""
        return 8.0 * self.packets.overhead

    @cached_property
    def segment(self) -> float:
        """The bits of a full segment."""
        return 8.0 * self.packets.packet

    @cached_property
    def narrow(self) -> int:
        """The packets that the shortest queue holds."""
        return int(min([1e9, *[stage.queue.limit for stage in self.stages]]))

    @cached_property
    def trip(self) -> float:
        """The round trip of a segment without payload on empty links, s."""
        there = [stage.delay + stage.queue.lasts(self.header) for stage in self.stages]
        return sum(there) + self.back

    @property
    def slowest(self) -> float:
        """The least rate on the way, bit/s; infinite where all vary."""
        fixed = [stage.queue.rate for stage in self.stages if stage.queue.signal is None]
        return min(fixed, default=inf)

    def rest(self, number: int, bits: float) -> float:
        """Return how long a segment of some bits takes from the end of a stage on, s."""
        behind = [stage.queue.lasts(bits) for stage in self.stages[number + 1 :]]
        return sum([stage.delay for stage in self.stages[number:]]) + sum(behind)


@dataclass(slots=True)
class TcpLane:
    """What the messages of a lane have in common.

    Attributes:
        calendar: the simulated time.
        law: TCP's parameters.
        path: the way.
        changed: callback for changes of the rate at which bits arrive, if any.
        loss: of packets at the radio, if any.
        make_rng: makes the stream that draws which packets of a train these are.
    """

    calendar: Calendar
    law: Tcp
    path: TcpPath
    changed: Changed | None = None
    loss: LossProcess | None = None
    make_rng: Callable[[], np.random.Generator] = np.random.default_rng
    _rng: np.random.Generator | None = None

    @property
    def rng(self) -> np.random.Generator:
        """The stream that draws which packets are lost, made for the first of them."""
        if self._rng is None:
            self._rng = self.make_rng()
        return self._rng
