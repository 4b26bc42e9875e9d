"""Stop rules: when a run ends, each a block of its own kind.

A rule is frozen: what it remembers of a run is in the function that `watch` returns, so that one
block serves many runs. A rule with a single parameter is written as that value: `gap: 1e-5`.
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
        value: g(w); NaN where it was not evaluated.
        tolerance: the value up to which the method takes it as met.
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
        """Return how it is met, as a clause."""
        if self.value <= self.tolerance:
            within = "within"
        else:
            within = "within 1 % of" if self.tolerance else "within 1e-06 of"
        return f"constraint {self.value:.6g} {within} the tolerance {self.tolerance:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEnd:
    """What a stop rule sees at the start and at the end of a round, abandoned rounds included.

    Attributes:
        round: its number; 0 for the model that the run starts with.
        t: simulated time, s.
        bits: sent so far, in both directions together.
        joules: drawn so far by all clients.
        objective: of the round's model; NaN in a round that the observer does not evaluate.
        gap: the objective less the optimum; NaN where either is not known.
        figures: by column, those of the scenario's measures and of the method; None or missing
            where they are not evaluated.
        higher: the columns of which more is better.
        constraint: that of the method at the round's model; None for a method without one.
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
        """Return `objective`, `gap` or another column; NaN where it is not evaluated."""
        if column in ("objective", "gap"):
            return self.objective if column == "objective" else self.gap
        value = self.figures.get(column)
        return nan if value is None else value

    @property
    def feasible(self) -> bool:
        """Whether the round's model meets the constraint; True of a method without one.

        False where the constraint was not evaluated.
        """
        return self.constraint is None or self.constraint.met

    @property
    def feasibility(self) -> str:
        """How a feasible model meets the constraint, as the end of a reason; "" without one."""
        return "" if self.constraint is None else f", {self.constraint}"

    def feasible_figure(self, column: str) -> float:
        """Return a column as `figure` does; NaN if the model is not feasible."""
        return self.figure(column) if self.feasible else nan


RoundCheck = Callable[[RoundEnd], str]
"""Called at the end of each round of one run, in order: returns why the run is over, or ""."""


def never(_: RoundEnd) -> str:
    """Return that no round ends the run."""
    return ""


class StopRule(Spec):
    """Base class of stop rules; the reason of a run that one has ended begins with its kind.

    Attributes:
        early: whether it may end a run before its rounds are over, which makes the time that a
            study takes an upper bound.
        physical: whether simulated time or energy decide, so that the same run would end
            elsewhere on other devices, radios or links. Such a run has no round that
            `fedsim robust` could price by recursion.
        simulated: why a live run does not have it; empty if it does.
    """

    early: ClassVar[bool] = True
    physical: ClassVar[bool] = True
    simulated: ClassVar[str] = ""

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield that it ends by time or energy."""
        if self.physical:
            text = "it ends by time or energy, so in another round in each world"
            yield "", Nature(varies=text, simulated=self.simulated)

    @abstractmethod
    def watch(self) -> RoundCheck:
        """Return the check of one run: of a round's end, why the run is over, "" while it is not.

        The check may keep what it has seen of that run. It is called at the end of every round.
        """

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads; a scenario that does not evaluate one is refused."""
        return ()

    @property
    def ends_at(self) -> float:
        """The simulated time at which it ends the run, even in the middle of a round, s."""
        return inf

    def on_empty(self, batteries: int) -> str:
        """Return why the run is over once so many batteries are empty, even within a round."""
        return ""

    @property
    def mid_round(self) -> bool:
        """Whether it may end a run in the middle of a round."""
        return self.ends_at < inf or type(self).on_empty is not StopRule.on_empty

    @property
    def key(self) -> str:
        """What a scenario names it by, and how its reason begins: its kind."""
        return self.kind

    @classmethod
    def value_key(cls) -> str:
        """Return the name of its only parameter, which is written as a bare value; or nothing."""
        names = [name for name in cls.model_fields if name != "kind"]
        return names[0] if len(names) == 1 else ""

    @model_serializer(mode="wrap")
    def _without_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write the parameters alone: the key that the block stands at is its kind."""
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
    """Base class of rules for a column that has reached a value, which the run's costs are of.

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
        """Return a check of the column: at most the bound, or at least where more is better.

        A model that is not feasible has reached nothing.
        """
        column, bound = self.target

        def check(end: RoundEnd) -> str:
            seen = end.feasible_figure(column)  # NaN, where it is not known, is on neither side
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
        """Return a check of the gap, which has to be below the bound."""

        def check(end: RoundEnd) -> str:
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

    It has no kind that a scenario could name: there is one for each column, which is its key.
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

    An improvement is a value that is better than the best one by more than `least`, and by more
    than `tolerance` times its magnitude; the best one is that of the last improvement, so that many
    small steps add up to one. Rounds that are not evaluated show no improvement, and end no run.
    Models that are not feasible are no improvement either; before the first feasible one the rule
    ends no run. Elsewhere the rule is known as early stopping.
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
        """Return a check that keeps the best value, and the round of the last improvement."""
        best, since, feasibility = nan, 0, ""

        def check(end: RoundEnd) -> str:
            nonlocal best, since, feasibility
            seen = end.figure(self.measure)
            if isnan(seen):
                return ""
            gain = seen - best if self.measure in end.higher else best - seen
            improved = isnan(best) or gain > max(self.tolerance * abs(best), self.least)
            if improved and end.feasible:
                best, since, feasibility = seen, end.round, end.feasibility
                return ""
            if isnan(best) or end.round - since < self.rounds:
                return ""
            last = f"{self.measure} {best:.6g} of round {since}"
            return f"{last} was the last improvement{feasibility}"

        return check


