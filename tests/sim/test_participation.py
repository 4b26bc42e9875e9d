"""Participation: who is asked in a round, by chance, by weight, and among those who are there."""

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, permutations

import pytest
from scipy import stats

from fedsim.physics.availability import NEVER
from fedsim.protocol.participation import Participation
from fedsim.protocol.stopping import Stop
from fedsim.sim.members import ClientConfig
from fedsim.sim.server import SimServer
from tests.physics.losses import Independent
from tests.policies import participation_of, silence_of
from tests.sim.devices import device_of
from tests.sim.radios import RadioModel
from tests.tiers import every

from .physical import battery, member, told
from .worlds import Run, asked, echo, play, rounds, setup, working

Cohort = tuple[str, ...]


def drawn(
    policy: Participation, many: int, members: Sequence[ClientConfig], *, seed: int = 1
) -> Run:
    """Hold so many rounds."""
    stop = Stop(rounds=many)
    return play(setup(rounds, echo, members, seed=seed, participation=policy, stop=stop))


def cohorts(run: Run) -> list[Cohort]:
    """Return who was sampled, round by round."""
    by_round: dict[int, list[str]] = {}
    for number, node in told(run, "sampled", "round", "node"):
        by_round.setdefault(number, []).append(node)
    return [tuple(by_round[number]) for number in sorted(by_round)]


def successive(weights: Sequence[float], size: int) -> dict[tuple[int, ...], float]:
    """Return the probability of every cohort: one client after the other, by weight."""
    chances = dict[tuple[int, ...], float]()
    for order in permutations(range(len(weights)), size):
        chance, left = 1.0, sum(weights)
        for client in order:
            chance *= weights[client] / left
            left -= weights[client]
        cohort = tuple(sorted(order))
        chances[cohort] = chances.get(cohort, 0.0) + chance
    return chances


def check_drawn(seen: Sequence[Cohort], chances: dict[tuple[int, ...], float]) -> None:
    """Compare how often each cohort came with how often it should have: chi-squared."""
    names = {tuple(f"client-{one}" for one in cohort): p for cohort, p in chances.items()}
    counts = Counter(seen)
    assert set(counts) <= set(names)
    expected = [len(seen) * chance for chance in names.values()]
    observed = [counts[cohort] for cohort in names]
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_all_take_part_where_nothing_is_said() -> None:
    run = drawn(participation_of(), 3, [member()] * 4)
    assert [row["cohort"] for row in run.rounds] == [4, 4, 4]
    assert run.of("sampled") == []


def test_every_cohort_of_a_uniform_sample_is_equally_likely() -> None:
    seen = cohorts(drawn(participation_of(count=2), 1500, [member()] * 5))
    assert len(seen) == 1500
    subsets = list(combinations(range(5), 2))
    check_drawn(seen, dict.fromkeys(subsets, 1 / len(subsets)))


def test_every_client_of_a_sample_is_drawn_once_and_asked() -> None:
    run = drawn(participation_of(count=7), 100, [member()] * 20)
    for number, cohort in enumerate(cohorts(run), start=1):
        assert len(set(cohort)) == 7
        # In the order of the fleet, whatever the order in which they were drawn.
        assert list(cohort) == sorted(cohort, key=lambda name: int(name[7:]))
        assert told(run, "send", "peer", node="server", round=number) == [(one,) for one in cohort]
    times = Counter(name for cohort in cohorts(run) for name in cohort)
    for client in range(20):
        assert stats.binomtest(times[f"client-{client}"], 100, 7 / 20).pvalue > 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_weighted_sample_is_drawn_client_by_client_in_proportion(size: int) -> None:
    weights = [1.0, 2.0, 3.0, 6.0]
    policy = participation_of(count=size, weights=weights)
    check_drawn(cohorts(drawn(policy, 1200, [member()] * 4)), successive(weights, size))


def test_those_who_are_away_leave_their_places_to_the_others_in_proportion() -> None:
    weights = [1.0, 5.0, 2.0, 3.0]
    members = [member(), member(None, NEVER), member(), member()]
    policy = participation_of(count=2, weights=weights)
    run = drawn(policy, 800, members)
    chances = successive([weights[0], weights[2], weights[3]], 2)
    check_drawn(
        cohorts(run), {tuple([0, 2, 3][one] for one in key): p for key, p in chances.items()}
    )
    skipped = told(run, "skipped", "node", "detail")
    assert set(skipped) == {("client-1", "offline")}
    # It is in the way where it is among the first two of all.
    among_first = sum(p for key, p in successive(weights, 2).items() if 1 in key)
    assert stats.binomtest(len(skipped), 800, among_first).pvalue > 1e-3


def test_a_sample_of_more_than_there_are_is_all_who_can_take_part() -> None:
    members = [member(), member(None, NEVER), member(battery(10.0, charge=0.0)), member()]
    run = drawn(participation_of(count=4), 5, members)
    assert set(cohorts(run)) == {("client-0", "client-3")}
    assert Counter(told(run, "skipped", "node", "detail")) == {
        ("client-1", "offline"): 5,
        ("client-2", "battery empty"): 5,
    }


def test_a_round_may_be_after_one_client_whom_it_finds_whoever_is_drawn_first() -> None:
    members = [member(None, NEVER)] * 3 + [member()]
    run = drawn(participation_of(count=1), 40, members)
    assert cohorts(run) == [("client-3",)] * 40
    assert 0 < len(run.of("skipped")) < 3 * 40  # only those drawn before it


def test_the_draw_of_cohorts_is_the_same_whatever_else_is_random() -> None:
    policy = participation_of(count=3)
    plain = cohorts(drawn(policy, 50, [member()] * 8))
    lossy = RadioModel(64.0, 64.0, loss=Independent(0.3))
    others = [member(radio=lossy, device=device_of(2.0))] * 8
    made = setup(
        rounds,
        working(1.0),
        others,
        participation=policy,
        silence=silence_of(),
        stop=Stop(rounds=50),
    )
    assert cohorts(play(made)) == plain
    assert cohorts(drawn(policy, 50, [member()] * 8, seed=2)) != plain


def test_only_the_ratios_of_weights_matter() -> None:
    same = drawn(participation_of(count=2, weights=[4.0] * 6), 40, [member()] * 6)
    again = drawn(participation_of(count=2, weights=[0.25] * 6), 40, [member()] * 6)
    assert cohorts(same) == cohorts(again)


@every(("count", "over", "wanted"), [(10, 1.3, 13), (10, 1.1, 11), (3, 1.5, 5), (4, 1.0, 4)])
def test_over_selection_asks_so_many_times_as_many_rounded_up(
    count: int, over: float, wanted: int
) -> None:
    policy = participation_of(count=count, over=over)
    run = drawn(policy, 3, [member()] * 30)
    assert [row["cohort"] for row in run.rounds] == [wanted] * 3


def test_whom_the_algorithm_names_is_asked_in_that_order_and_nobody_is_drawn() -> None:
    async def serve(server: SimServer) -> None:
        await server.exchange(asked(), to=[3, 0, 2])
        server.commit(server.initial)

    members = [member(None, NEVER), *[member()] * 3]
    run = play(setup(serve, echo, members, participation=participation_of(count=1)))
    assert told(run, "send", "peer", node="server") == [("client-2",), ("client-3",)]
    assert told(run, "skipped", "node", "detail") == [("client-0", "offline")]
    assert run.of("sampled") == []
