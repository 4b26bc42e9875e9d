"""Cells of LTE and 5G as the block `network.cell` has them: clients share their resource blocks.

A scheduler that is proportionally fair gives clients whose channels stay equal shares of time in
the long run, whatever their rates are: of n that send, each has its own rate for one n-th of the
time (Viswanath, Tse, Laroia, "Opportunistic Beamforming Using Dumb Antennas", IEEE Trans. Inf.
Theory 48(6), 2002, section II). So a client far from the cell is slow and does not slow the others
beyond its share. What such a scheduler gains where channels fade fast is not in it.
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
    """The cells of a star's LTE and 5G radios, each direction for itself (FDD).

    Radios of other kinds are not in a cell.
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
        """Yield what it is."""
        yield "", self.nature

    @property
    def nature(self) -> Nature:
        """Clients of a cell wait for each other."""
        return Nature(shares="what a client has of its cell depends on what else is sent")

    def cell(self, client: ClientId) -> int:
        """Return the number of a client's cell."""
        return 0 if self.clients is None else client // self.clients
