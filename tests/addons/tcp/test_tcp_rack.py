"""Linux's sender: losses by the order of sending, probes of the tail, and early timeouts undone."""

from collections.abc import Callable
from math import inf
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.addons.tcp.boards import HAS_ARRIVED, IS_AGAIN, IS_LOST
from fedsim.addons.tcp.receiver import Receiver, count_arrived
from fedsim.addons.tcp.scoreboard import Scoreboard
from fedsim.addons.tcp.sender import RackSender, Sender
from fedsim.addons.tcp.senders import GRAIN
from fedsim.addons.tcp.window import Window
from fedsim.physics.tcp import Tcp
from tests.addons.tcp.test_tcp import SEGMENT, Network

ONE_WAY = 0.05


def board(sent: int) -> Scoreboard:
    """Return what a sender knows that has sent some segments at 0, a round trip ago."""
    made = Scoreboard(sent, linux=True)
    made.next, made.sent = sent, [0.0] * sent
    return made


def test_what_was_sent_before_something_that_has_arrived_is_lost_once_it_had_the_time_for_it() -> (
    None
):
    known, now = board(10), 2 * ONE_WAY
    known.take(4, now)
    assert known.find_lost(0.01, now) == pytest.approx(2 * ONE_WAY + 0.01)
    assert known.first_lost() < 0
    now += 0.01
    assert known.find_lost(0.01, now) == inf
    assert [known.first_lost(), known.flight, known.found_lost] == [0, 10 - 1 - 4, 4]


def test_what_was_sent_long_before_is_lost_at_once() -> None:
    """A probe arrives two round trips and more after the window that was lost."""
    known, now = board(11), 2 * ONE_WAY
    known.sent[10] = 0.25
    now = 0.35
    known.take(10, now)
    assert known.find_lost(0.025, now) == inf
    assert [known.first_lost(), known.flight] == [0, 0]


def test_a_retransmission_is_lost_where_a_later_one_has_arrived() -> None:
    known, now = board(6), 2 * ONE_WAY
    known.take(5, now)
    known.find_lost(0.0, now)
    for number in (0, 1, 2):
        assert known.first_lost() == number
        known.send_again(number, now)
    now += 2 * ONE_WAY
    known.take(2, now)  # sent after those of 0 and 1
    known.find_lost(0.0, now)
    assert known.first_lost() == 0
    known.acknowledge(1, now)
    assert known.first_lost() == 1


def test_the_last_segment_is_lost_where_a_retransmission_behind_it_has_arrived() -> None:
    known, now = board(3), 2 * ONE_WAY
    known.take(1, now)
    known.find_lost(0.0, now)
    known.send_again(0, now)
    now += 2 * ONE_WAY
    known.acknowledge(2, now)
    known.find_lost(0.0, now)
    assert known.first_lost() == 2


def test_what_arrives_too_early_for_a_retransmission_was_sent_before_it() -> None:
    known, now = board(5), 2 * ONE_WAY
    known.take(4, now)
    known.find_lost(0.0, now)
    known.send_again(0, now)
    known.send_again(1, now)
    known.least_trip, now = 2 * ONE_WAY, now + ONE_WAY
    known.take(1, now)
    known.find_lost(0.0, now)
    assert known.has(0, IS_AGAIN)


def test_a_segment_that_was_sent_again_since_is_not_overtaken_by_what_was_sent_before() -> None:
    known, now = board(5), 2 * ONE_WAY
    known.acknowledge(3, now)
    known.send_again(3, now)
    known.take(4, now)  # sent before the retransmission of 3
    assert known.find_lost(0.0, now) == inf
    assert known.first_lost() < 0


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_nothing_is_lost_that_was_sent_last(data: st.DataObject) -> None:
    """Whatever arrives in whatever order: what was sent last is never taken for lost."""
    known, now = board(8), 2 * ONE_WAY
    latest = 7
    for _ in range(data.draw(st.integers(1, 12))):
        now += 0.01
        known.find_lost(0.0, now)
        lost = known.first_lost()
        if lost >= 0 and data.draw(st.booleans()):
            known.send_again(lost, now)
            latest = lost
        else:
            known.take(data.draw(st.integers(0, 7)), now)
        assert known.has(latest, IS_LOST | IS_AGAIN | HAS_ARRIVED) != IS_LOST


