"""When an exchange in arrays closes: with the last reply, or at a deadline that all keep."""

from dataclasses import dataclass
from math import inf, nextafter
from typing import Self

from fedsim.ports import Array
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.config import WorldConfig


@dataclass(frozen=True)
class Closing:
    """The deadlines of a round, after its broadcast.

    The server sets its timers as ever, and asks its protocol. What is decided here is only whether
    these timers find what arrays can express: all replies there, and no client at work.

    Attributes:
        after: the deadline that closes it, s; infinite for none.
        timeout: after which it is given up, s; infinite for none.
    """

    after: float
    timeout: float

    @classmethod
    def of(cls, setup: WorldConfig) -> Self:
        """Return the deadlines of a world."""
        policy = setup.participation
        return cls(min(setup.silence.closes_after, policy.closes_after), policy.round_timeout)

    def over(self, now: float, last: float, done: Array, *, silent: bool) -> float:
        """Return the time before which the tails of radios end within this exchange, s.

        Args:
            now: when it was opened, s.
            last: when its last reply arrives, s.
            done: when each client is done, s, shape (n,).
            silent: whether a client sends nothing, so that the deadline closes the exchange.

        Raises:
            ReactionError: a client is late, or the round is given up.
        """
        deadline, timeout = now + self.after, now + self.timeout
        if max(last, float(done.max())) > deadline or (deadline if silent else last) >= timeout:
            raise ReactionError("a deadline is missed")
        # A deadline is the last of its instant: a tail that ends then has ended.
        return nextafter(deadline, inf) if silent else last
