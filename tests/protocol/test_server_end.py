"""The server's end against a model that keeps whole histories and counts them anew each time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.addons.conformance.link import EveryClientPresent
from fedsim.core.ports import ClientId, Reply
from fedsim.protocol.exchange import Exchange
from fedsim.protocol.participation import Participation
from fedsim.protocol.selection import Selection
from fedsim.protocol.server import ReplyOutcome, ServerProtocol
from fedsim.protocol.silence import SilencePolicy
from fedsim.protocol.transport import BEACON, Envelope, LocalProtocolError, RemoteProtocolError
from tests.policies import participation_of, silence_of
from tests.sim.worlds import answered, asked
from tests.tiers import examples

CLIENTS = 4
NO_KEYS = {"quorum": None, "deadline": None, "count": None, "over": 1, "buffer": 0}


def server_end(
    policy: Participation = participation_of(),  # noqa: B008 - frozen
    silence: SilencePolicy = silence_of(),  # noqa: B008 - frozen
) -> ServerProtocol:
    clients = range(CLIENTS)
    selection = Selection(policy, EveryClientPresent(), clients, np.random.default_rng(1))
    return ServerProtocol(clients, selection, policy, silence, 16)


@dataclass
class History:
    """All that has happened to one exchange.

    Attributes:
        asked: whom it waits for.
        carried: reports that the buffer held when it was opened.
        facts: in order: the client that was heard, ~client for one that has gone, "overdue",
            "give up", or "before" for a report of a client that has been asked anew since.
    """

    asked: frozenset[ClientId]
    carried: int = 0
    facts: list[Any] = field(default_factory=list)

    @property
    def reports(self) -> int:
        """How many have reported, before and after it has ended."""
        heard = [fact for fact in self.facts if isinstance(fact, int) and fact >= 0]
        return self.carried + len(heard) + self.facts.count("before")

    @property
    def deserted(self) -> bool:
        """Whether all who were asked have gone."""
        return {~fact for fact in self.facts if isinstance(fact, int) and fact < 0} >= self.asked

    def ended(self, policy: Participation) -> str:
        """Return how it has ended, by going through its facts; empty while it has not."""
        overdue, heard, gone = False, self.carried, set[ClientId]()
        if not self.asked:
            return "closed"
        for fact in self.facts:
            if fact == "give up":
                return "given up"
            if fact == "overdue":
                overdue = True
            elif fact == "before":
                heard += 1
            elif fact >= 0:
                heard += 1
                gone.add(fact)
            else:
                gone.add(~fact)
            if self._enough(heard, policy, overdue=overdue) or gone >= self.asked:
                return "closed"
        return ""

    def _enough(self, heard: int, policy: Participation, *, overdue: bool) -> bool:
        """Say whether so many reports are enough, by what the policy's fields say."""
        size = len(self.asked)
        keys: Any = SimpleNamespace(**NO_KEYS | policy.model_dump())
        if overdue:
            return bool(heard >= ceil((keys.quorum or 0) * size - 1e-9))
        if keys.buffer:
            return bool(heard >= keys.buffer)
        if keys.count and keys.over > 1:
            return bool(heard >= min(keys.count, size))
        if keys.quorum is not None and keys.deadline is None:
            return bool(heard >= ceil(keys.quorum * size - 1e-9))
        return False


POLICIES = st.one_of(
    st.just(participation_of()),
    st.builds(participation_of, quorum=st.sampled_from([0.25, 0.5, 1.0]), keep_late=st.booleans()),
    st.builds(
        participation_of,
        quorum=st.sampled_from([None, 0.5]),
        deadline=st.just(5.0),
        keep_late=st.booleans(),
    ),
    st.builds(participation_of, count=st.integers(1, 3), over=st.just(2.0)),
    *[st.builds(participation_of, buffer=st.integers(1, 4))] * 3,
)


