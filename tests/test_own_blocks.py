"""Blocks of a user's own are compared as they are in memory, with all that their code reads."""

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.blocks.spec import Spec
from fedsim.problems.partition import CACHE_VARIABLE

HELPER = "factor = 1.0\n"

OWN = '''
from typing import Literal
import own_helper
from fedsim.algorithms.censored import GradientDescent
from fedsim.problems.losses.logistic import Logistic

FACTOR = 1.0


def factory(factor):
    class Mine(GradientDescent):
        """A method whose step hangs on what is around its class."""

        kind: Literal["mine"] = "mine"

        def configure(self, info):
            made = super().configure(info)
            step_size = made.step_size * factor * FACTOR * own_helper.factor
            return made.model_copy(update={"step_size": step_size})

    return Mine


class Multiple(Logistic):
    """A loss that hangs on a value of its module."""

    kind: Literal["multiple"] = "multiple"

    def value(self, rows, w, state):
        return FACTOR * super().value(rows, w, state)

    def gradient(self, rows, w, state):
        return FACTOR * super().gradient(rows, w, state)


def reading():
    class Mine(GradientDescent):
        """A method that reads the environment."""

        kind: Literal["mine"] = "mine"

        def configure(self, info):
            import os

            return self if os.environ else super().configure(info)

    return Mine
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Yield a module of a user's own, which imports another."""
    (tmp_path / "own_helper.py").write_text(HELPER)
    (tmp_path / "own_blocks.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    yield import_module("own_blocks")
    for name in ("own_blocks", "own_helper"):
        del sys.modules[name]


X = np.random.default_rng(0).standard_normal((20, 3))
Y = np.sign(X[:, 0] + 0.3)
LOSS = {"kind": "logistic", "l2": 0.1}


def result(block: type[Spec], out: Path, told: list[str], **keys: Any) -> fedsim.Result:
    problem = {"loss": LOSS, "data": fedsim.arrays(X, Y), "split": {"kind": "iid", "clients": 2}}
    scenario: dict[str, Any] = {
        "problem": {**problem, **keys.pop("problem", {})},
        "algorithm": {"kind": "mine", "step_size": 0.1},
        "stop": {"rounds": 2},
        **keys,
    }
    return fedsim.run(scenario, blocks=[block], out=out, tell=lambda note: told.append(note.text))


def test_what_is_around_a_class_counts_and_what_is_alike_is_kept(own: Any, tmp_path: Path) -> None:
    out, told = tmp_path / "run", list[str]()
    summary = out / "base" / "seed-1" / "summary.json"

    def made(block: type[Spec]) -> tuple[float, int]:
        objective = result(block, out, told).rounds["objective"]
        return float(objective.iloc[-1]), summary.stat().st_mtime_ns

    first = made(own.factory(1.0))
    assert made(own.factory(1.0)) == first
    closed = made(own.factory(2.0))
    assert closed[0] != first[0]
    own.FACTOR = 4.0
    of_module = made(own.factory(2.0))
    assert of_module[0] not in {first[0], closed[0]}
    own.own_helper.factor = 0.5
    of_another = made(own.factory(1.0))
    assert of_another[0] == pytest.approx(closed[0], rel=1e-12)  # 2 = 4 / 2
    assert len({first[1], closed[1], of_module[1], of_another[1]}) == 4
    assert not [text for text in told if "again every time" in text]


def test_an_optimum_is_that_of_the_loss_as_it_is(own: Any, tmp_path: Path) -> None:
    """It is kept in the user's cache from one run to the next."""

    def optimum() -> float:
        loss = {
            "problem": {"loss": {**LOSS, "kind": "multiple"}},
            "algorithm": {"kind": "gd", "step_size": 0.1},
        }
        rounds = result(own.Multiple, tmp_path / "run", [], **loss).rounds
        return float((rounds["objective"] - rounds["gap"]).iloc[0])

    first = optimum()
    own.FACTOR = 2.0
    assert optimum() == pytest.approx(2 * first, rel=1e-6)


def test_what_reads_from_elsewhere_is_run_again_with_a_note(own: Any, tmp_path: Path) -> None:
    out, told = tmp_path / "run", list[str]()
    summary = out / "base" / "seed-1" / "summary.json"
    result(own.reading(), out, told)
    before = summary.stat().st_mtime_ns
    result(own.reading(), out, told)
    assert summary.stat().st_mtime_ns > before
    said = [text for text in told if "again every time" in text]
    assert len(said) == 2
    assert "uses environ" in said[0]


def test_rows_to_test_on_are_part_of_the_problem(own: Any, tmp_path: Path) -> None:
    file, found = tmp_path / "test.csv", []
    for label in (1, -1):
        rows = "\n".join(f"{a},{b},{c},{label}" for a, b, c in X)
        file.write_text(f"a,b,c,y\n{rows}\n")
        test = {"test": {"kind": "csv", "path": str(file), "label": "y"}}
        keys = {"problem": test, "measures": ["test_accuracy"]}
        rounds = result(own.factory(1.0), tmp_path / "run", [], **keys).rounds
        found.append(float(rounds["test_accuracy"].iloc[-1]))
    assert found[0] == pytest.approx(1 - found[1])
    assert found[0] != found[1]
