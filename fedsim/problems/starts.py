"""Starts: the model that server and clients begin with."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.ports import Array
from fedsim.problems.problem import Problem


class Start(Spec):
    """Where the model starts."""

    source: ClassVar[str]
    """Where the start is from, for people to read."""

    kind: str

    @abstractmethod
    def draw(self, problem: Problem, rng: np.random.Generator) -> Array:
        """Return the initial model, shape (d,)."""


class OwnStart(Start):
    """As the loss has it: zeros for linear models, random weights for a network."""

    source: ClassVar[str] = "the loss"

    kind: Literal["own"] = "own"

    def draw(self, problem: Problem, rng: np.random.Generator) -> Array:
        """Return what the loss starts from."""
        return problem.initial(rng)


class NormalStart(Start):
    """Independent normal coordinates."""

    source: ClassVar[str] = "as in Bao et al., ICML 2022: N(0, I)"

    kind: Literal["normal"] = "normal"
    scale: float = Field(default=1.0, gt=0, description="standard deviation of each coordinate")

    def draw(self, problem: Problem, rng: np.random.Generator) -> Array:
        """Draw the model."""
        return self.scale * rng.standard_normal(problem.dimension)


STARTS: Registry[Start] = Registry("start", (OwnStart, NormalStart), Start)
"""Every start that a scenario can name."""
