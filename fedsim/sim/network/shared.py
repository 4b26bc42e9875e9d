"""What a flow asks of the pool that it is in."""

from typing import Protocol


class Shared(Protocol):
    """What shares links out among its flows: `fedsim.sim.network.pools.Pool`."""

    def rate(self, slot: int) -> float:
        """Return the rate of a flow."""
        ...

    def remaining(self, slot: int, now: float) -> float:
        """Return the bits of a flow that have not passed by the time `now`."""
        ...
