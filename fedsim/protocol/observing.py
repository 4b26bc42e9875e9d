"""Which rounds the observer looks at. The block is the rule."""

from pydantic import Field

from fedsim.blocks.spec import Spec


class Observe(Spec):
    """Which models are evaluated: objective, gap and measures of other rounds are not known."""

    every: int = Field(
        default=1,
        ge=1,
        description="those of rounds n, 2n, ..., and the last one; a stop by the gap applies at "
        "these only",
    )

    def looks(self, number: int) -> bool:
        """Say whether the model of a round is looked at, whether or not it is the last one."""
        return number % self.every == 0
