"""Full rounds by a coin: what the methods of MARINA's family have in common.

The server throws a coin after every round. Where it falls on 1, with probability p, the next round
is in full; otherwise differences are sent, compressed. With p not given, rounds in full cost about
as much as all others together.
"""

from abc import abstractmethod
from typing import Self

from pydantic import Field

from fedsim.algorithms.base import Algorithm, Memory, ProblemInfo
from fedsim.algorithms.step_sizes import StepSize
from fedsim.ports import Server


def odds(otherwise: str) -> float | None:
    """Return the field of p, which is what `otherwise` says where it is not given."""
    return Field(default=None, gt=0, le=1, description=f"p, of a round in full; {otherwise}")


class FullRounds(Algorithm[Memory]):
    """A method of which some rounds are in full, by a coin."""

    step_size: StepSize = Field(description='gamma: a number, or a multiple of 1/L ("1/L")')
    probability: float | None = odds("a method of its own says what it is where it is not given")

    @abstractmethod
    def usual(self, info: ProblemInfo) -> float:
        """Return p where it is not given."""

    def configured(self, info: ProblemInfo) -> Self:
        """Return a copy with the step size and p as numbers."""
        ready = super().configured(info)
        if ready.probability is not None:
            return ready
        return ready.model_copy(update={"probability": self.usual(info)})

    @property
    def p(self) -> float:
        """The probability of a round in full, once the method is `configured`."""
        return 1.0 if self.probability is None else self.probability

    def in_full(self, server: Server) -> bool:
        """Throw the coin: whether the next round is in full."""
        return bool(server.rng.random() < self.p)
