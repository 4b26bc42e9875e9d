"""Scenarios that mean harm: those that ship and random worlds, changed, then read."""

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from ruamel.yaml import YAML

from fedsim.core.errors import BlockError, FedsimError, ScenarioError
from fedsim.core.memory import VARIABLE
from fedsim.scenario import dump, load
from fedsim.scenario.building import Builder
from fedsim.scenario.examples import examples
from tests.campaigns.worlds.drawing import world
from tests.guarded import FAULT, Tried
from tests.runs import small

from .data import LIMIT
from .texts import changed
from .trees import Changes, places

READ, REFUSED = "read", "refused"
_LONGEST, _MOST = 400, 100_000  # letters that are told of a fault, and that a refusal may have
_WORLDS = 50
_CHECKED = 0.03
"""The share of scenarios of which the runs are looked at as well, as `fedsim check` does."""

SMALL = small(
    problem={
        "loss": {"kind": "logistic"},
        "data": {"kind": "sklearn", "name": "iris"},
        "split": {"kind": "contiguous", "clients": 5},
    },
    stop={"rounds": 2},
)


class Scenarios:
    """Plays cases.

    Args:
        folder: of its own.
        seed: of the campaign.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        os.environ[VARIABLE] = LIMIT
        warnings.simplefilter("ignore")
        yaml = YAML(typ="safe", pure=True)
        self._folder, self._seed = folder, seed
        self._texts = [path.read_text(encoding="utf-8") for path in examples().values()]
        shipped = [yaml.load(text) for text in self._texts]
        self._trees = [*shipped, *(world(number) for number in range(_WORLDS))]
        self._shipped = len(shipped)
        self._changes = Changes(self._trees)
        load(SMALL)

    def source(self, number: int) -> tuple[str, Any, list[str]]:
        """Return how a scenario is given in a case, what it is, and what is laid on it."""
        rng = np.random.default_rng([self._seed, number])
        way = str(rng.choice(["text", "text", "tree", "tree", "overrides", "checked"], p=_SHARES))
        if way == "text":
            text = self._texts[int(rng.integers(len(self._texts)))]
            path = self._folder / "scenario.yaml"
            path.write_bytes(changed(text, rng))
            return way, path, []
        whose = int(rng.integers(self._shipped if rng.random() < 0.5 else len(self._trees)))
        tree = SMALL if way == "checked" else self._trees[whose]
        if way == "overrides":
            return way, SMALL, [self._override(rng) for _ in range(int(rng.integers(1, 4)))]
        return way, self._changes.changed(tree, rng), []

    def _override(self, rng: np.random.Generator) -> str:
        tree = self._changes.changed(SMALL, rng)
        paths = list(places(tree)) or [("seed",)]
        path = paths[int(rng.integers(len(paths)))]
        value: Any = tree
        for key in path:
            value = value[key]
        text = str(value)[:3000]
        return changed(f"{'.'.join(map(str, path))}={text}", rng).decode("utf-8", "replace")

    def __call__(self, number: int) -> Iterator[Tried]:
        """Play a case."""
        way, source, overrides = self.source(number)
        yield tried(way, source, overrides, self._folder)


def tried(way: str, source: Any, overrides: list[str], folder: Path) -> Tried:
    """Return what is made of a scenario; of one that is accepted, what is made of it once written.

    Args:
        way: in which it is given; of one that is "checked", the runs are looked at as well.
        source: the scenario.
        overrides: laid on it.
        folder: for what is written.
    """
    try:
        plan = load(source, overrides=overrides)
        for variant in plan.variants[:3]:
            _check_written(folder, dump(variant.scenario))
        if way == "checked":
            Builder(plan).check()
    except ScenarioError as error:
        told = error.faults and all(each.message for each in error.faults)
        short = len(str(error)) < _MOST
        text = f"{len(str(error))} letters: {error}"
        return Tried(way, REFUSED if told and short else FAULT, text[:_LONGEST])
    except BlockError as error:
        return Tried(way, REFUSED, str(error)[:_LONGEST])
    except Exception as error:
        return Tried(way, FAULT, f"{type(error).__name__}: {error}"[:_LONGEST])
    return Tried(way, READ)


_SHARES = (0.2, 0.2, 0.26, 0.26, 0.05, _CHECKED)


def _check_written(folder: Path, text: str) -> None:
    """Check that what is accepted can be written, and is read again as the same.

    Raises:
        AssertionError: it is not.
    """
    path = folder / "again.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        again = dump(load(path).variants[0].scenario)
    except FedsimError as error:
        raise AssertionError(f"what was accepted is refused once written: {error}") from error
    if again != text:
        raise AssertionError("what was accepted is another scenario once written")
