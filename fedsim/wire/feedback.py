"""Packers with error feedback: EF and EF21, which keep state between the messages of a sender.

A packer (`fedsim.wire.packers`) belongs to one sender and one of the vectors that it sends. Its
state depends only on the vectors that were packed and not taken back: a sender takes back a message
that it knows to be lost, in any order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal, NamedTuple, NoReturn
from uuid import UUID, uuid4

import numpy as np

from fedsim.core.ports import DENSE, Array, ClientId, Message, Noted, Payload, Structure
from fedsim.wire.compressors import Compressor
from fedsim.wire.formats import ValueFormat
from fedsim.wire.packers import Compressing, Plain
from fedsim.wire.payloads import MOST_UPDATED, Update
from fedsim.wire.payloads.base import frozen
from fedsim.wire.payloads.dense import natural

Feedback = Literal["none", "ef", "ef21"]
"""The kinds of error feedback."""


class _Note(NamedTuple):
    """The note that a packer attaches to a payload; it is not sent.

    Attributes:
        packer: the identifier of the packer.
        serial: the number of the payload among those of this packer.
        change: the change of the packer's state by this payload, shape (d,).
    """

    packer: UUID
    serial: int
    change: Array


class _Remembering(Compressing, ABC):
    """A packer whose state changes by a known vector with every payload.

    The payload carries that vector as its sender's note. So the packer itself stores no history:
    the note is freed with a delivered payload, and a packer restored from a pickle can take back
    payloads from before. Payloads are identified by packer and serial number, not by object, since
    a pickle changes the identity of objects.
    """

    _state: Array = frozen(np.zeros(1))
    _packed_so_far: int = 0

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return the payload of a vector, shape (d,); a number is sent uncompressed.

        The accumulated error may destroy the vector's structure, which then does not shorten it.
        """
        if not vector.ndim:
            return natural(vector, structure, self._form)
        return self._pack(vector, structure)

    @abstractmethod
    def _pack(self, vector: Array, structure: Structure) -> Payload:
        """Return the payload of a vector, and update the state."""

    def take_back(self, payload: Payload) -> None:
        """Undo the change of the state by a payload, up to rounding.

        A payload of another packer, or one that was taken back before, has no effect.
        """
        note = _note(payload)
        if note is None or note.packer != self._name or note.serial in self._taken:
            return
        self._taken.add(note.serial)
        self._state = frozen(self._state - note.change)

    def _find_note(self, change: Array) -> _Note:
        """Return the note of the next payload, which changes the state by `change`."""
        self._packed_so_far += 1
        return _Note(self._name, self._packed_so_far, change)

    @cached_property
    def _name(self) -> UUID:
        return uuid4()

    @cached_property
    def _taken(self) -> set[int]:
        """The serial numbers of the payloads taken back."""
        return set()


def _note(payload: Payload) -> _Note | None:
    """Return the packer's note of a payload, also if other notes are wrapped around it."""
    while isinstance(payload, Noted) and not isinstance(payload.note, _Note):
        payload = payload.sent
    note = payload.note if isinstance(payload, Noted | Update) else None
    return note if isinstance(note, _Note) else None


class ErrorFeedback(_Remembering):
    """EF: sends c = C(e + v) and updates the accumulated error, e <- e + v - c.

    So the sum of all received c, plus e, equals the sum of all vectors v. Taking back a message
    also withdraws its vector: e returns to its former value, and the algorithm decides whether to
    send v again, as it does without feedback.
    """

    source: ClassVar[str] = (
        "Seide et al.: 1-Bit Stochastic Gradient Descent and Its Application to "
        "Data-Parallel Distributed Training of Speech DNNs, INTERSPEECH 2014; Stich, "
        "Cordonnier, Jaggi: Sparsified SGD with Memory, NeurIPS 2018"
    )

    @property
    def error(self) -> Array:
        """The accumulated error e, shape (d,); zeros of shape (1,) before the first message."""
        return self._state

    def _pack(self, vector: Array, structure: Structure) -> Noted:
        """Return c."""
        payload = self._compress(self._state + vector, structure, shrink=True)
        # The change is v - c, not the new error: errors of other messages may be added or taken
        # back in between. An infinite value has no finite error; the NaN shows up in the next
        # message.
        with np.errstate(invalid="ignore"):
            change = vector - payload.values
            self._state = frozen(self._state + change)
        return Noted(payload, self._find_note(change))


