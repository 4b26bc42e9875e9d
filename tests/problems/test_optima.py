"""The cache of reference optima: what is kept, told apart, mistrusted and done without."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedsim.problems import Logistic, Problem, Reference, Samples, Squared, optimum
from fedsim.problems.references import convex

from .examples import samples


def split(data: Samples, *cuts: int) -> list[Samples]:
    return [data.take(rows) for rows in np.split(np.arange(data.rows), cuts)]


def solved(problem: Problem) -> Reference:
    found = optimum(problem)
    assert found is not None
    return found


@pytest.fixture
def problem() -> Problem:
    return Problem.of(Logistic(scale="sum", l2=0.1), split(samples(60, 4), 20))


@pytest.fixture
def unsolvable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any) -> Any:
        raise AssertionError("it was to come from the cache")

    monkeypatch.setattr(convex, "approach", fail)


def test_what_was_solved_is_not_solved_again(
    problem: Problem, request: pytest.FixtureRequest
) -> None:
    first = solved(problem)
    request.getfixturevalue("unsolvable")
    again = solved(problem)
    assert np.array_equal(again.model, first.model)
    assert (again.value, again.method) == (first.value, first.method)
    assert again.residual == first.residual


@pytest.mark.usefixtures("unsolvable")
def test_nothing_is_in_it_at_first(problem: Problem) -> None:
    with pytest.raises(AssertionError):
        optimum(problem)


def test_objectives_and_problems_are_kept_apart(problem: Problem, cache: Path) -> None:
    solved(problem)
    for weighting in ("rows", "equal"):
        solved(Problem.of(problem.loss, problem.samples, weighting=weighting))
    solved(Problem.of(Squared(l2=0.1), [samples(60, 4)]))
    assert len([path for path in cache.rglob("*") if path.is_file()]) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: b"\x00\xff" * 40,
        lambda content: content.replace(b"model", b"modal"),
        lambda content: content.replace(b"[", b"[1.0,"),
        lambda content: content.replace(b"[", b"[9").replace(b"[9-", b"[-9"),
        lambda content: b"{}",
    ],
)
def test_a_damaged_file_is_ignored_and_rewritten(
    damage: Any, problem: Problem, cache: Path
) -> None:
    first = solved(problem)
    (path,) = (path for path in cache.rglob("*") if path.is_file())
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert np.array_equal(solved(problem).model, first.model)
    assert path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = solved(problem)
    (tmp_path / "file").touch()
    monkeypatch.setenv("FEDSIM_CACHE", str(tmp_path / "file" / "folder"))
    assert solved(problem).value == first.value
