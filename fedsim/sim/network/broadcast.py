"""Broadcast: messages that are transmitted once and received by a whole radio cell."""

from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from operator import itemgetter

from fedsim.core.ports import SERVER, ClientId
from fedsim.core.ports.bearers import Transfer
from fedsim.physics.radios.channel import Framing
from fedsim.physics.run_length import RunLengthSequence
from fedsim.protocol.transport import Envelope
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.members import ClientConfig
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.message_log import ABORTED, IN_FLIGHT, LOST, NO_BITS, append_row
from fedsim.sim.network.transport import NetworkParts, ServerLanes

DOWN = False
"""The direction of all broadcasts."""

Follow = Callable[[ClientId, Sequence[Lane]], None]
"""Callback for the client whose rate all of these lanes follow from now on."""


class Cell:
    """The clients of one group, all of which receive what is sent to any of them.

    A transmission begins when the last listener's radio is awake, at the rate of the slowest
    listener. There are no retransmissions: a listener that misses a packet has missed the message.

    Attributes:
        current: the broadcast in progress, if any.
        listeners: the receivers still reachable.
        silence: the duration for which the sender must keep silent afterwards, s.
        silent_until: the time until which it must keep silent, s.
    """

    def __init__(self, framing: Framing) -> None:
        self.framing = framing
        self.current: Envelope | None = None
        self.listeners: dict[ClientId, Lane] = {}
        self.queue: deque[tuple[Envelope, dict[ClientId, Lane]]] = deque()
        self.began = self.silence = self.silent_until = 0.0
        self.transfer: Transfer | None = None

    def frame_bits(self, envelope: Envelope) -> int:
        """Return the bits of a message with the framing of this cell's radios."""
        return envelope.bits + self.framing.bits(envelope.bits)


