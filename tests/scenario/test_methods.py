"""Algorithms that are not fedsim's own: passed in, made in Python, installed."""

import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from types import ModuleType
from typing import Any, Literal

import pytest

from fedsim.algorithms import ALGORITHMS, Algorithm, GradientDescent
from fedsim.core.blocks import catalogue as installed
from fedsim.core.errors import BlockError
from fedsim.scenario import Scenario, dump, load
from fedsim.scenario.registries import catalogue
from tests.scenario.examples import faults, least
from tests.tiers import every

SELF = __name__


class Nesterov(GradientDescent):
    """A user's algorithm."""

    kind: Literal["nesterov"] = "nesterov"  # type: ignore[assignment]
    momentum: float = 0.9


class Nameless(GradientDescent):
    """An algorithm whose kind is any text."""

    kind: str = "nameless"  # type: ignore[assignment]


class Impostor(GradientDescent):
    """An algorithm that goes by the name of another."""


BLOCK = {"kind": "nesterov", "step_size": 0.1, "momentum": 0.5}
MADE = Nesterov(step_size=0.1, momentum=0.5)

Install = Callable[..., None]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that makes it look as if packages with these algorithms were there."""

    def pretend(**points: str) -> None:
        group = ALGORITHMS.group
        found = [EntryPoint(name, value, group) for name, value in points.items()]
        monkeypatch.setattr(installed, "entry_points", lambda: EntryPoints(found))

    return pretend


def algorithm(source: Any, **options: Any) -> Algorithm:
    return load(source, **options).variants[0].scenario.algorithm


def test_one_that_is_passed_in() -> None:
    assert algorithm(least(algorithm=BLOCK), blocks=[Nesterov]) == MADE
    text = dump(load(least(algorithm=BLOCK), blocks=[Nesterov]).variants[0].scenario)
    assert "kind: nesterov" in text


def test_one_that_is_not_passed_in_is_not_known() -> None:
    (fault,) = faults(least(algorithm=BLOCK))
    assert fault.key == "algorithm.kind"
    assert "nesterov" in fault.message


def test_one_made_in_python_needs_no_list() -> None:
    assert algorithm(least(algorithm=MADE)) == MADE
    assert algorithm(Scenario.model_validate(least(algorithm=MADE))) == MADE
    assert algorithm(least(algorithm=MADE), overrides=["algorithm.momentum=0.7"]) == Nesterov(
        step_size=0.1, momentum=0.7
    )


def test_the_same_twice_is_once() -> None:
    known = catalogue([Nesterov, Nesterov, GradientDescent])
    every = [each for each in known.every(ALGORITHMS) if each.__name__ != "Flower"]  # if in use
    assert every == [*ALGORITHMS, Nesterov]


@every(
    ("model", "words"),
    [
        (Nameless, "Nameless cannot be used as an algorithm: it has no `kind` of its own"),
        (int, "int is no block: it is no subclass of any of Algorithm, Loss"),
        (GradientDescent(step_size=1), "is no class, so it is no block"),
        ("gd", "'gd' is no class"),
        (None, "None is no class"),
    ],
)
def test_what_is_no_algorithm_of_a_kind(model: Any, words: str) -> None:
    with pytest.raises(BlockError, match=words):
        load(least(), blocks=[model])


def test_two_of_one_kind() -> None:
    with pytest.raises(BlockError, match="'gd' is that of fedsim's own GradientDescent"):
        load(least(), blocks=[Impostor])


def test_one_that_is_installed(install: Install) -> None:
    install(nesterov=f"{SELF}:Nesterov")
    assert list(installed.find_installed(ALGORITHMS)) == ["nesterov"]
    assert algorithm(least(algorithm=BLOCK)) == MADE
    (fault,) = faults(least(algorithm=BLOCK | {"momntum": 1}))
    assert "did you mean 'momentum'?" in fault.message
    (fault,) = faults(least(algorithm=BLOCK | {"kind": "nesterow"}))
    assert "did you mean 'nesterov'?" in fault.message


def test_one_that_is_installed_is_imported_only_when_it_is_named(install: Install) -> None:
    install(broken="no.such.module:Mine")
    assert algorithm(least()) == GradientDescent(step_size=0.1)
    (fault,) = faults(least(algorithm={"kind": "xyzzy"}))
    assert "broken" in fault.message


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ("no.such.module:Mine", "no.such.module:Mine cannot be imported: ModuleNotFoundError"),
        (f"{SELF}:NoSuchClass", "cannot be imported: AttributeError"),
        ("raises_on_import:Mine", "cannot be imported: "),
        (f"{SELF}:BLOCK", "is no subclass of Algorithm"),
        (f"{SELF}:Nameless", "Nameless cannot be used as an algorithm: it has no `kind`"),
        (f"{SELF}:Nesterov", "is named 'mine', but its kind is nesterov"),
    ],
)
def test_one_that_is_installed_badly_is_a_fault_of_its_kind(
    install: Install, monkeypatch: pytest.MonkeyPatch, point: str, words: str
) -> None:
    class Raising(ModuleType):
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("I am broken")

    monkeypatch.setitem(sys.modules, "raises_on_import", Raising("raises_on_import"))
    install(mine=point)
    (fault,) = faults(least(algorithm={"kind": "mine"}))
    assert fault.key == "algorithm.kind"
    assert words in fault.message


def test_fedsims_own_come_before_installed_ones(install: Install) -> None:
    install(gd=f"{SELF}:Impostor")
    assert type(algorithm(least())) is GradientDescent
