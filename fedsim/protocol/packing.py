"""Packing: what makes payloads of a sender's vectors, and what a receiver makes of payloads."""

from collections.abc import Callable, Mapping, Sequence

from fedsim.ports import DENSE, Array, ClientId, Message, Packer, Payload, Structure
from fedsim.wire import Pending, Update


class Packing:
    """The packers of one sender; each is made when its field is first packed.

    What goes to all and what goes to one receiver are fields of their own, also where they have
    the same name: a receiver holds what it was told by either.

    Args:
        make: returns the packer of a field, by its name and its number from 0; where it is
            for one receiver alone, that is the third argument.
        sender: whose, for a `make` that takes it in front of these; None for one that does not.
    """

    __slots__ = ("_field", "_make", "_numbers", "_others", "_packer", "_sender")

    def __init__(self, make: Callable[..., Packer], sender: ClientId | None = None) -> None:
        self._make = make
        self._sender = sender
        # Most senders have one field, and it is for all: that takes no tables.
        self._field: str | None = None
        self._packer: Packer
        self._numbers: dict[tuple[str, bool], int] | None = None
        self._others: dict[tuple[str, ClientId | None], Packer] | None = None

    def pack(
        self,
        vector: Array,
        structure: Structure = DENSE,
        field: str = "",
        to: ClientId | None = None,
    ) -> Payload:
        """See `fedsim.ports.Server.pack`."""
        if to is None and field == self._field:
            return self._packer.pack(vector, structure)
        if to is None and self._field is None and self._others is None:
            self._packer, self._field = self._made(field, 0, to), field
            return self._packer.pack(vector, structure)
        return self._other(field, to).pack(vector, structure)

    def _other(self, field: str, to: ClientId | None) -> Packer:
        """Return the packer of a field that is not the first one, or not for all."""
        if self._others is None:
            self._others = {}
            self._numbers = {} if self._field is None else {(self._field, True): 0}
        packer = self._others.get((field, to))
        if packer is None:
            numbers = {} if self._numbers is None else self._numbers
            number = numbers.setdefault((field, to is None), len(numbers))
            packer = self._others[field, to] = self._made(field, number, to)
        return packer

    def _made(self, field: str, number: int, to: ClientId | None) -> Packer:
        sender = () if self._sender is None else (self._sender,)
        return self._make(*sender, field, number, *(() if to is None else (to,)))

    def take_back(self, payload: Payload) -> None:
        """Let the packer that made a payload take it back; to the others it is a stranger."""
        if self._field is not None:
            self._packer.take_back(payload)
        for packer in (self._others or {}).values():
            packer.take_back(payload)

    def repeated(
        self, message: Message | Mapping[ClientId, Message]
    ) -> Message | Mapping[ClientId, Message]:
        """Return a message, or one for each client, as it is sent a second time.

        It is the same, but for vectors that come as updates (EF21). A client that has received
        one has added it already, so what follows is the update to what the sender holds by then.
        """
        if isinstance(message, Message):
            return self._repeated(message, None)
        return {client: self._repeated(one, client) for client, one in message.items()}

    def _repeated(self, message: Message, to: ClientId | None) -> Message:
        payloads = message.payloads()
        if not any(isinstance(payload, Update) for payload in payloads):
            return message
        return type(message)(
            *(
                self._by_number(payload.number, to).pack(payload.values)
                if isinstance(payload, Update)
                else payload
                for payload in payloads
            )
        )

    def _by_number(self, number: int, to: ClientId | None) -> Packer:
        """Return the packer of the vector that has a number."""
        for (field, for_all), each in (self._numbers or {}).items():
            if each == number and (not for_all or field != self._field):
                return (self._others or {})[field, to]
        return self._packer


def addressed(
    message: Message | Mapping[ClientId, Message], clients: Sequence[ClientId]
) -> Message | Mapping[ClientId, Message]:
    """Return a message with its pending vectors encoded for those to whom it goes.

    Args:
        message: for all, or one for each.
        clients: to whom it goes.

    Returns:
        The same where nothing was pending; one for each client where they are sent different
        payloads, and else one for all.
    """
    if isinstance(message, Message):
        if not _pending(message):
            return message
        each = _for_each(message, clients)
        first = next(iter(each.values()), message)
        return first if all(one is first for one in each.values()) else each
    groups: dict[int, list[ClientId]] = {}
    for client in clients:
        groups.setdefault(id(message[client]), []).append(client)
    made = dict(message)
    for group in groups.values():
        if _pending(one := message[group[0]]):
            made.update(_for_each(one, group))
    return made


def _pending(message: Message) -> bool:
    return any(isinstance(payload, Pending) for payload in message.payloads())


def _for_each(message: Message, clients: Sequence[ClientId]) -> dict[ClientId, Message]:
    """Return a message for each client; one object for those who are sent the same."""
    columns = [
        payload.sent(clients) if isinstance(payload, Pending) else [payload] * len(clients)
        for payload in message.payloads()
    ]
    made: dict[tuple[int, ...], Message] = {}
    each: dict[ClientId, Message] = {}
    for client, payloads in zip(clients, zip(*columns, strict=True), strict=True):
        key = tuple(map(id, payloads))
        if key not in made:
            made[key] = type(message)(*payloads)
        each[client] = made[key]
    return each


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
