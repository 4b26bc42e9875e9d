"""Unmasked sums are exact, whoever drops out between any two interactions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import ClientId
from fedsim.protocol.secrecy import shamir
from fedsim.protocol.secrecy.blocks import LightSecAgg, SecAgg, SecAggPlus, Secrecy
from fedsim.protocol.secrecy.coded import powers, product, solve
from fedsim.protocol.secrecy.integers import next_prime
from tests.protocol.secrecy.cohorts import Cohort
from tests.tiers import examples

pytestmark = pytest.mark.needs("secrecy")

blocks = st.one_of(
    st.builds(
        SecAgg,
        threshold=st.floats(0.3, 1),
        bits=st.integers(2, 20),
        consistency=st.sampled_from([False, False, True]),
    ),
    st.builds(SecAggPlus, threshold=st.floats(0.3, 1), neighbours=st.sampled_from([2, 4])),
    st.builds(
        LightSecAgg, threshold=st.floats(0.3, 1), colluding=st.sampled_from([0, 0.1, 0.5, 0.9])
    ),
)


def some_of(clients: set[ClientId], draw: st.DataObject) -> set[ClientId]:
    """Draw who is left after an interaction; mostly nearly all are."""
    gone = draw.draw(st.sets(st.sampled_from(sorted(clients)), max_size=3)) if clients else set()
    return clients - gone


@given(blocks, st.sets(st.integers(0, 40), min_size=2, max_size=9), st.data())
@examples(2000, 40)
def test_the_sum_is_that_of_the_integers(
    block: Secrecy, clients: set[ClientId], data: st.DataObject
) -> None:
    cohort = Cohort(block, sorted(clients), data.draw(st.integers(1, 9)), data.draw(st.integers(0)))
    shared = some_of(clients, data)
    cohort.share(shared)
    included = some_of(shared, data)
    answering = some_of(included if data.draw(st.booleans()) else shared, data)
    if included and not cohort.scheme.short(shared, answering):
        assert cohort.unmasked(included, answering).tolist() == cohort.plain(included)


@given(st.integers(0, 2**255 - 20), st.integers(1, 6), st.integers(0, 2**32))
def test_enough_shares_are_the_secret(secret: int, threshold: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rest = [int.from_bytes(rng.bytes(32), "little") for _ in range(threshold - 1)]
    points = rng.permutation(np.arange(1, 10)).tolist()
    held = dict(zip(points, shamir.shares(secret, rest, points), strict=True))
    few = dict(list(held.items())[:threshold])
    assert shamir.secret_of(few) == secret
    if threshold > 1:
        assert shamir.secret_of(dict(list(few.items())[1:])) != secret


@given(st.integers(1, 8), st.integers(0, 2**32))
def test_a_system_modulo_a_prime(size: int, seed: int) -> None:
    rng, prime = np.random.default_rng(seed), next_prime(10_000)
    points = rng.permutation(np.arange(1, 50))[:size].tolist()
    right = rng.integers(prime, size=(size, 3))
    matrix = powers(points, size, prime)
    assert product(matrix, solve(matrix, right, prime), prime).tolist() == right.tolist()
