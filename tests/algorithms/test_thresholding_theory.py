"""What thresholding may undo of a step: a tight bound, and what follows for steps and sparsity."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.algorithms import DistributedIHT, FedHT, FedIterHT, ProblemInfo
from fedsim.algorithms.local_steps import GrowingBatch
from fedsim.algorithms.thresholding import expansion
from fedsim.problems.projections import hard_threshold
from tests.tiers import every, examples

GROWING = GrowingBatch(start=10, ratio=0.9)


@given(st.integers(0, 10**6), st.integers(2, 12), st.data())
@examples(100)
def test_thresholding_moves_no_farther_away_than_nu(seed: int, d: int, data: st.DataObject) -> None:
    target = data.draw(st.integers(1, d))
    kept = data.draw(st.integers(target, d))
    rng = np.random.default_rng(seed)
    w = np.where(rng.permutation(d) < target, rng.standard_normal(d), 0.0)
    v = w + rng.choice([0.1, 1.0, 10.0]) * rng.standard_normal(d)
    moved = np.square(hard_threshold(v, kept) - w).sum()
    assert moved <= float(expansion(kept, d, target)) * np.square(v - w).sum() * (1 + 1e-12)


@every("kept", [1, 2, 5, 9])
def test_some_vectors_are_moved_as_far_as_nu(kept: int) -> None:
    """One entry of the target, just below kept others that are equal: it is lost."""
    w = np.zeros(10)
    w[-1] = 1.0
    ratios = []
    for level in np.linspace(0.01, 2, 4000):
        v = np.where(np.arange(10) < kept, level * (1 + 1e-12), 0.0)
        v[-1] = level
        moved = np.square(hard_threshold(v, kept) - w).sum()
        ratios.append(moved / np.square(v - w).sum())
    assert max(ratios) == pytest.approx(float(expansion(kept, 10)), rel=1e-4)


def info(L: list[float], d: int = 10) -> ProblemInfo:
    return ProblemInfo(len(L), d, lambda: max(L), client_smoothness=lambda: np.array(L))


def test_a_step_beyond_the_steepest_client_s_is_a_concern() -> None:
    """With 2/L a quadratic of curvature L comes no nearer to its minimiser; just below it does."""
    for eta, keys in ((0.25, []), (0.51, ["step_size"])):
        method = FedHT(sparsity=4, step_size=eta, batch=GROWING).configure(info([4.0, 4.0]))
        found = list(method.concerns(info([4.0, 4.0])))
        assert [concern.key for concern in found] == keys
    assert "2/L_max = 0.5:" in found[0].text


@given(
    st.floats(0.001, 1.9),
    st.integers(1, 12),
    st.integers(1, 9),
    st.sampled_from([FedHT, FedIterHT]),
)
def test_a_step_that_thresholding_may_take_back_is_a_concern(
    share: float, steps: int, kept: int, kind: type[FedHT]
) -> None:
    """Two clients, L = 2 and 4, steps of share/4; recommended is the least that bears it."""
    world = info([2.0, 4.0])
    rate = (abs(1 - share / 2) ** steps + abs(1 - share) ** steps) / 2
    n = steps + 1 if kind is FedIterHT else 1
    bears = [tau for tau in range(1, 11) if expansion(tau, 10) ** n * rate**2 < 1]
    values = {"sparsity": kept, "step_size": share / 4, "local_steps": steps, "batch": GROWING}
    method = kind.model_validate(values).configure(world)
    found = list(method.concerns(world))
    assert [concern.key for concern in found] == ([] if kept in bears else ["sparsity"])
    if found:
        least = min(tau for tau in bears if tau > kept)
        assert found[0].text.endswith(f"give `sparsity: {least}`")


def descent(gamma: float, sparsity: int) -> np.ndarray:
    """Return where iterative hard thresholding ends from the best model of a wrong support.

    Features resemble each other; the target is entry 0.
    """
    d = 6
    H = 0.3 * np.ones((d, d)) + 0.7 * np.eye(d)
    target = np.eye(d)[0]
    w = np.zeros(d)
    wrong = np.arange(1, 1 + sparsity)
    w[wrong] = np.linalg.solve(H[np.ix_(wrong, wrong)], (H @ target)[wrong])
    for _ in range(2000):
        w = hard_threshold(w - gamma * H @ (w - target), sparsity)
    return w


def test_a_short_step_stays_at_a_wrong_support_and_a_longer_one_leaves_it() -> None:
    """L = 2.5: a concern of tau = 1 at 0.1/L; of tau = 4 and 1/L there is none."""
    L, d = 0.7 + 0.3 * 6, 6
    for share, sparsity, stuck in ((0.1, 1, True), (1.0, 4, False)):
        world = info([L], d)
        method = DistributedIHT(sparsity=sparsity, step_size=share / L, batch=GROWING)
        keys = [concern.key for concern in method.configure(world).concerns(world)]
        assert keys == (["sparsity"] if stuck else [])
        away = np.abs(descent(share / L, sparsity) - np.eye(d)[0]).max()
        assert away > 0.5 if stuck else away < 1e-6
