"""Linux's sender: losses by the order of sending, probes of the tail, and early timeouts undone."""

from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.physics.tcp import Tcp
from fedsim.sim.network.tcp.rack import GRAIN, RackScoreboard, RackSender
from fedsim.sim.network.tcp.receiver import Receiver
from fedsim.sim.network.tcp.sender import Sender
from fedsim.sim.network.tcp.window import Window
from tests.sim.test_tcp import SEGMENT, Network

ONE_WAY = 0.05


def board(sent: int) -> RackScoreboard:
    """Return what a sender knows that has sent some segments."""
    made = RackScoreboard()
    made.next = sent
    return made


def test_what_was_sent_before_something_that_has_arrived_is_lost_once_that_counts() -> None:
    known = board(10)
    known.take(4)
    assert known.overtaken
    assert known.first_lost() is None
    known.strict = True
    known.find_lost()
    assert [known.first_lost(), known.flight] == [0, 10 - 1 - 4]


def test_a_retransmission_is_lost_where_a_later_one_has_arrived() -> None:
    known = board(6)
    known.strict = True
    known.take(5)
    for number in (0, 1, 2):
        assert known.first_lost() == number
        known.send_again(number)
    known.take(2)  # sent after those of 0 and 1
    assert known.first_lost() == 0
    known.acknowledge(1)
    assert known.first_lost() == 1


def test_a_segment_that_was_sent_again_since_is_not_overtaken_by_what_was_sent_before() -> None:
    known = board(5)
    known.acknowledge(3)
    known.send_again(3)
    known.take(4)  # sent before the retransmission of 3
    assert not known.overtaken
    known.strict = True
    known.find_lost()
    assert known.first_lost() is None


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_nothing_is_lost_that_was_sent_last(data: st.DataObject) -> None:
    """Whatever arrives in whatever order: what was sent last is never taken for lost."""
    known = board(8)
    known.strict = True
    latest = 7
    for _ in range(data.draw(st.integers(1, 12))):
        lost = known.first_lost()
        if lost is not None and data.draw(st.booleans()):
            known.send_again(lost)
            latest = lost
        else:
            known.take(data.draw(st.integers(0, 7)))
        assert latest not in known._lost or latest in known.again or latest in known._arrived


class Path:
    """A path of one delay on which some transmissions are lost.

    Args:
        kind: of the sender.
        total: segments of the message.
        lost: whether a transmission is lost, by its segment and how often it was sent before.
    """

    def __init__(self, kind: type[Sender], total: int, lost: Callable[[int, int], bool]) -> None:
        self.window = Window(Tcp(stack="linux" if kind is RackSender else "ns-3"))
        self.window.measure(-2 * ONE_WAY, 0.0)
        self.window.restore_timeout()
        self.sender = kind(self.window, total, self._launch)
        self.receiver = Receiver(0.04, quick=True)
        self.total, self._lost = total, lost
        self.sent: list[tuple[float, int]] = []
        self.timeouts = 0
        self._events: list[tuple[float, int, float]] = []

    def _launch(self, number: int, now: float) -> None:
        before = sum(number == each for _, each in self.sent)
        self.sent.append((now, number))
        if not self._lost(number, before):
            self._events.append((now + ONE_WAY, number, now))

    def run(self) -> float:
        """Return when the last segment has arrived, s."""
        self.sender.send(0.0)
        said: list[tuple[float, object]] = []
        while self.receiver.arrived < self.total:
            self._events.sort()
            next_said = said[0][0] if said else inf
            next_arrival = self._events[0][0] if self._events else inf
            now = min(next_said, next_arrival, self.receiver.due, self.sender.deadline)
            assert now < 60.0
            if now == next_arrival:
                _, number, sent = self._events.pop(0)
                answer = self.receiver.take(number, sent, now)
            elif now == self.receiver.due:
                answer = self.receiver.say_late()
            elif now == next_said:
                self.sender.acknowledge(said.pop(0)[1], now)  # type: ignore[arg-type]
                self.sender.send(now)
                continue
            else:
                self.timeouts += self.window.size > 1
                self.sender.time_out(now)
                self.sender.send(now)
                continue
            if answer is not None:
                said.append((now + ONE_WAY, answer))
        return now


def test_a_probe_shows_that_the_tail_was_lost_before_the_timer_runs_out() -> None:
    """Nine segments, the last two lost once.

    Seven are acknowledged after a round trip. Two round trips later the last one is sent again, and
    arrives; its acknowledgement shows that the one before is missing, which has a quarter of a
    round trip more, and is sent again.
    """
    trip = 2 * ONE_WAY
    path = Path(RackSender, 9, lambda number, before: number >= 7 and not before)
    expected = trip + (2 * trip + GRAIN) + trip + trip / 4 + ONE_WAY
    assert path.run() == pytest.approx(expected, rel=1e-6)
    assert [number for _, number in path.sent[9:]] == [8, 7]


def test_a_single_segment_at_the_end_waits_for_the_timer() -> None:
    """Its acknowledgement may be late by the least timeout, so a probe would come no earlier."""
    path = Path(RackSender, 10, lambda number, before: number == 9 and not before)
    trip, least = 2 * ONE_WAY, 0.2
    assert path.run() == pytest.approx(trip + (trip + least) + ONE_WAY, rel=1e-6)


def test_a_lost_retransmission_is_sent_again_without_a_timeout() -> None:
    """It is lost once a later retransmission has arrived: a round trip after it was sent."""
    trip, lost = 2 * ONE_WAY, {(3, 0), (5, 0), (3, 1)}
    path = Path(RackSender, 10, lambda number, before: (number, before) in lost)
    assert path.run() == pytest.approx(trip + trip + trip / 2, abs=1e-3)
    assert [number for _, number in path.sent].count(3) == 3
    assert path.timeouts == 0


def test_a_timeout_that_was_early_costs_a_segment_and_not_the_window() -> None:
    """Twelve messages fill a deep queue: round trips grow to six times the first timeout.

    Until the first acknowledgement each sends a probe, and one segment at each of three timeouts.
    """
    network = Network(12, rate=1.2e6, own=1e7, latency=0.006, queue=200)
    transfers = [network.send(33, client) for client in range(12)]
    floor = 12 * 33 * SEGMENT / 1.2e6
    assert floor < max(network.run().values()) < 1.02 * floor
    assert sum(each.again_bits for each in transfers) <= 12 * 4 * SEGMENT
