"""Packers: compression of one sender's vectors into payloads.

A packer (`fedsim.core.ports.Packer`) belongs to one sender and one of the vectors that it sends;
`Packing` has all packers of a sender. The packers in this module have no state of their own; those
with error feedback are in `fedsim.wire.feedback`.
"""

from collections.abc import Callable, Mapping
from typing import ClassVar

import numpy as np

from fedsim.core.ports import DENSE, Array, ClientId, Message, Packer, Payload, Structure, Work
from fedsim.wire.compressors import Compressor, Identity
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Encodable, Update
from fedsim.wire.payloads.dense import natural, shorter
from fedsim.wire.payloads.rows import AddRows, DenseRows


class Compressing:
    """Base class of packers: a compressor, a value format and a random stream.

    Args:
        compressor: the compressor, which may keep state between messages.
        form: the format of a value.
        rng: the stream of random compressors.
        in_full: whether a vector is sent uncompressed, hence exactly, if its compressed form could
            be longer. The compressor makes its draw in this case, too, so later draws do not shift.
        number: the index of the packed vector among its sender's, in the order in which they were
            first packed; below `MOST_UPDATED` for packers that send updates.
    """

    def __init__(
        self,
        compressor: Compressor,
        form: ValueFormat,
        rng: np.random.Generator,
        *,
        in_full: bool = True,
        number: int = 0,
    ) -> None:
        self._compressor, self._send = compressor, compressor.sender()
        self._form, self._rng, self._in_full = form, rng, in_full
        self._number = number

    def _compress(self, vector: Array, structure: Structure, *, shrink: bool) -> Encodable:
        """Return C(v), or C(a v) with the a that makes an unbiased C contractive; or v in full."""
        small = _contract(self._compressor, vector) if shrink else vector
        payload = self._send(small, self._rng, self._form)
        if not self._in_full:
            return payload
        # The choice between compressed and full depends on the longest payload that the draw could
        # have produced, not on the one drawn. Taking the shorter of the two would select by the
        # draw, and an unbiased compressor would become biased.
        longest = self._compressor.longest(small, payload)
        return shorter(vector, structure, self._form, longest) or payload


class Plain(Compressing):
    """A compressor without feedback: the error of a message is not corrected later."""

    source: ClassVar[str] = "none"
    shrinks: ClassVar[bool] = False

    def pack(self, vector: Array, structure: Structure = DENSE) -> Encodable:
        """Return C(v)."""
        if isinstance(self._compressor, Identity) or not vector.ndim:
            return natural(vector, structure, self._form)
        return self._compress(vector, structure, shrink=self.shrinks)

    @property
    def exact(self) -> bool:
        """Whether vectors are sent in full, whatever was sent before."""
        return isinstance(self._compressor, Identity) and type(self) is Plain

    @property
    def single(self) -> bool:
        """Whether vectors are sent in full, in float32."""
        return self.exact and self._form is ValueFormat.FLOAT32

    def pack_rows(self, vectors: Array, add: AddRows | None = None) -> DenseRows:
        """Return the payloads of many senders' vectors, shape (n, d), for an `exact` packer.

        Args:
            vectors: the vectors of the senders.
            add: see `DenseRows`.
        """
        return DenseRows(vectors, self._form, add)

    def take_back(self, payload: Payload) -> None:
        """Do nothing: there is no state."""


def _contract(compressor: Compressor, vector: Array) -> Array:
    """Return a v, with the factor a that makes an unbiased C contractive (`Contract.shrink`)."""
    shrink = compressor.contract(vector.size).shrink
    return vector if shrink == 1.0 else shrink * vector


class Contractive(Plain):
    """A compressor for a method that has its own error feedback, such as EF21.

    An unbiased compressor is scaled to be contractive: with omega above 1 its error may exceed the
    vector, and the differences to the server's estimate would grow.
    """

    shrinks: ClassVar[bool] = True


class Packing:
    """The packers of one sender, created when a field is first packed.

    Broadcast and addressed vectors are separate fields, even under the same name: a receiver has
    separate state for each.

    Args:
        make: returns the packer of a field, given its name and its number from 0, and the receiver
            if the field is addressed.
        sender: the number of the sender, for a `make` with it as the first argument; else None.
    """

    __slots__ = ("_field", "_make", "_numbers", "_others", "_packer", "_sender")

    def __init__(self, make: Callable[..., Packer], sender: ClientId | None = None) -> None:
        self._make = make
        self._sender = sender
        # Most senders have a single broadcast field, which needs no tables.
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
        """See `fedsim.core.ports.Server.pack`."""
        if to is None and field == self._field:
            return self._packer.pack(vector, structure)
        if to is None and self._field is None and self._others is None:
            self._packer, self._field = self._make_packer(field, 0, to), field
            return self._packer.pack(vector, structure)
        return self._other(field, to).pack(vector, structure)

    def packer(self, field: str = "") -> Packer:
        """Return the packer of a field that goes to all receivers."""
        if self._field is None and self._others is None:
            self._packer, self._field = self._make_packer(field, 0, None), field
        return self._packer if field == self._field else self._other(field, None)

    def narrow(self, work: Work) -> Work:
        """Return work with the permission to round its result, if it is sent rounded anyway."""
        if not work.sent:
            return work
        packer = self.packer()
        return work.allow_rounding(single=isinstance(packer, Plain) and packer.single)

    def _other(self, field: str, to: ClientId | None) -> Packer:
        """Return the packer of an addressed field, or of any field after the first."""
        if self._others is None:
            self._others = {}
            self._numbers = {} if self._field is None else {(self._field, True): 0}
        packer = self._others.get((field, to))
        if packer is None:
            numbers = {} if self._numbers is None else self._numbers
            number = numbers.setdefault((field, to is None), len(numbers))
            packer = self._others[field, to] = self._make_packer(field, number, to)
        return packer

    def _make_packer(self, field: str, number: int, to: ClientId | None) -> Packer:
        sender = () if self._sender is None else (self._sender,)
        return self._make(*sender, field, number, *(() if to is None else (to,)))

    def take_back(self, payload: Payload) -> None:
        """Take back a lost payload; only the packer that encoded it changes."""
        if self._field is not None:
            self._packer.take_back(payload)
        for packer in (self._others or {}).values():
            packer.take_back(payload)

    def repeat(
        self, message: Message | Mapping[ClientId, Message]
    ) -> Message | Mapping[ClientId, Message]:
        """Return a message, or one for each client, re-encoded for a second transmission.

        Only updates (EF21) are encoded again. A client that has received the first one has added it
        already, so the second one must be the update to the state after it.
        """
        if isinstance(message, Message):
            return self._repeat(message, None)
        return {client: self._repeat(one, client) for client, one in message.items()}

    def _repeat(self, message: Message, to: ClientId | None) -> Message:
        # The values of an update are the vector that its receiver shall have; packing it again
        # gives the update to the current state.
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
        """Return the packer of the vector with a number."""
        for (field, for_all), each in (self._numbers or {}).items():
            if each == number and (not for_all or field != self._field):
                return (self._others or {})[field, to]
        return self._packer
