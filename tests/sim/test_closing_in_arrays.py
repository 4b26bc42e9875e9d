"""When an exchange in arrays closes, and what is left to the simulation of events."""

from math import inf, nextafter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fedsim.sim.arrays.closing import Closing
from fedsim.sim.arrays.order import ReactionError

NOW = 100.0


def horizon(closing: Closing, last: float, *done: float, silent: bool = False) -> float:
    return closing.horizon(NOW, NOW + last, NOW + np.array(done), silent=silent)


@pytest.mark.parametrize(
    ("silence", "policy", "after"), [(3.0, inf, 3.0), (inf, 4.0, 4.0), (3.0, 2.0, 2.0)]
)
def test_the_earlier_of_two_deadlines_closes_a_round(
    silence: float, policy: float, after: float
) -> None:
    setup: Any = SimpleNamespace(
        silence=SimpleNamespace(closes_after=silence),
        participation=SimpleNamespace(closes_after=policy, round_timeout=9.0),
    )
    assert Closing.of(setup) == Closing(after, 9.0)


def test_the_last_reply_closes_it_unless_a_client_is_silent() -> None:
    closing = Closing(after=5.0, timeout=inf)
    assert horizon(closing, 2.0, 1.0, 1.5) == NOW + 2.0
    # A tail that ends at the very instant of the deadline has ended before it.
    assert horizon(closing, 2.0, 1.0, 1.5, silent=True) == nextafter(NOW + 5.0, inf)


def test_who_is_ready_at_the_very_deadline_has_met_it() -> None:
    closing = Closing(after=5.0, timeout=inf)
    assert horizon(closing, 5.0, 5.0) == NOW + 5.0
    for last, done in ((6.0, 1.0), (1.0, 6.0)):
        with pytest.raises(ReactionError):
            horizon(closing, last, done)


def test_a_round_that_closes_at_its_timeout_is_given_up() -> None:
    closing = Closing(after=5.0, timeout=4.0)
    assert horizon(closing, 3.0, 1.0) == NOW + 3.0
    for last in (4.0, 4.5):
        with pytest.raises(ReactionError):
            horizon(closing, last, 1.0)
    with pytest.raises(ReactionError):  # for the deadline, which is later
        horizon(closing, 3.0, 1.0, silent=True)
    # A client that computes on after its reply does not keep the round open.
    assert horizon(closing, 3.0, 4.5) == NOW + 3.0
