"""A scenario: its keys, which are known to go together."""

from typing import Self

from pydantic import model_validator

from fedsim.blocks.choice import failure
from fedsim.scenario.conflicts import conflicts
from fedsim.scenario.specs import ScenarioKeys


class Scenario(ScenarioKeys):
    """A federated problem, the method that solves it, and the world that it runs in."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check what needs no data, one block against another."""
        wrong = list(conflicts(self))
        if wrong:
            raise failure(*wrong)
        return self
