"""End of a vectorised exchange: with the last reply, or at a deadline that all clients meet."""

from dataclasses import dataclass
from math import inf, nextafter
from typing import Self

from fedsim.core.ports import Array
from fedsim.sim.arrays.order import ReactionError
from fedsim.sim.config import WorldConfig


@dataclass(frozen=True)
class Closing:
    """The deadlines of a round, after its broadcast.

    The server still sets its timers and consults its protocol. This class only checks that each
    timer expires in a state that arrays can express: all replies have arrived and no client works.

    Attributes:
        after: the deadline that closes the round, s; infinite for none.
        timeout: the time after which the round is abandoned, s; infinite for none.
    """

    after: float
    timeout: float

    @classmethod
    def of(cls, setup: WorldConfig) -> Self:
        """Return the deadlines of a world."""
        policy = setup.participation
        return cls(min(setup.silence.closes_after, policy.closes_after), policy.round_timeout)

    def horizon(self, now: float, last: float, done: Array, *, silent: bool) -> float:
        """Return the time up to which the tails of radios belong to this exchange, s.

        Args:
            now: the time of the broadcast, s.
            last: the arrival of the last reply, s.
            done: the time at which each client has finished, s, shape (n,).
            silent: whether a client sends nothing, so that the deadline closes the exchange.

        Raises:
            ReactionError: a client misses the deadline, or the round is abandoned.
        """
        deadline, timeout = now + self.after, now + self.timeout
        if max(last, float(done.max())) > deadline or (deadline if silent else last) >= timeout:
            raise ReactionError("a deadline is missed")
        # The timer of a deadline comes last among the events of its instant. So a tail that ends
        # exactly then still belongs to this exchange, and the horizon lies one float beyond it.
        return nextafter(deadline, inf) if silent else last
