"""Stop rules: when a run ends, each a block of its own kind.

A rule is frozen. The function that `watch` returns keeps what it has seen of a run, so that one
block can serve many runs. A rule with a single parameter is written as that value: `gap: 1e-5`.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf, isnan, nan
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic_core import CoreSchema

from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import Bits, Duration, Joules
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import PerCent, Spec

_SLACK, _SLACK_AT_ZERO = 0.01, 1e-6


class Constraint(NamedTuple):
    """The constraint g(w) <= 0 of a method at a round's model.

    Attributes:
        value: g(w); NaN if it was not evaluated.
        tolerance: the value up to which the method accepts g(w).
    """

    value: float
    tolerance: float

    @property
    def met(self) -> bool:
        """Whether the model is feasible: g exceeds the tolerance by 1 % of it at most.

        A tolerance of 0 may be exceeded by 1e-6.

        >>> [Constraint(g, 0.5).met for g in (0.4, 0.504, 0.506)], Constraint(2e-6, 0.0).met
        ([True, True, False], False)
        """
        slack = _SLACK * abs(self.tolerance) or _SLACK_AT_ZERO
        return self.value <= self.tolerance + slack

    def __str__(self) -> str:
        """Return the value and how it meets the tolerance, as a clause."""
        if self.value <= self.tolerance:
            within = "within"
        else:
            within = "within 1 % of" if self.tolerance else "within 1e-06 of"
        return f"constraint {self.value:.6g} {within} the tolerance {self.tolerance:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEnd:
    """The state of a run at the start or the end of a round, for stop rules; also if abandoned.

    Attributes:
        round: the number of the round; 0 for the initial model.
        t: simulated time, s.
        bits: bits sent so far, in both directions together.
        joules: energy drawn so far by all clients, J.
        objective: the objective at the round's model; NaN if the observer does not evaluate it.
        gap: the objective minus the optimum; NaN if either is unknown.
        figures: the scenario's measures and the method's columns, by name; None or missing if not
            evaluated.
        higher: the columns in which a larger value is better.
        constraint: the method's constraint at the round's model; None without one.
    """

    round: int
    t: float = 0.0
    bits: int = 0
    joules: float = 0.0
    objective: float = nan
    gap: float = nan
    figures: Mapping[str, float | None] = field(default_factory=dict)
    higher: Collection[str] = ()
    constraint: Constraint | None = None

    def figure(self, column: str) -> float:
        """Return `objective`, `gap` or another column; NaN if it is not evaluated."""
        if column in ("objective", "gap"):
            return self.objective if column == "objective" else self.gap
        value = self.figures.get(column)
        return nan if value is None else value

    @property
    def feasible(self) -> bool:
        """Whether the round's model meets the constraint; True without a constraint.

        It is False if the constraint was not evaluated.
        """
        return self.constraint is None or self.constraint.met

    @property
    def feasibility(self) -> str:
        """The clause of a feasible model's constraint, to end a reason; empty without one."""
        return "" if self.constraint is None else f", {self.constraint}"

    def feasible_figure(self, column: str) -> float:
        """Return a column as `figure` does; NaN if the model is not feasible."""
        return self.figure(column) if self.feasible else nan


RoundCheck = Callable[[RoundEnd], str]
"""Called at the end of each round of a run, in order. Returns why the run is over, or ""."""


def never(_: RoundEnd) -> str:
    """Return "": no round ends the run."""
    return ""


class StopRule(Spec):
    """Base class of stop rules; the reason that ends a run begins with the kind of its rule.

    Attributes:
        early: whether the rule may end a run before its last round. Then a study's estimated time
            is an upper bound.
        physical: whether the rule depends on simulated time or energy. Then the same run would end
            in another round with other devices, radios or links, so `fedsim robust` cannot compute
            its cost by recursion.
        simulated: why a live run does not support the rule; empty if it does.
    """

    early: ClassVar[bool] = True
    physical: ClassVar[bool] = True
    simulated: ClassVar[str] = ""

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature if the rule ends runs by time or energy."""
        if self.physical:
            text = "it ends by time or energy, so in another round in each world"
            yield "", Nature(varies=text, simulated=self.simulated)

    @abstractmethod
    def watch(self) -> RoundCheck:
        """Return the check of one run, called at the end of every round.

        The check returns why the run is over, or "". It may keep what it has seen of that run.
        """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads; a scenario is refused if it does not evaluate one of them."""
        return ()

    @property
    def ends_at(self) -> float:
        """The simulated time at which it ends the run, even in the middle of a round, s."""
        return inf

    def on_empty(self, batteries: int) -> str:
        """Return why the run is over if this many batteries are empty, even within a round."""
        return ""

    @property
    def mid_round(self) -> bool:
        """Whether it may end a run in the middle of a round."""
        return self.ends_at < inf or type(self).on_empty is not StopRule.on_empty

    @property
    def key(self) -> str:
        """The key of the rule below `stop`, with which its reason begins: its kind."""
        return self.kind

    @classmethod
    def value_key(cls) -> str:
        """Return the name of its only parameter, which is written bare; "" if it has several."""
        names = [name for name in cls.model_fields if name != "kind"]
        return names[0] if len(names) == 1 else ""

    @model_serializer(mode="wrap")
    def _without_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write only the parameters: the key at which the block stands is its kind."""
        return {name: value for name, value in handler(self).items() if name != "kind"}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the parameters, without the kind."""
        described_block = handler(schema)
        handler.resolve_ref_schema(described_block).get("properties", {}).pop("kind", None)
        return described_block


