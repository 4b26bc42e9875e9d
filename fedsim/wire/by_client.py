"""EF21 of a sender whose receivers do not hold the same: a state for each client.

EF21 sends the change of what its receiver holds. Where a server asks a sample of the clients, or
sends a message again because a round was given up, clients have heard different messages, and hold
different vectors. The server knows them as long as every message arrives: a client's vector changes
only when something is sent to it. So what is sent can be encoded only once it is known to which
clients it goes: it is a `Pending` vector until then.

Clients with the same history share one array, are sent the same payload, and take one draw of the
compressor: where all clients are always asked, that is EF21 as it is. The memory is at most one
vector for each client.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NoReturn

import numpy as np

from fedsim.ports import DENSE, Array, ClientId, Payload, Structure
from fedsim.wire.compressors import Compressor
from fedsim.wire.feedback import Compressing
from fedsim.wire.formats import ValueFormat
from fedsim.wire.natural import natural
from fedsim.wire.payloads import MOST_UPDATED, Update
from fedsim.wire.payloads.base import frozen


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

    def held(self, client: ClientId) -> Array:
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
        return Pending(partial(self._sent, kept, structure))

    def take_back(self, payload: Payload) -> None:
        """Do nothing: this is for senders of which every message arrives."""

    def _sent(
        self, vector: Array, structure: Structure, clients: Sequence[ClientId]
    ) -> list[Payload]:
        """Return what each of the clients is sent for a vector, shape (d,)."""
        made: dict[int, Update] = {}  # by the identity of what is held, which is kept until then
        payloads: list[Payload] = []
        befores = [self.held(client) for client in clients]
        for client, before in zip(clients, befores, strict=True):
            payload = made.get(id(before))
            if payload is None:
                with np.errstate(invalid="ignore"):
                    sent = self._compress(vector - before, structure, shrink=True)
                payload = made[id(before)] = Update(sent, self._number, before)
            self._held[client] = payload.values
            payloads.append(payload)
        return payloads
