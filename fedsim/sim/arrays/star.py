"""A star whose rounds are played in arrays: all times and joules of an exchange at once.

The server's coroutine runs on the event loop, as in every star. Its outgoing messages are buffered.
When the server awaits replies, the whole exchange is computed at once: the downlink, the handlers
of the clients, the uplink, and the tails of radios meanwhile. The rows of the log are sorted into
the order in which the calendar would have executed the events. The server receives all replies at
the time of the last one.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.core.memory import trim
from fedsim.core.ports import Array, ClientId, Oracle
from fedsim.core.streams import EntityStreams
from fedsim.physics.topology import star
from fedsim.problems.oracle import LossOracle
from fedsim.protocol.transport import Envelope
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.sim.arrays.channels import Channels, RadioLeg
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.client import ArrayClient
from fedsim.sim.arrays.closing import Closing
from fedsim.sim.arrays.handlers import (
    ClientClock,
    HandlerBatch,
    Handlers,
    turn_priority,
)
from fedsim.sim.arrays.messages import MessageBatch
from fedsim.sim.arrays.order import EventOrder, Numbers, ReactionError, event_type
from fedsim.sim.arrays.radios import Passage, RadioArrays
from fedsim.sim.arrays.rows import OrderedRows, RowBlocks
from fedsim.sim.arrays.supplies import SupplyArrays
from fedsim.sim.arrays.together import Cohorts, ReplyRows
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.network.lanes import Lane
from fedsim.sim.network.transport import NetworkParts, ServerLanes
from fedsim.sim.star import Star
from fedsim.sim.worlds.open_spans import SETTLED, Spans, Unsettled, within_batteries
from fedsim.wire.replies import ReplyColumns

_TRIM_FROM = 500_000
"""From this many clients on, freed memory is returned to the system before events are sorted."""


class _Replies(NamedTuple):
    """The replies to an exchange.

    Attributes:
        clients: the clients that reply.
        events: the events in which their replies arrive.
        last: the arrival of the last reply, s.
        horizon: the time before which all events of the exchange are known, s.
        replies, together: see `_Played`.
    """

    clients: Ids
    events: Numbers
    last: float
    horizon: float
    replies: Sequence[Envelope]
    together: ReplyRows | None


class _Played(NamedTuple):
    """An exchange whose replies have not arrived yet.

    Attributes:
        rows: the rows of the log.
        clients: the clients that reply.
        arrivals: indices into `clients`, in the order in which their replies arrive; None if the
            replies are in `together`.
        replies: one reply per client, or a single representative if the replies are in `together`.
        together: the replies of clients whose handlers ran once for all of them.
    """

    rows: OrderedRows
    clients: Ids
    arrivals: Numbers | None
    replies: Sequence[Envelope]
    together: ReplyRows | None


class ArrayLanes(ServerLanes):
    """The lanes of a star, all in arrays.

    Attributes:
        handlers: the driver of the clients' handlers.
        received: the envelope that a client has received last, decoded by its transport.
        decodes: whether the transport decodes messages to clients.
        closing: the deadlines of a round.
        receive_all: accepts all replies to an exchange; see
            `fedsim.protocol.server.ServerProtocol.receive_all`.
        radios: the clients' radios.
        table: the constants of the clients.
        supplies: the clients' batteries; None if all clients are on mains.
    """

    handlers: Handlers
    received: Envelope
    decodes: bool

    closing: Closing
    receive_all: Callable[[int, Ids, ReplyColumns], bool]

    def __init__(
        self,
        calendar: Calendar,
        log: EventLog,
        traffic: Traffic,
        table: ClassTable,
        radios: RadioArrays,
        supplies: SupplyArrays | None = None,
    ) -> None:
        super().__init__(NetworkParts(calendar, _no_lane, log, traffic))
        self.table = table
        self.radios = radios
        self.supplies = supplies
        self._post: list[tuple[Sequence[ClientId], Envelope]] = []

    @property
    def made(self) -> int:
        """The number of clients that exist so far."""
        return self.handlers.made

    def send_down(self, clients: Sequence[ClientId], envelope: Envelope) -> None:
        """Buffer a message per client; it is sent when the server awaits replies."""
        # After all messages of this instant: the server's coroutine sends them without waiting.
        if not self._post:
            self._calendar.call(self._calendar.now, self._play, None)
        self._post.append((clients, envelope))

    def _play(self, _: None) -> None:
        """Compute the exchange that the server has opened at this instant."""
        # Rows are collected in the order of computation, by kind of event. `order` assigns each
        # event its place in time once all of them are known, and only then are rows written.
        down = MessageBatch.of_post(self._post)
        self._post = []
        order, rows = EventOrder(len(down.clients)), RowBlocks()
        cohort = self._deliver(down, order, rows)
        try:
            self.handlers.run(cohort, order, rows)
        except Exception as error:
            # Which client fails first, and what the others do meanwhile, only events tell.
            raise ReactionError("a handler has failed") from error
        # Idle radios leave their stages while their clients compute. This has to precede the
        # uplink, whose wake-up depends on the stage that each radio is in.
        self.radios.settle_stateful(cohort.clients, cohort.times, order, rows)
        sent = self._reply(cohort, order, rows)
        many = len(down.clients) >= _TRIM_FROM
        del down, cohort  # per client only what is still needed
        if many:
            trim()
        # From here on no event is added: places are final.
        places = order.places(last=True)
        del order
        arrivals = np.argsort(places[sent.events]) if sent.together is None else None
        charges = None
        if self.supplies is not None:
            # Batteries are settled before rows are sorted, as rows show the state of charge.
            charges = self.supplies.settle(places)
            self.supplies.check(sent.horizon)
        written = rows.in_order(places, self._log, charges)
        self.radios.number_events(places)
        played = _Played(written, sent.clients, arrivals, sent.replies, sent.together)
        self._calendar.call(sent.last, self._finish, played)

    def _deliver(self, down: MessageBatch, order: EventOrder, rows: RowBlocks) -> HandlerBatch:
        """Deliver the downlink messages; return the handlers that they start."""
        count, now = len(down.clients), self._calendar.now
        sent = np.arange(count, dtype=event_type(count))
        moved = self._move(down, np.full(count, now), sent, order, rows, up=False)
        begun = self._begin(moved, order, now)
        # Numbers below `count` are the roots, the instants of sending. A message that arrives in
        # its root has taken no time, so its handler runs within the turns of the loop.
        turns = np.where(moved.events < count, np.int32(0), np.int32(-1))
        # Copied, as the handlers advance their times in place, and the rows of the downlink refer
        # to `over`.
        times = moved.over.copy()
        return HandlerBatch(
            down.clients, self._decode(down), times, begun, turns, moved.crowded, []
        )

    def _reply(self, cohort: HandlerBatch, order: EventOrder, rows: RowBlocks) -> "_Replies":
        """Send the replies and settle the radios of the fleet; the replies arrive later."""
        senders, up = cohort.answers()
        # A slice is a view, an array of indices a copy: usually all clients reply.
        indices = slice(None) if len(senders) == len(cohort.clients) else senders
        times, events = cohort.times[indices], cohort.events[indices]
        # Without any reply the exchange ends at a deadline, which `closing` knows.
        last = now = self._calendar.now
        if len(senders):
            passage = self._move(up, times, events, order, rows, up=True)
            last, events = float(passage.over.max()), passage.events
        silent = len(senders) < len(cohort.clients)
        horizon = self.closing.horizon(now, last, cohort.times, silent=silent)
        self.radios.settle_all(horizon, order, rows)
        return _Replies(up.clients, events, last, horizon, up.envelopes, cohort.together)

    def _move(
        self,
        messages: MessageBatch,
        ready: Array,
        events: Numbers,
        order: EventOrder,
        rows: RowBlocks,
        *,
        up: bool,
    ) -> Passage:
        """Transmit the messages of one direction, write their rows and count their bits."""
        ids, framing = messages.clients, messages.framing(self.table)
        bits, number = messages.bits, messages.envelopes[0].round
        if up:
            messages.name(events, rows)
        leg = RadioLeg(ids, up, ready, events, bits, framing, number)
        moved = self.radios.transfer(leg, order, rows)
        messages.write(moved, framing, rows, up=up)
        again = int(moved.again.sum())
        # Retransmitted bits are counted as sent and as lost, never as delivered.
        self.message_log.delivered += (
            sent := int(np.broadcast_to(bits + framing, ids.shape).sum())
        )
        self.message_log.lost += again
        sent += again
        if up:
            self._traffic.bits_up += sent
            self._traffic.transmissions += messages.filled
            self._traffic.beacons += len(ids) - messages.filled
        else:
            self._traffic.bits_down += sent
        return moved

    def _decode(self, down: MessageBatch) -> Sequence[Envelope]:
        """Return the envelopes as the clients receive them."""
        if not self.decodes:
            return down.every
        receive, received = self._receive[False], list[Envelope]()
        for client, envelope in zip(down.clients.tolist(), down.every, strict=True):
            receive(client, envelope)
            received.append(self.received)
        return received

    def _begin(self, moved: Passage, order: EventOrder, now: float) -> Numbers:
        """Return the events in which handlers begin.

        A message that has taken no time is handled after the server has sent all messages.
        """
        # Copied, as the rows of the downlink refer to the events of arrival.
        events = moved.events.copy()
        at_once = np.flatnonzero(events < len(events))
        if len(at_once):
            times = np.full(len(at_once), now)
            events[at_once] = order.add(times, events[at_once], priority=turn_priority(0))
        return events

    def _finish(self, played: _Played) -> None:
        """Write the rows of an exchange, and deliver its replies to the server."""
        self._write(played.rows)
        if played.arrivals is not None:
            for index in played.arrivals.tolist():
                self._receive[True](int(played.clients[index]), played.replies[index])
        elif played.together is not None and len(played.clients):
            columns, number = played.together.columns(played.clients), played.replies[0].exchange
            if not self.receive_all(number, played.clients, columns):
                raise ReactionError("an exchange closes before its last reply")

    def _write(self, rows: OrderedRows) -> None:
        for spent in rows.write(self._log):
            # Added in the order of the log, since the event-by-event run rounds after every row.
            joules = np.concatenate([[self._traffic.joules], spent])
            self._traffic.joules = float(np.add.accumulate(joules)[-1])

    def unsettled(self) -> Unsettled:
        """Return the stages of radios in progress: until now, and from now on until they sleep."""
        now = self._calendar.now
        parts = self.radios.tails(now)
        if not parts:
            return SETTLED
        supplies = self.supplies
        if supplies is None:
            tails = Spans.join(parts)
        else:
            tails = within_batteries(parts, supplies.may_empty(parts, now), supplies.empty_at)
        return Unsettled(self.radios.open_spans(now), tails)

    def close(self) -> None:
        """End the world: record the radio tails in progress."""
        rows = RowBlocks()
        # There is one event per radio whose stage is in progress, in the order of clients. There is
        # at least one, which the changes of the other batteries refer to.
        places = np.arange(max(self.radios.switch_off(self._calendar.now, rows), 1))
        charges = None if self.supplies is None else self.supplies.settle(places)
        self._write(rows.in_order(places, self._log, charges))


def _no_lane(client: ClientId, up: bool) -> Lane:
    raise RuntimeError(f"client {client} has no lane {'up' if up else 'down'} of its own")


class _ClientParts(NamedTuple):
    """See `fedsim.sim.participant.Belongings`."""

    evaluator: object
    oracle: Oracle
    state: object
    rng: object
    take_back: object
    looks: set[str]


class ArrayStar(Star):
    """A star whose rounds are played in arrays."""

    def _make_network(self) -> ServerLanes:
        fleet = self._fleet
        kinds = fleet.kinds
        least = self._setup.participation.least_charge
        table = ClassTable(kinds, self._setup.topology or star(len(kinds)), least)
        channels = Channels(table, fleet.channel, fleet.radio_kinds.__getitem__)
        # This runs within `Star.__init__`, before `_connect`, which needs what is set here.
        self._supplies: SupplyArrays | None = None
        if table.any("battery"):
            self._supplies = SupplyArrays(
                table, len(kinds), self._calendar, lambda client: kinds[client].store(least)
            )
            fleet.hold(self._supplies)
        radios = RadioArrays(table, channels, len(kinds), self._supplies)
        fleet.vectorised_joules = radios.joules
        self._streams = EntityStreams(self._setup.rng, "client", len(kinds))
        self._slowdowns = EntityStreams(self._setup.rng, "slowdown", len(kinds))
        self._clock = ClientClock()
        self._table = table
        ends = self._calendar, self._log, self._traffic
        self._lanes = ArrayLanes(*ends, table, radios, self._supplies)
        return self._lanes

    def unsettled(self) -> Unsettled:
        """Return the energy that no row has charged yet."""
        return self._lanes.unsettled()

    def _connect(self) -> None:
        super()._connect()
        setup, lanes = self._setup, self._lanes
        transport = setup.transport
        lanes.closing = Closing.of(setup)
        lanes.decodes = transport.to_clients(_ignore) is not _ignore
        handle, joules = setup.handler, lanes.radios.joules
        lanes.receive_all = self.server.receive_all
        mains = self._supplies is None
        parts = setup, self._oracle, self._protocol, self._streams, self._looks
        cohorts = Cohorts(*parts, mains=mains)
        lanes.handlers = Handlers(
            self.clients,
            self._table,
            handle,
            joules,
            self._clock,
            self._slowdowns,
            cohorts,
            self._supplies,
        )

    def _oracle(self, number: ClientId) -> Oracle:
        oracle = self._fleet.oracle(number)
        if self._setup.evaluator.draws and isinstance(oracle, LossOracle):
            # Handlers are driven one after the other, so each client draws when it is computed.
            oracle.draw_later()
        return oracle

    def _stream(self, purpose: str, number: ClientId) -> np.random.Generator:
        if purpose == "slowdown":
            return self._slowdowns.of(number)
        # An evaluator that draws for many clients uses the streams in `_streams`. A second
        # generator of the same name would draw the same numbers once more.
        shared = purpose == "client" and self._setup.evaluator.draws
        return self._streams.of(number) if shared else self._setup.rng(purpose, number)

    def _make_client(self, number: ClientId) -> ArrayClient:
        setup, fleet = self._setup, self._fleet
        parts = _ClientParts(
            setup.evaluator,
            self._oracle(number),
            setup.algorithm.memory(setup.initial),
            self._stream,
            fleet.take_back,
            self._looks,
        )
        kind = fleet.kinds[number]
        ends = self._protocol(number), self._clock, kind.device
        return ArrayClient(*ends, parts, mains=kind.battery is None)  # type: ignore[arg-type]

    def _end_clients(self) -> "Iterator[asyncio.Future[None]]":
        """Yield nothing: every handler has ended within its exchange."""
        yield from ()

    def _on_received(self, client: ClientId, envelope: Envelope) -> None:
        self._lanes.received = envelope


def _ignore(client: ClientId, envelope: Envelope) -> None:
    """Ignore what has arrived."""