Whole = Annotated[int, Field(ge=1)]
Above = Annotated[float, Field(gt=0)]


class RoundLimit(StopRule):
    """This many rounds are complete; every run has this rule."""

    early: ClassVar[bool] = False
    physical: ClassVar[bool] = False

    kind: Literal["rounds"] = "rounds"
    count: Whole = Field(description="this many rounds")

    def watch(self) -> RoundCheck:
        """Return a check of the number of rounds."""
        return lambda end: f"{end.round} of {self.count}" if end.round >= self.count else ""


class TargetRule(StopRule):
    """Base class of rules that wait for a column to reach a value; costs are reported at it.

    Attributes:
        target: the column of the round table, and the value.
    """

    physical: ClassVar[bool] = False

    @property
    @abstractmethod
    def target(self) -> tuple[str, float]:
        """See above."""

    @property
    def columns(self) -> tuple[str, ...]:
        """That column."""
        return self.target[:1]

    def watch(self) -> RoundCheck:
        """Return a check of the column against the bound.

        The column must be at most the bound, or at least the bound if higher is better. A model
        that is not feasible does not reach it.
        """
        column, bound = self.target

        def check(end: RoundEnd) -> str:
            seen = end.feasible_figure(column)  # NaN, if unknown: neither comparison holds
            higher = column in end.higher
            reached, side = (seen >= bound, "least") if higher else (seen <= bound, "most")
            return f"{seen:.6g} is at {side} {bound:g}{end.feasibility}" if reached else ""

        return check


class GapTarget(TargetRule):
    """The objective is this near to the optimum."""

    kind: Literal["gap"] = "gap"
    below: Above = Field(
        description="objective this near to the optimum; under a constraint, of a feasible model"
    )

    @property
    def target(self) -> tuple[str, float]:
        """The gap, and the value that it has to be below."""
        return "gap", self.below

    def watch(self) -> RoundCheck:
        """Return a check that the gap is below the bound."""

        def check(end: RoundEnd) -> str:
            # Written so that an unknown gap, NaN, does not stop the run.
            if not end.feasible_figure("gap") < self.below:
                return ""
            return f"{end.gap:.6g} is below {self.below:g}{end.feasibility}"

        return check


class ObjectiveTarget(TargetRule):
    """The objective is this small."""

    kind: Literal["objective"] = "objective"
    at_most: float = Field(
        description="an objective of this or less; under a constraint, of a feasible model"
    )

    @property
    def target(self) -> tuple[str, float]:
        """The objective, and the value that it must not exceed."""
        return "objective", self.at_most


class MeasureTarget(TargetRule):
    """A column of the scenario's measures has reached a value.

    Each column is its own key, so a scenario cannot name the kind.
    """

    kind: Literal["measure"] = "measure"
    measure: str
    value: float

    @property
    def key(self) -> str:
        """The column."""
        return self.measure

    @property
    def target(self) -> tuple[str, float]:
        """The measure, and its value."""
        return self.measure, self.value


