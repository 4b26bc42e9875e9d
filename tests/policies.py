"""Policies for tests, by the figures that they have in common, in SI units."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Literal

import numpy as np

from fedsim.core.ports import Array
from fedsim.protocol.participation import (
    AsynchronousParticipation,
    FullParticipation,
    Participation,
    Sample,
    UniformParticipation,
)
from fedsim.protocol.participation.sampling import weighted_order
from fedsim.protocol.silence import BeaconSilence, DeadlineSilence, SilencePolicy


class ByWeight(Sample):
    """A sample by weights of the test's own."""

    kind: Literal["by-weight"] = "by-weight"
    weights: tuple[float, ...]

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Iterable[int]:
        return weighted_order(np.array(self.weights), rng)


def participation_of(
    *,
    buffer: int = 0,
    count: int | None = None,
    weights: Sequence[float] = (),
    keep_late: bool = True,
    **keys: Any,
) -> Participation:
    """Return the policy of the kind that has these keys; all are asked where none is given."""
    if buffer:
        return AsynchronousParticipation.in_si(buffer=buffer, **keys)
    if keys.get("deadline") == inf:
        del keys["deadline"]
    keys["late"] = "keep" if keep_late else "drop"
    if count is None:
        return FullParticipation.in_si(**keys)
    if weights:
        return ByWeight.in_si(count=count, weights=tuple(weights), **keys)
    return UniformParticipation.in_si(count=count, **keys)


def weighted(policy: Participation, weights: Sequence[float]) -> Participation:
    """Return a policy that samples by weights, and is else as another one is."""
    keys = policy.model_dump(exclude={"kind"})
    return ByWeight.in_si(**keys, weights=tuple(weights))


class _Told(SilencePolicy):
    """What no file says: silence that is neither said nor waited for, or both."""

    kind: Literal["told"] = "told"
    said: bool
    seconds: float | None
    kept: bool

    @property
    def beacon(self) -> bool:
        return self.said

    @property
    def closes_after(self) -> float:
        return inf if self.seconds is None else self.seconds

    @property
    def keep_late(self) -> bool:
        return self.kept


def silence_of(*, beacon: bool = True, after: float = inf, keep_late: bool = True) -> SilencePolicy:
    """Return a policy of silence, one that a file could say where there is one."""
    if beacon and keep_late and after == inf:
        return BeaconSilence()
    if not beacon and 0 < after < inf:
        return DeadlineSilence.in_si(after=after, late="keep" if keep_late else "drop")
    return _Told(said=beacon, seconds=None if after == inf else after, kept=keep_late)
