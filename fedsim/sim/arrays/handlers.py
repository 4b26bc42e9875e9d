"""Handlers of clients, driven without an event loop from a received message to the reply.

A handler is a coroutine that awaits nothing but work. The driver here resumes all handlers of a
batch, collects the pieces of work that they yield, computes all durations as arrays, and resumes
them at the new times.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import SERVER, SILENCE, Array, ClientId, Message, Work
from fedsim.core.streams import EntityStreams
from fedsim.protocol.transport import ClientProtocol, Envelope
from fedsim.results.record.schema import Event
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.client import ArrayClient, Pieces, alike
from fedsim.sim.arrays.messages import MessageBatch
from fedsim.sim.arrays.order import EventOrder, Numbers, ReactionError
from fedsim.sim.arrays.rows import RowBlocks
from fedsim.sim.arrays.supplies import SupplyArrays
from fedsim.sim.arrays.together import Cohorts, NotAlikeError, ReplyRows, resume
from fedsim.sim.client import Handler
from fedsim.sim.power.supply import Part
from fedsim.wire.replies import one_of

_AT_ONCE = 4096
"""Number of handlers advanced per batch; their work is evaluated together."""


class ClientClock:
    """The clock of the client whose handler runs.

    Attributes:
        now: the time, s.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def at_deadline(self, when: float, callback: Callable[..., object], *args: Any) -> Any:
        """Refuse: a client in arrays waits for nothing but its work."""
        raise ReactionError("a client sets a timer")


@dataclass
class HandlerBatch:
    """The clients of a cohort, each of which handles one message.

    Attributes:
        clients: the numbers of the clients, shape (n,).
        received: the envelope that each client has received.
        times: the time at which each handler resumes, s, shape (n,).
        events: the event in which it resumes, shape (n,).
        turns: the number of turns of the loop since the messages were sent, if no time has passed
            since; otherwise -1, shape (n,).
        crowded: whether other handlers resume in the same event, shape (n,).
        replies: the envelope of each reply; None if a silent client sends nothing.
        together: the replies of clients that were handled together, in place of `replies`.
    """

    clients: Ids
    received: Sequence[Envelope]
    times: Array
    events: Numbers
    turns: Numbers
    crowded: NDArray[np.bool_]
    replies: list[Envelope | None]
    together: ReplyRows | None = None

    def check_alone(self, indices: Numbers) -> None:
        """Check that no row of some clients falls into an event in which others receive messages.

        Raises:
            ReactionError: one does. On the event loop, these handlers would only resume after all
                messages of the event have arrived.
        """
        if self.crowded[indices].any():
            raise ReactionError("work of no time follows messages that arrive together")

    def answers(self) -> tuple[Numbers, MessageBatch]:
        """Return the indices of the clients that send an answer, and their messages."""
        if self.together is not None:
            rows = self.together
            complete = len(rows.senders) == len(self.clients)
            clients = self.clients if complete else self.clients[rows.senders]
            return rows.senders, MessageBatch(clients, rows.envelopes, rows.kinds)
        senders = np.array([n for n, reply in enumerate(self.replies) if reply is not None], int)
        return senders, MessageBatch(
            self.clients[senders], [reply for reply in self.replies if reply]
        )


class _Group(NamedTuple):
    """The handler of a group of clients, their indices in the cohort, and its first work."""

    places: Numbers
    protocol: ClientProtocol
    handler: Any
    first: Any


def _take_turns(cohort: HandlerBatch, indices: Numbers, order: EventOrder) -> None:
    """Order zero-duration work after all work submitted at the same instant."""
    cohort.turns[indices] += 1
    # Events of one call have one priority, and the priority of an event depends on its turn.
    for turn in np.unique(cohort.turns[indices]).tolist():
        members = indices[cohort.turns[indices] == turn]
        times, events = cohort.times[members], cohort.events[members]
        cohort.events[members] = order.add(times, events, priority=turn_priority(turn))


def turn_priority(turn: int) -> float:
    """Return the priority of the events of a turn of the loop, which precedes the calendar's.

    Args:
        turn: the number of turns before it since the messages were sent.
    """
    # Rises with the turn and stays below 1, the normal priority of the calendar.
    return turn / (1 + turn)


