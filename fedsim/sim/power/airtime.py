"""The time on air of messages whose rate follows a signal."""

from fedsim.physics.signals import Signal


class Airtime:
    """The time on air of a message whose rate follows a signal.

    At a rate r of its own rate c it is on the air for a share r/c of the time; in an outage of its
    own (c = 0) all the time, whatever else would hold it up: the radio keeps on trying.

    Attributes:
        own: c; None where the message is on the air all the time.
        share: r/c now.
        since: since when, s.
        seconds: on air before that, s.
    """

    __slots__ = ("own", "seconds", "share", "since")

    def __init__(self, now: float, own: Signal | None) -> None:
        self.own = own
        self.share = 1.0 if own is None else 0.0
        self.since = now
        self.seconds = 0.0

    def change(self, now: float, rate: float) -> None:
        """Set the rate from now on, bit/s."""
        if self.own is not None:
            self.seconds, self.since = self.until(now), now
            reach = self.own.at(now)
            self.share = min(rate / reach, 1.0) if reach else 1.0

    def until(self, now: float) -> float:
        """Return the seconds on air until now."""
        return self.seconds + self.share * (now - self.since)
