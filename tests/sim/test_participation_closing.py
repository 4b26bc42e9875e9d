"""When a round closes: with the first replies, at a deadline, with a quorum; and who is late."""

from collections.abc import Sequence
from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.ports import SILENCE, Message, Silence
from fedsim.protocol.participation import Participation
from fedsim.protocol.stopping import Stop
from fedsim.sim.client import SimClient
from tests.policies import participation_of
from tests.tiers import every, examples

from .physical import Told, gathered, member, online, tired, told
from .worlds import echo, work

KEPT, DROPPED = "kept for the next round", "dropped"


def test_over_selection_closes_with_the_first_replies_and_the_others_are_late() -> None:
    policy = participation_of(count=2, over=2.0)
    run, seen = gathered(tired(4.0, 1.0, 3.0, 2.0), [member()] * 4, 2, participation=policy)
    # Round 2 begins at 2 s: clients 2 and 0 are busy until 3 and 4 s, and work again then.
    assert seen == [(2.0, [(1, 1), (3, 1)]), (4.0, [(0, 1), (1, 2), (2, 1), (3, 2)])]
    assert told(run, "late", "t", "node", "round", "detail") == [
        (3.0, "client-2", 1, KEPT),
        (4.0, "client-0", 1, KEPT),
    ]


def test_over_selection_may_drop_what_it_did_not_wait_for() -> None:
    policy = participation_of(count=2, over=2.0, keep_late=False)
    run, seen = gathered(tired(4.0, 1.0, 3.0, 2.0), [member()] * 4, 2, participation=policy)
    assert [[one for one, _ in replies] for _, replies in seen] == [[1, 3], [1, 3]]
    assert {detail for (detail,) in told(run, "late", "detail")} == {DROPPED}


def test_over_selection_is_content_with_all_where_there_are_not_enough() -> None:
    members = [member(), member(None, online(50.0, inf)), member(None, online(50.0, inf))]
    policy = participation_of(count=2, over=1.5)
    _, seen = gathered(tired(1.0, 1.0, 1.0), members, 1, participation=policy)
    assert seen == [(1.0, [(0, 1)])]


@every(("quorum", "share"), [(0.01, 1), (0.25, 1), (0.26, 2), (0.5, 2), (0.75, 3), (1.0, 4)])
def test_a_quorum_without_a_deadline_closes_the_round_when_it_is_reached(
    quorum: float, share: int
) -> None:
    policy = participation_of(quorum=quorum)
    _, seen = gathered(tired(4.0, 1.0, 3.0, 2.0), [member()] * 4, 1, participation=policy)
    assert seen[0][0] == float(share)


def test_a_share_of_a_hundred_is_that_many() -> None:
    # 0.07 * 100 is a little more than 7 in floating point, and 0.55 * 100 than 55.
    for quorum in (0.07, 0.55, 0.29, 0.57, 0.58):
        assert participation_of(quorum=quorum).goal(100) == round(100 * quorum)
        assert participation_of(quorum=quorum, deadline=1.0).least(100) == round(100 * quorum)


def test_a_deadline_closes_the_round_whoever_is_missing() -> None:
    policy = participation_of(deadline=2.5)
    run, seen = gathered(tired(9.0, 1.0, 3.0, 2.0), [member()] * 4, 1, participation=policy)
    assert seen == [(2.5, [(1, 1), (3, 1)])]
    assert (run.t, run.of("late")) == (2.5, [])  # the run is over before they come


def test_a_quorum_holds_up_the_deadline() -> None:
    policy = participation_of(deadline=2.5, quorum=0.75)
    _, seen = gathered(tired(9.0, 1.0, 3.0, 2.0), [member()] * 4, 1, participation=policy)
    assert seen == [(3.0, [(1, 1), (2, 1), (3, 1)])]


def test_a_quorum_that_is_reached_early_still_waits_for_the_deadline() -> None:
    policy = participation_of(deadline=2.5, quorum=0.25)
    _, seen = gathered(tired(9.0, 1.0, 3.0, 2.0), [member()] * 4, 1, participation=policy)
    assert seen == [(2.5, [(1, 1), (3, 1)])]