class ErrorFeedback21(_Remembering):
    """EF21: sends c = C(v - h), and sender and receiver both update their copy, h <- h + c.

    h is 0 at first. The two copies agree, up to rounding, as long as every message arrives, or is
    taken back before the next one is packed; the receiver has one copy for each sender.
    """

    source: ClassVar[str] = (
        "Richtarik, Sokolov, Fatkhullin: EF21: A New, Simpler, Theoretically Better, and "
        "Practically Faster Error Feedback, NeurIPS 2021, algorithm 2"
    )

    @property
    def held(self) -> Array:
        """The sender's copy of h, shape (d,); zeros of shape (1,) before the first message."""
        return self._state

    def _pack(self, vector: Array, structure: Structure) -> Update:
        """Return c as an update, with the sender's h for its `values`."""
        with np.errstate(invalid="ignore"):
            sent = self._compress(vector - self._state, structure, shrink=True)
        if self._number >= MOST_UPDATED:
            raise ValueError(f"under EF21 a sender packs at most {MOST_UPDATED} fields")
        # `values` of the update is h + c, and the receiver evaluates the same expression: its copy
        # is the same to the last bit, until a message is taken back, which subtracts with rounding.
        payload = Update(sent, self._number, self._state, self._find_note(sent.values))
        self._state = payload.values
        return payload


PACKERS: dict[Feedback, type[Plain | ErrorFeedback | ErrorFeedback21]] = {
    "none": Plain,
    "ef": ErrorFeedback,
    "ef21": ErrorFeedback21,
}
"""The packer of each kind of error feedback."""


def refusal(compressor: Compressor, feedback: Feedback) -> str:
    """Return why a compressor cannot be used with a kind of error feedback; empty if it can.

    Unbiased compressors can: the vector is divided by 1 + omega (`Contract.shrink`). EF needs a
    bound on the error (Sahu et al. 2021 for an absolute one), EF21 a contraction.
    """
    if feedback == "ef21" and compressor.contract(1).kind == "absolute":
        return (
            f"{compressor.kind} is not contractive: it sends no coordinate of a difference below "
            "its threshold, so the estimate of EF21 need not converge"
        )
    return ""


# EF21 on the downlink: one state h_m for each client m.
#
# EF21 sends the change of its receiver's vector h. If the server samples clients, or sends a
# message again after an abandoned round, clients have received different messages, and their
# vectors differ. The server can track all of them as long as every message arrives, since h_m
# changes only by a message to client m. But it can encode a vector only when it has the list of its
# receivers: until then the vector is `Pending`.
#
# Clients with the same history share one array (the same object, which `_encode_each` relies on),
# receive the same payload, and need one draw of the compressor: with full participation this is
# plain EF21. The memory is at most one vector for each client.


