"""Policies that see replies: their laws, and their rules against loops written apart."""

import math
import tracemalloc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from scipy import stats

from fedsim.core.errors import ClientOrderError
from fedsim.core.ports import Array, Reply
from fedsim.physics.carbon import Intensity
from fedsim.physics.signals import Constant, Steps
from fedsim.protocol.estimates import Estimator
from fedsim.protocol.participation import (
    AgeParticipation,
    CarbonAwareParticipation,
    EnergyAwareParticipation,
    ExchangeOutcome,
    ImportanceParticipation,
    Informed,
    KnownFleet,
    Moment,
    OortParticipation,
    PowerOfChoiceParticipation,
    Report,
    Selector,
    WeightedParticipation,
)
from fedsim.protocol.participation.importance import ImportanceSelector
from fedsim.protocol.participation.utility import EnergySelector, UtilitySelector
from fedsim.protocol.reporting import report_type
from fedsim.protocol.selection import Selection
from fedsim.sim.known import FleetGrid
from tests.tiers import every

SAMPLES = np.array([5.0, 1.0, 3.0, 2.0, 4.0])


def seen(
    number: int, clients: Sequence[int], seconds: Sequence[float], **reports: Any
) -> ExchangeOutcome:
    """Return an outcome in which these clients have replied."""
    ids = np.array(clients, np.int64)
    found = {name: np.array(each, float) for name, each in reports.items()}
    return ExchangeOutcome(number, 0.0, 1.0, ids, ids, np.array(seconds, float), found)


def first(selector: Selector, number: int, wanted: int, rng: np.random.Generator) -> list[int]:
    return list(islice(selector.rank(Moment(number, 0.0, wanted), rng), wanted))


# Importance sampling.


class Told:
    """A stream whose draws with replacement are told, and kept with their probabilities."""

    def __init__(self, draw: Sequence[int]) -> None:
        self.draw = draw

    def choice(self, clients: int, size: int, p: Array) -> Array:
        assert (clients, size) == (len(p), len(self.draw))
        self.p = p
        return np.array(self.draw)


@pytest.mark.parametrize("by", ["norm", "samples"])
def test_importance_sampling_is_unbiased_over_all_draws(by: str) -> None:
    policy = ImportanceParticipation.in_si(count=2, by=by)
    updates = np.array([[1.0, -2.0], [0.3, 4.0], [0.0, 0.1], [-3.0, 1.0], [2.0, 2.0]])
    shares = SAMPLES / SAMPLES.sum()
    reports = {"norm": [3.0, 0.5, 7.0]} if by == "norm" else {}
    expected, total = np.zeros(2), 0.0
    for draw in product(range(5), repeat=2):
        selector = policy.selector(KnownFleet(SAMPLES))
        selector.observe(seen(0, [0, 1, 4], [1, 1, 1], **reports))
        stream: Any = Told(draw)
        asked = list(selector.rank(Moment(1, 0.0, 2), stream))
        assert asked == sorted(set(draw))
        estimator = Estimator("unbiased", len(SAMPLES))
        estimator.record(1, selector.last_draw())
        chance = float(np.prod([stream.p[each] for each in draw]))
        replies: Any = [Reply(each, 1, None) for each in asked]
        step = estimator.coefficients(replies, shares) @ updates[asked]
        expected, total = expected + chance * step, total + chance
    assert total == pytest.approx(1.0, abs=1e-12)
    assert expected == pytest.approx(shares @ updates, abs=1e-12)


def test_probabilities_go_by_weight_times_norm_and_a_plain_share() -> None:
    policy = ImportanceParticipation.in_si(count=2, plain=0.2)
    selector = policy.selector(KnownFleet(SAMPLES))
    assert isinstance(selector, ImportanceSelector)
    assert selector.probabilities == pytest.approx(SAMPLES / 15)
    selector.observe(seen(0, [1, 3], [1, 1], norm=[10.0, math.nan]))
    assert selector.probabilities == pytest.approx(SAMPLES / 15)  # the mean of one report
    selector.observe(seen(1, [3], [1], norm=[2.0]))
    norms = [6.0, 10.0, 6.0, 2.0, 6.0]
    raw = [n * norm for n, norm in zip(SAMPLES, norms, strict=True)]
    due = [0.8 * each / sum(raw) + 0.2 * n / 15 for each, n in zip(raw, SAMPLES, strict=True)]
    assert selector.probabilities == pytest.approx(due)


# Power-of-choice.


