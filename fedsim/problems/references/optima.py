"""What a reference optimum is, and how it is kept in the user's cache, or sent to others."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from fedsim.errors import OutputError
from fedsim.ports import Array
from fedsim.problems.cache import cache_folder
from fedsim.record.writing import write_whole

CERTIFIED = 1e-8
"""The residual at an optimum, at most, as a share of the residual at zero."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The least value of an objective.

    Attributes:
        value: f*, as `Problem.value` computes it at `model`, so that gaps are consistent.
        model: where it is attained, shape (d,).
        method: how it was got; it begins with "best value known" where no optimum could
            be certified.
        residual: the norm of the least subgradient at `model`; of what of it can vanish,
            where there is a constraint.
    """

    value: float
    model: Array
    method: str
    residual: float


@dataclass(frozen=True, slots=True)
class Task:
    """An optimum to be found, unless the cache has it.

    Attributes:
        name: the file that it is kept in; two tasks with one name are the same.
        dimension: d.
        value: the objective.
        residual: how far a point is from the conditions of optimality.
        solve: returns the point, shape (d,), and how it was got.
    """

    name: str
    dimension: int
    value: Callable[[Array], float]
    residual: Callable[[Array], float]
    solve: Callable[[], tuple[Array, str]]

    def result(self) -> Reference:
        """Return the optimum, from the user's cache when it is there."""
        path = cache_folder() / "optima" / f"{self.name}.json"
        stored = self._load(path)
        if stored is None:
            model, method = self.solve()
            stored = _Stored(model=tuple(model.tolist()), method=method, value=self.value(model))
            _store(path, stored)
        for found in _noting:
            found[self.name] = stored.model_dump_json().encode()
        model = np.array(stored.model)
        return Reference(self.value(model), model, stored.method, self.residual(model))

    def _load(self, path: Path) -> "_Stored | None":
        """Return what the cache has, unless it is damaged or not of this problem."""
        try:
            stored = _Stored.model_validate_json(_given.get(self.name) or path.read_bytes())
        except (OSError, ValidationError):
            return None
        if len(stored.model) != self.dimension:
            return None
        value = self.value(np.array(stored.model))
        return stored if math.isclose(value, stored.value, rel_tol=1e-9, abs_tol=1e-12) else None


class _Stored(BaseModel):
    """What the cache keeps of an optimum; the value tells whether it still holds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    model: tuple[float, ...]
    method: str
    value: float


_given: dict[str, bytes] = {}
"""What another process has found for this one, as it is kept in files, by their names."""

_noting: list[dict[str, bytes]] = []


@contextmanager
def noted() -> Iterator[dict[str, bytes]]:
    """Note which optima are looked up or found within the block, for who is `given` them."""
    found: dict[str, bytes] = {}
    _noting.append(found)
    try:
        yield found
    finally:
        _noting.remove(found)


def given(optima: Mapping[str, bytes]) -> None:
    """Take what another process has noted, in place of what it gave before."""
    _given.clear()
    _given.update(optima)


def certified(method: str, residual: float, at_zero: float) -> str:
    """Return how an optimum was got, and first that it is none for certain where so."""
    return method if residual <= CERTIFIED * at_zero else f"best value known, by {method}"


def _store(path: Path, stored: _Stored) -> None:
    try:
        write_whole(path, stored.model_dump_json().encode())
    except OutputError:
        return  # A cache is a convenience: a folder that cannot be written must not end a run.
