"""The time on air of messages whose rate follows a signal."""

from fedsim.physics.signals import Signal


class Airtime:
    """The time on air of a message whose rate follows a signal.

    A message is on the air for a share r/c of the time, where r is its rate and c the rate that the
    radio alone would allow. In an outage of the radio (c = 0) it is on the air all the time,
    whatever else delays it: the radio keeps trying.

    Attributes:
        own: c as a signal, bit/s; None if the message is on the air all the time.
        share: r/c now.
        since: the time from which on the share applies, s.
        seconds: the time on air before `since`, s.
    """

    __slots__ = ("own", "seconds", "share", "since")

    def __init__(self, now: float, own: Signal | None) -> None:
        self.own = own
        self.share = 1.0 if own is None else 0.0
        self.since = now
        self.seconds = 0.0

    def change(self, now: float, rate: float) -> None:
        """Set the rate r from now on, bit/s."""
        if self.own is not None:
            self.seconds, self.since = self.until(now), now
            possible = self.own.at(now)
            self.share = min(rate / possible, 1.0) if possible else 1.0

    def until(self, now: float) -> float:
        """Return the time on air until now, s."""
        return self.seconds + self.share * (now - self.since)
