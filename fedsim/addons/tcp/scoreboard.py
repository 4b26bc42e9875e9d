"""Scoreboard of a sender: the state of its segments (RFC 6675)."""

from collections import defaultdict

from fedsim.addons.tcp import boards
from fedsim.addons.tcp.boards import BoardState


class Scoreboard(BoardState):
    """The state of the segments of a message: see `boards`.

    Args:
        total: the number of segments.
        linux: whether losses are detected by the order of sending (RFC 8985).
    """

    __slots__ = ()

    def __init__(self, total: int, *, linux: bool = False) -> None:
        self.linux = linux
        self.first = self.next = self.arrived = self.lost = self.again = self.hint = self.edge = 0
        self.highests, self.highest = 0, [0] * boards.DUPLICATES
        self.repeats, self.found_lost, self.delivered = 0, 0, boards.NOTHING
        self.newest_trip = self.least_trip = 0.0
        self.marks, self.sent = bytearray(total), list[float]()
        self.orders, self.places = dict[int, int](), defaultdict[int, int](int)

    flight = property(boards.flight)
    clean = property(boards.is_clean)
    has = boards.has
    take = boards.take
    acknowledge = boards.acknowledge
    is_repaired = boards.is_repaired
    is_first_news = boards.is_first_news
    outruns_second = boards.outruns_second
    lose_first = boards.lose_first
    lose_all = boards.lose_all
    lose_none = boards.lose_none
    lose_late = boards.lose_late
    find_lost = boards.find_lost
    first_lost = boards.first_lost
    first_unknown = boards.first_unknown
    send_again = boards.send_again