class Both:
    """A server's end, and what it should be, through the same events."""

    def __init__(self, policy: Participation, *, keep: bool, said: bool) -> None:
        self.policy, self.keeps, self.said = policy, keep and policy.keep_late, said
        after = inf if said else 5.0
        self.end = server_end(policy, silence_of(beacon=said, keep_late=keep, after=after))
        self.now: History | None = None
        self.number, self.round, self.carried = 0, 1, 0
        self.owed: list[tuple[ClientId, int, int]] = []  # who owes a reply to which exchange
        self.busy: set[ClientId] = set()
        self.kept: list[tuple[ClientId, int]] = []
        self.counted: list[tuple[ClientId, int]] = []
        self.beyond: list[tuple[ClientId, int, int, bool]] = []

    @property
    def over(self) -> str:
        return "" if self.now is None else self.now.ended(self.policy)

    @property
    def in_vain(self) -> bool:
        """Whether it closed without a word from any client, or a silence that is one."""
        if self.now is None or self.over != "closed" or self.now.reports or self.kept:
            return False
        return bool(self.now.asked) and (self.said or self.now.deserted)

    def ask(self, number: int) -> None:
        if self.now is not None:
            return
        wanted = {client for client in range(CLIENTS) if number >> client & 1}
        cohort = sorted(wanted - self.busy)
        post = self.end.open(asked(), cohort)
        assert [list(clients) for _, clients in post] == ([cohort] if cohort else [])
        assert all(envelope.round == self.round for envelope, _ in post)
        self.number += 1
        self.owed += [(client, self.number, self.round) for client in cohort]
        if self.policy.asynchronous:
            self.busy |= set(cohort)
        waits = self.busy if self.policy.asynchronous else set(cohort)
        self.now, self.carried = History(frozenset(waits), self.carried), 0
        while self.beyond and not self.over:
            client, exchange, said_in, says = self.beyond.pop(0)
            self._count(client, exchange, said_in, says=says)

    def ask_all(self, _: int) -> None:
        self.ask(2**CLIENTS - 1)

    def _at_work(self, client: ClientId, exchange: int) -> bool:
        """Return whether a client has been asked anew since an exchange, and has not answered."""
        newer = any(owed[0] == client and owed[1] > exchange for owed in self.owed)
        return self.policy.asynchronous and newer

    def _count(self, client: ClientId, exchange: int, number: int, *, says: bool) -> None:
        assert self.now is not None
        at_work = self._at_work(client, exchange)
        self.now.facts.append("before" if at_work else client)
        if not at_work:
            self.busy.discard(client)
        if says:
            self.counted.append((client, number))

    def hear(self, which: int) -> None:
        if not self.owed:
            return
        client, exchange, number = self.owed.pop(which % len(self.owed))
        says = which % 3 > 0
        message = answered() if says else BEACON
        verdict = self.end.receive_reply(client, Envelope(message, number, exchange, 16))
        asynchronous = self.policy.asynchronous
        if self.now is not None and asynchronous and self.over:
            assert verdict is ReplyOutcome.BEYOND
            self.beyond.append((client, exchange, number, says))
        elif self.now is not None and (asynchronous or exchange == self.number):
            was_over = self.over
            self._count(client, exchange, number, says=says)
            closes = self.over and not was_over
            assert verdict is (ReplyOutcome.CLOSED if closes else ReplyOutcome.COUNTED)
        else:
            if not self._at_work(client, exchange):
                self.busy.discard(client)
            self._late(client, number, verdict, says=says)

    def _late(self, client: ClientId, number: int, verdict: ReplyOutcome, *, says: bool) -> None:
        kept = self.keeps and says
        assert verdict is (ReplyOutcome.KEPT if kept else ReplyOutcome.DROPPED)
        if kept:
            self.kept.append((client, number))

    def lose(self, number: int) -> None:
        # What it has on its way is lost with it, but for what has arrived.
        client = number % CLIENTS
        self.owed = [owed for owed in self.owed if owed[0] != client]
        if self.now is not None and not self.over:
            self.now.facts.append(~client)
        self.busy.discard(client)
        over = self.end.client_left(client)
        assert over == (self.now is not None and bool(self.over))

    def wait(self, number: int) -> None:
        if self.now is None:
            return
        patient = number % 2 > 0
        if not self.over:
            self.now.facts.append("overdue" if patient else "give up")
        over = self.end.deadline_expired() if patient else self.end.abandon_round()
        assert over == bool(self.over)

    def take(self, _: int) -> None:
        if self.in_vain:
            self._abandon()
        elif self.over == "closed":
            heard = [(reply.client, reply.round) for reply in self.end.replies()]
            assert heard == sorted(self.kept + self.counted)
            self.now, self.kept, self.counted = None, [], []
        elif self.over == "given up":
            self._abandon()
        elif self.now is None:
            self.end.round += 1
            self.round += 1

    def _abandon(self) -> None:
        assert self.now is not None
        late = [(reply.client, reply.round, verdict) for reply, verdict in self.end.abandon()]
        if self.policy.asynchronous:
            assert late == []
            self.carried = self.now.reports
            self.busy, self.kept = set(), self.kept + self.counted
        else:
            verdict = ReplyOutcome.KEPT if self.keeps else ReplyOutcome.DROPPED
            assert late == [(*reply, verdict) for reply in self.counted]
            self.kept += self.counted if self.keeps else []
        self.now, self.counted = None, []
        self.round += 1

    def check(self) -> None:
        assert self.end.over == (self.now is None or bool(self.over))
        assert self.end.given_up == (self.over == "given up" or self.in_vain)
        assert self.end.round == self.round


EVENTS = [Both.ask_all, Both.ask, *[Both.hear] * 4, Both.lose, Both.wait, Both.take, Both.take]


@examples(500)
@given(
    POLICIES,
    st.booleans(),
    st.booleans(),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 63)), min_size=30, max_size=60),
)
def test_it_is_a_model_that_counts_whole_histories(
    policy: Participation,
    keep: bool,
    said: bool,
    events: list[tuple[Callable[[Both, int], None], int]],
) -> None:
    both = Both(policy, keep=keep, said=said)
    for event, number in events:
        event(both, number)
        both.check()