class Handlers:
    """Drives the handlers of clients.

    Args:
        clients: the clients by number, each made at its first lookup.
        table: the constants of the clients.
        handle: the method's handler of one client.
        joules: receives the energy of processors, by client, shape (M,).
        clock: the clock of the client whose handler runs.
        slowdowns: the random streams of the clients' slowdowns.
        cohorts: divides clients into groups that are handled together; None to handle all clients
            one by one.
        supplies: the clients' batteries; None if all clients are on mains.
    """

    def __init__(
        self,
        clients: dict[int, ArrayClient],
        table: ClassTable,
        handle: Handler,
        joules: Array,
        clock: ClientClock,
        slowdowns: EntityStreams,
        cohorts: Cohorts | None = None,
        supplies: SupplyArrays | None = None,
    ) -> None:
        self._supplies = supplies
        self._cohorts = cohorts
        self._clients = clients
        self._table = table
        self._handle = handle
        self._joules = joules
        self._clock = clock
        self._slowdowns = slowdowns

    @property
    def made(self) -> int:
        """The number of clients that exist so far."""
        return len(self._clients)

    def run(self, cohort: HandlerBatch, order: EventOrder, rows: RowBlocks) -> None:
        """Run the handlers of a cohort up to their replies.

        Raises:
            ReactionError: a handler awaits something other than its work.
        """
        # One run of a handler for a group needs one message for all: the same envelope object.
        if self._cohorts is not None and cohort.received[0] is cohort.received[-1]:
            try:
                groups = self._begin(self._cohorts, cohort)
            except NotAlikeError as error:
                # Too late to handle clients one by one if groups hold their state or have drawn
                # from their streams.
                if self._cohorts.remembers:
                    raise ReactionError("clients with one state are not alike") from error
                # For good: groups are of no use to a method whose clients differ in what the
                # handler uses.
                self._cohorts = None
            else:
                self._run_together(groups, cohort, order, rows)
                return
        # In batches, which bounds the number of coroutines in progress.
        for begin in range(0, len(cohort.clients), _AT_ONCE):
            self._run(cohort, begin, begin + _AT_ONCE, order, rows)

    def _begin(self, cohorts: Cohorts, cohort: HandlerBatch) -> "list[_Group]":
        """Start the handlers of groups of clients, up to the first work of each.

        Raises:
            NotAlikeError: clients have to be handled one by one. Nothing has been written so far.
        """
        begun, envelope = list[_Group](), cohort.received[0]
        try:
            for places, group in cohorts.groups(cohort.clients):
                handler: Any = cohorts.handle(group, group.protocol.open(envelope))
                begun.append(_Group(places, group.protocol, handler, None))
                begun[-1] = begun[-1]._replace(first=resume(handler))
        except BaseException:  # coroutines that have started have to be closed
            for started in begun:
                started.handler.close()
            raise
        return begun

    def _run_together(
        self, groups: "list[_Group]", cohort: HandlerBatch, order: EventOrder, rows: RowBlocks
    ) -> None:
        """Run the handlers of groups from their first work up to their replies."""
        envelope, count = cohort.received[0], len(cohort.clients)
        replies, silent = list[tuple[Numbers, Message]](), np.zeros(count, np.bool_)
        sent, number = None, int(envelope.round)
        for places, protocol, handler, piece in groups:
            while isinstance(piece, tuple) and isinstance(piece[0], Work):
                pieces = self._pieces(cohort.clients[places], *piece)
                self._work(cohort, places, pieces, number, order, rows)
                piece = resume(handler)  # noqa: PLW2901 - the next piece
            # A group replies with its message and a mask of silent clients, or with a message
            # alone.
            message, silent[places] = piece if isinstance(piece, tuple) else (piece, False)
            if not isinstance(message, Message):
                raise ReactionError("a group of clients does not reply")
            replies.append((places, message))
            # The first row stands for all: envelopes of a group differ in content only.
            sent = protocol.answer(envelope, one_of(message, 0))
        self._write_silent(cohort, np.flatnonzero(silent), number, rows)
        beacon = protocol.answer(envelope, SILENCE) if silent.any() else None
        cohort.together = ReplyRows.of(replies, silent, sent, beacon)
        if self._cohorts is not None:
            self._cohorts.keep()

    def _pieces(self, ids: Ids, work: Work, at_once: bool) -> Pieces:
        """Return the durations of the same work on some clients."""
        # Groups are formed by losses, classes by devices and radios: the clients of a group may
        # differ in their durations.
        seconds = np.empty((work.pieces, len(ids)))
        for places in self._table.alike(ids):
            members = ids[places]
            # Clients of a class have equal devices. Only the representative is created.
            representative = self._clients[int(members[0])]
            if representative.draws_times:
                streams = self._slowdowns.of_many(members.tolist())
                seconds[:, places] = representative.drawn_seconds(work, streams)
            else:
                seconds[:, places] = representative.seconds(work)
        same = (work.operations, work.samples, at_once)
        return Pieces(seconds, *(np.broadcast_to(figure, len(ids)) for figure in same))

    def _run(
        self, cohort: HandlerBatch, begin: int, end: int, order: EventOrder, rows: RowBlocks
    ) -> None:
        handle, clients = self._handle, self._clients
        numbers = cohort.clients[begin:end].tolist()
        received = zip(numbers, cohort.received[begin:end], strict=True)
        handlers = list[Any]()
        try:
            handlers.extend(
                handle(client := clients[number], client.protocol.open(envelope))
                for number, envelope in received
            )
            answers = self._drive(
                [handler.send for handler in handlers], cohort, begin, order, rows
            )
        # If one handler fails, the others are still suspended: unclosed coroutines would warn.
        finally:
            for handler in handlers:
                handler.close()
        self._answer(cohort, begin, numbers, answers, rows)

    def _drive(
        self,
        sends: Sequence[Callable[[None], Any]],
        cohort: HandlerBatch,
        begin: int,
        order: EventOrder,
        rows: RowBlocks,
    ) -> list[Any]:
        """Advance handlers from one piece of work to the next; return their replies."""
        clock, number = self._clock, int(cohort.received[begin].round)
        answers: list[Any] = [None] * len(sends)
        places, times = list(range(len(sends))), cohort.times[begin : begin + len(sends)].tolist()
        while places:
            going, pieces = list[int](), list[Any]()
            for place, now in zip(places, times, strict=True):
                # Handlers run in the order of their clients, not of their times. They only see
                # their own clock, so the order does not matter.
                clock.now = now
                try:
                    pieces.append(sends[place](None))
                except StopIteration as end_of_handler:
                    answers[place] = end_of_handler.value
                else:
                    going.append(place)
            # Only `ArrayClient.compute` yields tuples. Anything else, such as a future, would have
            # to be awaited on the event loop.
            if not all(type(piece) is tuple for piece in pieces):
                raise ReactionError("a handler awaits something other than its work")
            places = going
            if places:
                indices = np.array(places) + begin
                for members, work in alike(np.array(pieces)):
                    self._work(cohort, indices[members], work, number, order, rows)
                times = cohort.times[indices].tolist()
        return answers

    def _work(
        self,
        cohort: HandlerBatch,
        indices: Numbers,
        work: Pieces,
        number: int,
        order: EventOrder,
        rows: RowBlocks,
    ) -> None:
        """Advance some clients by equally many consecutive pieces of work each."""
        begins = cohort.times[indices]
        # Accumulated piece by piece, as sums of floats depend on the order.
        ends = np.add.accumulate(np.concatenate([begins[None], work.seconds]))
        # Pieces of no time take turns of the loop, which depend on the other clients: one at a
        # time.
        if len(work.seconds) == 1 or not (np.diff(ends, axis=0) > 0).all():
            at_once = work.at_once
            for seconds in work.seconds:
                piece = Pieces(seconds, work.operations, work.samples, at_once)
                self._work_once(cohort, indices, piece, number, order, rows)
                at_once = np.zeros_like(at_once)  # only the first piece is batched
            return
        # Each piece is an event of its own, scheduled by the end of the piece before it. Event
        # numbers run piece by piece, and client by client within a piece.
        count, size = work.seconds.shape
        # Entry i belongs to piece i // size. Its parent is entry i - size, the piece before it on
        # the same client; the first pieces follow from the events of the cohort.
        parents = order.following - size + np.arange(count * size)
        parents[:size] = cohort.events[indices]
        events = order.add(ends[1:].ravel(), parents)
        cohort.events[indices], cohort.times[indices] = events[-size:], ends[-1]
        # Time has passed: no turns of the loop, and no shared arrival, concern these clients now.
        cohort.turns[indices], cohort.crowded[indices] = -1, False
        ids = cohort.clients[indices]
        self._charge(ids, ends, events, work, number, rows)
        # After `_charge`: changes in one event apply in the order in which they are added, and the
        # end of a piece is settled before the next one begins.
        if self._supplies is not None:  # each piece begins as the last one ends
            self._begin_work(np.tile(ids, count), parents, ends[:-1].ravel())

    def _begin_work(self, ids: Ids, events: Numbers, now: Array) -> None:
        """Set the processor power of batteries as work begins."""
        if self._supplies is not None:
            watts = self._table.of("extra", ids)
            self._supplies.change(ids, events, Part.PROCESSOR, now, watts=watts)

    def _work_once(
        self,
        cohort: HandlerBatch,
        indices: Numbers,
        work: Pieces,
        number: int,
        order: EventOrder,
        rows: RowBlocks,
    ) -> None:
        """Advance some clients by one piece of work each, which may take no time."""
        begins = cohort.times[indices]
        # Work may be shorter than the resolution of the clock. Then it takes no time here, as on
        # the calendar.
        ends = begins + work.seconds
        lasting = np.flatnonzero(ends > begins)
        if len(lasting):
            working = indices[lasting]
            self._begin_work(cohort.clients[working], cohort.events[working], begins[lasting])
            cohort.events[working] = order.add(ends[lasting], cohort.events[working])
            cohort.turns[working] = -1
            cohort.crowded[working] = False
        cohort.check_alone(indices)
        # Zero-duration work of a batching evaluator completes one turn of the loop later.
        _take_turns(cohort, indices[work.at_once & (cohort.turns[indices] >= 0)], order)
        cohort.times[indices] = ends
        ids, events = cohort.clients[indices], cohort.events[indices]
        self._charge(ids, np.stack([begins, ends]), events, work, number, rows)

    def _charge(
        self,
        ids: Ids,
        times: Array,
        events: Numbers,
        work: Pieces,
        number: int,
        rows: RowBlocks,
    ) -> None:
        """Charge pieces of work, and write their rows.

        Args:
            ids: the numbers of the clients, shape (n,).
            times: the beginning of each piece and the end of the last one, s, shape (pieces + 1,
                n).
            events: the events in which pieces end, by piece and client, shape (pieces x n,).
            work: the pieces.
            number: the number of the round.
            rows: receives the rows.
        """
        spans = np.diff(times, axis=0)
        count = len(spans)
        # Power beyond idle, as idle power is metered for the whole run.
        joules = self._table.of("extra", ids) * spans
        operations, samples = work.operations, work.samples
        # The sum over pieces is accumulated in their order, as the event-by-event run adds them.
        if count == 1:
            # A client occurs once, so that `+=` with an array of indices adds every term.
            self._joules[ids] += joules[0]
        else:
            spent = np.concatenate([self._joules[ids][None], joules])
            self._joules[ids] = np.add.accumulate(spent)[-1]
            ids, operations = np.tile(ids, count), np.tile(operations, count)
            samples = np.tile(samples, count)
        charge = self._end_work(ids, times[1:].ravel(), events, spans.ravel(), joules.ravel())
        rows.add(
            events,
            Event.COMPUTE,
            ids,
            t=times[1:].ravel(),
            duration=spans.ravel(),
            round=number,
            joules=joules.ravel(),
            operations=operations,
            samples=samples,
            **charge,
        )

    def _end_work(
        self, ids: Ids, now: Array, events: Numbers, spans: Array, joules: Array
    ) -> dict[str, Numbers]:
        """Set the processor power of batteries as work ends; return the slots of their rows."""
        if self._supplies is None:
            return {}
        slots = self._supplies.reserve(len(ids))
        self._supplies.change(
            ids,
            events,
            Part.PROCESSOR,
            now,
            watts=np.where(spans > 0, 0.0, nan),  # instantaneous work draws no power
            joules=joules,
            edge=self._table.of("extra", ids),
            slots=slots,
            last=True,
        )
        return {"state_of_charge": slots}

    @staticmethod
    def _write_silent(cohort: HandlerBatch, indices: Numbers, number: int, rows: RowBlocks) -> None:
        """Write the rows of clients that censor their reply."""
        times, ids = cohort.times[indices], cohort.clients[indices]
        cohort.check_alone(indices)
        rows.add(cohort.events[indices], Event.SILENT, ids, t=times, peer=SERVER, round=number)

    def _answer(
        self,
        cohort: HandlerBatch,
        begin: int,
        numbers: Sequence[ClientId],
        answers: Sequence[Any],
        rows: RowBlocks,
    ) -> None:
        """Pack the replies into envelopes, and write the rows of silent clients."""
        clients, received = self._clients, cohort.received
        silent = [place for place, answer in enumerate(answers) if answer is SILENCE]
        indices = np.array(silent, np.int64) + begin
        self._write_silent(cohort, indices, int(received[begin].round), rows)
        for number, envelope, answer in zip(
            numbers, received[begin : begin + len(numbers)], answers, strict=True
        ):
            cohort.replies.append(clients[number].protocol.answer(envelope, answer))