class CellNetwork(ServerLanes):
    """A network in which downlink messages are broadcast, once in every cell.

    Args:
        parts: see `ServerLanes`.
        kinds: a representative of each client; each group is a cell.
        follow: see `Follow`.

    Raises:
        TypeError: a downlink follows a trace; listeners whose rates vary have no slowest one.
    """

    def __init__(
        self,
        parts: NetworkParts,
        kinds: RunLengthSequence[ClientConfig],
        follow: Follow,
    ) -> None:
        if any(kind.rates.down.signal is not None for _, kind in kinds.runs):
            raise TypeError("a cell's broadcast needs constant rates, and a radio has a trace")
        super().__init__(parts)
        self._groups = kinds.map(lambda kind: kind.group)
        self._follow = follow
        self._cells = {kind.group: Cell(kind.radio.packaging) for _, kind in kinds.runs}

    def send_down(self, clients: Sequence[ClientId], envelope: Envelope) -> None:
        """Accept a message for some clients; it is charged once per cell."""
        listeners: dict[int, dict[ClientId, Lane]] = {}
        for client in clients:
            listeners.setdefault(self._groups[client], {})[client] = self._down[client]
        for group, lanes in listeners.items():
            cell = self._cells[group]
            self._traffic.bits_down += cell.frame_bits(envelope)
            if cell.current is None:
                self._begin(cell, envelope, lanes)
            else:
                cell.queue.append((envelope, lanes))

    def _begin(self, cell: Cell, envelope: Envelope, lanes: dict[ClientId, Lane]) -> None:
        """Wait until every listener's radio can be reached."""
        # Calls of the calendar cannot be cancelled, and need not be: a broadcast is never aborted.
        # Clients that leave are removed from its listeners, and it runs to its end without them.
        cell.current, cell.listeners = envelope, lanes
        now = self._calendar.now
        reached = max((lane.radio.reception_time(now) for lane in lanes.values()), default=now)
        if reached > now:
            # Not known yet. If the run ends now, the broadcast has lasted 0 s.
            cell.began = inf
            self._calendar.call(reached, self._wake_all, cell)
        else:
            self._wake_all(cell)

    def _wake_all(self, cell: Cell) -> None:
        """Wait for the listeners' radios and for the latency."""
        envelope, lanes = cell.current, cell.listeners
        if envelope is None:  # pragma: no cover - a cell has one message until its end
            return
        now = self._calendar.now
        ready, latency = max(now, cell.silent_until), 0.0
        for lane in lanes.values():
            if not lane.radio.detached:
                ready = max(ready, lane.radio.wake(now, envelope.round))
            latency = max(latency, lane.latency)
        cell.began = ready + latency
        for lane in lanes.values():
            lane.radio.began[DOWN] = cell.began
        self._calendar.call(cell.began, self._flow_to, cell)

    def _flow_to(self, cell: Cell) -> None:
        envelope, lanes = cell.current, list(cell.listeners.values())
        if envelope is None or not lanes:
            self._end(cell)
            return
        first = lanes[0]
        bits = cell.frame_bits(envelope)
        terms = [lane.carrier.terms(envelope.bits, bits, envelope.round) for lane in lanes]
        slowest = min(terms, key=itemgetter(0))
        rate = slowest.cap
        cell.silence = slowest.rest
        cell.transfer = first.bearer.start(bits, rate, self._end, cell)
        self._follow(first.client, lanes)
        self._sending.update(dict.fromkeys(lanes))
        for lane in lanes:
            lane.set_pace(slowest)  # every listener is on for as long as the slowest one needs
            if not lane.radio.detached:
                lane.radio.begin(DOWN, rate if first.bearer.open else 0.0)

    def _end(self, cell: Cell) -> None:
        """Deliver the broadcast to all remaining listeners, and start the next one."""
        envelope, lanes = cell.current, cell.listeners
        if envelope is None:  # pragma: no cover - there is one end for every broadcast
            return
        receivers: list[Lane] = []
        for lane in lanes.values():
            self._listen(cell, lane, LOST if lane.misses(envelope) else "", receivers)
        self._settle(cell, len(receivers))
        if cell.transfer is not None:  # otherwise all listeners had left, and nothing was sent
            cell.silent_until = self._calendar.now + cell.silence
        cell.current, cell.listeners, cell.transfer = None, {}, None
        # The next broadcast begins before the listeners' callbacks: a message that one of these
        # sends has to find the cell busy, or it would overtake queued ones.
        if cell.queue:
            self._begin(cell, *cell.queue.popleft())
        for lane in receivers:
            lane.receive(lane.client, envelope)

    def _listen(self, cell: Cell, lane: Lane, why: str, receivers: list[Lane]) -> None:
        """Charge a listener up to now, and record its reception, or `why` it has none."""
        now, envelope = self._calendar.now, cell.current
        flowing = cell.transfer is not None and now >= cell.began
        bits = cell.transfer.passed(now) if cell.transfer is not None else 0.0
        # A listener without the message pays for the bits so far. One with the message pays for all
        # of its bits, as an integer: `passed` is rounded.
        joules = lane.radio.end(now, bits if why else self._bits(cell), DOWN)
        self._traffic.joules += joules
        if not lane.radio.detached:
            lane.radio.mark_idle(DOWN)
        if not why:
            receivers.append(lane)
        if envelope is not None and (joules or not why):
            span = now - cell.began if flowing else 0.0
            self._row(cell, Event.RECEIVE, lane, span, joules, why, empty=bool(why))

    def _settle(self, cell: Cell, receivers: int) -> None:
        """Record the server's transmission, and count its bits."""
        bits = self._bits(cell)
        span = self._calendar.now - cell.began
        self._row(cell, Event.SEND, None, span, 0.0, "" if receivers else LOST)
        # The ledger counts a broadcast once as it is sent, and once per listener as it is received.
        if receivers:
            self.message_log.delivered += bits
            self.message_log.repeated_receptions += bits * (receivers - 1)
        else:
            self.message_log.lost += bits
            self._row(cell, Event.LOST, None, 0.0, 0.0, LOST)

    def abort(self, client: ClientId) -> None:
        """Abort all messages of a client: it cannot go on."""
        cell = self._cells[self._groups[client]]
        lane = cell.listeners.pop(client, None)
        if lane is not None:
            self._listen(cell, lane, ABORTED, [])
        for _, lanes in cell.queue:
            lanes.pop(client, None)
        # The lane of the downlink is idle: broadcasts do not use it. So the base class aborts the
        # uplink, and switches the radio off.
        super().abort(client)

    def close(self) -> None:
        """End the world: record broadcasts in flight, with their costs."""
        for cell in self._cells.values():
            if cell.current is not None:
                for lane in cell.listeners.values():
                    self._listen(cell, lane, IN_FLIGHT, [])
                self._leave(cell, max(self._calendar.now - cell.began, 0.0))
            for envelope, _ in cell.queue:
                # A queued broadcast is recorded as if it were the current one, with a span of 0.
                cell.current = envelope
                self._leave(cell, 0.0)
        super().close()

    def _begin_of(self, lane: Lane) -> float | None:
        """See `ServerLanes._begin_of`; a downlink has the broadcast of its cell."""
        if lane.up:
            return super()._begin_of(lane)
        cell = self._cells[self._groups[lane.client]]
        return cell.began if lane.client in cell.listeners else None

    def _bits_flown(self, lane: Lane) -> float:
        """See `ServerLanes._bits_flown`."""
        if lane.up:
            return super()._bits_flown(lane)
        transfer = self._cells[self._groups[lane.client]].transfer
        return 0.0 if transfer is None else transfer.passed(self._calendar.now)

    def _leave(self, cell: Cell, span: float) -> None:
        """Record a broadcast that is in flight or queued at the end."""
        self.message_log.in_flight += self._bits(cell)
        self._row(cell, Event.SEND, None, span, 0.0, IN_FLIGHT)

    @staticmethod
    def _bits(cell: Cell) -> int:
        """Return the bits of the current broadcast, its framing included."""
        return cell.frame_bits(cell.current) if cell.current is not None else 0

    def _row(
        self,
        cell: Cell,
        event: Event,
        listener: Lane | None,
        span: float,
        joules: float,
        detail: str,
        *,
        empty: bool = False,
    ) -> None:
        envelope = cell.current
        if envelope is None:  # pragma: no cover - a row has a broadcast
            return
        framing = cell.frame_bits(envelope) - envelope.bits
        bits = NO_BITS if empty else (envelope.payload_bits, envelope.header_bits, framing)
        supply, ends = None, (SERVER, NO_PEER)
        if listener is not None:
            supply, ends = listener.radio.supply, (listener.client, SERVER)
        now = self._calendar.now
        append_row(self._log, now, span, event, *ends, envelope, bits, joules, supply, detail)
