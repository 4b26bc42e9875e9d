"""A star network by itself: messages are sent at given times, and all that it logs is kept."""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fedsim.core.ports import SERVER, ClientId
from fedsim.physics.cells import CellSharing
from fedsim.physics.radios import RadioLaw
from fedsim.physics.radios.lorawan import LoRaGateway
from fedsim.protocol.transport import Envelope
from fedsim.results.record.log import EventLog, Rows
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.fleet import Fleet

from .links import ServerLink
from .worlds import SLOW, answered, fleet, setup


class Sent(NamedTuple):
    """One message: when it is handed over, by or to whom, how long it is, and which way."""

    t: float
    client: ClientId
    bits: int
    up: bool


class Span(NamedTuple):
    """What the log says of one message: when its bits flowed, and whether it has arrived."""

    begin: float
    end: float
    client: ClientId
    bits: int
    up: bool
    arrived: bool


class Network:
    """A star of radios with their meters.

    Attributes:
        arrived: what has been handed over, in order and with its time.
        in_flight: the bits that had not arrived when it was closed.
    """

    def __init__(
        self,
        models: Sequence[RadioLaw],
        server: ServerLink | None = None,
        lora: LoRaGateway | None = None,
        cell: CellSharing | None = None,
    ) -> None:
        self.env, self.traffic = Calendar(), Traffic()
        self.arrived: list[Sent] = []
        self.in_flight = 0
        self._log = EventLog(Path("never written"), len(models), lambda _: None)
        self._log._limit = sys.maxsize  # all rows stay where `rows` looks for them
        members = fleet(*[(SLOW, model) for model in models])
        made = setup(members=members, server=server, lora=lora, cell=cell)
        parts = Fleet(made, self.env, self._log, self.traffic)
        self.radios, self.star = parts.radios, parts.network()
        down = partial(self._receive, up=False)
        receive = partial(self._receive, up=True)
        self.star.connect(receive, down, lambda *_: None)

    def _receive(self, client: ClientId, envelope: Envelope, *, up: bool) -> None:
        self.arrived.append(Sent(self.env.now, client, envelope.bits, up))

    def send(self, messages: Sequence[Sent]) -> None:
        """Hand each over at its time, those of one time in this order."""
        for message in messages:
            self.env.at(message.t, self._send, message)

    def _send(self, message: Sent) -> None:
        envelope = Envelope(answered(message.bits), 1, 1, 0, word=0)
        if message.up:
            self.star.send_up(message.client, envelope)
        else:
            self.star.send_down([message.client], envelope)

    def close(self) -> list[Span]:
        """End the world now, and return what the log says of every message."""
        self.star.close()
        self.in_flight = self.star.message_log.in_flight
        return [_span(row) for row in self._log.pending() if row["event"] == Event.SEND]

    def rows(self, event: Event) -> list[Rows]:
        """Return the rows of an event so far."""
        return [row for row in self._log.pending() if row["event"] == event]


def _span(row: Rows) -> Span:
    up, end = bool(row["peer"] == SERVER), float(row["t"])
    client, bits = int(row["node" if up else "peer"]), int(row["payload_bits"])
    return Span(end - float(row["duration"]), end, client, bits, up, bool(row["detail"] < 0))