def test_silence_that_is_said_counts_for_a_quorum() -> None:
    async def handle(client: SimClient, message: Message) -> Message | Silence:
        await client.compute(work(float(client.id)))
        return SILENCE

    _, seen = gathered(handle, [member()] * 4, 1, participation=participation_of(quorum=0.75))
    assert seen == [(2.0, [])]


def test_who_goes_away_is_not_waited_for_and_is_no_part_of_a_quorum() -> None:
    members = [member(), member(None, online(0.0, 2.0)), member(None, online(0.0, 5.0)), member()]
    policy = participation_of(quorum=1.0)
    _, seen = gathered(tired(1.0, 9.0, 9.0, 3.0), members, 1, participation=policy)
    assert seen == [(5.0, [(0, 1), (3, 1)])]


def expected(
    works: Sequence[float], policy: Participation, rounds: int, *, keep: bool
) -> list[Told]:
    """Let every client work through its messages in turn, and close each round by hand."""
    free, late, seen, now = [0.0] * len(works), list[tuple[float, int, int]](), list[Told](), 0.0
    wanted = len(works) if policy.wanted is None else policy.wanted
    quorum = policy.model_dump().get("quorum")
    least = ceil((quorum or 0.0) * len(works) - 1e-9)
    for number in range(1, rounds + 1):
        free = [max(free[one], now) + seconds for one, seconds in enumerate(works)]
        arrivals = sorted(free)
        if policy.closes_after < inf:
            patience = max(now + policy.closes_after, arrivals[least - 1] if least else 0.0)
            close = min(patience, arrivals[-1])
        else:
            close = arrivals[(least if quorum else wanted) - 1]
        in_time = [(one, number) for one, t in enumerate(free) if t <= close]
        kept = [(one, old) for t, one, old in late if t <= close] if keep else []
        late = [entry for entry in late if entry[0] > close]
        late += [(t, one, number) for one, t in enumerate(free) if t > close]
        if in_time or kept:  # else the round is no step, and the next one asks anew
            seen.append((close, sorted(in_time + kept)))
        now = close
    return seen


# Sums of distinct powers of two: no two of them coincide.
times = st.permutations([1.0, 2.0 + 2**-6, 4.0 + 2**-5, 8.0 + 2**-4, 3.0 + 2**-7])
policies = st.one_of(
    st.builds(
        participation_of, count=st.integers(1, 4), over=st.just(99.0), keep_late=st.booleans()
    ),
    st.builds(participation_of, quorum=st.sampled_from([0.2, 0.5, 1.0]), keep_late=st.booleans()),
    st.builds(
        participation_of,
        deadline=st.sampled_from([0.33, 2.71, 7.77, 50.1]),
        quorum=st.sampled_from([None, 0.2, 0.6, 1.0]),
        keep_late=st.booleans(),
    ),
)


@examples(60)
@given(times, policies, st.integers(1, 4))
def test_rounds_close_and_late_replies_come_as_by_hand(
    works: list[float], policy: Participation, rounds: int
) -> None:
    members = [member()] * len(works)
    run, seen = gathered(
        tired(*works), members, rounds, participation=policy, stop=Stop(rounds=rounds)
    )
    by_hand = expected(works, policy, rounds, keep=policy.keep_late)
    assert [replies for _, replies in seen] == [replies for _, replies in by_hand]
    assert [t for t, _ in seen] == pytest.approx([t for t, _ in by_hand], rel=1e-12)
    assert len(run.of("round")) == rounds == len(seen) + len(run.of("abandoned"))


def test_nobody_who_has_not_reported_holds_up_a_round_in_which_all_others_have() -> None:
    _, seen = gathered(echo, [member()] * 3, 2, participation=participation_of(deadline=5.0))
    assert [t for t, _ in seen] == [0.0, 0.0]