@dataclass(frozen=True, eq=False, slots=True)
class Pending:
    """A vector that is encoded when its receivers are known.

    Attributes:
        sent: encodes the vector for the given clients and updates their states; returns one payload
            for each, the same object for clients with the same state.
    """

    sent: Callable[[Sequence[ClientId]], Sequence[Payload]]

    @property
    def values(self) -> Array:
        """Not available: clients may decode the vector to different values."""
        self._refuse()

    @property
    def bits(self) -> int:
        """Not available: the length may differ between clients."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            "under error_feedback: ef21 clients that have received different messages are sent"
            " different changes, so there is no single payload for the server to read; use the"
            " vector that was packed"
        )


class ByClient(Compressing):
    """EF21 with a state for each client m: it is sent c = C(v - h_m), and h_m <- h_m + c.

    Every h_m is 0 at first. It equals the vector of client m, bit by bit, as long as every message
    to the client arrives, in the order of sending.

    Args:
        compressor: see `Compressing`.
        form: see `Compressing`.
        rng: see `Compressing`.
        in_full: see `Compressing`.
        number: see `Compressing`.
    """

    source: ClassVar[str] = (
        "Richtarik, Sokolov, Fatkhullin: EF21: A New, Simpler, Theoretically Better, and "
        "Practically Faster Error Feedback, NeurIPS 2021, algorithm 2, on the downlink"
    )

    def __init__(
        self,
        compressor: Compressor,
        form: ValueFormat,
        rng: np.random.Generator,
        *,
        in_full: bool = True,
        number: int = 0,
    ) -> None:
        super().__init__(compressor, form, rng, in_full=in_full, number=number)
        self._nothing: Array = frozen(np.zeros(1))
        self._held: dict[ClientId, Array] = {}

    def state_of(self, client: ClientId) -> Array:
        """Return h_m of a client, shape (d,); zeros of shape (1,) before the first message."""
        return self._held.get(client, self._nothing)

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return the pending vector, shape (d,); a number is sent uncompressed.

        Raises:
            ValueError: the sender packs more than `MOST_UPDATED` fields.
        """
        if not vector.ndim:
            return natural(vector, structure, self._form)
        if self._number >= MOST_UPDATED:
            raise ValueError(f"under EF21 a sender packs at most {MOST_UPDATED} fields")
        kept = frozen(vector.copy())  # the method may modify its array before the vector is encoded
        return Pending(partial(self._encode_each, kept, structure))

    def take_back(self, payload: Payload) -> None:
        """Do nothing: this packer is only used where every message arrives."""

    def _encode_each(
        self, vector: Array, structure: Structure, clients: Sequence[ClientId]
    ) -> list[Payload]:
        """Return the payload of a vector, shape (d,), for each of the clients."""
        # Payloads by the identity of the client's present array. `befores` keeps these arrays
        # alive: without it, one that is replaced below could be freed, and a new array get its
        # identity.
        made: dict[int, Update] = {}
        payloads: list[Payload] = []
        befores = [self.state_of(client) for client in clients]
        for client, before in zip(clients, befores, strict=True):
            payload = made.get(id(before))
            if payload is None:
                with np.errstate(invalid="ignore"):
                    sent = self._compress(vector - before, structure, shrink=True)
                payload = made[id(before)] = Update(sent, self._number, before)
            self._held[client] = payload.values
            payloads.append(payload)
        return payloads


def resolve_pending(
    message: Message | Mapping[ClientId, Message], clients: Sequence[ClientId]
) -> Message | Mapping[ClientId, Message]:
    """Return a message with its pending vectors encoded for the given receivers.

    Args:
        message: one message for all clients, or one for each.
        clients: the receivers.

    Returns:
        The same message if nothing was pending; else one message for all clients, or one for each
        if their payloads differ.
    """
    if isinstance(message, Message):
        if not _pending(message):
            return message
        messages = _for_each(message, clients)
        first = next(iter(messages.values()), message)
        return first if all(other is first for other in messages.values()) else messages
    groups: dict[int, list[ClientId]] = {}
    for client in clients:
        groups.setdefault(id(message[client]), []).append(client)
    resolved = dict(message)
    for group in groups.values():
        if _pending(one := message[group[0]]):
            resolved.update(_for_each(one, group))
    return resolved


def _pending(message: Message) -> bool:
    return any(isinstance(payload, Pending) for payload in message.payloads())


def _for_each(message: Message, clients: Sequence[ClientId]) -> dict[ClientId, Message]:
    """Return a message for each client; clients with equal payloads share one object."""
    columns = [
        payload.sent(clients) if isinstance(payload, Pending) else [payload] * len(clients)
        for payload in message.payloads()
    ]
    shared: dict[tuple[int, ...], Message] = {}
    messages: dict[ClientId, Message] = {}
    for client, payloads in zip(clients, zip(*columns, strict=True), strict=True):
        key = tuple(map(id, payloads))
        if key not in shared:
            shared[key] = type(message)(*payloads)
        messages[client] = shared[key]
    return messages