def opened(policy: Participation, cohort: Sequence[ClientId]) -> ServerProtocol:
    end = server_end(policy)
    end.open(asked(), cohort)
    return end


def test_a_message_of_its_own_for_each_is_an_envelope_for_each() -> None:
    messages = {client: asked(8 * client, float(client)) for client in (3, 1)}
    post = server_end().open(messages, [1, 3])
    assert [(list(to), envelope.message) for envelope, to in post] == [
        ([1], messages[1]),
        ([3], messages[3]),
    ]


def test_whose_fault_it_is_stands_in_the_error() -> None:
    end = opened(participation_of(), [0, 1])
    with pytest.raises(LocalProtocolError, match="an exchange is open"):
        end.open(asked(), [2])
    with pytest.raises(RemoteProtocolError, match="client 1 answers exchange 7"):
        end.receive_reply(1, Envelope(answered(), 1, 7, 16))
    with pytest.raises(LocalProtocolError, match="no exchange"):
        server_end().replies()


def test_who_is_missing_is_said_in_words() -> None:
    end = opened(participation_of(quorum=1.0), [0, 1, 3])
    end.receive_reply(1, Envelope(answered(), 1, 1, 16))
    missing = "1 of 3 have reported, 3 are needed; missing: client-0, client-3"
    assert end.progress == missing
    end.cancel()
    assert end.stuck == f"the server waits in round 1: {missing}"


def test_whoever_is_gone_is_asked_again_by_a_server_without_rounds() -> None:
    """Its answer never comes: who has gone must not count as at work for ever."""
    end = opened(participation_of(buffer=1), range(CLIENTS))
    assert not end.client_left(2)
    assert end.receive_reply(0, Envelope(answered(), 1, 1, 16)) is ReplyOutcome.CLOSED
    end.replies()
    assert not end.client_left(3), "while nothing is asked, too"
    cohort = end.cohort(None)
    assert cohort is not None
    assert set(cohort.clients) == {0, 2, 3}, "the other one is at work"


def test_a_reply_beyond_the_buffer_is_counted_first_in_the_next_exchange() -> None:
    end = opened(participation_of(buffer=1), range(CLIENTS))
    assert end.receive_reply(0, Envelope(answered(), 1, 1, 16)) is ReplyOutcome.CLOSED
    assert end.receive_reply(1, Envelope(answered(), 1, 1, 16)) is ReplyOutcome.BEYOND
    assert [reply.client for reply in end.replies()] == [0]
    assert end.open(asked(), [0]), "it is over as soon as it is open"
    assert [reply.client for reply in end.replies()] == [1]


def test_an_exchange_is_deserted_where_nobody_is_there_to_be_asked() -> None:
    assert Exchange(1, set()).deserted
    assert not Exchange(1, {0}).deserted


def test_of_many_who_are_missing_their_number_is_said() -> None:
    few, many = Exchange(1, set(range(5))), Exchange(1, set(range(6)))
    assert few.progress.endswith("missing: client-0, client-1, client-2, client-3, client-4")
    assert many.progress.endswith("missing: 6 clients")


def together(end: ServerProtocol, clients: Sequence[ClientId]) -> ReplyOutcome | None:
    replies = [Reply(client, 1, answered()) for client in clients]
    return end.receive_all(1, np.array(clients), replies)


def test_reports_that_come_at_once_are_those_that_come_one_by_one() -> None:
    for cohort in (range(CLIENTS), [0, 1, 2, 3]):
        end, one = opened(participation_of(), cohort), opened(participation_of(), cohort)
        assert together(end, [0, 2]) is ReplyOutcome.COUNTED
        assert end.progress == "2 of 4 have reported, 4 are needed; missing: client-1, client-3"
        assert end.receive_reply(3, Envelope(answered(), 1, 1, 16)) is ReplyOutcome.COUNTED
        assert end.receive_reply(1, Envelope(answered(), 1, 1, 16)) is ReplyOutcome.CLOSED
        for client in (0, 2, 3, 1):
            one.receive_reply(client, Envelope(answered(), 1, 1, 16))
        assert [reply[:2] for reply in end.replies()] == [reply[:2] for reply in one.replies()]


def test_all_reports_at_once_close_the_exchange() -> None:
    end = opened(participation_of(), range(CLIENTS))
    assert together(end, range(CLIENTS)) is ReplyOutcome.CLOSED
    assert end.exchange is not None
    assert not end.exchange.waiting
    assert together(end, [0]) is None  # it is over
    assert [reply.client for reply in end.replies()] == list(range(CLIENTS))


def test_more_reports_than_an_exchange_takes_come_one_by_one() -> None:
    end = opened(participation_of(count=2, over=2), range(CLIENTS))
    assert together(end, [0, 1, 2]) is None
    assert together(end, [0, 1]) is ReplyOutcome.CLOSED
