"""A loss that only the clients' own programs know: fedsim says so, instead of a figure."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fedsim.core.errors import DataError
from fedsim.problems.programs import ProgramLoss, ProgramProblem
from tests.tiers import every

W = np.zeros(3)
RNG = np.random.default_rng(0)
UNKNOWN: dict[str, tuple[Callable[[Any], Any], str]] = {
    "dimension": (lambda loss: loss.dimension(3, 1), "the number of parameters"),
    "initial": (lambda loss: loss.initial(3, 1, RNG), "the initial model"),
    "operations": (lambda loss: loss.operations(9, 3.0, 1), "its gradient"),
    "forward": (lambda loss: loss.forward(None, W), "its value"),
    "value": (lambda loss: loss.value(None, W, None), "its value"),
    "gradient": (lambda loss: loss.gradient(None, W, None), "its gradient"),
}


class Foreign(ProgramLoss):
    """Programs that are never run."""

    kind: Literal["foreign"] = "foreign"

    def problem(self, clients: int | None, seed: int, folder: Path) -> ProgramProblem:
        raise NotImplementedError

    @property
    def reports(self) -> Mapping[str, bool]:
        return {}


@every("name", UNKNOWN)
def test_what_fedsim_does_not_know_of_a_program_is_one_error(name: str) -> None:
    ask, what = UNKNOWN[name]
    text = f"the clients of foreign run their own programs, and fedsim does not know {what}"
    with pytest.raises(DataError, match=text):
        ask(Foreign())