class Path:
    """A path of one delay on which some transmissions are lost.

    Args:
        kind: of the sender.
        total: segments of the message.
        lost: whether a transmission is lost, by its segment and how often it was sent before.
        one_way: its delay, s.
        variant: of the window.
    """

    def __init__(
        self,
        kind: type[Sender],
        total: int,
        lost: Callable[[int, int], bool],
        one_way: float = ONE_WAY,
        variant: Literal["cubic", "newreno"] = "cubic",
    ) -> None:
        stack: Literal["linux", "ns-3"] = "linux" if kind is RackSender else "ns-3"
        self.window = Window(Tcp(stack=stack, variant=variant))
        for _ in range(40):  # of which deviations are small
            self.window.measure(-2 * one_way, 0.0)
        self.one_way = one_way
        self.window.restore_timeout()
        self.sender = kind(self.window, total, self._launch)
        self.receiver = Receiver(0.04, total, quick=True)
        self.total, self._lost = total, lost
        self.sent: list[tuple[float, int]] = []
        self.timeouts = 0
        self._events: list[tuple[float, int, float]] = []

    def _launch(self, number: int, now: float) -> None:
        before = sum(number == each for _, each in self.sent)
        self.sent.append((now, number))
        if not self._lost(number, before):
            self._events.append((now + self.one_way, number, now))

    def run(self) -> float:
        """Return when the last segment has arrived, s."""
        self.sender.send(0.0)
        said: list[tuple[float, object]] = []
        while count_arrived(self.receiver) < self.total:
            self._events.sort()
            next_said = said[0][0] if said else inf
            next_arrival = self._events[0][0] if self._events else inf
            now = min(next_said, next_arrival, self.receiver.due, self.sender.deadline)
            assert now < 60.0
            if now == next_arrival:
                _, number, sent = self._events.pop(0)
                answer = self.receiver.take(number, sent, now)
            elif now == self.receiver.due:
                answer = self.receiver.acknowledge_late()
            elif now == next_said:
                self.sender.acknowledge(said.pop(0)[1], now)  # type: ignore[arg-type]
                self.sender.send(now)
                continue
            else:
                before = self.window.timeout
                self.sender.time_out(now)
                self.timeouts += self.window.timeout > before
                self.sender.send(now)
                continue
            if answer is not None:
                said.append((now + self.one_way, answer))
        return now


def test_a_probe_shows_that_the_tail_was_lost_before_the_timer_runs_out() -> None:
    """Nine segments, the last two lost once.

    Seven are acknowledged after a round trip. Two round trips later the last one is sent again, and
    arrives; its acknowledgement shows that the one before is missing, which is sent again at once:
    it had the time to arrive.
    """
    trip = 2 * ONE_WAY
    path = Path(RackSender, 9, lambda number, before: number >= 7 and not before)
    expected = trip + (2 * trip + GRAIN) + trip + ONE_WAY
    assert path.run() == pytest.approx(expected, rel=1e-6)
    assert [number for _, number in path.sent[9:]] == [8, 7]
    assert path.timeouts == 0


def test_a_first_window_that_is_lost_as_a_whole_waits_for_a_probe_and_not_for_the_timer() -> None:
    """The probe is a new segment. Then one, and for each arrival two more segments are repaired."""
    trip = 2 * ONE_WAY
    path = Path(RackSender, 20, lambda number, before: number < 10 and not before)
    path.run()
    (probed, probe), (repaired, first), *_ = path.sent[10:]
    assert (probe, first) == (10, 0)
    assert probed == pytest.approx(2 * trip + GRAIN)
    assert repaired == pytest.approx(probed + trip)
    waves = [
        [number for at, number in path.sent if abs(at - repaired - k * trip) < 1e-6] for k in (1, 2)
    ]
    assert waves == [[1, 2], [3, 4, 5, 6]]
    assert path.timeouts == 0


def test_a_probe_comes_no_later_than_a_timeout_would() -> None:
    """RFC 8985, 7.2: over long ways two round trips are more than one and the least timeout.

    Its acknowledgement lets one of the two that are missing be sent again, and that one's the
    other: RFC 6937, where nothing else is in flight.
    """
    trip, least = 0.6, 0.2
    path = Path(RackSender, 10, lambda number, before: number >= 7 and not before, one_way=trip / 2)
    expected = trip + (trip + least) + 2 * trip + trip / 2
    assert path.run() == pytest.approx(expected, abs=5e-3)
    assert [number for _, number in path.sent[10:13]] == [9, 7, 8]
    assert path.timeouts == 0


def test_after_a_timeout_two_new_segments_tell_whether_it_was_early() -> None:
    """RFC 5682: the window and its probes are lost, and what follows a repaired one is new."""
    path = Path(RackSender, 40, lambda number, before: number < 11 and before < 1)
    path.run()
    assert path.timeouts == 1
    numbers = [number for _, number in path.sent]
    assert numbers[:15] == [*range(10), 10, 0, 11, 12, 1]


@pytest.mark.parametrize(("variant", "kept"), [("newreno", 0.5), ("cubic", 0.7)])
def test_a_loss_leaves_a_share_of_the_window_of_linux(
    variant: Literal["cubic", "newreno"], kept: float
) -> None:
    """Of the window, and not of what is in flight: the tail of a message has less of that."""
    path = Path(RackSender, 30, lambda number, before: number == 12 and not before, variant=variant)
    path.run()
    # Segments 0 to 11 have arrived, and 12 of the second window of 20 is missing: 10 + 12.
    assert path.window.threshold == int(kept * 22)


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

    Until the first acknowledgement each sends a probe, and one segment at each of three timeouts,
    or four.
    """
    network = Network(12, rate=1.2e6, own=1e7, latency=0.006, queue=200)
    transfers = [network.send(33, client) for client in range(12)]
    floor = 12 * 33 * SEGMENT / 1.2e6
    assert floor < max(network.run().values()) < 1.02 * floor
    assert sum(each.again_bits for each in transfers) <= 12 * 5 * SEGMENT
