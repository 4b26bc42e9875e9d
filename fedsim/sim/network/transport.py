"""The star: every client has a radio of its own, all share the server's link.

A message waits until its sender's lane is free, takes the latency of radio and server,
and then its bits flow: at the radio's rate at most, and at a max-min fair share of the
server's link. It has arrived when its last bit has.
"""

from collections.abc import Sequence

from fedsim.ports import SERVER, ClientId
from fedsim.record.log import EventLog
from fedsim.record.rounds import Traffic
from fedsim.record.schema import Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.fair import FairLink
from fedsim.sim.network.lanes import Envelope, Lane, Receive, ServerLink
from fedsim.sim.power.radio import Radio


class Star:
    """The network between one server and its clients.

    Attributes:
        bits_delivered: payload and header of what has arrived, both directions.
    """

    def __init__(
        self,
        calendar: Calendar,
        radios: Sequence[Radio],
        server: ServerLink,
        log: EventLog,
        traffic: Traffic,
    ) -> None:
        self._calendar = calendar
        self._log = log
        self._traffic = traffic
        self._up = self._lanes(radios, server.down, server.latency, up=True)
        self._down = self._lanes(radios, server.up, server.latency, up=False)
        self.bits_delivered = 0
        self._starting: dict[float, list[Lane]] = {}  # by the time at which their bits will flow

    def _lanes(
        self, radios: Sequence[Radio], capacity: float, latency: float, *, up: bool
    ) -> list[Lane]:
        # A lane carries one message at a time, so a link with room for all lanes is never full.
        wanted = sum(radio.model.up if up else radio.model.down for radio in radios)
        link = FairLink(self._calendar, capacity) if capacity < wanted else None
        return [Lane(client, radio, link, latency, up=up) for client, radio in enumerate(radios)]

    def connect(self, server: Receive, clients: Sequence[Receive]) -> None:
        """Say who takes what arrives at the server and at each client."""
        for up, down, client in zip(self._up, self._down, clients, strict=True):
            up.receive, down.receive = server, client

    def send_down(self, clients: Sequence[ClientId], envelope: Envelope) -> None:
        """Take a message for each of some clients; its bits are charged from here on."""
        self._traffic.bits_down += envelope.bits * len(clients)
        for client in clients:
            self._queue(self._down[client], envelope)

    def send_up(self, client: ClientId, envelope: Envelope) -> None:
        """Take a message from a client; its bits are charged from here on."""
        traffic = self._traffic
        traffic.bits_up += envelope.bits
        if envelope.payload_bits:
            traffic.transmissions += 1
        else:
            traffic.beacons += 1
        self._queue(self._up[client], envelope)

    def _queue(self, lane: Lane, envelope: Envelope) -> None:
        """Start a message, at once where its lane is free."""
        if lane.current is not None:
            lane.queue.append(envelope)
            return
        lane.current = envelope
        lane.began = began = self._calendar._now + lane.latency
        lane.radio.began[lane.up] = began
        if lane.instant:
            self._arrive(lane)
        elif lane.link is None:
            self._calendar.call(began + envelope.bits / lane.cap, self._arrive, lane)
        elif began in self._starting:
            self._starting[began].append(lane)
        else:
            self._starting[began] = [lane]
            self._calendar.call(began, self._flow, began)

    def _flow(self, began: float) -> None:
        """Let the bits flow of all whose latency is over now: a broadcast's are over at once."""
        for lane in self._starting.pop(began):
            if lane.current is not None and lane.link is not None:
                lane.flow = lane.link.add(lane.current.bits, lane.cap, self._arrive, lane)

    def _arrive(self, lane: Lane) -> None:
        """Log and hand over the message whose last bit has come, and start the next one."""
        envelope = lane.current
        if envelope is None:  # pragma: no cover - a lane has one timer for each message
            return
        now, client, bits = self._calendar._now, lane.client, envelope.bits
        joules = lane.radio.end(now, bits, lane.up)
        self._traffic.joules += joules
        self.bits_delivered += bits
        self._log.append_message(
            now,
            now - lane.began,
            client if lane.up else SERVER,
            SERVER if lane.up else client,
            envelope.round,
            envelope.word,
            envelope.payload_bits,
            envelope.header_bits,
            joules if lane.up else 0.0,
            0.0 if lane.up else joules,
        )
        lane.current = lane.flow = None
        if lane.queue:
            self._queue(lane, lane.queue.popleft())
        lane.receive(client, envelope)

    def close(self) -> int:
        """End the world: log what is in flight, with what it has cost; return its bits."""
        bits = 0
        for lane in (*self._down, *self._up):
            if lane.current is not None:
                bits += self._break_off(lane, lane.current)
            bits += sum(self._break_off(lane, waiting) for waiting in lane.queue)
        return bits

    def _break_off(self, lane: Lane, envelope: Envelope) -> int:
        """Log a message that will not arrive: its bits are charged, its energy so far spent."""
        now, joules, span = self._calendar.now, 0.0, 0.0
        if envelope is lane.current:
            span = max(now - lane.began, 0.0)
            joules = lane.radio.end(now, lane.passed(now), lane.up)
            self._traffic.joules += joules
        sent = (envelope.payload_bits, envelope.header_bits)
        if lane.up:
            self._record(Event.SEND, lane.client, SERVER, envelope, span, sent, joules)
        else:  # the energy is the receiver's, the bits stay those of the sender
            self._record(Event.SEND, SERVER, lane.client, envelope, span, sent, 0.0)
            if joules:
                self._record(Event.RECEIVE, lane.client, SERVER, envelope, span, (0, 0), joules)
        return envelope.bits

    def _record(
        self,
        event: Event,
        node: ClientId,
        peer: ClientId,
        envelope: Envelope,
        span: float,
        bits: tuple[int, int],
        joules: float,
    ) -> None:
        self._log.append(
            self._calendar.now,
            span,
            event,
            node,
            peer,
            envelope.round,
            envelope.word,
            *bits,
            joules=joules,
            detail=self._log.word("in flight"),
        )
