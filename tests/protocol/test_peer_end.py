"""A peer's end: held against a model that looks at whole histories, and by hand."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import ClientId, Message
from fedsim.protocol.peer import PeerProtocol
from fedsim.protocol.server import ReplyOutcome
from fedsim.protocol.transport import BEACON, Envelope, LocalProtocolError, RemoteProtocolError
from fedsim.wire.packers import Packing
from tests.sim.worlds import LOADS, asked
from tests.tiers import examples

ME, NEIGHBOURS = 0, (1, 2, 3)


def peer_end(
    node: ClientId = ME, neighbours: Sequence[ClientId] = NEIGHBOURS, *, beacons: bool = True
) -> PeerProtocol:
    packing = Packing(lambda *_: LOADS)
    return PeerProtocol(node, neighbours, packing, beacons=beacons, deadline=inf, header_bits=16)


def envelope(exchange: int, message: Message | None = None) -> Envelope:
    return Envelope(message or asked(), exchange, exchange, 16)


@dataclass
class Histories:
    """All that has happened, in order; what an exchange has come to is found by going through it.

    Attributes:
        facts: ("open",), ("heard", neighbour, exchange), ("gone", neighbour) or ("overdue",).
        opened: how many exchanges there were.
        taken: whether the last one was ended by its node.
    """

    facts: list[tuple[Any, ...]] = field(default_factory=list)
    opened: int = 0
    taken: bool = True

    def there(self, facts: Sequence[tuple[Any, ...]]) -> set[ClientId]:
        return set(NEIGHBOURS) - {fact[1] for fact in facts if fact[0] == "gone"}

    def ended(self, number: int) -> int | None:
        """Return after how many facts an exchange was over; None while it is not."""
        openings = [at for at, fact in enumerate(self.facts) if fact == ("open",)]
        first = openings[number - 1] + 1
        for end in range(first, len(self.facts) + 1):
            before = self.facts[:end]
            if self.there(before) <= self.come(number, before) or ("overdue",) in before[first:]:
                return end
        return None

    def come(self, number: int, facts: Sequence[tuple[Any, ...]]) -> set[ClientId]:
        return {fact[1] for fact in facts if fact[0] == "heard" and fact[2] == number}

    @property
    def over(self) -> bool:
        return self.taken or self.ended(self.opened) is not None


class Both:
    """A peer's end, and what it should be, through the same events."""

    def __init__(self) -> None:
        self.end = peer_end()
        self.all = Histories()
        self.sent = dict.fromkeys(NEIGHBOURS, 0)
        self.gone: set[ClientId] = set()

    def open(self, _: int) -> None:
        if not self.all.taken:
            return
        post = self.end.open(asked())
        there = self.all.there(self.all.facts)
        assert [list(to) for _, to in post] == ([sorted(there)] if there else [])
        self.all.facts.append(("open",))
        self.all.opened += 1
        self.all.taken = False
        assert all(one.exchange == self.all.opened for one, _ in post)

    def hear(self, number: int) -> None:
        sender = NEIGHBOURS[number % 3]
        if sender in self.gone and number % 2:
            return  # what it had on its way may arrive, or not
        self.sent[sender] += 1 + (number % 7 == 0)  # one may be lost on the way
        said_in, was_over, opened = self.sent[sender], self.all.over, self.all.opened
        verdict = self.end.receive(sender, envelope(said_in))
        self.all.facts.append(("heard", sender, said_in))
        if said_in > opened:
            assert verdict is ReplyOutcome.EARLY
        elif said_in < opened or was_over:
            assert verdict is ReplyOutcome.DROPPED
        else:
            assert verdict is (ReplyOutcome.CLOSED if self.all.over else ReplyOutcome.COUNTED)

    def lose(self, number: int) -> None:
        neighbour = NEIGHBOURS[number % 3]
        self.gone.add(neighbour)
        self.all.facts.append(("gone", neighbour))
        assert self.end.neighbour_left(neighbour) == (self.all.over and not self.all.taken)

    def wait(self, number: int) -> None:
        if number % 3 or self.all.taken:
            return
        self.all.facts.append(("overdue",))
        assert self.end.deadline_expired()

    def take(self, _: int) -> None:
        if self.all.taken or not self.all.over:
            return
        ended = self.all.ended(self.all.opened)
        come = self.all.come(self.all.opened, self.all.facts[:ended])
        assert [reply.client for reply in self.end.replies()] == sorted(come)
        self.all.taken = True

    def check(self) -> None:
        assert self.end.over == self.all.over
        assert set(self.end.neighbours) == self.all.there(self.all.facts)
        assert bool(self.end.stuck) != self.all.over


