"""The observer: evaluates the model of every round, records it, and stops the run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import fsum, isfinite, isnan, nan
from typing import Protocol

from fedsim.core.errors import Diverged, DuplicateColumnError
from fedsim.core.ports import SERVER, Array, constant
from fedsim.core.progress import activity
from fedsim.core.table_columns import (
    CONSTRAINT,
    FEASIBLE,
    GRAMS_AFTER,
    JOULES_AFTER,
    SECRECY_OPERATIONS,
)
from fedsim.physics.infrastructure import InfrastructureMeter
from fedsim.protocol.stop_rules import Constraint, RoundEnd
from fedsim.protocol.stopping import Counting, Observe, RunStopped, Stop
from fedsim.results.record.models import NodeModels
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import OWN, Traffic
from fedsim.results.record.schema import NO_PEER, Event
from fedsim.sim.worlds.clock import Clock
from fedsim.sim.worlds.open_spans import SETTLED, Spans, Unsettled
from fedsim.sim.worlds.server import RowLog

OnRound = Callable[[RoundEnd], None]
"""Callback for the end of every committed round."""


def ignore_round(*_: object) -> None:
    """Ignore an evaluation."""


class ObserverConfig(Protocol):
    """The configuration of an observer, as `fedsim.sim.config.WorldConfig` has it."""

    @property
    def initial(self) -> Array:
        """The initial model, shape (d,)."""
        ...

    @property
    def evaluate(self) -> Callable[[Array], float]:
        """Return the objective at a model, a read-only array."""
        ...

    @property
    def valued(self) -> bool:
        """Whether the objective is known; otherwise NaN is an ordinary value of it."""
        ...

    @property
    def optimum(self) -> float:
        """The minimum of the objective; NaN if it is not known."""
        ...

    @property
    def measures(self) -> Sequence[Callable[[Array], Mapping[str, float]]]:
        """Further measures of a model, a read-only array; each returns values by name."""
        ...

    @property
    def tolerance(self) -> float | None:
        """The tolerance of the constraint, which is one of the measures; None without one."""
        ...

    @property
    def observe(self) -> Observe:
        """Which rounds are evaluated."""
        ...

    @property
    def counting(self) -> Counting:
        """Which model of a round is evaluated."""
        ...

    @property
    def stop(self) -> Stop:
        """When the run ends."""
        ...

    @property
    def infrastructure(self) -> InfrastructureMeter | None:
        """The energy of server and network; None if it is not counted."""
        ...

    @property
    def higher(self) -> frozenset[str]:
        """The columns of measures for which more is better."""
        ...


class IdleEnergy(Protocol):
    """The idle energy of the fleet."""

    def take(self, now: float) -> float:
        """Return the energy since the last call, J."""
        ...

    def take_grams(self, now: float) -> float:
        """Return the emissions of that energy since the last call, g; 0 if not tracked."""
        ...


class Observer:
    """Evaluates committed models on the scenario's schedule; costs no simulated time.

    The table of rounds begins with round 0, the initial model. A round is evaluated at the model
    that its commit passes; under `counting: iterates`, at the model before.

    Args:
        may_stay: whether a round may end without a step, so that the last model has to be kept.
        log: receives the rows of rounds; the recorder's log if None.

    Attributes:
        start: the objective of the initial model; NaN before `begin`.
        last_round: the number and the objective of the last committed round.
        abandoned: the number of rounds that were no step of the algorithm.
        feasible: whether the last evaluated model meets the constraint; None without one.
        ends: the time of each committed round, s, from round 0 on.
        counts: returns the server's counts in the round that ends, by column.
        find_unsettled: returns the energy that no row has charged yet.
        unsettled: its result at the last commit.
    """

    def __init__(
        self,
        setup: ObserverConfig,
        book: RunRecorder,
        calendar: Clock,
        traffic: Traffic,
        idle: IdleEnergy,
        on_round: OnRound,
        *,
        may_stay: bool = True,
        log: RowLog | None = None,
    ) -> None:
        self.start = nan
        self.last_round = self._last_seen = 0, nan
        self.abandoned = 0
        self.ends: list[float] = []
        self.feasible: bool | None = None
        self.counts: Callable[[], dict[str, float]] = dict
        self.find_unsettled: Callable[[], Unsettled] = lambda: SETTLED
        self.unsettled = SETTLED
        self._spent = 0.0  # J, until the last commit
        self._operations = 0.0  # of the server, which the method has counted
        self._setup = setup
        self._over = setup.stop.watch()
        self._book, self._emissions = book, book.log.emissions
        self._log: RowLog = book.log if log is None else log
        self._calendar = calendar
        self._traffic = traffic
        self._idle_meter = idle
        self._on_round = on_round
        self._iterates = setup.counting == "iterates"
        self._keeps = may_stay or self._iterates
        self._idle_until = 0.0
        self._held: Array  # the model after the last committed round, if it is kept
        self._given: dict[str, float] | None = None  # the method's figures of that round
        self._about: Mapping[str, float] = {}  # further figures of that model
        self._unlooked: Array | None = None  # the last committed model, if not evaluated
        self._unseen: dict[str, None] = {}  # names of measures, for rounds without evaluation

    def begin(self, model: Array | None = None, about: Mapping[str, float] | None = None) -> None:
        """Write round 0, which costs nothing, and stop the run if a rule applies to it.

        Args:
            model: the initial model, shape (d,); by default the configuration's.
            about: further figures of this model.
        """
        start = constant(self._setup.initial if model is None else model)
        if self._keeps:
            self._held, self._about = start, about or {}
        self.start, seen = self._evaluate(0, start)
        self._close(0, self.start, {**seen, **(about or {})}, start, complete=False)

    def commit(
        self, model: Array, measures: dict[str, float], about: Mapping[str, float] | None = None
    ) -> None:
        """Evaluate the round, write its row, and stop the run if a rule applies.

        Args:
            model: the model after the round, shape (d,).
            measures: further figures of the round.
            about: further figures of this model, which appear in the row that evaluates it.
        """
        # A copy: the method may go on to change its model. It is also what is evaluated, so that no
        # evaluation can change the model of the method.
        kept = constant(model)
        # Under `iterates` the row of round k has theta^k, the model before the step of the round;
        # the figures that describe a model move with it.
        looked_at = self._held if self._iterates else kept
        figures = {**measures, **((self._about if self._iterates else about) or {})}
        if self._keeps:
            self._held, self._given, self._about = kept, figures, about or {}
        self._write_round(looked_at, figures | self.counts())

    @property
    def nodes(self) -> NodeModels | None:
        """Receives the models of peers before their round is committed; None if not kept.

        The rows of nodes that have left are NaN.
        """
        return self._book.models.nodes

    def stay(self) -> None:
        """End a round that was abandoned: the model and figures of the last one stay."""
        self.abandoned += 1
        complete = self._given is not None
        self._write_round(self._held, (self._given or {}) | self.counts(), complete=complete)

    def _write_round(
        self, model: Array, measures: dict[str, float], *, complete: bool = True
    ) -> None:
        number = self._book.rounds.rounds + 1
        # The last round is evaluated in any case, so that a run of all its rounds ends with an
        # objective.
        looked = self._setup.observe.looks(number) or number >= self._setup.stop.rounds
        objective, seen = self._look(number, model) if looked else (nan, {})
        # After the evaluation, which reports a divergence with the objective that it saw.
        # A sum needs no temporary array, unlike `isfinite(model).all()`. Infinities of both signs
        # give NaN. Finite numbers whose sum overflows are taken for a divergence, too.
        if not isfinite(model.sum()):
            raise Diverged(number, "the model is not finite")
        if looked:
            self._last_seen = number, objective
        figures = self._join(seen or self._unseen, measures)
        self.write_idle(Event.ROUND, number)
        self.last_round = number, objective
        self._unlooked = None if looked else model
        self._close(number, objective, figures, model, complete=complete and looked)

    def _close(
        self,
        number: int,
        objective: float,
        figures: Mapping[str, float | None],
        kept: Array,
        *,
        complete: bool,
    ) -> None:
        """Write the row of a round, and stop the run if a rule applies."""
        gap, now = objective - self._setup.optimum, self._calendar.now if number else 0.0
        self.unsettled = self.find_unsettled()
        self._operations += figures.get(SECRECY_OPERATIONS) or 0.0
        self.charge_infrastructure(now)
        table, traffic = self._book.rounds, self._costs()
        table.add(
            number,
            now,
            traffic,
            self.costs_after(self.unsettled.tails),
            objective=objective,
            gap=gap,
            measures=figures,
            complete=complete,
        )
        self.ends.append(now)
        # The order below: the row, the checkpoint, the callback, and only then the stop rules,
        # which leave by an exception. So the round that ends the run is complete on disk.
        end = RoundEnd(
            round=number,
            t=now,
            bits=traffic.bits_up + traffic.bits_down,
            joules=traffic.joules,
            objective=objective,
            gap=gap,
            figures=figures,
            higher=self._setup.higher,
            constraint=self._constraint(figures),
        )
        self._book.models.see(number, kept, end.feasible_figure)
        self._on_round(end)
        reason = self._over(end)
        if reason:
            raise RunStopped(reason)

    def charge_infrastructure(self, now: float) -> None:
        """Enter the energy of server and network up to a time in the totals, if it is counted."""
        if self._setup.infrastructure is None:
            return
        traffic = self._traffic
        bits = traffic.bits_up + traffic.bits_down
        traffic.server_joules, traffic.network_joules = self._setup.infrastructure.read(
            now, bits, traffic.transmissions, self._operations
        )

    def _costs(self) -> Traffic:
        """Return the totals up to now.

        The totals of the run have spans that have ended. The energy until now is that of a run that
        ends now, so the parts of open spans are added here, and are not kept: the next round
        begins with what the last one has counted already.
        """
        # Rounded once: the order of spans differs between the ways in which a world is played.
        joules = self._traffic.joules + fsum(self.unsettled.spent.joules.tolist())
        # Sums of other parts of the same spans may be lower by their rounding.
        self._spent = joules if not joules < self._spent else self._spent
        grams = self._traffic.grams
        if self._emissions is not None and grams is not None:
            grams += self._emissions.of_spans(*self.unsettled.spent)
        return replace(self._traffic, joules=self._spent, grams=grams)

    def costs_after(self, tails: Spans) -> Mapping[str, float]:
        """Return what radios take from now on until they sleep, by column."""
        after = {JOULES_AFTER: fsum(tails.joules.tolist())}
        if self._emissions is not None:
            after[GRAMS_AFTER] = self._emissions.of_spans(*tails)
        return after

    def end(self) -> None:
        """Evaluate the model of the last round, unless it has been evaluated."""
        if self._unlooked is None:
            return
        number, model = self.last_round[0], self._unlooked
        self._unlooked = None
        objective, figures = self._look(number, model)
        gap = objective - self._setup.optimum
        self._book.rounds.amend(objective=objective, gap=gap, measures=figures)
        self.last_round = self._last_seen = number, objective

    def _look(self, number: int, model: Array) -> tuple[float, dict[str, float]]:
        """Return the objective of a round's model, and its measures.

        Raises:
            Diverged: the objective is not finite.
        """
        objective, figures = self._evaluate(number, model)
        if self._setup.valued and not isfinite(objective):
            raise Diverged(number, f"the objective is {objective:g}")
        return objective, figures

    def _evaluate(self, number: int, model: Array) -> tuple[float, dict[str, float]]:
        """Return the objective of a round's model, and its measures, without a check."""
        with activity(f"evaluating the model of round {number}"):
            objective = self._setup.evaluate(model)
        figures: dict[str, float] = {}
        for observe in self._setup.measures:
            figures |= observe(model)
        if (constraint := self._constraint(figures)) is not None:
            self.feasible = constraint.met
            figures[FEASIBLE] = int(self.feasible)
        # The names are known only from an evaluation. Rounds that are not evaluated have the same
        # columns, without values.
        self._unseen = dict.fromkeys(figures)
        return objective, figures

    def _constraint(self, figures: Mapping[str, float | None]) -> Constraint | None:
        """Return the constraint in the figures of a round; None for a method without one."""
        if (tolerance := self._setup.tolerance) is None:
            return None
        value = figures.get(CONSTRAINT)
        return Constraint(nan if value is None else value, tolerance)

    def _join(
        self, figures: Mapping[str, float | None], method_figures: Mapping[str, float]
    ) -> dict[str, float | None]:
        """Return the measures together with the figures of the method.

        Raises:
            DuplicateColumnError: the method reports a figure whose column exists already.
        """
        for name in method_figures:
            if name not in figures and name not in OWN:
                continue
            where = (
                f"the scenario's measure {name!r} fills the same column: remove it from `measures`"
                if name in figures
                else "every round table has a column of that name: rename the method's figure"
            )
            text = f"the method reports a figure {name!r}, but {where}"
            raise DuplicateColumnError(text)
        return {**figures, **method_figures}

    @property
    def kept(self) -> str:
        """Say which rounds of a diverged run are finite, as a clause."""
        number, value = self._last_seen
        if not self.last_round[0]:
            return "no round was finite"
        if not number:
            return "no round was seen to be finite"
        # With few evaluations, later rounds may have been finite as well.
        which = "last finite one" if number == self.last_round[0] else "last one seen to be finite"
        known = "" if isnan(value) else f", with the objective {value:.6g}"
        return f"round {number} was the {which}{known}"

    def write_idle(self, event: Event, number: int, detail: int = -1) -> None:
        """Write a row of the server with the idle energy of the fleet since the last one."""
        now = self._calendar.now
        seconds = now - self._idle_until
        joules = self._idle_meter.take(now)
        if self._emissions is not None:
            self._emissions.rest(self._idle_meter.take_grams(now))
        self._idle_until = now
        self._traffic.joules += joules
        self._log.append(now, seconds, event, SERVER, NO_PEER, number, joules=joules, detail=detail)
        self._traffic.grams = self._book.log.total_emissions()
