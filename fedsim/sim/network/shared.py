"""What the parts of the fluid network ask of one another, and whom they tell."""

from collections.abc import Callable
from typing import Any, Protocol

Finished = Callable[[Any], None]
"""Called with the token of the transfer that has passed."""

Changed = Callable[[Any, float], None]
"""Called with the token of a transfer, and the rate at which it flows from now on, bit/s."""


class Keeper(Protocol):
    """What keeps flows: `fedsim.sim.network.fluid.Fluid`."""

    @property
    def now(self) -> float:
        """Simulated seconds since the start."""
        ...

    def stop(self, flow: Any) -> None:  # noqa: ANN401 - `fedsim.sim.network.pipes.Flow`
        """Break a flow off."""
        ...


class Shared(Protocol):
    """What shares links out among its flows: `fedsim.sim.network.pools.Pool`."""

    def rate(self, slot: int) -> float:
        """Return the rate of a flow."""
        ...

    def remaining(self, slot: int, now: float) -> float:
        """Return the bits of a flow that have not passed by the time `now`."""
        ...
