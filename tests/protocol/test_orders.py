"""The order of a selection policy of one's own, as far as it is used."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fedsim.addons.conformance.link import EveryClientPresent
from fedsim.core.errors import ClientOrderError, ScenarioError
from fedsim.core.ports import Array
from fedsim.protocol.participation import Sample
from fedsim.protocol.selection import Selection
from tests.scenario.building.plans import job
from tests.tiers import every


class Told(Sample):
    """Draws in the order that it is told."""

    kind: Literal["told"] = "told"
    draws: tuple[Any, ...]

    def order(self, samples: Array, number: int, rng: np.random.Generator) -> Sequence[int]:
        return self.draws


def asked(*draws: Any, count: int = 2) -> list[int]:
    policy = Told(count=count, draws=draws)
    selection = Selection(policy, EveryClientPresent(), range(4), np.random.default_rng(1))
    cohort = selection.cohort(None, set())
    assert cohort is not None
    return list(cohort.clients)


def test_those_first_in_the_order_are_asked() -> None:
    assert asked(3, 1, 0, 2) == [1, 3]
    drawn = asked(*np.array([2, 0, 1, 3]))
    assert drawn == [0, 2]
    assert all(type(client) is int for client in drawn)


@every(
    ("draws", "words"),
    [
        ((3, 3, 0, 1), ["has client 3 twice"]),
        ((1, 4, 0, 2), ["has 4", "0 to 3"]),
        ((-1, 0, 1, 2), ["has -1", "0 to 3"]),
        ((1.0, 0, 2, 3), ["has 1.0", "0 to 3"]),
        (("client-1", 0, 2, 3), ['has "client-1"', "0 to 3"]),
        ((2,), ["leaves out 3 of 4 clients (0, 1, 3)", "skipped"]),
    ],
)
def test_what_is_no_order_is_refused(draws: tuple[Any, ...], words: list[str]) -> None:
    with pytest.raises(ClientOrderError, match="the order of told") as caught:
        asked(*draws)
    assert all(word in str(caught.value) for word in words)


def test_an_order_is_tried_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        job(tmp_path, participation=Told(count=1, draws=(0, 1, 1)))
    (fault,) = caught.value.faults
    assert fault.key == "participation.kind"
    assert "has client 1 twice" in fault.message
