"""What a sender of TCP tells its window: round trips by Karn's rule, and growth after a timeout."""

from typing import Any, cast

from fedsim.sim.network.tcp.receiver import Acknowledgement
from fedsim.sim.network.tcp.sender import Sender
from fedsim.sim.network.tcp.window import Window


class Told:
    """Stands in for a window: it notes what it is told."""

    timeout = 1.0

    def __init__(self, size: float) -> None:
        self.size = size
        self.trips = list[tuple[float, float]]()
        self.grown = list[int]()

    def measure(self, echo: float, now: float) -> None:
        self.trips.append((echo, now))

    def grow(self, count: int, *_: object) -> None:
        self.grown.append(count)

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
    assert 0 in tcp.board.again
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
