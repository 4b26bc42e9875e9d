"""Stop rules of a run, as a scenario block."""

from collections.abc import Collection, Mapping

from pydantic import ConfigDict, Field

from fedsim.blocks.quantities import BitsOrNone, DurationOrNone, JoulesOrNone
from fedsim.blocks.spec import Spec, as_written


class RunStopped(BaseException):
    """Ends the server's coroutine where a stop rule applies; its text is the reason.

    Like a cancellation it is not an error, so that no `except Exception` catches it.
    """


class NoClientsLeft(RunStopped):
    """Ends it when no client will ever take part again, although no stop rule applies."""


class Stop(Spec):
    """When a run ends: at the end of the first round that meets one of these.

    `time` and `batteries` end it at that very moment, in the middle of a round. Beside these rules
    any column of the scenario's measures is one: `test_accuracy: 0.9` waits for that or more, and
    `nonzeros: 20` for that or less.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float] = Field(init=False)

    rounds: int = Field(default=1000, ge=1, description="this many rounds")
    gap: float | None = Field(default=None, gt=0, description="objective this near to the optimum")
    objective: float | None = Field(default=None, description="an objective of this or less")
    time: DurationOrNone = as_written(None, "this much simulated time")
    bits: BitsOrNone = as_written(None, "this much sent, both ways together")
    energy: JoulesOrNone = as_written(None, "this much spent by all clients")
    batteries: int | None = Field(
        default=None, ge=1, description="so many batteries of clients are empty"
    )

    @property
    def figures(self) -> Mapping[str, float]:
        """The columns of measures that end a run, with their bounds."""
        return self.__pydantic_extra__

    @property
    def targets(self) -> dict[str, float]:
        """The target figures, by column: a gap, an objective, measures."""
        named = {"gap": self.gap, "objective": self.objective, **self.figures}
        return {name: value for name, value in named.items() if value is not None}

    def reason(
        self,
        rounds: int,
        gap: float,
        bits: int,
        joules: float,
        figures: Mapping[str, float | None] | None = None,
        higher: Collection[str] = (),
    ) -> str:
        """Return why the run is over at the end of a round; empty while it is not.

        The first rule that applies is named.

        Args:
            rounds: committed.
            gap: of the last one; NaN where it is not known.
            bits: sent so far, both directions.
            joules: spent so far.
            figures: evaluated at its end, the objective among them; None or missing if not
                evaluated.
            higher: those of which more is better.
        """
        if self.gap is not None and gap < self.gap:
            return f"gap: {gap:.6g} is below {self.gap:g}"
        if figures and (reached := self._figure_reached(figures, higher)):
            return reached
        if rounds >= self.rounds:
            return f"rounds: {rounds} of {self.rounds}"
        if self.bits is not None and bits >= self.bits:
            return f"bits: {bits} of {self.bits:g}"
        if self.energy is not None and joules >= self.energy:
            return f"energy: {joules:.6g} J of {self.energy:g} J"
        return ""

    def _figure_reached(self, figures: Mapping[str, float | None], higher: Collection[str]) -> str:
        """Return the reason of the first figure that reached its bound; empty for none."""
        for name, bound in self.targets.items():
            seen = figures.get(name)
            if name == "gap" or seen is None:
                continue
            if name in higher and seen >= bound:
                return f"{name}: {seen:.6g} is at least {bound:g}"
            if name not in higher and seen <= bound:
                return f"{name}: {seen:.6g} is at most {bound:g}"
        return ""


# The observer's evaluation schedule, as a scenario block.


class Observe(Spec):
    """Which rounds' models are evaluated: other rounds have no objective, gap or measures."""

    every: int = Field(
        default=1,
        ge=1,
        description="those of rounds n, 2n, ..., and the last one; a stop by the gap applies at "
        "these only",
    )

    def looks(self, number: int) -> bool:
        """Return whether a round is on the schedule, regardless of whether it is the last."""
        return number % self.every == 0