class Patience(StopRule):
    """The objective, or a measure, has not improved for some rounds.

    A value is an improvement if it is better than the best one by more than `least`, and by more
    than `tolerance` times its magnitude. The best value is that of the last improvement, so many
    small steps add up to one. Rounds without an evaluation are no improvement, and end no run. The
    same goes for models that are not feasible; before the first feasible one, the rule ends no run.
    Other libraries call this rule early stopping.
    """

    also_called: ClassVar[tuple[str, ...]] = ("plateau", "early-stopping", "early_stopping")

    physical: ClassVar[bool] = False

    kind: Literal["patience"] = "patience"
    rounds: int = Field(ge=1, description="this many rounds without an improvement")
    tolerance: Annotated[float, PerCent()] = Field(
        default=0.0, ge=0, description="smallest relative improvement that counts"
    )
    least: float = Field(default=0.0, ge=0, description="smallest absolute improvement that counts")
    measure: str = Field(
        default="objective",
        description=(
            "what has to improve: objective, gap, or a measure of the scenario, such as"
            " test_accuracy"
        ),
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The column that has to improve."""
        return (self.measure,)

    def watch(self) -> RoundCheck:
        """Return a check that keeps the best value and the round of the last improvement."""
        best, since, feasibility = nan, 0, ""

        def check(end: RoundEnd) -> str:
            nonlocal best, since, feasibility
            seen = end.figure(self.measure)
            if isnan(seen):
                return ""
            gain = seen - best if self.measure in end.higher else best - seen
            # The best value moves only with an improvement: steps below the tolerance are compared
            # with the same value, and add up.
            improved = isnan(best) or gain > max(self.tolerance * abs(best), self.least)
            if improved and end.feasible:
                best, since, feasibility = seen, end.round, end.feasibility
                return ""
            # Rounds are compared by number, so that rounds without evaluation count towards the
            # patience.
            if isnan(best) or end.round - since < self.rounds:
                return ""
            last = f"{self.measure} {best:.6g} of round {since}"
            return f"{last} was the last improvement{feasibility}"

        return check


class TrafficLimit(StopRule):
    """This many bits have been sent, in both directions together."""

    physical: ClassVar[bool] = False

    kind: Literal["bits"] = "bits"
    sent: Bits = Field(description="this much sent, in both directions together")

    def watch(self) -> RoundCheck:
        """Return a check of the bits."""
        return lambda end: f"{end.bits} of {self.sent:g}" if end.bits >= self.sent else ""


_METERED = "a live run has no such limit: only meters measure energy"


class EnergyLimit(StopRule):
    """All clients together have spent this much energy."""

    simulated: ClassVar[str] = _METERED

    kind: Literal["energy"] = "energy"
    spent: Joules = Field(description="this much energy of all clients together")

    def watch(self) -> RoundCheck:
        """Return a check of the joules."""

        def check(end: RoundEnd) -> str:
            over = end.joules >= self.spent
            return f"{end.joules:.6g} J of {self.spent:g} J" if over else ""

        return check


class EpsilonLimit(StopRule):
    """This much privacy is spent; the run ends before the round that would exceed it."""

    physical: ClassVar[bool] = False

    kind: Literal["epsilon"] = "epsilon"
    spent: Above = Field(description="largest epsilon that may be spent; see privacy")

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature: only a run that draws the noise has an account."""
        yield "", Nature(reacts=f"got {self.spent:g}: the account of a training run ends it")

    def watch(self) -> RoundCheck:
        """Return `never`: the account of privacy ends the run."""
        return never


class TimeLimit(StopRule):
    """This much simulated time has passed; it ends a run in the middle of a round."""

    kind: Literal["time"] = "time"
    after: Duration = Field(description="this much simulated time")

    @property
    def ends_at(self) -> float:
        """The time, s."""
        return self.after

    def watch(self) -> RoundCheck:
        """Return `never`: the clock ends the run."""
        return never


class EmptyBatteries(StopRule):
    """This many client batteries are empty; it ends a run in the middle of a round."""

    # Energy decides when such a run ends. The recursion of `fedsim robust` may still price it,
    # because it checks in every world that no battery falls to a level at which something happens.
    physical: ClassVar[bool] = False

    simulated: ClassVar[str] = _METERED

    kind: Literal["batteries"] = "batteries"
    count: Whole = Field(description="this many client batteries are empty")

    def watch(self) -> RoundCheck:
        """Return `never`: a battery ends the run."""
        return never

    def on_empty(self, batteries: int) -> str:
        """Return the reason once there are as many."""
        return f"{batteries} are empty" if batteries >= self.count else ""


STOPS: Registry[StopRule] = Registry(
    "stop rule",
    (
        *(GapTarget, ObjectiveTarget, Patience),
        *(RoundLimit, TrafficLimit, EnergyLimit, EpsilonLimit, TimeLimit, EmptyBatteries),
    ),
    StopRule,
    plural="stops",
)
"""The kinds of stop rules."""
