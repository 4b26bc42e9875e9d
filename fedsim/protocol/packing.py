"""Packing: what makes payloads of a sender's vectors, and what a receiver makes of payloads."""

from collections.abc import Callable

from fedsim.ports import DENSE, Array, ClientId, Message, Packer, Payload, Structure
from fedsim.wire import Update


class Packing:
    """The packers of one sender; each is made when its field is first packed.

    What goes to all and what goes to one receiver are fields of their own, also where they have
    the same name: a receiver holds what it was told by either.

    Args:
        make: returns the packer of a field, by its name and its number from 0; where it is
            for one receiver alone, that is the third argument.
    """

    __slots__ = ("_make", "_numbers", "_packers")

    def __init__(self, make: Callable[..., Packer]) -> None:
        self._make = make
        self._numbers: dict[tuple[str, bool], int] | None = None  # of most there is one, number 0
        self._packers: dict[tuple[str, ClientId | None], Packer] = {}

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        to: ClientId | None = None,
    ) -> Payload:
        """See `fedsim.ports.Server.pack`."""
        packer = self._packers.get((field, to))
        if packer is None:
            packer = self._packers[field, to] = self._made(field, to)
        return packer.pack(vector, structure)

    def _made(self, field: str, to: ClientId | None) -> Packer:
        number = self._number(field, to)
        return self._make(field, number) if to is None else self._make(field, number, to)

    def _number(self, field: str, to: ClientId | None) -> int:
        """Return the number of a field, counted as fields are first packed."""
        if not self._packers:
            return 0
        if self._numbers is None:
            self._numbers = {(name, one is None): 0 for name, one in self._packers}
        return self._numbers.setdefault((field, to is None), len(self._numbers))

    def take_back(self, payload: Payload) -> None:
        """Let the packer that made a payload take it back; to the others it is a stranger."""
        for packer in self._packers.values():
            packer.take_back(payload)


class Unpacking:
    """What one receiver holds of its senders' vectors, for those that come as updates.

    It is the receiver's own: what its sender believes it to hold is that only where nothing is
    lost. Whatever arrives counts, whether or not anybody makes use of the message later.
    """

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[tuple[ClientId, int], Array] = {}

    def unpack(self, sender: ClientId, payload: Payload) -> Payload:
        """Return a payload as its receiver reads it.

        Raises:
            DecodeError: an update is of another shape than what it is added to.
        """
        if not isinstance(payload, Update):
            return payload
        place = sender, payload.number
        added = payload.added_to(self._held.get(place))
        self._held[place] = added.values
        return added

    def read(self, sender: ClientId, message: Message) -> Message:
        """Return a message as its receiver reads it: the same where it holds no update."""
        for name in message.__dataclass_fields__:
            if isinstance(getattr(message, name), Update):
                return type(message)(*(self.unpack(sender, one) for one in message.payloads()))
        return message
