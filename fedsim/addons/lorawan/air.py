"""The air around a gateway: the outcome of frames that overlap in time.

Each frame is examined twice, at its begin and at its end. At its begin it is lost if the strongest
frame on the air is too strong, and weaker frames on the air are lost if it is too strong for them.
Each frame is lost once, so n frames cost O(n log n), however many overlap.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

_FEW = 64
"""Number of ended frames from which they are removed from the heaps."""


@dataclass(slots=True, eq=False)
class LoRaFrame:
    """A frame on the air.

    Attributes:
        signal: its received power at the gateway, dBm.
        channel: its channel number.
        spreading: its spreading factor.
        until: its end, s.
        lost: whether the gateway cannot receive it.
        locked: whether it occupies a demodulator.
    """

    signal: float
    channel: int
    spreading: int
    until: float = 0.0
    lost: bool = False
    locked: bool = False


class _Overlaps:
    """The frames of one channel and spreading factor that are on the air."""

    def __init__(self) -> None:
        self._serial = count()
        self._weakest: list[tuple[float, int, LoRaFrame]] = []  # heap of frames that are not lost
        self._strongest: list[tuple[float, int, LoRaFrame]] = []  # heap of all frames
        self._active = 0

    def add(self, frame: LoRaFrame) -> None:
        """Add a frame that begins."""
        number = next(self._serial)
        heappush(self._weakest, (frame.signal, number, frame))
        heappush(self._strongest, (-frame.signal, number, frame))
        self._active += 1

    def remove(self, now: float) -> None:
        """Remove an ended frame."""
        self._active -= 1
        if len(self._strongest) > 2 * self._active + _FEW:
            for heap in (self._weakest, self._strongest):
                heap[:] = [entry for entry in heap if entry[2].until > now]
                heapify(heap)

    def strongest(self, now: float) -> float:
        """Return the signal of the strongest frame, dBm; minus infinity without frames."""
        heap = self._strongest
        while heap and heap[0][2].until <= now:
            heappop(heap)
        return heap[0][2].signal if heap else -inf

    def lose_below(self, signal: float, now: float) -> None:
        """Mark all frames with a weaker signal, dBm, as lost."""
        heap = self._weakest
        while heap and heap[0][0] < signal:
            frame = heappop(heap)[2]
            if frame.until > now:  # a frame that ends in this instant keeps its outcome
                frame.lost = True


class Air:
    """Frames on the air, and their collisions.

    A frame is received if it is stronger than every frame that it overlaps, even for an instant, by
    a margin: `capture` within its channel and spreading factor, minus `isolation` between spreading
    factors. Frames are compared in pairs, and channels do not disturb each other.

    Args:
        capture: dB; None if overlapping frames are always lost.
        isolation: dB; None if spreading factors are orthogonal.
        demodulators: the number of frames that can be received at a time; further ones are lost. A
            frame that collides occupies its demodulator to its end.
    """

    def __init__(
        self, capture: float | None, isolation: float | None, demodulators: float = inf
    ) -> None:
        self._capture = inf if capture is None else capture
        self._demodulators = demodulators
        self._locked = 0
        self._isolation = isolation
        self._channels: dict[int, dict[int, _Overlaps]] = {}
        self._deaf_until = -inf

    def begin(self, frame: LoRaFrame, now: float) -> None:
        """Put a frame on the air until its end."""
        if self._deaf_until > now or self._locked >= self._demodulators:
            frame.lost = True
        elif not frame.lost:
            frame.locked = True
            self._locked += 1
        factors = self._channels.setdefault(frame.channel, {})
        for spreading, others in factors.items():
            if spreading == frame.spreading:
                margin = self._capture
            elif self._isolation is None:
                continue
            else:
                margin = -self._isolation
            if frame.signal - others.strongest(now) < margin:
                frame.lost = True
            others.lose_below(frame.signal + margin, now)
        factors.setdefault(frame.spreading, _Overlaps()).add(frame)

    def end(self, frame: LoRaFrame, now: float) -> bool:
        """Take a frame off the air; return whether it was received."""
        frame.until = min(frame.until, now)
        self._locked -= frame.locked
        self._channels[frame.channel][frame.spreading].remove(now)
        return not frame.lost

    def jam(self, now: float, until: float) -> None:
        """Lose all frames on the air, and those that begin before `until`: the gateway sends."""
        self._deaf_until = max(self._deaf_until, until)
        for factors in self._channels.values():
            for frames in factors.values():
                frames.lose_below(inf, now)