@pytest.mark.parametrize("losses", ["asked", "last"])
def test_as_many_candidates_as_are_chosen_is_a_sample_by_data(losses: str) -> None:
    policy = PowerOfChoiceParticipation.in_si(count=3, candidates=3, losses=losses)
    selector = policy.selector(KnownFleet(SAMPLES))
    for number in range(20):
        rng, same = np.random.default_rng(number), np.random.default_rng(number)
        chosen = first(selector, number, 3, rng)
        due = islice(WeightedParticipation(count=3).order(SAMPLES, number, same), 3)
        assert sorted(chosen) == sorted(due)
        reported = seen(number, chosen, [1, 1, 1], loss=[1.0, 3.0, 2.0])
        assert sorted(selector.narrow(Moment(number, 0.0, 3), reported)) == sorted(chosen)
        selector.observe(reported)


def test_the_candidates_with_the_largest_losses_are_chosen() -> None:
    policy = PowerOfChoiceParticipation.in_si(count=2, candidates=4)
    assert (policy.asked, policy.wanted) == (4, 2)
    selector = policy.selector(KnownFleet(SAMPLES))
    reported = seen(0, [3, 0, 4, 2], [1] * 4, loss=[0.5, math.nan, 2.0, 1.0])
    assert selector.narrow(Moment(0, 0.0, 2), reported) == [4, 2]


class Narrowing(Informed):
    """Asks all clients for their losses first, and then those that it is told."""

    kind: Literal["narrowing"] = "narrowing"
    count: int | None = 2
    reports: ClassVar[tuple[Report, ...]] = ("loss",)
    candidates_asked: ClassVar[bool] = True
    told: tuple[int, ...] | None = None

    def selector(self, fleet: KnownFleet) -> Selector:
        return Telling(self.told)


class Telling(Selector):
    def __init__(self, told: Sequence[int] | None) -> None:
        self.told = told

    def rank(self, moment: Moment, rng: np.random.Generator) -> Iterable[int]:
        return range(5)

    def narrow(self, moment: Moment, outcome: ExchangeOutcome) -> Sequence[int]:
        return super().narrow(moment, outcome) if self.told is None else self.told


def losses_of(value: float) -> Any:
    """Return the report of a candidate."""
    return report_type(("loss",))(SimpleNamespace(values=value))  # type: ignore[call-arg]


def selection_of(policy: Informed) -> Selection:
    eligible: Any = SimpleNamespace(always_complete=True)
    return Selection(policy, eligible, range(7, 12), np.random.default_rng(1), SAMPLES)


@pytest.mark.parametrize(
    "policy", [PowerOfChoiceParticipation.in_si(count=2, candidates=4), Narrowing()]
)
def test_a_report_to_an_earlier_exchange_chooses_nobody(policy: Informed) -> None:
    selection = selection_of(policy)
    watch = selection.watch
    assert watch is not None
    watch.begin(0.0, [7, 8, 9])
    assert selection.close(10.0) is not None
    watch.see(9, 1, losses_of(9.0), 11.0)  # while no exchange is open
    watch.begin(12.0, [8, 10])
    watch.see(8, 1, losses_of(8.0), 13.0)
    watch.see(8, 2, losses_of(1.0), 14.0)
    watch.see(10, 2, losses_of(2.0), 15.0)
    outcome = selection.close(16.0)
    assert outcome is not None
    assert outcome.clients.tolist() == [2, 1, 1, 3], "observed are all"
    assert outcome.late is not None
    assert outcome.late.tolist() == [True, True, False, False]
    assert selection.narrow(outcome).clients == [8, 10]


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ((1, 1), "has client 1 twice"),
        ((1, 4), "has client 4, which is no candidate of this round"),
        ((5,), "has 5; give the numbers of clients, 0 to 4"),
    ],
)
def test_only_candidates_are_chosen_and_each_once(told: tuple[int, ...], words: str) -> None:
    selection = selection_of(Narrowing(told=told))
    assert selection.watch is not None
    selection.watch.begin(0.0, [8, 9])
    outcome = selection.close(1.0)
    assert outcome is not None
    with pytest.raises(ClientOrderError, match=f"the order of narrowing {words}"):
        selection.narrow(outcome)


