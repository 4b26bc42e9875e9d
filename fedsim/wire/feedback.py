"""Error feedback: what one sender keeps between its messages, so that no error is lost for good.

A packer (`fedsim.wire.packers`) belongs to one sender and one of the vectors it sends. Its state is
a function of what was packed and not taken back: a message that is known to be lost is taken back,
in any order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import ClassVar, Literal, NamedTuple, NoReturn
from uuid import UUID, uuid4

import numpy as np

from fedsim.ports import DENSE, Array, ClientId, Message, Noted, Payload, Structure
from fedsim.wire.compressors import Compressor
from fedsim.wire.formats import ValueFormat
from fedsim.wire.packers import Compressing, Plain
from fedsim.wire.payloads import MOST_UPDATED, Update
from fedsim.wire.payloads.base import frozen
from fedsim.wire.payloads.dense import natural

Feedback = Literal["none", "ef", "ef21"]
"""The kinds of error feedback."""


class _Note(NamedTuple):
    """What a packer notes of a payload.

    Attributes:
        packer: whose note it is.
        serial: the number of the payload among those of this packer.
        change: what the payload has added to the packer's state, shape (d,).
    """

    packer: UUID
    serial: int
    change: Array


class _Remembering(Compressing, ABC):
    """A packer whose state changes by a known vector with every payload.

    The payload carries that vector as its sender's note, so what was delivered is forgotten with
    it, and a packer that was pickled knows what it packed before.
    """

    _state: Array = frozen(np.zeros(1))
    _packed_so_far: int = 0

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return what is sent for a vector, shape (d,).

        With the errors so far it may have lost its structure: then it is no shorter for it. A
        number is sent as it is.
        """
        if not vector.ndim:
            return natural(vector, structure, self._form)
        return self._pack(vector, structure)

    @abstractmethod
    def _pack(self, vector: Array, structure: Structure) -> Payload:
        """Return what is sent for a vector, and take note of what that changes."""

    def take_back(self, payload: Payload) -> None:
        """Undo the change that a payload made to the state, to rounding.

        One that was not packed here, or was taken back before, changes nothing.
        """
        note = _note(payload)
        if note is None or note.packer != self._name or note.serial in self._taken:
            return
        self._taken.add(note.serial)
        self._state = frozen(self._state - note.change)

    def _find_note(self, change: Array) -> _Note:
        """Return the note of a payload that adds so much to the state."""
        self._packed_so_far += 1
        return _Note(self._name, self._packed_so_far, change)

    @cached_property
    def _name(self) -> UUID:
        return uuid4()

    @cached_property
    def _taken(self) -> set[int]:
        """The serial numbers of what was taken back."""
        return set()


def _note(payload: Payload) -> _Note | None:
    """Return the note of the packer that made a payload, whatever others have noted since."""
    while isinstance(payload, Noted) and not isinstance(payload.note, _Note):
        payload = payload.sent
    note = payload.note if isinstance(payload, Noted | Update) else None
    return note if isinstance(note, _Note) else None


class ErrorFeedback(_Remembering):
    """EF: sends c = C(e + v) and keeps e <- e + v - c, the error so far.

    So the sum of all that arrives and of e is the sum of all vectors. A message that is taken
    back takes its vector along: e is what it was, and whether v is said again is for the
    algorithm to decide, as it is without feedback.
    """

    source: ClassVar[str] = "Seide et al. 2014; Stich, Cordonnier, Jaggi 2018"

    @property
    def error(self) -> Array:
        """The error e so far, shape (d,); zeros of shape (1,) before the first message."""
        return self._state

    def _pack(self, vector: Array, structure: Structure) -> Noted:
        """Return c."""
        payload = self._compress(self._state + vector, structure, shrink=True)
        with np.errstate(invalid="ignore"):  # an infinite value has no error that could be kept
            change = vector - payload.values
            self._state = frozen(self._state + change)
        return Noted(payload, self._find_note(change))


