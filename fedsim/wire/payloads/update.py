"""The payload that changes what its receiver holds, in place of saying it anew."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from fedsim.errors import DecodeError
from fedsim.ports import Array
from fedsim.wire.payloads.base import Encodable, frozen

MOST_UPDATED = 16
"""How many vectors of one sender its receivers can hold: half a byte tells which it is."""


@dataclass(frozen=True, eq=False)
class Update:
    """A payload that is added to what its receiver holds of a vector of its sender.

    On the wire it is one byte more than what is added: a kind of its own in the high half, and in
    the low half which of the sender's vectors it changes. What was held before is not sent: the
    receiver knows it (`Unpacking` of `fedsim.protocol.packing`), and a sender only where nothing is
    lost on the way.

    Attributes:
        sent: what is added.
        number: which of the sender's vectors that is, below `MOST_UPDATED`.
        before: what was held until now, shape (d,); None for nothing yet, which is zero.
        note: its sender's, which is not sent.
    """

    kind: ClassVar[int] = 10
    sent: Encodable
    number: int = 0
    before: Array | None = None
    note: object = None

    @cached_property
    def values(self) -> Array:
        """What is held from now on, read-only, shape (d,)."""
        before = 0.0 if self.before is None else self.before
        with np.errstate(invalid="ignore"):
            return frozen(np.asarray(before + self.sent.values))

    @property
    def bits(self) -> int:
        """The length of the encoding."""
        return 8 + self.sent.bits

    def added_to(self, held: Array | None) -> "Update":
        """Return the same change of what a receiver holds.

        Raises:
            DecodeError: that is of another shape.
        """
        if held is not None and held.shape != self.sent.values.shape:
            seen = self.sent.values.shape
            raise DecodeError(f"an update of shape {seen} to what is held in shape {held.shape}")
        return Update(self.sent, self.number, held)
