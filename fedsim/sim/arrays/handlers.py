"""Handlers of clients, driven by hand from a message to the reply."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedsim.ports import SERVER, SILENCE, Array, ClientId, Message, Work
from fedsim.protocol.transport import ClientProtocol, Envelope
from fedsim.record.schema import Event
from fedsim.sim.arrays.classes import ClassTable, Ids
from fedsim.sim.arrays.client import ArrayClient, Pieces, alike
from fedsim.sim.arrays.messages import MessageBatch
from fedsim.sim.arrays.order import EventOrder, Numbers, ReactionError
from fedsim.sim.arrays.rows import RowBlocks
from fedsim.sim.arrays.supplies import SupplyArrays
from fedsim.sim.arrays.together import Cohorts, NotAlikeError, ReplyRows, go_on
from fedsim.sim.client import Handler
from fedsim.sim.power.supply import Part
from fedsim.streams import EntityStreams
from fedsim.wire.replies import one_of

_AT_ONCE = 4096
"""So many handlers are in progress together: their work is evaluated in one batch."""


class ClientClock:
    """The time at the client whose handler runs.

    Attributes:
        now: it, s.
    """

    def __init__(self) -> None:
        self.now = 0.0

    def at_deadline(self, when: float, callback: Callable[..., object], *args: Any) -> Any:  # noqa: ANN401, ARG002
        """Refuse: nothing of a client waits for a time but its work."""
        raise ReactionError("a client sets a timer")


@dataclass
class HandlerBatch:
    """The clients that handle a message each.

    Attributes:
        clients: their numbers, shape (n,).
        asked: the envelope that each has received.
        times: when each handler goes on, s, shape (n,).
        events: in which event that is, shape (n,).
        turns: where no time has passed since the messages were sent, how many turns of the loop
            have; -1 elsewhere, shape (n,).
        crowded: whether each goes on in an event in which others go on, too, shape (n,).
        replies: the envelope that each answers with; None where a silent client sends nothing.
        together: the replies of clients that were handled together, in place of `replies`.
    """

    clients: Ids
    asked: Sequence[Envelope]
    times: Array
    events: Numbers
    turns: Numbers
    crowded: NDArray[np.bool_]
    replies: list[Envelope | None]
    together: ReplyRows | None = None

    def check_alone(self, whose: Numbers) -> None:
        """Check that what some clients write now comes in no event in which others get messages.

        Raises:
            ReactionError: it does; their handlers would wait until all have theirs.
        """
        if self.crowded[whose].any():
            raise ReactionError("work of no time follows messages that arrive together")

    def answers(self) -> tuple[Numbers, MessageBatch]:
        """Return the places of those that send an answer, and these."""
        if self.together is not None:
            both = self.together
            every = len(both.senders) == len(self.clients)
            clients = self.clients if every else self.clients[both.senders]
            return both.senders, MessageBatch(clients, both.envelopes, both.kinds)
        senders = np.array([n for n, each in enumerate(self.replies) if each is not None], int)
        return senders, MessageBatch(self.clients[senders], [each for each in self.replies if each])


class _Group(NamedTuple):
    """The handler of a group of clients, their places in the cohort, and its first work."""

    places: Numbers
    protocol: ClientProtocol
    handler: Any
    first: Any


def _take_turns(cohort: HandlerBatch, whose: Numbers, order: EventOrder) -> None:
    """Let work of no time that is evaluated together end after all that began with it."""
    cohort.turns[whose] += 1
    for turn in np.unique(cohort.turns[whose]).tolist():
        own = whose[cohort.turns[whose] == turn]
        times, events = cohort.times[own], cohort.events[own]
        cohort.events[own] = order.add(times, events, priority=turn_priority(turn))


def turn_priority(turn: int) -> float:
    """Return the priority, below all of the calendar's, of what happens in a turn of the loop.

    Args:
        turn: how many came before it since the messages were sent.
    """
    return turn / (1 + turn)


class Handlers:
    """Drives the handlers of clients.

    Args:
        clients: by number, each made at its first lookup.
        table: their constants.
        handle: the method's.
        joules: takes the energy of processors, by client, shape (M,).
        clock: their time.
        slowdowns: their streams of slowdowns.
        cohorts: divides them into groups that are handled together; None if each is by itself.
        supplies: their batteries; None where all are on mains.
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
        """The number of clients that were made so far."""
        return len(self._clients)

    def run(self, cohort: HandlerBatch, order: EventOrder, rows: RowBlocks) -> None:
        """Run the handlers of a cohort up to their replies.

        Raises:
            ReactionError: a handler waits for something else than its work.
        """
        if self._cohorts is not None and cohort.asked[0] is cohort.asked[-1]:
            try:
                groups = self._begin(self._cohorts, cohort)
            except NotAlikeError as error:
                if self._cohorts.remembers:
                    raise ReactionError("clients with one state are not alike") from error
                self._cohorts = None
            else:
                self._run_together(groups, cohort, order, rows)
                return
        for begin in range(0, len(cohort.clients), _AT_ONCE):
            self._run(cohort, begin, begin + _AT_ONCE, order, rows)

    def _begin(self, cohorts: Cohorts, cohort: HandlerBatch) -> "list[_Group]":
        """Begin the handlers of groups of clients, up to the first work of each.

        Raises:
            NotAlikeError: they have to be handled one by one; nothing has happened so far.
        """
        begun, envelope = list[_Group](), cohort.asked[0]
        try:
            for places, group in cohorts.groups(cohort.clients):
                handler: Any = cohorts.handle(group, group.protocol.open(envelope))
                begun.append(_Group(places, group.protocol, handler, None))
                begun[-1] = begun[-1]._replace(first=go_on(handler))
        except BaseException:
            for each in begun:
                each.handler.close()
            raise
        return begun

    def _run_together(
        self, groups: "list[_Group]", cohort: HandlerBatch, order: EventOrder, rows: RowBlocks
    ) -> None:
        """Run the handlers of groups from their first work up to their replies."""
        envelope, count = cohort.asked[0], len(cohort.clients)
        replies, silent = list[tuple[Numbers, Message]](), np.zeros(count, np.bool_)
        sent, number = None, int(envelope.round)
        for places, protocol, handler, piece in groups:
            while isinstance(piece, tuple) and isinstance(piece[0], Work):
                pieces = self._pieces(cohort.clients[places], *piece)
                self._work(cohort, places, pieces, number, order, rows)
                piece = go_on(handler)  # noqa: PLW2901 - the next one
            message, silent[places] = piece if isinstance(piece, tuple) else (piece, False)
            if not isinstance(message, Message):
                raise ReactionError("a group of clients does not reply")
            replies.append((places, message))
            sent = protocol.answer(envelope, one_of(message, 0))
        self._write_silent(cohort, np.flatnonzero(silent), number, rows)
        beacon = protocol.answer(envelope, SILENCE) if silent.any() else None
        cohort.together = ReplyRows.of(replies, silent, sent, beacon)
        if self._cohorts is not None:
            self._cohorts.keep()

    def _pieces(self, ids: Ids, work: Work, at_once: bool) -> Pieces:  # noqa: FBT001 - of a piece
        """Return the pieces of the same work of some clients."""
        seconds = np.empty((work.pieces, len(ids)))
        for places in self._table.alike(ids):
            own = ids[places]
            one = self._clients[int(own[0])]
            if one.draws_times:
                streams = self._slowdowns.of_many(own.tolist())
                seconds[:, places] = one.drawn_seconds(work, streams)
            else:
                seconds[:, places] = one.seconds(work)
        same = (work.operations, work.samples, at_once)
        return Pieces(seconds, *(np.broadcast_to(figure, len(ids)) for figure in same))

    def _run(
        self, cohort: HandlerBatch, begin: int, end: int, order: EventOrder, rows: RowBlocks
    ) -> None:
        handle, clients = self._handle, self._clients
        own = cohort.clients[begin:end].tolist()
        given = zip(own, cohort.asked[begin:end], strict=True)
        handlers = list[Any]()
        try:
            handlers.extend(
                handle(client := clients[number], client.protocol.open(envelope))
                for number, envelope in given
            )
            answers = self._drive([each.send for each in handlers], cohort, begin, order, rows)
        finally:
            for each in handlers:
                each.close()  # those that are not over, where one has failed
        self._answer(cohort, begin, own, answers, rows)

    def _drive(
        self,
        sends: Sequence[Callable[[None], Any]],
        cohort: HandlerBatch,
        begin: int,
        order: EventOrder,
        rows: RowBlocks,
    ) -> list[Any]:
        """Let handlers go on, from one piece of work to the next; return their replies."""
        clock, number = self._clock, int(cohort.asked[begin].round)
        answers: list[Any] = [None] * len(sends)
        places, times = list(range(len(sends))), cohort.times[begin : begin + len(sends)].tolist()
        while places:
            going, pieces = list[int](), list[Any]()
            for place, now in zip(places, times, strict=True):
                clock.now = now
                try:
                    pieces.append(sends[place](None))
                except StopIteration as end_of_handler:
                    answers[place] = end_of_handler.value
                else:
                    going.append(place)
            if not all(type(piece) is tuple for piece in pieces):
                raise ReactionError("a handler waits for something else than its work")
            places = going
            if places:
                whose = np.array(places) + begin
                for own, some in alike(np.array(pieces)):
                    self._work(cohort, whose[own], some, number, order, rows)
                times = cohort.times[whose].tolist()
        return answers

    def _work(
        self,
        cohort: HandlerBatch,
        whose: Numbers,
        work: Pieces,
        number: int,
        order: EventOrder,
        rows: RowBlocks,
    ) -> None:
        """Let each of some clients do equally many pieces of work, one after the other."""
        begins = cohort.times[whose]
        ends = np.add.accumulate(np.concatenate([begins[None], work.seconds]))  # in this order
        if len(work.seconds) == 1 or not (np.diff(ends, axis=0) > 0).all():
            at_once = work.at_once
            for seconds in work.seconds:
                one = Pieces(seconds, work.operations, work.samples, at_once)
                self._work_once(cohort, whose, one, number, order, rows)
                at_once = np.zeros_like(at_once)
            return
        # Each piece is an event of its own, which the one before it schedules.
        count, size = work.seconds.shape
        parents = order.following - size + np.arange(count * size)
        parents[:size] = cohort.events[whose]
        events = order.add(ends[1:].ravel(), parents)
        cohort.events[whose], cohort.times[whose] = events[-size:], ends[-1]
        cohort.turns[whose], cohort.crowded[whose] = -1, False
        ids = cohort.clients[whose]
        self._charge(ids, ends, events, work, number, rows)
        if self._supplies is not None:  # each piece begins as the one before it has ended
            self._begin_work(np.tile(ids, count), parents, ends[:-1].ravel())

    def _begin_work(self, ids: Ids, events: Numbers, now: Array) -> None:
        """Let batteries follow processors that begin to work."""
        if self._supplies is not None:
            watts = self._table.of("extra", ids)
            self._supplies.change(ids, events, Part.PROCESSOR, now, watts=watts)

    def _work_once(
        self,
        cohort: HandlerBatch,
        whose: Numbers,
        work: Pieces,
        number: int,
        order: EventOrder,
        rows: RowBlocks,
    ) -> None:
        """Let each of some clients do one piece of work, which may take no time."""
        begins = cohort.times[whose]
        ends = begins + work.seconds
        lasting = np.flatnonzero(ends > begins)
        if len(lasting):
            own = whose[lasting]
            self._begin_work(cohort.clients[own], cohort.events[own], begins[lasting])
            cohort.events[own] = order.add(ends[lasting], cohort.events[own])
            cohort.turns[own] = -1
            cohort.crowded[own] = False
        cohort.check_alone(whose)
        _take_turns(cohort, whose[work.at_once & (cohort.turns[whose] >= 0)], order)
        cohort.times[whose] = ends
        ids, events = cohort.clients[whose], cohort.events[whose]
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
            ids: of the clients, shape (n,).
            times: when each piece begins, and when the last one ends, s, shape (pieces + 1, n).
            events: in which they end, by piece and client, shape (pieces x n,).
            work: the pieces.
            number: of the round.
            rows: takes the rows.
        """
        spans = np.diff(times, axis=0)
        count = len(spans)
        joules = self._table.of("extra", ids) * spans
        operations, samples = work.operations, work.samples
        if count == 1:
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
        """Let batteries follow processors that have worked; return the slots of their rows."""
        if self._supplies is None:
            return {}
        slots = self._supplies.reserve(len(ids))
        self._supplies.change(
            ids,
            events,
            Part.PROCESSOR,
            now,
            watts=np.where(spans > 0, 0.0, nan),  # what takes no time has no power
            joules=joules,
            edge=self._table.of("extra", ids),
            slots=slots,
            last=True,
        )
        return {"state_of_charge": slots}

    @staticmethod
    def _write_silent(cohort: HandlerBatch, whose: Numbers, number: int, rows: RowBlocks) -> None:
        """Write that some clients have nothing worth sending."""
        times, ids = cohort.times[whose], cohort.clients[whose]
        cohort.check_alone(whose)
        rows.add(cohort.events[whose], Event.SILENT, ids, t=times, peer=SERVER, round=number)

    def _answer(
        self,
        cohort: HandlerBatch,
        begin: int,
        own: Sequence[ClientId],
        answers: Sequence[Any],
        rows: RowBlocks,
    ) -> None:
        """Make the envelopes of the replies."""
        clients, asked = self._clients, cohort.asked
        silent = [place for place, answer in enumerate(answers) if answer is SILENCE]
        whose = np.array(silent, np.int64) + begin
        self._write_silent(cohort, whose, int(asked[begin].round), rows)
        for number, envelope, answer in zip(
            own, asked[begin : begin + len(own)], answers, strict=True
        ):
            cohort.replies.append(clients[number].protocol.answer(envelope, answer))