EVENTS = [*[Both.open] * 2, *[Both.hear] * 6, *[Both.take] * 2, Both.lose, Both.wait]


@examples(250)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 63)), min_size=20, max_size=60))
def test_it_is_a_model_that_looks_at_whole_histories(
    events: list[tuple[Callable[[Both, int], None], int]],
) -> None:
    both = Both()
    for event, number in events:
        event(both, number)
        both.check()


def test_each_neighbour_has_a_message_of_its_own_and_who_has_none_a_beacon() -> None:
    messages = {3: asked(8, 3.0), 1: asked(8, 1.0)}
    post = peer_end().open(messages)
    assert [(list(to), one.message) for one, to in post] == [
        ([1], messages[1]),
        ([2], BEACON),
        ([3], messages[3]),
    ]
    told = peer_end(beacons=False).open(messages)
    assert [list(to) for _, to in told] == [[1], [3]]


def test_a_beacon_is_waited_for_and_is_no_reply() -> None:
    end = peer_end(neighbours=[1])
    end.open(asked())
    assert end.receive(1, envelope(1, BEACON)) is ReplyOutcome.CLOSED
    assert end.replies() == []


def test_whose_fault_it_is_stands_in_the_error() -> None:
    end = peer_end()
    with pytest.raises(LocalProtocolError, match="no exchange"):
        end.replies()
    with pytest.raises(ValueError, match="client-7: no neighbour of client-0"):
        end.open({7: asked()})
    end.open(asked())
    with pytest.raises(LocalProtocolError, match="an exchange is open"):
        end.open(asked())
    with pytest.raises(RemoteProtocolError, match="client-9 sends client-0"):
        end.receive(9, envelope(1))
    for number in (1, 2):
        end.receive(1, envelope(number))
        with pytest.raises(RemoteProtocolError, match=f"two messages of exchange {number}"):
            end.receive(1, envelope(number))


def test_who_is_missing_is_said_in_words() -> None:
    end = peer_end()
    end.open(asked())
    end.receive(2, envelope(1))
    come = "1 of 3 have reported, 3 are needed; missing: client-1, client-3"
    assert end.stuck == f"client-0 waits in round 1: {come}"


def test_a_ring_of_ends_goes_in_step_whatever_the_order_of_arrival() -> None:
    """Messages arrive in any order, but those of one way in theirs; nobody is two ahead."""
    nodes = 5
    ends = [peer_end(node, [(node - 1) % nodes, (node + 1) % nodes]) for node in range(nodes)]
    ways: dict[tuple[int, int], list[Envelope]] = {}
    rounds, rng = [0] * nodes, np.random.default_rng(3)

    def speak(node: int) -> None:
        for one, to in ends[node].open(asked()):
            for other in to:
                ways.setdefault((node, other), []).append(one)

    for node in range(nodes):
        speak(node)
    for _ in range(2000):
        sender, receiver = list(ways)[rng.integers(len(ways))]
        if ways[sender, receiver]:
            ends[receiver].receive(sender, ways[sender, receiver].pop(0))
        if ends[receiver].over:
            assert len(ends[receiver].replies()) == 2
            rounds[receiver] += 1
            ends[receiver].round += 1
            speak(receiver)
        gaps = [abs(rounds[a] - rounds[b]) for a, b in ways]
        assert max(gaps) <= 1
    assert min(rounds) > 50
