"""Channels in arrays: what differs from message to message, asked of each client's own channel."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedsim.physics.radios.channel import Channel
from fedsim.ports import Array, ClientId
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.lazy import LazyTable
from fedsim.sim.power.radio_kind import RadioKind

MakeChannel = Callable[[ClientId, bool], Channel]
"""Makes the channel of a client, up to the server or down from it."""


@dataclass
class RadioLeg:
    """One message of each of some clients, in one direction.

    Attributes:
        clients: theirs, shape (n,).
        up: its direction.
        ready: when each was sent, s, shape (n,).
        events: during which event that was, shape (n,).
        bits: of each, without framing, shape (n,) or (1,).
        framing: the bits of its packets' headers, shape (n,) or (1,).
        number: of the round.
    """

    clients: Ids
    up: bool
    ready: Array
    events: Numbers
    bits: NDArray[np.int64]
    framing: NDArray[np.int64]
    number: int


@dataclass
class RadioFlow:
    """How the bits of messages flow where nothing but radios limits them, shapes (n,) or (1,).

    Attributes:
        bits: that flow, framing and what is sent again included.
        again: of these, what is sent again.
        caps: the radios' rates, bit/s.
        over: when the last bit has passed, s.
        per_bit: the energy of a bit, J/bit.
        on_air: power beyond that of bits and of being connected, W.
        rests: for how long some radios are silent after theirs, s.
    """

    bits: NDArray[np.int64]
    again: NDArray[np.int64]
    caps: Array
    over: Array
    per_bit: Array
    on_air: Array | float = 0.0
    rests: dict[int, float] = field(default_factory=dict)


class Channels:
    """The channels of clients whose messages are not all sent alike.

    Args:
        table: the constants of clients.
        make: makes a channel.
        kind: returns what a client's radio has in common with others.
    """

    def __init__(
        self, table: ClassTable, make: MakeChannel, kind: Callable[[ClientId], RadioKind]
    ) -> None:
        self._table = table
        self._kind = kind
        self._own = tuple(
            LazyTable[Channel](lambda client, up=up: make(client, up))  # type: ignore[misc]
            for up in (False, True)
        )
        self._varies = tuple(table.any(f"varies{up}") for up in (0, 1))
        self._silent: list[dict[ClientId, float]] = [{}, {}]

    def ready_times(self, leg: RadioLeg) -> Array:
        """Return when each radio may send after its last message, s, or later, shape (n,)."""
        if not (silent := self._silent[leg.up]):
            return leg.ready
        until = np.array([silent.get(client, 0.0) for client in leg.clients.tolist()])
        ready: Array = np.maximum(leg.ready, until)
        return ready

    def flow(self, leg: RadioLeg, began: Array) -> RadioFlow:
        """Let the bits of messages flow.

        Args:
            leg: the messages.
            began: when their first bits do, s, shape (n,).

        Raises:
            ReactionError: a message does not arrive.
        """
        table, ids, up = self._table, leg.clients, int(leg.up)
        bits, caps = leg.bits + leg.framing, table.of(f"cap{up}", ids)
        per_bit = table.of(f"per_bit{up}", ids)
        if not self._varies[up]:
            none = np.zeros(1, np.int64)
            return RadioFlow(bits, none, caps, began + bits / caps, per_bit)
        shape = ids.shape
        bits, caps, per_bit = (np.array(np.broadcast_to(x, shape)) for x in (bits, caps, per_bit))
        varies = np.flatnonzero(np.broadcast_to(table.of(f"varies{up}", ids), shape))
        plain = np.ones(shape, np.bool_)
        plain[varies] = False
        over = np.zeros(shape)
        over[plain] = began[plain] + bits[plain] / caps[plain]
        flow = RadioFlow(bits, np.zeros(shape, np.int64), caps, over, per_bit, np.zeros(shape))
        self._ask(leg, began, varies, flow)
        return flow

    def keep_silence(self, leg: RadioLeg, flow: RadioFlow, over: Array) -> None:
        """Let radios be silent after messages whose last bits have passed, s, shape (n,)."""
        for place, rest in flow.rests.items():
            self._silent[leg.up][int(leg.clients[place])] = float(over[place]) + rest

    def _ask(self, leg: RadioLeg, began: Array, varies: Numbers, flow: RadioFlow) -> None:
        """Ask the channels of some clients, and enter what they say."""
        up, ids = leg.up, leg.clients[varies].tolist()
        own = self._own[up]
        bits, framing = (
            np.broadcast_to(each, leg.clients.shape)[varies].tolist()
            for each in (leg.bits, leg.framing)
        )
        for place, client, size, headers, begin in zip(
            varies.tolist(), ids, bits, framing, began[varies].tolist(), strict=True
        ):
            channel, kind = own[client], self._kind(client)
            terms, again, lost = channel.send(size, headers, leg.number)
            if lost:
                raise ReactionError("a message is lost for good")
            end = channel.end(begin, size + headers + again, terms.cap)
            if end == inf:
                raise ReactionError("a message never arrives")
            flow.bits[place] = size + headers + again
            flow.again[place] = again
            flow.caps[place] = terms.cap
            flow.over[place] = end
            if channel.signal is not None:
                flow.on_air[place] = kind.powers.on_air[up]  # type: ignore[index]  # an array here
            elif channel.cap is None:
                flow.per_bit[place] = kind.bit_energy(up, channel.airtime(terms))
            if terms.rest:
                flow.rests[place] = terms.rest
