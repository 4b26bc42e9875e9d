"""Packing: what turns the vectors of one sender into payloads, a packer for each field."""

from collections.abc import Callable

from fedsim.ports import DENSE, Array, Packer, Payload, Structure


class Packing:
    """The packers of one sender; each is made when its field is first packed.

    Args:
        make: returns the packer of a field.
    """

    __slots__ = ("_make", "_packers")

    def __init__(self, make: Callable[[str], Packer]) -> None:
        self._make = make
        self._packers: dict[str, Packer] = {}

    def pack(self, vector: Array, structure: Structure = DENSE, field: str = "") -> Payload:
        """See `fedsim.ports.Client.pack`."""
        packer = self._packers.get(field)
        if packer is None:
            packer = self._packers[field] = self._make(field)
        return packer.pack(vector, structure)

    def take_back(self, payload: Payload) -> None:
        """Let the packer that made a payload take it back; to the others it is a stranger."""
        for packer in self._packers.values():
            packer.take_back(payload)
