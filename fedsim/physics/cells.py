"""Cells of LTE and 5G, the block `network.cell`: clients share their resource blocks.

If the clients' channels do not vary, a proportionally fair scheduler gives them equal shares of
time in the long run, whatever their rates. Of n clients that send, each has its own rate for one
n-th of the time (Viswanath, Tse, Laroia, "Opportunistic Beamforming Using Dumb Antennas", IEEE
Trans. Inf. Theory 48(6), 2002, section II). So a client far from the base station is slow, but does
not slow the others beyond its share. The gain of such a scheduler under fast fading is not
modelled.
"""

from collections.abc import Iterator
from typing import Self

from pydantic import Field, model_validator

from fedsim.core.blocks.choice import failure
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import Fraction
from fedsim.core.blocks.spec import Spec, as_written
from fedsim.core.ports import ClientId


class CellSharing(Spec):
    """The cells of a star's LTE and 5G radios. Both directions are independent (FDD).

    Radios of other kinds do not belong to a cell.
    """

    clients: int | None = Field(
        default=None,
        ge=1,
        description="clients per cell, in the order of the fleet; null: all in one cell",
    )
    load: Fraction = as_written("0 %", "share of time taken by other users, in each direction")

    @model_validator(mode="after")
    def _some_time_is_left(self) -> Self:
        if self.load >= 1:
            raise failure(("load", 'got "100 %", which leaves no time; give less', self.load))
        return self

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that messages share the cell."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """The nature of a cell: its clients slow each other down."""
        return Nature(shares="what a client has of its cell depends on what else is sent")

    def cell(self, client: ClientId) -> int:
        """Return the number of a client's cell."""
        return 0 if self.clients is None else client // self.clients
