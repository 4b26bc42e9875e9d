"""The server's endpoint: rounds of exchanges, and the outcome of every reply.

The life of an exchange: `cohort` selects the clients, and `open` opens the exchange and returns the
messages to send. Then events arrive (`receive_reply`, `client_left`, `deadline_expired`,
`abandon_round`) until the exchange is closed or abandoned. `replies` ends a closed exchange;
`abandon` ends an abandoned one, and the next exchange asks a new cohort.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from math import floor, inf
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from fedsim.core.ports import SERVER, ClientId, Message, Reply, node_name
from fedsim.protocol.aggregation import ADDS_UP, Aggregator
from fedsim.protocol.estimates import Estimator
from fedsim.protocol.exchange import Exchange, Phase
from fedsim.protocol.participation import ExchangeOutcome, Participation, Sample, Sent
from fedsim.protocol.reporting import Reports
from fedsim.protocol.selection import Cohort, Selection
from fedsim.protocol.silence import SilencePolicy
from fedsim.protocol.transport import (
    BEACON,
    VALUES,
    Envelope,
    LocalProtocolError,
    RemoteProtocolError,
    Transport,
)
from fedsim.wire import senders

# How an endpoint of the protocol treats a received message.


class ReplyOutcome(Enum):
    """How an endpoint treats a received message.

    COUNTED: it belongs to the open exchange.
    CLOSED: it belongs to the open exchange, and closes it.
    BEYOND: the buffer of an asynchronous server is full; the message waits for the next exchange.
    EARLY: it belongs to an exchange that this node has yet to open, and waits for that.
    KEPT: it is late, and counts in the next exchange.
    DROPPED: it is late, and is ignored.
    """

    COUNTED = "counted"
    CLOSED = "closed"
    BEYOND = "beyond the buffer"
    EARLY = "early"
    KEPT = "kept for the next round"
    DROPPED = "dropped"


_REPLY = partial(tuple.__new__, Reply)
"""Creates a `Reply` from its fields, in half the time of calling `Reply`."""

_by_client, _by_client_and_round = itemgetter(0), itemgetter(0, 1)

Post = Sequence[tuple[Envelope, Sequence[ClientId]]]
"""Envelopes to send, each with its receivers."""


class ServerProtocol:
    """The server's endpoint of the protocol.

    Args:
        clients: all clients, in order.
        selection: samples the cohorts.
        policy: decides when a round closes.
        silence: decides how silent clients are handled.
        header_bits: the size of the header of every message.
        transport: carries the messages.
        name: returns the name of a client, for error messages.
        aggregator: combines the vectors of replies.

    Attributes:
        round: the current round, from 1.
        exchange: the open exchange, if any.
        deadline: the time from the broadcast of an exchange to its deadline, s; infinite for none.
        round_timeout: the same for the timeout of a round, s; infinite for none.
        late: the replies to earlier exchanges that count in the next one.
        silent: the clients whose beacon has arrived in the last exchange.
        watched: whether the policy sees replies; see `see_reply` and `close_watch`.
        asks_candidates: whether candidates first report in a separate exchange.
        estimator: the weights of replies in estimates over all clients.
        aggregator: combines the vectors of replies.
    """

    def __init__(
        self,
        clients: Sequence[ClientId],
        selection: Selection,
        policy: Participation,
        silence: SilencePolicy,
        header_bits: int,
        transport: Transport = VALUES,
        name: Callable[[ClientId], str] = node_name,
        aggregator: Aggregator = ADDS_UP,
    ) -> None:
        self.clients = clients
        self._name = name
        self.round = 1
        self.exchange: Exchange | None = None
        self.deadline = min(silence.closes_after, policy.closes_after)
        self.round_timeout = policy.round_timeout
        self._selection = selection
        self._policy = policy
        self._asynchronous = policy.asynchronous
        self._silence_is_sent = silence.beacon
        self._keeps_late = silence.keep_late and policy.keep_late
        self._header_bits = header_bits
        self._transport = transport
        self._exchanges = 0
        self._broken_off: Exchange | None = None
        self._busy: set[ClientId] = set()  # of an asynchronous server: clients at work
        self._asked_in: dict[ClientId, int] = {}  # of such a server: the exchange of the last one
        self._carried = 0  # the reports that an asynchronous server's buffer holds already
        self._left_out = False  # whether the draw for the next exchange has left out clients
        self.late: list[Reply] = []
        self.silent: list[ClientId] = []
        self._beyond: deque[tuple[ClientId, Envelope]] = deque()
        self.watched = selection.watch is not None
        self.asks_candidates = selection.asks_candidates
        estimate = policy.estimate if isinstance(policy, Sample) else "self-normalised"
        self.estimator = Estimator(estimate, len(clients))
        self.aggregator = aggregator
        # Only where rounds may close without some clients.
        early = silence.closes_after < inf or any(policy.early())
        self._follows = early and not policy.asynchronous
        self._asked: set[ClientId] = set()
        self._cohort: set[ClientId] = set()
        self._heard: set[ClientId] = set()

    def recipients(
        self, message: Message | Mapping[ClientId, Message], to: Sequence[ClientId] | None
    ) -> Sequence[ClientId] | None:
        """Return the requested recipients, or None to let the participation policy choose.

        Args:
            message: one message for all clients, or one for each.
            to: the clients that the method names; None for all that have a message.

        Raises:
            ValueError: an unknown client, or one without a message.
        """
        messages = None if isinstance(message, Message) else message
        if to is None and messages is not None and len(messages) != len(self.clients):
            to = sorted(messages)
        named = self.clients if to is None else to
        if unknown := [client for client in to or () if client not in self.clients]:
            raise ValueError(f"there are clients 0 to {len(self.clients) - 1}, not {unknown}")
        if messages is not None and (without := [node for node in named if node not in messages]):
            raise ValueError(f"there is no message for the clients {without}")
        return to

    def cohort(
        self, to: Sequence[ClientId] | None, now: float = 0.0, sent: Sent | None = None
    ) -> Cohort | None:
        """Return the cohort to ask now; None if no requested client can take part now.

        Args:
            to: the clients that the method names; None leaves the choice to the policy.
            now: the time, s.
            sent: the message of the round, for a policy that is an oracle.
        """
        cohort = self._selection.cohort(to, self._busy, now, sent)
        self._left_out = cohort is not None and bool(cohort.skipped)
        if to is None:
            self.estimator.record(self.round, self._selection.draw)
        return cohort

    def all_gone(self, named: Sequence[ClientId]) -> Cohort:
        """Return the empty cohort of an exchange whose clients have all left for good.

        Its round is abandoned. Other clients may still take part.
        """
        self._left_out = True
        return self._selection.all_gone(named)

    def open(
        self, message: Message | Mapping[ClientId, Message], cohort: Sequence[ClientId]
    ) -> Post:
        """Open an exchange with a cohort; return the envelopes to send with their receivers.

        Args:
            message: one message for all clients, or one for each.
            cohort: the clients asked.

        Raises:
            LocalProtocolError: an exchange is open already.
        """
        self.check_free()
        self._exchanges += 1
        if self._follows:
            self._cohort = set(cohort)
            self._asked |= self._cohort
        waiting, policy = self._waiting(cohort), self._policy
        goal, least = policy.goal(len(waiting)), policy.least(len(waiting))
        # The goal of an asynchronous server is that of its buffer, which may hold replies of an
        # abandoned round.
        counted = goal, least, self._carried
        self.silent = []
        self.exchange = opened = Exchange(self._exchanges, waiting, *counted, self._name)
        # If the algorithm itself names no client, without a draw, the empty exchange is in order:
        # the algorithm gets no replies. If a draw found no available client, we abandon the round.
        opened.deserted = not waiting and self._left_out
        self._carried, self._left_out = 0, False
        # An asynchronous server's surplus of the last round comes first, in the order of arrival.
        while self._beyond and not opened.over:
            self.receive_reply(*self._beyond.popleft())
        if not cohort:
            return ()
        if isinstance(message, Message):
            return [(self._wrap(message), cohort)]
        return [(self._wrap(message[client]), (client,)) for client in cohort]

    # -- informed policies -------------------------------------------------------------

    def delay(self, now: float) -> float:
        """Return how long the server waits before the round that the policy draws, s."""
        return self._selection.delay(now)

    def begin_watch(self, now: float, cohort: Sequence[ClientId]) -> None:
        """Let the policy see the replies to the exchange that is opened now."""
        if self._selection.watch is not None:
            self._selection.watch.begin(now, cohort)

    def see_reply(self, client: ClientId, envelope: Envelope, now: float) -> None:
        """Show the policy a reply that has arrived now."""
        if self._selection.watch is not None:
            self._selection.watch.see(client, envelope.exchange, envelope.message, now)

    def close_watch(self, now: float) -> ExchangeOutcome | None:
        """Show the policy the outcome of the exchange that is over now."""
        return self._selection.close(now)

    def choose(self, outcome: ExchangeOutcome) -> Cohort:
        """End the exchange with candidates; return the cohort to ask for an update."""
        self._end()
        self._left_out = True
        return self._selection.narrow(outcome)

    def check_free(self) -> None:
        """Raise LocalProtocolError if an exchange is open."""
        if self.exchange is not None:
            raise LocalProtocolError("an exchange is open already: a round has one at a time")

    def _waiting(self, cohort: Sequence[ClientId]) -> set[ClientId] | range:
        if self._asynchronous:
            self._asked_in.update(dict.fromkeys(cohort, self._exchanges))
            self._busy = self._busy | set(cohort)
            # The very set of busy clients: a report removes its sender from both. So the next
            # exchange waits for all that are at work.
            return self._busy
        return cohort if isinstance(cohort, range) else set(cohort)

    def _wrap(self, message: Message) -> Envelope:
        envelope = Envelope(message, self.round, self._exchanges, self._header_bits)
        return self._transport.encode(envelope, SERVER)

    def receive_reply(self, client: ClientId, envelope: Envelope) -> ReplyOutcome:
        """Receive a reply and return its outcome.

        Raises:
            RemoteProtocolError: it answers an exchange that was never opened.
        """
        exchange, at_work = self.exchange, False
        if self._asynchronous:
            if exchange is not None and exchange.over:
                # When replies arrive together, those beyond the buffer wait for the next round, and
                # their senders count as busy until then.
                self._beyond.append((client, envelope))
                return ReplyOutcome.BEYOND
            # A client that was asked again after a timeout is still working on the newer message.
            at_work = envelope.exchange < self._asked_in.get(client, 0)
            if not at_work:
                self._busy.discard(client)
        if exchange is None or not (self._asynchronous or exchange.number == envelope.exchange):
            return self._overtaken(client, envelope)
        if envelope.message is not BEACON:
            exchange.replies.append(_REPLY((client, envelope.round, envelope.message)))
        else:
            self.silent.append(client)
        # Inlined from `Exchange`, since it runs for every client in every round.
        exchange.reported += 1
        waiting = exchange.waiting
        if not at_work:
            waiting.discard(client)
        decides = not waiting or exchange.overdue or exchange.reported >= exchange.goal
        if decides and exchange.phase is Phase.OPEN and exchange.look():
            return ReplyOutcome.CLOSED
        return ReplyOutcome.COUNTED

    def receive_all(
        self, number: int, clients: NDArray[np.int64], replies: Sequence[Reply]
    ) -> ReplyOutcome | None:
        """Receive many reports to the open exchange at once, up to the one that closes it.

        Args:
            number: the number of the exchange that all of them answer.
            clients: the senders, each once, shape (n,); the exchange waits for all of them.
            replies: the reports with a message, in the order of the clients.

        Returns:
            The outcome of the last report; None if the caller must pass them one by one.
        """
        exchange, count = self.exchange, len(clients)
        if exchange is None or self._asynchronous or exchange.over or exchange.overdue:
            return None
        # More reports than this would be late: one of them closes the exchange.
        due = min(exchange.outstanding, exchange.goal - exchange.reported)
        if exchange.number != number or exchange.columns or count > due:
            return None
        exchange.count(clients, replies)
        return ReplyOutcome.CLOSED if count == due and exchange.look() else ReplyOutcome.COUNTED

    def _overtaken(self, client: ClientId, envelope: Envelope) -> ReplyOutcome:
        if not 0 < envelope.exchange <= self._exchanges:
            text = f"client {client} answers exchange {envelope.exchange}, which was not opened"
            raise RemoteProtocolError(text)
        return self._count_late(Reply(client, envelope.round, envelope.message))

    def _count_late(self, reply: Reply) -> ReplyOutcome:
        if not self._keeps_late or reply.message is BEACON or isinstance(reply.message, Reports):
            return ReplyOutcome.DROPPED
        self.late.append(reply)
        return ReplyOutcome.KEPT

    def notice(self, now: float) -> float:
        """Return when the server notices that a connection ended at the time `now`.

        With a heartbeat, that is the first beat after the end. It is infinite if the server does
        not notice; then the deadline or the timeout of the round handles the missing client.
        """
        if self._policy.noticed == "at-once":
            return now
        if self._policy.heartbeat is None:
            return inf
        # Beats count from time 0. A connection that ends at a beat has answered that one, so the
        # next notices.
        return (floor(now / self._policy.heartbeat) + 1) * self._policy.heartbeat

    def asked_in(self, client: ClientId) -> int:
        """Return the number of the exchange that waits for a client; 0 if none does.

        For an asynchronous server it is the exchange that asked the client last.
        """
        if self._asynchronous:
            return self._asked_in.get(client, 0)
        return 0 if self.exchange is None else self.exchange.number

    def client_left(self, client: ClientId, exchange: int | None = None) -> bool:
        """Remove a client whose connection ended; return whether that closes the exchange.

        Args:
            client: the number of the client.
            exchange: the number of the exchange that had asked the client when its connection
                ended; None for the current one. The server may notice this late: the exchange may
                be over by then, and the client may work for another one.
        """
        if exchange not in {None, self.asked_in(client)}:
            return False
        self._busy.discard(client)
        return self.exchange is not None and self.exchange.client_left(client)

    def disown(self, client: ClientId) -> None:
        """Drop the unused replies of a client; a closed exchange may reopen, to wait for others."""
        self.late = [reply for reply in self.late if reply.client != client]
        self._cohort.discard(client)
        if self.exchange is not None:
            self.exchange.disown(client)

    @property
    def unused(self) -> Sequence[Reply]:
        """The replies that the method receives when the exchange ends."""
        return self.late if self.exchange is None else [*self.late, *self.exchange.every]

    def deadline_expired(self) -> bool:
        """Mark the deadline as expired; return whether that closes the exchange."""
        return self.exchange is not None and self.exchange.pass_deadline()

    def abandon_round(self) -> bool:
        """Abandon the open exchange; return whether there was one."""
        return self.exchange is not None and self.exchange.give_up()

    # -- the end of an exchange --------------------------------------------------------

    def replies(self) -> Sequence[Reply]:
        """End the exchange, and return the counted replies, sorted by client and round."""
        replies = self._counted()
        if self._follows:
            self._heard.update(senders(replies).tolist())
        return self.aggregator.hand_over(replies)

    def _counted(self) -> Sequence[Reply]:
        ended, late = self._end(), self.late
        self.late = []
        if ended.columns and not (late or ended.replies):
            return ended.columns
        if late or ended.columns or self._asynchronous:
            return sorted(late + ended.every, key=_by_client_and_round)
        ended.replies.sort(key=_by_client)  # all are of one round, so this order is total
        return ended.replies

    def abandon(self) -> list[tuple[Reply, ReplyOutcome]]:
        """End an abandoned exchange and its round; return the replies that are late now.

        Replies that have arrived count as late. An asynchronous server keeps them in its buffer
        instead. It may then ask those clients again whose replies had not arrived.
        """
        # A protocol of several exchanges abandons its round between two of them.
        if self.exchange is None:
            self.round += 1
            return []
        if self._lacks_reports:
            self.aggregator.skip()
        ended = self._end()
        # The round number goes on, so that the number in a late reply tells which attempt it
        # answers.
        self.round += 1
        if self._asynchronous:
            # Silent clients have reported, too, so the count is carried and not the number of
            # replies.
            self._busy, self._carried = set(), ended.reported
            self.late += ended.every
            return []
        return [(reply, self._count_late(reply)) for reply in ended.every]

    def cancel(self) -> None:
        """Cancel the open exchange, if any, discarding its replies."""
        # Kept to describe what the server was waiting for, if the run ends here.
        ended, self.exchange = self.exchange, None
        self._broken_off = ended if ended is not None and not ended.over else None

    def _end(self) -> Exchange:
        ended, self.exchange = self.exchange, None
        if ended is None:
            raise LocalProtocolError("there is no exchange that could end")
        if self._follows:  # a beacon counts as a reply
            self._heard |= self._cohort - ended.waiting
        return ended

    @property
    def unheard(self) -> int:
        """The number of clients that were asked, and of which no reply has ever counted.

        It is 0 where every round waits for all.
        """
        return len(self._asked - self._heard)

    @property
    def over(self) -> bool:
        """Whether the exchange is closed, abandoned or absent."""
        return self.exchange is None or self.exchange.over

    @property
    def given_up(self) -> bool:
        """Whether the exchange was abandoned before it could close, or no client has answered.

        Algorithms step on replies. So we do not run one on an exchange without any: its momentum,
        averages and counters would advance without information from the clients.
        """
        exchange = self.exchange
        if exchange is None or exchange.phase is Phase.OPEN:
            return False
        return exchange.phase is Phase.GIVEN_UP or self._lacks_answers(exchange)

    def _lacks_answers(self, exchange: Exchange) -> bool:
        """Return whether an exchange has closed although no client has reported in it."""
        if self._lacks_reports:
            return True
        if exchange.reported or self.late:
            return False
        # An algorithm may name no client, which is no fault; a draw may find none available.
        if not exchange.asked:
            return exchange.deserted
        # Clients that are present at the deadline may have kept silent, which is an answer. If
        # silence is sent as a beacon, though, no report means that all messages were lost.
        return exchange.deserted or self._silence_is_sent

    @property
    def progress(self) -> str:
        """The numbers of reports and missing clients in words; empty without an exchange."""
        exchange, least = self.exchange, self.aggregator.least
        if exchange is None:
            return ""
        if self._lacks_reports:
            seen = f"{self._readable(exchange)} of {exchange.asked} have reported"
            return f"{seen}, the rule needs {least}"
        return exchange.progress

    def _readable(self, exchange: Exchange) -> int:
        """Return the number of reports, without messages that the server cannot read."""
        unreadable = self.aggregator.unreadable
        if not unreadable:
            return exchange.reported
        return exchange.reported - sum(reply.client in unreadable for reply in exchange.every)

    @property
    def _lacks_reports(self) -> bool:
        """Whether the exchange is over with too few reports for the rule of aggregation."""
        exchange, least = self.exchange, self.aggregator.least
        if exchange is None or not least or not exchange.over:
            return False
        return self._readable(exchange) < least

    @property
    def stuck(self) -> str:
        """The clients for which the server was waiting when the exchange was cancelled."""
        if self._broken_off is None:
            return ""
        return f"the server waits in round {self.round}: {self._broken_off.progress}"
