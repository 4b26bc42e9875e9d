"""Whether a client can take part again: what is foreseen is what happens if it only rests."""

from dataclasses import dataclass, field
from math import inf

import pytest

from fedsim.physics.batteries import Crossing
from fedsim.physics.signals import Constant, Steps
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.supply import Part, Supply
from tests.physics.batteries import AnyBattery, battery_of, store_of

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
