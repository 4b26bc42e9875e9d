"""The server's end: rounds of exchanges, and what becomes of every reply.

The life of an exchange: `cohort` says whom to ask; `open` opens it and returns what to send;
facts come in (`heard`, `gone`, `overdue`, `give_up`) until its phase is not open any more;
`replies` ends it. An exchange that was given up is ended by `abandon` instead, and the next one
asks anew.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import partial
from math import floor, inf
from operator import itemgetter

from fedsim.ports import SERVER, ClientId, Message, Reply, node_name
from fedsim.protocol.carriage import VALUES, Carriage
from fedsim.protocol.envelope import BEACON, Envelope, LocalProtocolError, RemoteProtocolError
from fedsim.protocol.participation import Participation
from fedsim.protocol.selection import Cohort, Selection
from fedsim.protocol.silence import SilencePolicy

# An exchange: whom a message has gone to, who has reported, and whether that is enough.

_FEW = 5
"""How many clients are named; of more, how many there are."""


class Phase(Enum):
    """The life of an exchange: it is open, and then it is closed or was given up."""

    OPEN = "open"
    CLOSED = "closed"
    GIVEN_UP = "given up"


class Exchange:
    """It is open until all have reported, or enough, or its deadline; then it is closed.

    Attributes:
        number: from 1.
        waiting: who has not reported, and can.
        asked: how many were waited for when it was opened.
        goal: so many reports close it at once.
        least: so many must have come before its deadline closes it.
        replies: those that carry something.
        reported: how many have reported, with or without a reply.
        overdue: whether its deadline has passed.
        phase: of its life.
        deserted: whether it closed because no client was left to wait for.
    """

    __slots__ = (
        "asked",
        "deserted",
        "goal",
        "least",
        "number",
        "overdue",
        "phase",
        "replies",
        "reported",
        "waiting",
    )

    def __init__(
        self,
        number: int,
        waiting: set[ClientId],
        goal: float = inf,
        least: int = 0,
        reported: int = 0,
    ) -> None:
        self.number = number
        self.waiting = waiting
        self.asked = len(waiting)
        self.goal = goal
        self.least = least
        self.replies: list[Reply] = []
        self.reported = reported
        self.overdue = False
        self.phase = Phase.OPEN if waiting else Phase.CLOSED
        self.deserted = not waiting

    @property
    def over(self) -> bool:
        """Whether nothing can change it any more."""
        return self.phase is not Phase.OPEN

    def gone(self, client: ClientId) -> bool:
        """Take note that a client will not report any more; say whether it is over."""
        self.waiting.discard(client)
        return self.look()

    def pass_deadline(self) -> bool:
        """Take note that its time is up; say whether it is over."""
        self.overdue = True
        return self.look()

    def give_up(self) -> bool:
        """End it although it may not be closed; say whether it is over, which it is."""
        if self.phase is Phase.OPEN:
            self.phase = Phase.GIVEN_UP
        return True

    def look(self) -> bool:
        """Close it where it may be; say whether it is over."""
        enough = self.reported >= (self.least if self.overdue else self.goal)
        if (enough or not self.waiting) and self.phase is Phase.OPEN:
            self.phase = Phase.CLOSED
            self.deserted = not self.waiting
        return self.phase is not Phase.OPEN

    @property
    def progress(self) -> str:
        """Who has reported, how many are needed, and who has not: in words."""
        needed = self.goal if self.goal < inf else (self.least if self.overdue else self.asked)
        if not self.asked:
            return "none of the clients that were to be asked is available"
        if not self.waiting:
            return f"{self.reported} of {self.asked} have reported, and all others have left"
        missing = [node_name(client) for client in sorted(self.waiting)]
        named = ", ".join(missing) if len(missing) <= _FEW else f"{len(missing)} clients"
        come = f"{self.reported} of {self.asked} have reported, {needed:g} are needed"
        return f"{come}; missing: {named}"


# Verdicts: what an end of the protocol says of a message that has arrived.


class Verdict(Enum):
    """What becomes of what has arrived.

    COUNTED: it belongs to the open exchange.
    CLOSED: it does, and it is the one that closes it.
    BEYOND: an asynchronous server's buffer is full; it waits for the next exchange.
    EARLY: it is of an exchange that this end has yet to open, and waits for that.
    KEPT: it is late, and counts for the next exchange.
    DROPPED: it is late, and counts for nothing.
    """

    COUNTED = "counted"
    CLOSED = "closed"
    BEYOND = "beyond the buffer"
    EARLY = "early"
    KEPT = "kept for the next round"
    DROPPED = "dropped"


_REPLY = partial(tuple.__new__, Reply)
"""Makes a reply of its fields; half of what `Reply` itself takes."""

_by_client_and_round = itemgetter(0, 1)

Post = Sequence[tuple[Envelope, Sequence[ClientId]]]
"""What is to be sent: each envelope with those whom it goes to."""


class ServerEnd:
    """The server's end of the protocol.

    Args:
        clients: all there are, in order.
        selection: draws the cohorts.
        policy: when a round closes.
        silence: how clients keep quiet.
        header_bits: in front of every message.
        carriage: how messages are carried.

    Attributes:
        round: the current round, from 1.
        exchange: the one that is under way, if any.
        deadline: so long after its broadcast an exchange is overdue, s; infinite for never.
        patience: so long after it, it is given up, s; infinite for never.
        late: the replies to earlier exchanges that count for the next one.
    """

    def __init__(
        self,
        clients: Sequence[ClientId],
        selection: Selection,
        policy: Participation,
        silence: SilencePolicy,
        header_bits: int,
        carriage: Carriage = VALUES,
    ) -> None:
        self.clients = clients
        self.round = 1
        self.exchange: Exchange | None = None
        self.deadline = min(silence.closes_after, policy.closes_after)
        self.patience = policy.patience
        self._selection = selection
        self._policy = policy
        self._asynchronous = policy.asynchronous
        self._silence_is_sent = silence.beacon
        self._keeps_late = silence.keep_late and policy.keep_late
        self._header_bits = header_bits
        self._carriage = carriage
        self._exchanges = 0
        self._broken_off: Exchange | None = None
        self._busy: set[ClientId] = set()  # of an asynchronous server: who works already
        self._asked_in: dict[ClientId, int] = {}  # of such a server: the exchange of the last one
        self._carried = 0  # the reports that an asynchronous server's buffer holds already
        self._left_out = False  # whether the draw for the next exchange has left out clients
        self.late: list[Reply] = []
        self._beyond: deque[tuple[ClientId, Envelope]] = deque()

    # -- whom to ask -------------------------------------------------------------------

    def addressed(
        self, message: Message | Mapping[ClientId, Message], to: Sequence[ClientId] | None
    ) -> Sequence[ClientId] | None:
        """Return whom an exchange is for; None for whoever the policy draws among all.

        Args:
            message: for all, or one for each.
            to: whom the method names; those who have a message where it names nobody.

        Raises:
            ValueError: there is no such client, or no message for one of them.
        """
        each = None if isinstance(message, Message) else message
        if to is None and each is not None and len(each) != len(self.clients):
            to = sorted(each)
        named = self.clients if to is None else to
        if strangers := [one for one in to or () if one not in self.clients]:
            raise ValueError(f"there are clients 0 to {len(self.clients) - 1}, not {strangers}")
        if each is not None and (without := [one for one in named if one not in each]):
            raise ValueError(f"there is no message for the clients {without}")
        return to

    def cohort(self, to: Sequence[ClientId] | None) -> Cohort | None:
        """Return whom to ask now; None where nobody of those wanted can take part now."""
        cohort = self._selection.cohort(to, self._busy)
        self._left_out = cohort is not None and bool(cohort.skipped)
        return cohort

    def all_gone(self, named: Sequence[ClientId]) -> Cohort:
        """Return the cohort of an exchange whose clients have all left for good: none of them.

        Its round is abandoned. Others may take part still.
        """
        self._left_out = True
        return self._selection.all_gone(named)

    def open(
        self, message: Message | Mapping[ClientId, Message], cohort: Sequence[ClientId]
    ) -> Post:
        """Open an exchange with a cohort; return what is to be sent to whom.

        Args:
            message: for all, or one for each.
            cohort: who is asked.

        Raises:
            LocalProtocolError: one is under way.
        """
        self.check_free()
        self._exchanges += 1
        waiting, policy = self._waiting(cohort), self._policy
        goal, least = policy.goal(len(waiting)), policy.least(len(waiting))
        self.exchange = opened = Exchange(self._exchanges, waiting, goal, least, self._carried)
        # An exchange that the algorithm opens for no client, without a draw, is in order.
        opened.deserted = not waiting and self._left_out
        self._carried, self._left_out = 0, False
        while self._beyond and not opened.over:
            self.heard(*self._beyond.popleft())
        if not cohort:
            return ()
        if isinstance(message, Message):
            return [(self._seal(message), cohort)]
        return [(self._seal(message[client]), (client,)) for client in cohort]

    def check_free(self) -> None:
        """Raise a LocalProtocolError where an exchange is under way."""
        if self.exchange is not None:
            raise LocalProtocolError("an exchange is under way: a round has one at a time")

    def _waiting(self, cohort: Sequence[ClientId]) -> set[ClientId]:
        waiting = set(cohort)
        if self._asynchronous:
            self._asked_in.update(dict.fromkeys(cohort, self._exchanges))
            waiting = self._busy = self._busy | waiting
        return waiting

    def _seal(self, message: Message) -> Envelope:
        envelope = Envelope(message, self.round, self._exchanges, self._header_bits)
        return self._carriage.seal(envelope, SERVER)

    # -- facts -------------------------------------------------------------------------

    def heard(self, client: ClientId, envelope: Envelope) -> Verdict:
        """Take a reply that has arrived, and say what becomes of it.

        Raises:
            RemoteProtocolError: it answers what was not asked.
        """
        exchange, at_work = self.exchange, False
        if self._asynchronous:
            if exchange is not None and exchange.over:
                # Of replies that come at once, those beyond the buffer wait for the next round,
                # and whose they are counts as at work until then.
                self._beyond.append((client, envelope))
                return Verdict.BEYOND
            # A client that was asked anew, as the server gave up, works on that message still.
            at_work = envelope.exchange < self._asked_in.get(client, 0)
            if not at_work:
                self._busy.discard(client)
        if exchange is None or not (self._asynchronous or exchange.number == envelope.exchange):
            return self._overtaken(client, envelope)
        if envelope.message is not BEACON:
            exchange.replies.append(_REPLY((client, envelope.round, envelope.message)))
        # In place, not a method of the exchange: this runs for every client in every round.
        exchange.reported += 1
        if not at_work:
            exchange.waiting.discard(client)
        if not exchange.waiting or exchange.overdue or exchange.reported >= exchange.goal:
            return Verdict.CLOSED if not exchange.over and exchange.look() else Verdict.COUNTED
        return Verdict.COUNTED

    def _overtaken(self, client: ClientId, envelope: Envelope) -> Verdict:
        if not 0 < envelope.exchange <= self._exchanges:
            text = f"client {client} answers exchange {envelope.exchange}, which was not opened"
            raise RemoteProtocolError(text)
        return self._count_late(Reply(client, envelope.round, envelope.message))

    def _count_late(self, reply: Reply) -> Verdict:
        if not self._keeps_late or reply.message is BEACON:
            return Verdict.DROPPED
        self.late.append(reply)
        return Verdict.KEPT

    def notice(self, now: float) -> float:
        """Return when the server notices that a connection has ended at the time `now`.

        With a heartbeat it is the first beat after that; infinite where it does not notice at all,
        so that the deadline of the round, or giving it up, goes on without the client.
        """
        if self._policy.noticed == "at-once":
            return now
        if self._policy.heartbeat is None:
            return inf
        return (floor(now / self._policy.heartbeat) + 1) * self._policy.heartbeat

    def asked_in(self, client: ClientId) -> int:
        """Return the number of the exchange that waits for a client; 0 where none does.

        Of an asynchronous server it is the one in which the client was asked last.
        """
        if self._asynchronous:
            return self._asked_in.get(client, 0)
        return 0 if self.exchange is None else self.exchange.number

    def gone(self, client: ClientId, exchange: int | None = None) -> bool:
        """Take note that a client's connection has ended; say whether that ends an exchange.

        Args:
            client: whose.
            exchange: in which it had been asked when it ended, where that is noticed later: by
                now that one may be over, and the client may have been asked again in another one.
        """
        if exchange not in {None, self.asked_in(client)}:
            return False
        self._busy.discard(client)
        return self.exchange is not None and self.exchange.gone(client)

    def overdue(self) -> bool:
        """Take note that the deadline has passed; say whether that ends an exchange."""
        return self.exchange is not None and self.exchange.pass_deadline()

    def give_up(self) -> bool:
        """Take note that nobody waits any longer; say whether that ends an exchange."""
        return self.exchange is not None and self.exchange.give_up()

    # -- how it ends -------------------------------------------------------------------

    def replies(self) -> list[Reply]:
        """End the exchange, and return what counts: by client and then by round."""
        ended, late = self._ended(), self.late
        self.late = []
        return sorted(late + ended.replies, key=_by_client_and_round)

    def abandon(self) -> list[tuple[Reply, Verdict]]:
        """End an exchange that was given up, and its round; return which replies are late now.

        Those that have come count as late, but in the buffer of an asynchronous server, where
        they stay; those whom such a server waited for may be asked again.
        """
        ended = self._ended()
        self.round += 1
        if self._asynchronous:
            self._busy, self._carried = set(), ended.reported
            self.late += ended.replies
            return []
        return [(reply, self._count_late(reply)) for reply in ended.replies]

    def break_off(self) -> None:
        """End the exchange, if one is under way, without its replies: nobody waits for it."""
        ended, self.exchange = self.exchange, None
        self._broken_off = ended if ended is not None and not ended.over else None

    def _ended(self) -> Exchange:
        ended, self.exchange = self.exchange, None
        if ended is None:
            raise LocalProtocolError("there is no exchange that could end")
        return ended

    @property
    def over(self) -> bool:
        """Whether nothing can change the exchange any more."""
        return self.exchange is None or self.exchange.over

    @property
    def given_up(self) -> bool:
        """Whether the exchange was given up before it could close, or no client has answered it.

        An algorithm makes its steps of replies. It is not handed an exchange without any, which
        would move its momentum, its averages and its counters without a word from the clients.
        """
        exchange = self.exchange
        if exchange is None or exchange.phase is Phase.OPEN:
            return False
        return exchange.phase is Phase.GIVEN_UP or self._unanswered(exchange)

    def _unanswered(self, exchange: Exchange) -> bool:
        """Return whether an exchange has closed although no client has reported in it."""
        if exchange.reported or self.late:
            return False
        if not exchange.asked:  # an algorithm may ask no client; a draw may find none available
            return exchange.deserted
        # Clients that are still there at the deadline may have kept silent, which is an answer.
        return exchange.deserted or self._silence_is_sent

    @property
    def progress(self) -> str:
        """Who has reported in the exchange, and who has not; empty where there is none."""
        return "" if self.exchange is None else self.exchange.progress

    @property
    def stuck(self) -> str:
        """Whom it waited for when the exchange was broken off; empty where for nobody."""
        if self._broken_off is None:
            return ""
        return f"the server waits in round {self.round}: {self._broken_off.progress}"