def test_without_a_report_a_candidate_goes_first() -> None:
    policy = PowerOfChoiceParticipation.in_si(count=1, candidates=5, losses="last")
    selector = policy.selector(KnownFleet(SAMPLES))
    rng = np.random.default_rng(1)
    for client, loss in enumerate([0.1, 0.5, 0.3]):
        selector.observe(seen(client, [client], [1], loss=[loss]))
    assert set(first(selector, 3, 2, rng)) == {3, 4}
    for client in (3, 4):
        selector.observe(seen(client, [client], [1], loss=[0.2]))
    assert first(selector, 5, 1, rng) == [1]


# Oort.


def test_all_exploration_is_uniform_over_the_clients_not_asked_before() -> None:
    policy = OortParticipation.in_si(count=2, exploration=1.0, decay=1.0, penalty=0.0)
    cohorts = Counter[tuple[int, ...]]()
    for draw in range(600):
        selector = policy.selector(KnownFleet(SAMPLES))
        rng = np.random.default_rng(draw)
        selector.observe(seen(0, [2], [1.0], rms_loss=[9.0]))
        cohorts[tuple(sorted(first(selector, 1, 2, rng)))] += 1
    assert len(cohorts) == 6  # pairs of the four others
    assert stats.chisquare(list(cohorts.values())).pvalue > 1e-3


