"""The observer: looks at the model of every round, writes it down, and stops the run."""

from collections.abc import Callable
from math import inf, isfinite, nan

from fedsim.errors import Clash, Diverged
from fedsim.ports import SERVER, Array
from fedsim.protocol.stopping import RunStopped
from fedsim.record.book import Book
from fedsim.record.rounds import COLUMNS, Traffic
from fedsim.record.schema import NO_PEER, Event
from fedsim.sim.engine.calendar import Calendar
from fedsim.sim.power.rest import RestMeter
from fedsim.sim.setup import Setup

OnRound = Callable[[int, float, float], None]
"""Told the round, the objective and the gap of every round that is committed."""


def unheard(*_: object) -> None:
    """Nobody listens."""


class Observer:
    """Evaluates what is committed; costs no simulated time.

    Attributes:
        last_round: number and objective of the last round that was committed.
    """

    def __init__(
        self,
        setup: Setup,
        book: Book,
        calendar: Calendar,
        traffic: Traffic,
        rest: RestMeter,
        on_round: OnRound,
    ) -> None:
        self.last_round = 0, nan
        self._setup = setup
        self._book, self._log = book, book.log
        self._calendar = calendar
        self._traffic = traffic
        self._rest_meter = rest
        self._on_round = on_round
        self._rested_until = 0.0
        self._committed: tuple[Array, dict[str, float]] | None = None

    def commit(self, model: Array, measures: dict[str, float]) -> None:
        """Evaluate the round, write it down, and stop the run where a rule applies."""
        if self._setup.participation.patience < inf:
            self._committed = model.copy(), measures
        self._write_round(model, measures)

    def stay(self) -> None:
        """End a round that was given up, with the model and the figures of the last one."""
        if self._committed is None:
            self._write_round(self._setup.initial, {}, complete=False)
        else:
            self._write_round(*self._committed)

    def _write_round(
        self, model: Array, measures: dict[str, float], *, complete: bool = True
    ) -> None:
        number, now = self._book.rounds.rounds + 1, self._calendar.now
        objective = self._setup.evaluate(model)
        if not (isfinite(objective) and isfinite(model.sum())):
            raise Diverged(self._divergence(number, objective))
        gap = objective - self._setup.optimum
        figures = self._figures(model, measures)
        self.rest(Event.ROUND, number)
        self._book.rounds.add(
            now, self._traffic, objective=objective, gap=gap, measures=figures, complete=complete
        )
        self._book.models.see(number, model)
        self.last_round = number, objective
        self._on_round(number, objective, gap)
        spent = self._traffic
        bits = spent.bits_up + spent.bits_down
        reason = self._setup.stop.reason(number, gap, bits, spent.joules)
        if reason:
            raise RunStopped(reason)

    def _figures(self, model: Array, given: dict[str, float]) -> dict[str, float]:
        """Return what is measured at a model beside its objective, and what was given.

        Raises:
            Clash: the algorithm has given what there is a column of already.
        """
        figures: dict[str, float] = {}
        for observe in self._setup.measures:
            figures |= observe(model)
        for name in given:
            if name not in figures and name not in COLUMNS:
                continue
            where = (
                "a measure of the scenario fills the same column; leave that out of measures"
                if name in figures
                else "every round table has a column of that name; the method takes another name"
            )
            raise Clash(f"the method gives a figure {name!r} of its own, and {where}")
        return figures | given

    def _divergence(self, number: int, objective: float) -> str:
        last, value = self.last_round
        kept = (
            f"round {last} was the last finite one, with the objective {value:.6g}"
            if last
            else "no round was finite"
        )
        return f"diverged in round {number}: the objective is {objective:g}; {kept}"

    def rest(self, event: Event, number: int, detail: int = -1) -> None:
        """Write a row of the server with what the fleet drew at rest since the last one."""
        now = self._calendar.now
        seconds = now - self._rested_until
        joules = self._rest_meter.take(now)
        self._rested_until = now
        self._traffic.joules += joules
        self._log.append(now, seconds, event, SERVER, NO_PEER, number, joules=joules, detail=detail)
