"""A radio with states by itself: what it meters where a message is late, or never comes."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

from fedsim.physics.radios import RadioStage
from fedsim.results.record.log import EventLog
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.radio import CellularRadio
from fedsim.sim.power.radio_kind import RadioKind
from fedsim.sim.power.supply import Part, Supply
from tests.sim.radios import RadioModel
from tests.tiers import every

PROMOTED = RadioModel(1.0, 1.0, promotion_power=8.0, promotion_time=2.0, tail_power=0.5,
                      tail_time=4.0)  # fmt: skip
UP = True


class Rows(list[tuple[Event, float, float, int, float]]):
    """Event, begin, end, round and joules of each row."""

    def word(self, text: str) -> int:
        return len(text)

    def append(self, *row: Any, **more: Any) -> None:
        now, duration, event, _, _, number = row
        super().append((event, now - duration, now, number, more["joules"]))


@dataclass
class Bench:
    """A radio on a bench: this plays the part of the network."""

    model: RadioModel = PROMOTED
    calendar: Calendar = field(default_factory=Calendar)
    rows: Rows = field(default_factory=Rows)

    def __post_init__(self) -> None:
        kind = RadioKind.of(self.model, self.model.rates({}))
        log = cast("EventLog", self.rows)
        self.radio = CellularRadio(kind, 0, None, self.calendar, log, Traffic(), {})

    def until(self, end: float) -> None:
        """Let time pass, which never goes back."""
        times = [self.calendar.now]
        self.calendar.call(end, lambda _: None, None)
        while self.calendar.now < end:
            self.calendar.step()
            times.append(self.calendar.now)
        assert all(one <= other for one, other in pairwise(times))

    def waits(self, latency: float, number: int = 1) -> float:
        """Announce a message up, and return when its bits will flow."""
        begins = self.radio.wake(self.calendar.now, number) + latency
        self.radio.began[UP] = begins
        return begins


@every("given_up", [3.0, 5.0, 6.0, 9.0, 11.0])
def test_a_message_that_never_comes_holds_the_tail_until_it_is_given_up(given_up: float) -> None:
    """Connected since 2 s; at rest 4 s later, or where it is given up if that is later."""
    bench = Bench()
    assert bench.waits(10.0) == 12.0
    bench.until(given_up)
    bench.radio.mark_idle(UP)
    bench.until(50.0)
    ends = max(6.0, given_up)
    assert bench.rows == [
        (Event.PROMOTION, 0.0, 2.0, 1, 16.0),
        (Event.TAIL, 2.0, ends, 1, 0.5 * (ends - 2.0)),
    ]
    assert bench.radio.power == 0.0
    assert bench.radio.joules == sum(row[-1] for row in bench.rows)


def test_a_promotion_that_is_broken_off_is_paid_so_far_and_ends_no_more() -> None:
    for lost, again in ((1.0, 1.5), (1.0, 2.0), (0.5, 7.0)):
        bench = Bench()
        bench.waits(0.0)
        bench.until(lost)
        bench.radio.mark_idle(UP)
        bench.radio.switch_off()
        assert bench.rows == [(Event.PROMOTION, 0.0, lost, 1, 8.0 * lost)]
        assert bench.radio.power == 0.0
        bench.until(again)
        assert bench.waits(0.0, 2) == again + 2.0  # it is promoted anew, from its beginning
        bench.until(again + 1.0)
        assert bench.radio.power == 8.0
        bench.until(again + 2.0)
        bench.radio.switch_off()
        assert bench.rows[1:] == [(Event.PROMOTION, again, again + 2.0, 2, 16.0)]


def test_a_second_message_waits_for_the_same_promotion_and_gives_the_rows_its_round() -> None:
    bench = Bench()
    assert bench.waits(0.0, 1) == 2.0
    bench.until(1.0)
    assert bench.waits(0.0, 2) == 2.0
    bench.until(2.0)
    bench.radio.mark_idle(UP)
    bench.until(20.0)
    assert bench.rows == [
        (Event.PROMOTION, 0.0, 2.0, 2, 16.0),
        (Event.TAIL, 2.0, 6.0, 2, 2.0),
    ]


def test_an_expiry_of_an_earlier_tail_ends_no_later_one() -> None:
    """The radio is switched off 1 s into its tail and is connected again before that would end."""
    bench = Bench()
    bench.waits(0.0)
    bench.until(3.0)
    bench.radio.mark_idle(UP)
    bench.radio.switch_off()
    bench.waits(0.0, 2)
    bench.until(5.5)
    bench.radio.mark_idle(UP)
    bench.until(20.0)
    spans = [row[:3] for row in bench.rows]
    assert spans == [
        (Event.PROMOTION, 0.0, 2.0),
        (Event.TAIL, 2.0, 3.0),
        (Event.PROMOTION, 3.0, 5.0),
        (Event.TAIL, 5.0, 9.0),
    ]


def test_bits_that_flow_as_a_promotion_ends_follow_it_and_no_stage_is_paid_twice() -> None:
    """The radio wakes out of its second stage; the bits begin in the same instant, and earlier."""
    paged = RadioStage(power=0.25, time=8.0, wake_time=2.0, wake_power=8.0)
    rest = RadioStage(wake_time=2.0, wake_power=8.0)
    bench = Bench(RadioModel(1.0, 1.0, stages=(RadioStage(power=0.5, time=4.0), paged, rest)))
    bench.waits(0.0)
    bench.until(2.0)
    bench.radio.mark_idle(UP)
    bench.until(8.0)
    bench.calendar.call(10.0, lambda _: bench.radio.begin(UP, 1.0), None)
    assert bench.waits(0.0) == 10.0
    bench.until(10.0)
    bench.until(11.0)
    assert [(*row[:3], row[-1]) for row in bench.rows] == [
        (Event.PROMOTION, 0.0, 2.0, 16.0),
        (Event.TAIL, 2.0, 6.0, 2.0),
        (Event.TAIL, 6.0, 8.0, 0.5),
        (Event.PROMOTION, 8.0, 10.0, 16.0),
    ]


def test_a_promotion_goes_on_to_its_end_though_its_message_is_given_up() -> None:
    """Out of the second stage, which would have ended meanwhile."""
    paged = RadioStage(power=0.25, time=2.5, wake_time=2.0, wake_power=8.0)
    rest = RadioStage(wake_time=2.0, wake_power=8.0)
    bench = Bench(RadioModel(1.0, 1.0, stages=(RadioStage(power=0.5, time=4.0), paged, rest)))
    bench.waits(0.0)
    bench.until(2.0)
    bench.radio.mark_idle(UP)
    bench.until(8.0)
    assert bench.waits(0.0) == 10.0
    bench.until(9.0)
    bench.radio.mark_idle(UP)
    bench.until(30.0)
    assert [(*row[:3], row[-1]) for row in bench.rows] == [
        (Event.PROMOTION, 0.0, 2.0, 16.0),
        (Event.TAIL, 2.0, 6.0, 2.0),
        (Event.TAIL, 6.0, 8.0, 0.5),
        (Event.PROMOTION, 8.0, 10.0, 16.0),
        (Event.TAIL, 10.0, 14.0, 2.0),
        (Event.TAIL, 14.0, 16.5, 0.625),
    ]


@dataclass
class Battery:
    """What a supply is told of a radio."""

    booked: list[tuple[Part, float]] = field(default_factory=list)
    load: float = 0.0
    share: float = 1.0

    def set(self, _: Part, watts: float) -> None:
        self.load = watts

    def book(self, part: Part, joules: float) -> None:
        self.booked.append((part, joules))


def test_the_battery_is_settled_with_the_meter_at_the_end_of_each_stage() -> None:
    """Promoted until 2 s with 8 W, in the tail with 0.5 W until bits flow at 3 s."""
    bench, battery = Bench(), Battery()
    bench.radio.supply = cast("Supply", battery)
    bench.waits(1.0)
    assert battery.load == 8.0
    bench.until(2.0)
    assert (battery.booked, battery.load) == ([(Part.RADIO, 16.0)], 0.5)
    bench.until(3.0)
    bench.radio.begin(UP, 1.0)
    assert battery.booked == [(Part.RADIO, 16.0), (Part.RADIO, 16.5)]
    bench.radio.mark_idle(UP)
    bench.until(50.0)
    assert battery.load == 0.0
    assert battery.booked[-1] == (Part.RADIO, 16.0 + 0.5 + 4.0 * 0.5)
    assert all(joules <= bench.radio.joules for _, joules in battery.booked)
