"""When a run is over."""

from dataclasses import dataclass
from math import inf


class RunStopped(BaseException):
    """Ends the server's coroutine where a stop rule applies; its text is the reason.

    Like a cancellation it is not an error, so that no `except Exception` swallows it.
    """


@dataclass(frozen=True, slots=True)
class StopRules:
    """What ends a run; the first that applies is named.

    All but the time and the batteries are looked at when a round is committed.

    Attributes:
        rounds: as many rounds at most.
        gap: once the objective is less than this above the optimum.
        time: at the moment when as many simulated seconds have passed.
        bits: once as many bits were sent, both directions.
        energy: once as many joules were spent.
        batteries: at the moment when as many batteries are empty.
    """

    rounds: int = 1000
    gap: float = -inf
    time: float = inf
    bits: float = inf
    energy: float = inf
    batteries: float = inf

    def reason(self, rounds: int, gap: float, bits: int, joules: float) -> str:
        """Return why the run is over; empty while it is not.

        Args:
            rounds: committed.
            gap: of the last one; NaN where it is not known.
            bits: sent so far, both directions.
            joules: spent so far.
        """
        if gap < self.gap:
            return f"gap: {gap:.6g} is below {self.gap:g}"
        if rounds >= self.rounds:
            return f"rounds: {rounds} of {self.rounds}"
        if bits >= self.bits:
            return f"bits: {bits} of {self.bits:g}"
        if joules >= self.energy:
            return f"energy: {joules:.6g} J of {self.energy:g} J"
        return ""