def loop_utilities(
    losses: dict[int, float], times: dict[int, float], last: dict[int, int], number: int,
    pace: float, alpha: float,
) -> dict[int, float]:  # fmt: skip
    """Oort's utility, client by client, from the formulas in the paper and its code."""

    def quantile(values: list[float], share: float) -> float:
        ordered, place = sorted(values), share * (len(values) - 1)
        below = math.floor(place)
        above = min(below + 1, len(values) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    raw = {client: SAMPLES[client] * loss for client, loss in losses.items()}
    clip = quantile(list(raw.values()), 0.95)
    raw = {client: min(each, clip) for client, each in raw.items()}
    low, high = min(raw.values()), max(raw.values())
    preferred = quantile(list(times.values()), pace)
    found = {}
    for client, each in raw.items():
        utility = (each - low) / (high - low) + math.sqrt(0.1 * math.log(number) / last[client])
        if times[client] > preferred:
            utility *= (preferred / times[client]) ** alpha
        found[client] = utility
    return found


def test_utilities_are_those_of_the_paper() -> None:
    policy = OortParticipation.in_si(count=2, pace=0.4, penalty=1.5)
    selector = policy.selector(KnownFleet(SAMPLES))
    assert isinstance(selector, UtilitySelector)
    selector.observe(seen(0, [0, 2, 4], [3.0, 1.0, 8.0], rms_loss=[0.9, 0.2, 0.4]))
    selector.observe(seen(6, [1, 2], [2.0, 5.0], rms_loss=[0.7, 1.1]))
    losses = {0: 0.9, 1: 0.7, 2: 1.1, 4: 0.4}
    times = {0: 3.0, 1: 2.0, 2: 5.0, 4: 8.0}
    due = loop_utilities(losses, times, {0: 1, 1: 7, 2: 7, 4: 1}, 11, 0.4, 1.5)
    got = selector.utilities(np.array([0, 1, 2, 4]), 11)
    assert got == pytest.approx([due[each] for each in (0, 1, 2, 4)], rel=1e-12)


def test_exploration_decays_and_the_pacer_steps_when_less_is_gathered() -> None:
    policy = OortParticipation.in_si(
        count=1, exploration=0.5, decay=0.5, least_exploration=0.2, pace=0.3, pacer_step=0.25,
        pacer_window=2,
    )  # fmt: skip
    selector = policy.selector(KnownFleet(SAMPLES))
    assert isinstance(selector, UtilitySelector)
    shares, paces = [], []
    for number, loss in enumerate([4.0, 4.0, 3.0, 3.0, 5.0, 5.0, 1.0, 1.0]):
        selector.observe(seen(number, [1], [1.0], rms_loss=[loss]))
        shares.append(selector.epsilon)
        paces.append(selector.pace)
    assert shares == pytest.approx([0.25, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2])
    assert paces == pytest.approx([0.3, 0.3, 0.3, 0.55, 0.55, 0.55, 0.55, 0.8])


def test_the_energy_aware_reward_weighs_utility_and_charge() -> None:
    policy = EnergyAwareParticipation.in_si(count=2, utility=0.25, penalty=2.0, pace=0.4)
    selector = policy.selector(KnownFleet(SAMPLES))
    assert isinstance(selector, EnergySelector)
    losses, times, charges = [0.9, 0.7, 1.1], [3.0, 2.0, 5.0], [0.6, 0.9, 0.2]
    selector.observe(seen(0, [0, 1, 2], times, rms_loss=losses, charge=charges))
    selector.observe(seen(1, [0], [3.0], rms_loss=[0.9], charge=[0.5]))
    plain = loop_utilities(
        dict(enumerate(losses)), dict(enumerate(times)), {0: 2, 1: 1, 2: 1}, 4, 0.4, 2.0
    )
    left = {0: 0.5 - 0.1, 1: 0.9 - 0.1, 2: max(0.2 - 0.8, 0.0)}
    most = max(plain.values())
    due = [0.25 * plain[each] / most + 0.75 * left[each] for each in range(3)]
    assert selector.utilities(np.array([0, 1, 2]), 4) == pytest.approx(due, rel=1e-12)


def test_what_is_harvested_counts_as_it_was_last_reported() -> None:
    policy = EnergyAwareParticipation.in_si(count=2, utility=0.0, penalty=0.0, energy="harvest")
    assert policy.reported == ("rms_loss", "harvest")
    selector = policy.selector(KnownFleet(SAMPLES))
    times, losses = [1.0, 1.0, 1.0], [0.9, 0.7, 1.1]
    selector.observe(seen(0, [0, 1, 2], times, rms_loss=losses, harvest=[0.6, 0.1, 1.0]))
    selector.observe(seen(1, [2, 1], times[:2], rms_loss=losses[:2], harvest=[0.25, 0.5]))
    assert isinstance(selector, EnergySelector)
    assert selector.utilities(np.arange(3), 3) == pytest.approx([0.6, 0.5, 0.25])


class Known:
    """A world whose state is told."""

    def losses(self, sent: object) -> Array:
        return np.array([0.1, 9.0, 0.2, 0.3, 0.4])

    def rms_losses(self, sent: object) -> Array:
        return self.losses(sent)

    def norms(self, sent: object) -> Array:
        return np.ones(5)

    def charges(self) -> Array:
        return np.array([1.0, 0.0, 1.0, 1.0, 1.0])

    def harvests(self) -> Array:
        return np.array([0.5, 0.5, 0.0, 0.5, 0.5])

    def seconds(self) -> Array:
        return np.ones(5)


def test_an_oracle_needs_neither_exploration_nor_reports() -> None:
    rng = np.random.default_rng(1)
    fleet = KnownFleet(np.ones(5), truth=Known())
    sent: Any = object()  # any message
    for policy in (
        OortParticipation.in_si(count=1, oracle=True),
        PowerOfChoiceParticipation.in_si(count=1, candidates=5, oracle=True),
    ):
        assert (policy.reported, policy.asked) == ((), 1)
        assert next(iter(policy.selector(fleet).rank(Moment(0, 0.0, 1, sent), rng))) == 1
    reward = EnergyAwareParticipation.in_si(count=1, oracle=True, utility=0.0)
    found = Moment(0, 0.0, 1, sent)
    assert 1 not in list(islice(reward.selector(fleet).rank(found, rng), 4))
    sun = EnergyAwareParticipation.in_si(count=1, oracle=True, utility=0.0, energy="harvest")
    assert 2 not in list(islice(sun.selector(fleet).rank(found, rng), 4))


# Age.


def test_the_oldest_updates_come_first_and_clients_never_asked_grow_old() -> None:
    selector = AgeParticipation(count=2).selector(KnownFleet(np.ones(6)))
    rng, asked = np.random.default_rng(3), list[int]()
    for number in range(3):
        asked += (chosen := first(selector, number, 2, rng))
        selector.observe(seen(number, chosen, [1.0, 1.0]))
    assert sorted(asked) == list(range(6))  # each once before any twice
    selector.observe(seen(3, asked[:1], [1.0]))
    assert first(selector, 4, 1, rng) == asked[1:2]


def test_a_weighted_sample_goes_by_age_plus_one() -> None:
    counts = np.zeros(4)
    rng = np.random.default_rng(5)
    selector = AgeParticipation(count=1, draw="weighted").selector(KnownFleet(np.ones(4)))
    for number, client in ((0, 0), (1, 1), (2, 2)):
        selector.observe(seen(number, [client], [1.0]))
    for _ in range(2000):
        counts[first(selector, 4, 1, rng)[0]] += 1
    weights = np.array([4.0, 3.0, 2.0, 5.0])  # ages 3, 2, 1 and 4 in the fifth draw
    assert stats.chisquare(counts, 2000 * weights / weights.sum()).pvalue > 1e-3


# Carbon.

GRID = FleetGrid([
    (2, Intensity(Constant(300.0))),
    (3, Intensity(Steps([0.0, 50.0], [400.0, 100.0], period=100.0))),
])  # fmt: skip


def test_the_cleanest_clients_come_first_where_and_when_they_are() -> None:
    selector = CarbonAwareParticipation(count=2).selector(KnownFleet(SAMPLES, grid=GRID))
    rng = np.random.default_rng(1)
    for now, due in ((0.0, {0, 1}), (49.9, {0, 1}), (50.0, {2, 3, 4}), (101.0, {0, 1})):
        assert set(islice(selector.rank(Moment(0, now, 2), rng), 2)) <= due


@every(
    ("keys", "now", "due"),
    [
        ({"below": 300.0}, 0.0, 50.0),  # 300, 300 and 400
        ({"below": 334.0}, 0.0, 0.0),
        ({"below": 200.0}, 0.0, 50.0),
        ({"below": 200.0}, 120.0, 30.0),
        ({"below": 200.0}, 60.0, 0.0),
        ({"below": 200.0, "patience": 20.0}, 0.0, 20.0),
        ({"below": 200.0, "patience": 20.0}, 35.0, 15.0),
        ({"below": 50.0, "patience": 20.0}, 0.0, 20.0),
        ({}, 0.0, 0.0),
    ],
)
def test_a_round_waits_until_the_grid_is_clean_enough(
    keys: dict[str, float], now: float, due: float
) -> None:
    policy = CarbonAwareParticipation.in_si(count=3, **keys)
    assert policy.selector(KnownFleet(SAMPLES, grid=GRID)).delay(now) == pytest.approx(due)


def test_a_round_never_begins_an_instant_before_the_grid_is_clean() -> None:
    """Clients 2 to 4 are below 200 g/kWh from 1/3 h on; a sum of floats may be before that."""
    clean = 1200.0 + 1 / 3
    steps = Steps([0.0, clean], [400.0, 100.0], period=4000.0)
    fleet = KnownFleet(
        SAMPLES, grid=FleetGrid([(2, Intensity(Constant(300.0))), (3, Intensity(steps))])
    )
    selector = CarbonAwareParticipation.in_si(count=3, below=200.0).selector(fleet)
    rng = np.random.default_rng(7)
    for now in rng.uniform(0, clean, 2000).tolist():
        begins = now + selector.delay(now)
        assert clean <= begins <= np.nextafter(clean, np.inf)
        assert set(islice(selector.rank(Moment(0, begins, 3), rng), 3)) == {2, 3, 4}


# All of them.

POLICIES: list[Informed] = [
    AgeParticipation(count=1000),
    OortParticipation(count=1000),
    PowerOfChoiceParticipation(count=1000, candidates=2000, losses="last"),
    EnergyAwareParticipation(count=1000),
    CarbonAwareParticipation(count=1000),
    ImportanceParticipation(count=1000),
]


def replies(asked: Sequence[int], number: int) -> ExchangeOutcome:
    ids = np.array(asked)
    some = ids % 7 + 1.0
    return seen(number, asked, some.tolist(), loss=some, rms_loss=some, charge=some / 7, norm=some)


def rounds(policy: Informed, clients: int, seed: int) -> Iterator[list[int]]:
    selector = policy.selector(KnownFleet(1.0 + np.arange(clients, dtype=float) % 3))
    rng = np.random.default_rng(seed)
    for number in range(3):
        asked = first(selector, number, policy.asked or 0, rng)
        yield sorted(asked)
        selector.observe(replies(asked, number))


@every("policy", POLICIES)
def test_the_same_seed_makes_the_same_choice_of_different_clients(policy: Informed) -> None:
    one, same = (list(rounds(policy, 5000, 1)) for _ in range(2))
    assert one == same
    assert one != list(rounds(policy, 5000, 2))
    assert all(len(set(cohort)) == len(cohort) for cohort in one)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES, ids=lambda each: each.kind)
def test_memory_is_linear_in_a_million_clients(policy: Informed) -> None:
    tracemalloc.start()
    try:
        assert [len(cohort) <= 1000 for cohort in rounds(policy, 10**6, 1)] == [True] * 3
        assert tracemalloc.get_traced_memory()[1] < 200e6  # 25 numbers a client
    finally:
        tracemalloc.stop()
