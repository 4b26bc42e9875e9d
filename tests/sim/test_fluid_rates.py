"""Progressive filling: the certificate of max-min fairness, and independent computations."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from fedsim.core.ports import Array
from fedsim.sim.network.sharing import fill
from tests.tiers import examples

from .filling import Transfer, fair_rates

whole = st.integers(1, 12).map(Fraction)
odd = st.fractions(min_value=Fraction(1, 20), max_value=20, max_denominator=50)
amounts = st.one_of(whole, odd)
uses = st.sampled_from([Fraction(1), Fraction(1), Fraction(1, 20), Fraction(21, 20)])
LINKS = 6


@dataclass(frozen=True, slots=True)
class Instance:
    """Flows over links, at least one each, and the same as arrays."""

    flows: list[Transfer]
    capacities: list[Fraction]

    @property
    def usage(self) -> Array:
        """What each flow takes of each link, shape (L, n)."""
        return np.array([[float(flow.use(link)) for flow in self.flows] for link in range(LINKS)])

    @property
    def weights(self) -> Array:
        """Shape (n,)."""
        return np.array([float(flow.weight) for flow in self.flows])

    @property
    def bounds(self) -> Array:
        """Shape (n,)."""
        return np.array([_bound(flow) for flow in self.flows])

    @property
    def limits(self) -> Array:
        """The capacities, shape (L,)."""
        return np.array([float(capacity) for capacity in self.capacities])

    def rates(self) -> Array:
        """Return what the code under test says; link number 0 stands for none there."""
        hops = max(len(flow.path) for flow in self.flows)
        paths = np.zeros((hops, len(self.flows)), dtype=np.intp)
        usage = np.zeros(paths.shape)
        for n, flow in enumerate(self.flows):
            for hop, link in enumerate(flow.path):
                paths[hop, n], usage[hop, n] = link + 1, float(flow.use(link))
        return fill(paths, usage, self.weights, self.bounds, np.append(inf, self.limits))


def _bound(flow: Transfer) -> float:
    assert not isinstance(flow.cap, tuple)  # nothing varies here
    return inf if flow.cap is None else float(flow.cap)


@st.composite
def _flows(draw: st.DrawFn) -> Transfer:
    path = tuple(draw(st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=4, unique=True)))
    return Transfer(
        start=Fraction(0),
        bits=Fraction(1),
        cap=draw(st.one_of(st.none(), amounts)),
        path=path,
        weight=draw(st.one_of(st.just(Fraction(1)), amounts)),
        usage=tuple([draw(uses) for _ in path]),
    )


instances = st.builds(
    Instance,
    flows=st.lists(_flows(), min_size=1, max_size=12),
    capacities=st.lists(amounts, min_size=LINKS, max_size=LINKS),
)


@examples(100)
@given(instances)
def test_no_flow_could_be_faster_but_at_the_cost_of_one_that_is_no_faster(one: Instance) -> None:
    rates = one.rates()
    carried = one.usage @ rates
    assert (carried <= one.limits * (1 + 1e-12)).all()
    assert (rates <= one.bounds).all()
    levels, full = rates / one.weights, carried >= one.limits * (1 - 1e-9)
    fastest = (np.where(one.usage > 0, levels, 0.0)).max(axis=1)  # on each link
    for n in np.flatnonzero(rates < one.bounds):
        on = full & (one.usage[:, n] > 0)
        assert (levels[n] >= fastest[on] * (1 - 1e-9)).any()


@examples(100)
@given(instances)
def test_the_rates_are_those_of_brute_force(one: Instance) -> None:
    rates = fair_rates(dict(enumerate(one.flows)), one.capacities)
    expected = [float(rates[n]) for n in range(len(one.flows))]
    assert one.rates() == pytest.approx(expected, rel=1e-9)


def lexicographic(one: Instance) -> Array:
    """Maximise the least level, then the second least, and so on, by linear programmes.

    Radunovic and Le Boudec, "A Unified Framework for Max-Min and Min-Max Fairness with
    Applications", IEEE/ACM Trans. Networking 2007: the max-min programming algorithm.
    """
    n, fixed = len(one.flows), dict[int, float]()

    def solve(goal: Array, least: float) -> Array:
        """Maximise over the levels and one number more, which none may fall below."""
        lows = [fixed.get(i, least) for i in range(n)]
        highs = [fixed.get(i, one.bounds[i] / one.weights[i]) for i in range(n)]
        above = np.hstack([-np.eye(n), np.array([[float(i not in fixed)] for i in range(n)])])
        within = np.hstack([one.usage * one.weights, np.zeros((LINKS, 1))])
        done = linprog(
            -goal,
            np.vstack([within, above]),
            np.append(one.limits, np.zeros(n)),
            bounds=[*zip(lows, highs, strict=True), (0.0, None)],
        )
        assert done.status == 0
        return np.array(done.x)

    while len(fixed) < n:
        least = solve(np.append(np.zeros(n), 1.0), 0.0)[-1]
        for i in set(range(n)) - set(fixed):
            if solve(np.append(np.eye(n)[i], 0.0), least)[i] <= least * (1 + 1e-7):
                fixed[i] = least
    return np.array([fixed[i] for i in range(n)]) * one.weights


def drawn(seed: int) -> Instance:
    """Draw an instance of six flows."""
    rng = np.random.default_rng(seed)
    flows = [
        Transfer(
            start=Fraction(0),
            bits=Fraction(1),
            cap=Fraction(int(rng.integers(1, 40)), 10) if rng.random() < 0.5 else None,
            path=tuple(rng.permutation(LINKS)[: rng.integers(1, 4)].tolist()),
            weight=Fraction(int(rng.integers(1, 5))),
        )
        for _ in range(6)
    ]
    return Instance(flows, [Fraction(int(value)) for value in rng.integers(1, 9, LINKS)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_the_rates_are_the_lexicographic_optimum(seed: int) -> None:
    one = drawn(seed)
    assert one.rates() == pytest.approx(lexicographic(one), rel=1e-6)


def test_a_chain_of_bottlenecks_is_settled_link_by_link() -> None:
    # Every link has one flow of its own and one of each neighbour's; capacities rise.
    links, hops = 50, np.arange(1, 51)
    paths = np.vstack([np.append(hops, hops[:-1]), np.append(np.zeros(50, int), hops[1:])])
    usage = (paths > 0).astype(float)
    capacities = np.append(inf, np.cumsum(hops) + 0.0)
    rates = fill(paths, usage, np.ones(2 * links - 1), np.full(2 * links - 1, inf), capacities)
    # The pair on links n and n + 1 gets what link n has left beside the pair before, halved.
    pair = 0.0
    for n in range(links - 1):
        own = pair_next = (capacities[n + 1] - pair) / 2
        assert (rates[n], rates[links + n]) == pytest.approx((own, pair_next), rel=1e-12)
        pair = pair_next
    assert rates[links - 1] == pytest.approx(capacities[links] - pair, rel=1e-12)
