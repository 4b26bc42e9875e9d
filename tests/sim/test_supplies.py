"""Whether a client can take part again: what is foreseen is what happens if it only rests."""

from dataclasses import dataclass, field
from math import inf

import pytest

from fedsim.physics.batteries import Crossing
from fedsim.physics.signals import Constant, Signal, Steps
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, Supply
from tests.physics.batteries import AnyBattery, battery_of, store_of
from tests.tiers import every

HORIZON = 1e3
"""Seconds that are lived through."""


@dataclass
class Life:
    """A client that draws so much at rest, and restarts as its battery says."""

    battery: AnyBattery
    rest: float
    calendar: Calendar = field(default_factory=Calendar)

    def __post_init__(self) -> None:
        self.supply = Supply(self.calendar, store_of(self.battery), self.rest, self._crossed)

    def _crossed(self, crossing: Crossing | None) -> None:
        if crossing is Crossing.CHARGED:
            self.supply.switch_on()

    def until(self, end: float) -> None:
        self.calendar.call(end, lambda _: None, None)
        while self.calendar.now < end:
            self.calendar.step()

    def works(self, watts: float, seconds: float) -> None:
        """Compute for so long, if it is alive."""
        if self.supply.store.alive:
            self.supply.set(Part.PROCESSOR, watts)
        self.until(self.calendar.now + seconds)
        self.supply.set(Part.PROCESSOR, 0.0)

    def ready_at(self) -> float:
        """Return when it is ready if it rests from now on, lived through; inf for not soon."""
        self.calendar.call(2 * HORIZON, lambda _: None, None)  # batteries alone keep no run alive
        while not self.supply.ready:
            if self.calendar.peek() > HORIZON:
                return inf
            self.calendar.step()
        return self.calendar.now


def test_work_puts_off_what_was_foreseen() -> None:
    """At 1 W in and none out, 40 J are there after 30 s, or never where the source has ended."""
    for source, again in ((Constant(1.0), True), (Steps([0.0, 35.0], [1.0, 0.0]), False)):
        store = battery_of(
            100.0, source=source, charge=0.1, charge_efficiency=1.0, discharge_efficiency=1.0,
            cutoff=0.0, threshold=0.4, restart=0.5,
        )  # fmt: skip
        life = Life(store, 0.0)
        assert life.supply.recovers()
        assert life.supply._ready_at == 30.0
        life.works(2.0, 8.0)  # 16 J are gone: 22 s more, until 46 s
        assert life.supply.recovers() == again
        assert life.ready_at() == pytest.approx(46.0 if again else inf)


def test_what_a_meter_books_puts_off_what_was_foreseen_too() -> None:
    store = battery_of(
        100.0, source=Steps([0.0, 35.0], [1.0, 0.0]), charge=0.1, charge_efficiency=1.0,
        discharge_efficiency=1.0, cutoff=0.0, threshold=0.4, restart=0.5,
    )  # fmt: skip
    life = Life(store, 0.0)
    life.until(5.0)
    assert life.supply.recovers()
    life.supply.book(Part.RADIO, 8.0)
    assert (life.supply.settled, life.supply.delivered) == (8.0, 8.0)
    assert not life.supply.recovers()
    assert life.ready_at() == inf


SOURCES: dict[str, Signal] = {
    "steady": Constant(1.5),
    "by day": Steps([0.0, 60.0, 100.0, 140.0], [0.0, 4.0, 0.0, 4.0]),
    "too short": Steps([0.0, 20.0, 30.0], [0.0, 2.0, 0.0]),
    "none": Constant(0.0),
}


def nothing(life: Life) -> None:
    """Leave it alone."""


def book(life: Life) -> None:
    life.supply.book(Part.RADIO, 4.0)


def spend(life: Life) -> None:
    life.supply.spend(Part.RADIO, 4.0)


def cut(life: Life) -> None:
    life.supply.cut()


def work(life: Life) -> None:
    life.works(2.0, 3.0)


def exhaust(life: Life) -> None:
    """Ask in the middle of work at which the battery is depleted."""
    if life.supply.store.alive:
        life.supply.set(Part.PROCESSOR, 30.0)
    life.supply.recovers()
    life.until(life.calendar.now + 3.0)
    life.supply.set(Part.PROCESSOR, 0.0)


@every("source", SOURCES)
@every("restart", [0.2, 0.6])
def test_what_is_foreseen_is_what_happens_whatever_was_done_since_it_was_asked(
    source: str, restart: float
) -> None:
    """At rest it draws 1 W, and nothing while its battery is depleted."""
    for act in (nothing, book, spend, cut, work, exhaust):
        for charge in (0.05, 0.15, 0.3, 0.39, 0.6):
            for rest in (0.0, 1.0):
                store = battery_of(
                    100.0, source=SOURCES[source], charge=charge, charge_efficiency=0.9,
                    discharge_efficiency=0.8, cutoff=0.1, threshold=0.4, restart=restart,
                )  # fmt: skip
                life = Life(store, rest)
                life.until(2.0)
                life.supply.recovers()
                act(life)
                if act is cut and life.supply.store.alive:
                    life.supply.switch_on()
                recovers = life.supply.recovers()
                ready_at = life.supply._ready_at
                lived = life.ready_at()
                assert recovers == (lived < inf), (act, charge, rest)
                assert lived == pytest.approx(ready_at), (act, charge, rest)


def test_what_is_spent_at_once_is_on_the_meter_and_not_drawn_twice() -> None:
    """Delivered is what the meters show; booked apart, up or down, it is settled."""
    store = battery_of(
        100.0, charge=0.9, charge_efficiency=1.0, discharge_efficiency=1.0, cutoff=0.0,
    )  # fmt: skip
    life = Life(store, 0.0)
    life.until(1.0)
    assert life.supply.spend(Part.RADIO, 5.0) == 5.0
    life.supply.book(Part.RADIO, 5.0)
    assert (life.supply.delivered, life.supply.settled) == (5.0, 0.0)
    life.supply.book(Part.RADIO, 8.0)  # 3 J more than its powers explain
    life.supply.book(Part.RADIO, 7.0)  # and 1 J less
    assert (life.supply.delivered, life.supply.settled) == (7.0, 4.0)
    assert life.supply.store.level == pytest.approx(90.0 - 7.0)
    assert life.supply.spend(Part.RADIO, 1e3) == pytest.approx(83.0)  # no more than there is


def test_a_battery_that_starts_at_its_cut_off_has_been_depleted_once() -> None:
    for charge, depletions in ((0.1, 1), (0.05, 1), (0.11, 0)):
        store = battery_of(100.0, source=Constant(1.0), charge=charge, cutoff=0.1, restart=0.5)
        assert Life(store, 0.0).supply.depletions == depletions