class TrafficLimit(StopRule):
    """This many bits have been sent, in both directions together."""

    physical: ClassVar[bool] = False

    kind: Literal["bits"] = "bits"
    sent: Bits = Field(description="this much sent, both ways together")

    def watch(self) -> RoundCheck:
        """Return a check of the bits."""
        return lambda end: f"{end.bits} of {self.sent:g}" if end.bits >= self.sent else ""


_METERED = "a live run has no such limit: meters alone know energy"


class EnergyLimit(StopRule):
    """All clients together have spent this much energy."""

    simulated: ClassVar[str] = _METERED

    kind: Literal["energy"] = "energy"
    spent: Joules = Field(description="this much spent by all clients")

    def watch(self) -> RoundCheck:
        """Return a check of the joules."""

        def check(end: RoundEnd) -> str:
            over = end.joules >= self.spent
            return f"{end.joules:.6g} J of {self.spent:g} J" if over else ""

        return check


class TimeLimit(StopRule):
    """This much simulated time has passed; it ends a run in the middle of a round."""

    kind: Literal["time"] = "time"
    after: Duration = Field(description="this much simulated time")

    @property
    def ends_at(self) -> float:
        """The time, s."""
        return self.after

    def watch(self) -> RoundCheck:
        """Return that no round ends the run: the clock does."""
        return never


class EmptyBatteries(StopRule):
    """This many client batteries are empty; it ends a run in the middle of a round."""

    # Energy decides when, and yet the recursion of `fedsim robust` may price such a run: it checks
    # in every world that no battery falls to a mark at which anything happens.
    physical: ClassVar[bool] = False

    simulated: ClassVar[str] = _METERED

    kind: Literal["batteries"] = "batteries"
    count: Whole = Field(description="this many client batteries are empty")

    def watch(self) -> RoundCheck:
        """Return that no round ends the run: a battery does."""
        return never

    def on_empty(self, batteries: int) -> str:
        """Return the reason once there are as many."""
        return f"{batteries} are empty" if batteries >= self.count else ""


STOPS: Registry[StopRule] = Registry(
    "stop rule",
    (
        *(GapTarget, ObjectiveTarget, Patience),
        *(RoundLimit, TrafficLimit, EnergyLimit, TimeLimit, EmptyBatteries),
    ),
    StopRule,
    plural="stops",
)
"""The kinds of stop rules."""
