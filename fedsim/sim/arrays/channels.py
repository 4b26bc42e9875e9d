"""Channels of a vectorised exchange: terms that vary per message come from each channel."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import Array, ClientId
from fedsim.physics.radios.channel import Channel
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.order import Numbers, ReactionError
from fedsim.sim.lazy import LazyTable
from fedsim.sim.power.radio_kind import RadioKind

MakeChannel = Callable[[ClientId, bool], Channel]
"""Makes the channel of a client: uplink if the second argument is true, else downlink."""


@dataclass
class RadioLeg:
    """One message per client, in one direction.

    Attributes:
        clients: the clients that send or receive, shape (n,).
        up: whether the direction is the uplink.
        ready: the time at which each message was sent, s, shape (n,).
        events: the event in which it was sent, shape (n,).
        bits: the bits of each message without framing, shape (n,) or (1,).
        framing: the bits of packet headers, shape (n,) or (1,).
        number: the number of the round.
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
    """Transmission of messages that only radios limit, shapes (n,) or (1,).

    Attributes:
        bits: the transmitted bits, including framing and retransmissions.
        again: the retransmitted bits among them.
        caps: the radios' rates, bit/s.
        over: the time at which the last bit has passed, s.
        per_bit: the energy of a bit, J/bit.
        on_air: power beyond that of bits and of being connected, W.
        rests: how long radios must keep silent afterwards, s, by index of the message.
    """

    bits: NDArray[np.int64]
    again: NDArray[np.int64]
    caps: Array
    over: Array
    per_bit: Array
    on_air: Array | float = 0.0
    rests: dict[int, float] = field(default_factory=dict)


class Channels:
    """The channels of clients whose transmission terms vary between messages.

    Args:
        table: the constants of clients.
        make: makes a channel.
        kind: returns the constants of a client's radio.
    """

    def __init__(
        self, table: ClassTable, make: MakeChannel, kind: Callable[[ClientId], RadioKind]
    ) -> None:
        self._table = table
        self._kind = kind
        self._channels = tuple(
            LazyTable[Channel](lambda client, up=up: make(client, up))  # type: ignore[misc]
            for up in (False, True)
        )
        self._varies = tuple(table.any(f"varies{up}") for up in (0, 1))
        # Down, up: the time up to which a radio must keep silent, s.
        self._silent: list[dict[ClientId, float]] = [{}, {}]

    def ready_times(self, leg: RadioLeg) -> Array:
        """Return the times from which radios may send, after their duty-cycle silence, s, (n,)."""
        if not (silent := self._silent[leg.up]):
            return leg.ready
        # Few radios have a duty cycle, so that a dictionary is smaller than an array.
        until = np.array([silent.get(client, 0.0) for client in leg.clients.tolist()])
        ready: Array = np.maximum(leg.ready, until)
        return ready

    def flow(self, leg: RadioLeg, began: Array) -> RadioFlow:
        """Return the transmission of messages whose bits begin to flow.

        Args:
            leg: the messages.
            began: the time at which their bits begin to flow, s, shape (n,).

        Raises:
            ReactionError: a message does not arrive.
        """
        table, ids, up = self._table, leg.clients, int(leg.up)
        bits, caps = leg.bits + leg.framing, table.of(f"cap{up}", ids)
        per_bit = table.of(f"per_bit{up}", ids)
        # No channel varies: one value per constant serves all messages.
        if not self._varies[up]:
            none = np.zeros(1, np.int64)
            return RadioFlow(bits, none, caps, began + bits / caps, per_bit)
        shape = ids.shape
        # Copied after broadcasting, as varying messages overwrite their entries.
        bits, caps, per_bit = (np.array(np.broadcast_to(x, shape)) for x in (bits, caps, per_bit))
        varies = np.flatnonzero(np.broadcast_to(table.of(f"varies{up}", ids), shape))
        plain = np.ones(shape, np.bool_)
        plain[varies] = False
        over = np.zeros(shape)
        over[plain] = began[plain] + bits[plain] / caps[plain]
        flow = RadioFlow(bits, np.zeros(shape, np.int64), caps, over, per_bit, np.zeros(shape))
        self._fill_varying(leg, began, varies, flow)
        return flow

    def keep_silence(self, leg: RadioLeg, flow: RadioFlow, over: Array) -> None:
        """Start the silence of radios after messages that have passed at `over`, s, (n,)."""
        # The silence starts when the last bit has passed, which a shared link may delay.
        for place, rest in flow.rests.items():
            self._silent[leg.up][int(leg.clients[place])] = float(over[place]) + rest

    def _fill_varying(self, leg: RadioLeg, began: Array, varies: Numbers, flow: RadioFlow) -> None:
        """Send the messages of varying channels one by one, and fill in their terms."""
        up, ids = leg.up, leg.clients[varies].tolist()
        channels = self._channels[up]
        bits, framing = (
            np.broadcast_to(column, leg.clients.shape)[varies].tolist()
            for column in (leg.bits, leg.framing)
        )
        for place, client, size, headers, begin in zip(
            varies.tolist(), ids, bits, framing, began[varies].tolist(), strict=True
        ):
            # In the order of clients, in which events would send: each channel draws from its own
            # stream, so that the order across clients does not change any draw.
            channel, kind = channels[client], self._kind(client)
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
            # The bit energy follows from the airtime where the rate was drawn for this message.
            elif channel.cap is None:
                flow.per_bit[place] = kind.bit_energy(up, channel.airtime(terms))
            if terms.rest:
                flow.rests[place] = terms.rest