class ErrorFeedback21(_Remembering):
    """EF21: sends c = C(v - h), and both sides keep h <- h + c, each on its own.

    h is 0 at first. The receiver's h is that of the sender, to rounding, as long as every message
    arrives, or is taken back before the next one is packed; it is one state for each sender.
    """

    source: ClassVar[str] = "Richtarik, Sokolov, Fatkhullin 2021, algorithm 2"

    @property
    def held(self) -> Array:
        """What the receiver holds, h, shape (d,); zeros of shape (1,) before the first message."""
        return self._state

    def _pack(self, vector: Array, structure: Structure) -> Update:
        """Return c, with the h that it is added to here."""
        with np.errstate(invalid="ignore"):
            sent = self._compress(vector - self._state, structure, shrink=True)
        if self._number >= MOST_UPDATED:
            raise ValueError(f"under EF21 a sender packs at most {MOST_UPDATED} fields")
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
    """Say why a compressor cannot be used with a kind of error feedback; empty where it can.

    An unbiased compressor can: the vector is divided by 1 + omega (`Contract.shrink`). EF needs
    a bound on the error (Sahu et al. 2021 for an absolute one), EF21 a contraction.
    """
    if feedback == "ef21" and compressor.contract(1).kind == "absolute":
        return (
            f"{compressor.kind} is not contractive: it sends nothing of a difference below its "
            "threshold, so what EF21 holds need not come any nearer"
        )
    return ""


# EF21 of a sender whose receivers do not hold the same: a state for each client.
#
# EF21 sends the change of what its receiver holds. Where a server asks a sample of the clients, or
# sends a message again because a round was given up, clients have heard different messages, and
# hold different vectors. The server knows them as long as every message arrives: a client's vector
# changes only when something is sent to it. So what is sent can be encoded only once it is known
# to which clients it goes: it is a `Pending` vector until then.
#
# Clients with the same history share one array, are sent the same payload, and take one draw of the
# compressor: where all clients are always asked, that is EF21 as it is. The memory is at most one
# vector for each client.


@dataclass(frozen=True, eq=False, slots=True)
class Pending:
    """A vector that is encoded when it is known to which clients it goes.

    Attributes:
        sent: encodes it for these clients, and takes note of what they hold from then on; returns
            a payload for each, the same object for clients that hold the same.
    """

    sent: Callable[[Sequence[ClientId]], Sequence[Payload]]

    @property
    def values(self) -> Array:
        """Refused: each client may hold something else once the vector has been sent."""
        self._refuse()

    @property
    def bits(self) -> int:
        """Refused: the length may differ from client to client."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise ValueError(
            "under error_feedback: ef21 each client is sent another change where not all clients"
            " hear the same messages, so that the server has no one payload to read; use the"
            " vector that was packed"
        )


class ByClient(Compressing):
    """EF21 with a state h_m for each client m: it is sent C(v - h_m), and h_m <- h_m + C(v - h_m).

    Every h_m is 0 at first. It is what client m holds, bit by bit, as long as every message to it
    arrives, in the order in which they were sent.

    Args:
        compressor: see `Compressing`.
        form: see `Compressing`.
        rng: see `Compressing`.
        in_full: see `Compressing`.
        number: see `Compressing`.
    """

    source: ClassVar[str] = "Richtarik, Sokolov, Fatkhullin 2021, algorithm 2, on the downlink"

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
        """Return what a client holds, h_m, shape (d,); zeros of shape (1,) before any message."""
        return self._held.get(client, self._nothing)

    def pack(self, vector: Array, structure: Structure = DENSE) -> Payload:
        """Return the vector, shape (d,), to be encoded once its receivers are known.

        A number is sent as it is.

        Raises:
            ValueError: it is one of too many vectors of its sender.
        """
        if not vector.ndim:
            return natural(vector, structure, self._form)
        if self._number >= MOST_UPDATED:
            raise ValueError(f"under EF21 a sender packs at most {MOST_UPDATED} fields")
        kept = frozen(vector.copy())  # its owner may change it before it is sent
        return Pending(partial(self._encode_each, kept, structure))

    def take_back(self, payload: Payload) -> None:
        """Do nothing: this is for senders of which every message arrives."""

    def _encode_each(
        self, vector: Array, structure: Structure, clients: Sequence[ClientId]
    ) -> list[Payload]:
        """Return what each of the clients is sent for a vector, shape (d,)."""
        made: dict[int, Update] = {}  # by the identity of what is held, which is kept until then
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
        message: for all, or one for each.
        clients: the receivers.

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
    """Return a message for each client; clients with equal payloads share one object."""
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
