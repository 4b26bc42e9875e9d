"""Losses that are not fedsim's own: passed in, or made in Python."""

from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import fedsim
from fedsim.core.ports import Array
from fedsim.problems import LinearLoss, Squared
from fedsim.problems.losses import Rows, State
from fedsim.scenario import dump
from tests.runs import small


class Huber(LinearLoss):
    """Squared error that goes on as a line beyond `width`."""

    source: ClassVar[str] = "Huber, 1964"
    steepest: ClassVar[float] = 1.0

    kind: Literal["huber"] = "huber"
    scale: Literal["sum", "mean"] = "mean"
    width: float = 1.0

    def forward(self, rows: Rows, w: Array) -> State:
        return (rows.X @ w - rows.t,)

    def total(self, state: State) -> float:
        size = np.abs(state[0])
        return float(
            np.where(size <= self.width, size**2 / 2, self.width * (size - self.width / 2)).sum()
        )

    def slopes(self, state: State) -> Array:
        return np.clip(state[0], -self.width, self.width)

    def curvatures(self, state: State) -> Array:
        return np.asarray(np.abs(state[0]) <= self.width, dtype=np.float64)


def scenario(loss: Any) -> dict[str, Any]:
    problem = small()["problem"] | {"loss": loss}
    return small(problem=problem, algorithm={"kind": "gd", "step_size": "1/L"})


BLOCK = {"kind": "huber", "width": 20, "scale": "sum", "l2": 1.0}


def test_a_loss_that_is_passed_in_is_trained_like_any_other() -> None:
    result = fedsim.run(scenario(BLOCK), blocks=[Huber])
    gaps = result.rounds["gap"]
    assert (gaps >= -1e-6).all()
    falls = np.diff(gaps)[gaps[:-1] > 1e-9 * gaps[0]]  # until it has converged
    assert (falls < 0).all(), "gradient descent with 1/L goes down in every round"


def test_one_that_is_made_in_python_is_the_same() -> None:
    passed = fedsim.run(scenario(BLOCK), blocks=[Huber]).rounds["objective"]
    made = fedsim.run(scenario(Huber(width=20, scale="sum", l2=1.0))).rounds["objective"]
    assert passed.tolist() == made.tolist()


def test_a_wide_one_is_least_squares() -> None:
    wide = fedsim.run(scenario(BLOCK | {"width": 1e9}), blocks=[Huber]).rounds["objective"]
    squared = fedsim.run(scenario({"kind": "squared", "scale": "sum", "l2": 1.0})).rounds
    assert wide.to_numpy() == pytest.approx(squared["objective"].to_numpy(), rel=1e-12)


def test_it_is_written_down_by_its_kind() -> None:
    plan = fedsim.load(scenario(BLOCK), blocks=[Huber])
    assert "kind: huber" in dump(plan.variants[0].scenario)


def test_without_it_the_kind_is_unknown() -> None:
    with pytest.raises(fedsim.ScenarioError, match=r"problem\.loss\.kind: .*huber"):
        fedsim.load(scenario(BLOCK))


class Impostor(Huber):
    """A loss that goes by the name of another."""

    kind: Literal["squared"] = "squared"  # type: ignore[assignment]


def test_two_of_one_kind_are_refused() -> None:
    with pytest.raises(fedsim.BlockError, match="'squared' is that of fedsim's own Squared"):
        fedsim.load(scenario(BLOCK), blocks=[Impostor])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (int, "int is no block"),
        (Squared(), "is no class"),
        (LinearLoss, "LinearLoss cannot be used as a loss: it has no `kind` of its own"),
    ],
)
def test_what_is_no_loss_is_refused(wrong: Any, words: str) -> None:
    with pytest.raises(fedsim.BlockError, match=words):
        fedsim.load(scenario(BLOCK), blocks=[wrong])
