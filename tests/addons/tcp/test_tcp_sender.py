"""A sender of TCP and what it tells its window: Karn's rule, repairs and their timer, timeouts."""

from typing import Any, cast

from fedsim.addons.tcp.boards import IS_AGAIN, has
from fedsim.addons.tcp.receiver import Acknowledgement
from fedsim.addons.tcp.sender import Sender
from fedsim.addons.tcp.window import Window
from tests.tiers import every


class Told:
    """Stands in for a window: it notes what it is told."""

    timeout = 1.0

    def __init__(self, size: float) -> None:
        self.size = size
        self.trips = list[tuple[float, float]]()
        self.grown = list[int]()
        self.looks = self.repairs = self.repaired = 0

    def measure(self, echo: float, now: float) -> None:
        self.trips.append((echo, now))

    def grow(self, count: int, *_: object) -> None:
        self.grown.append(count)

    def note_acknowledgement(self, *_: object) -> None:
        self.looks += 1

    def enter_recovery(self, *_: object) -> None:
        self.repairs += 1

    def leave_recovery(self) -> None:
        self.repaired += 1

    def time_out(self, *_: object) -> None:
        self.size = 1.0  # so that of those in flight the first alone is sent again

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def sender(size: float) -> tuple[Told, Sender]:
    told = Told(size)
    made = Sender(cast("Window", told), 40, lambda *_: None)
    made.send(0.0)
    return told, made


def test_after_a_timeout_only_what_is_sent_later_shows_a_round_trip() -> None:
    """RFC 6298, section 3: all that was in flight may have been sent twice, or be late."""
    told, tcp = sender(4.0)
    tcp.time_out(1.0)
    for number in (1, 2, 4):
        tcp.acknowledge(Acknowledgement(number, -1, 1.0), 2.0)
        assert told.trips == []
    told.size = 4.0
    tcp.send(2.0)
    tcp.acknowledge(Acknowledgement(5, -1, 2.0), 2.5)
    assert told.trips == [(2.0, 2.5)]


def test_a_segment_that_was_sent_again_shows_no_round_trip() -> None:
    told, tcp = sender(10.0)
    for early in (1, 2, 3):
        tcp.acknowledge(Acknowledgement(0, early, 0.0), 1.0)
    assert has(tcp.board, 0, IS_AGAIN)
    tcp.acknowledge(Acknowledgement(4, -1, 0.0), 2.0)
    assert told.trips == []
    tcp.acknowledge(Acknowledgement(6, -1, 0.5), 2.0)
    assert told.trips == [(0.5, 2.0)]


def test_what_ends_the_repair_of_a_timeout_counts_from_where_it_ended() -> None:
    told, tcp = sender(4.0)
    tcp.time_out(1.0)
    tcp.acknowledge(Acknowledgement(2, -1, 1.0), 2.0)
    told.size = 4.0
    tcp.send(2.0)
    assert told.grown == [2]
    assert tcp.board.next > 5
    tcp.acknowledge(Acknowledgement(6, -1, 2.0), 3.0)  # two beyond the four of before
    assert told.grown == [2, 2]


@every(("early", "number", "looks"), [([1], 1, 1), ([1, 2], 1, 0), ([2, 3], 2, 1), ([2, 3], 5, 1)])
def test_in_disorder_a_round_trip_counts_once_as_many_are_acknowledged_as_came_early(
    early: list[int], number: int, looks: int
) -> None:
    """As in ns-3, whose window hears of those alone that no duplicate has announced."""
    told, tcp = sender(10.0)
    for each in early:
        tcp.acknowledge(Acknowledgement(0, each, 0.0), 1.0)
    before = told.looks
    tcp.acknowledge(Acknowledgement(number, -1, 0.0), 1.5)
    assert told.looks - before == looks
    assert told.grown == [number]


def test_what_tells_of_more_disorder_grows_no_window() -> None:
    told, tcp = sender(10.0)
    for number, early in ((0, 2), (1, 4)):
        tcp.acknowledge(Acknowledgement(number, early, 0.0), 0.5)
    assert (told.grown, tcp.deadline) == ([], 1.0)
    tcp.acknowledge(Acknowledgement(3, -1, 0.0), 0.5)
    assert (told.grown, tcp.deadline) == ([2], 1.5)


def test_the_first_partial_acknowledgement_of_every_repair_restarts_the_timer() -> None:
    """RFC 6582, section 4, the impatient kind; what was in flight as it began is its whole."""
    told, tcp = sender(20.0)
    for first in (0, 20):
        now = float(first)
        for early in (2, 3, 4):
            tcp.acknowledge(Acknowledgement(first, first + early, now), now + 1.0)
        for number, when, deadline in ((1, 1.5, 2.5), (6, 1.75, 2.5), (19, 2.0, 2.5)):
            tcp.acknowledge(Acknowledgement(first + number, -1, now), now + when)
            assert tcp.deadline == now + deadline
        assert told.repairs == told.repaired + 1
        tcp.acknowledge(Acknowledgement(first + 20, -1, now), now + 3.0)
        assert told.repairs == told.repaired
        tcp.send(now + 3.0)
    assert told.repairs == 2


def test_duplicates_are_counted_anew_behind_a_timeout() -> None:
    told, tcp = sender(4.0)
    for early in (2, 3):
        tcp.acknowledge(Acknowledgement(0, early, 0.0), 0.5)
    tcp.time_out(1.0)
    told.size = 20.0
    tcp.send(1.0)
    tcp.acknowledge(Acknowledgement(4, 6, 1.0), 2.0)  # those before it were lost
    tcp.acknowledge(Acknowledgement(4, 7, 1.0), 2.0)
    assert told.repairs == 0
    tcp.acknowledge(Acknowledgement(4, 8, 1.0), 2.0)  # by RFC 6675 three behind 5 tell as much
    assert told.repairs == 1


def test_duplicates_are_counted_anew_once_what_was_late_has_arrived() -> None:
    told, tcp = sender(10.0)
    for number, early in ((0, 1), (0, 2), (3, -1), (3, 4), (3, 5)):
        tcp.acknowledge(Acknowledgement(number, early, 0.0), 1.0)
    assert told.repairs == 0
    tcp.acknowledge(Acknowledgement(3, 6, 0.0), 1.0)
    assert told.repairs == 1


def test_duplicates_are_counted_anew_behind_a_repair() -> None:
    """RFC 6582: the acknowledgement that ends one is no duplicate, even if it tells more."""
    told, tcp = sender(10.0)
    for early in (1, 2, 3):
        tcp.acknowledge(Acknowledgement(0, early, 0.0), 1.0)
    told.size = 20.0
    tcp.send(1.0)
    for early in (12, 11, 13):
        tcp.acknowledge(Acknowledgement(10, early, 1.0), 2.0)
    assert (told.repairs, told.repaired) == (1, 1)
    tcp.acknowledge(Acknowledgement(10, 14, 1.0), 2.0)
    assert told.repairs == 2
