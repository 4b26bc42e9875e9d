"""When a run is over. The block is the rules."""

from pydantic import Field

from fedsim.blocks.quantities import Bits, Duration, Joules
from fedsim.blocks.spec import Spec


class RunStopped(BaseException):
    """Ends the server's coroutine where a stop rule applies; its text is the reason.

    Like a cancellation it is not an error, so that no `except Exception` swallows it.
    """


class Stop(Spec):
    """When a run ends: at the end of the first round that meets one of these.

    `time` and `batteries` end it at that very moment, in the middle of a round.
    """

    rounds: int = Field(default=1000, ge=1, description="this many rounds")
    gap: float | None = Field(default=None, gt=0, description="objective this near to the optimum")
    time: Duration | None = Field(default=None, description="this much simulated time")
    bits: Bits | None = Field(default=None, description="this much sent, both ways together")
    energy: Joules | None = Field(default=None, description="this much spent by all clients")
    batteries: int | None = Field(
        default=None, ge=1, description="so many batteries of clients are empty"
    )

    def reason(self, rounds: int, gap: float, bits: int, joules: float) -> str:
        """Return why the run is over at the end of a round; empty while it is not.

        The first rule that applies is named.

        Args:
            rounds: committed.
            gap: of the last one; NaN where it is not known.
            bits: sent so far, both directions.
            joules: spent so far.
        """
        if self.gap is not None and gap < self.gap:
            return f"gap: {gap:.6g} is below {self.gap:g}"
        if rounds >= self.rounds:
            return f"rounds: {rounds} of {self.rounds}"
        if self.bits is not None and bits >= self.bits:
            return f"bits: {bits} of {self.bits:g}"
        if self.energy is not None and joules >= self.energy:
            return f"energy: {joules:.6g} J of {self.energy:g} J"
        return ""
