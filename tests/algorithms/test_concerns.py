"""What theory does not cover is said with both numbers, and said where it matters."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.algorithms import (
    CensoredHeavyBall,
    GradientDescent,
    HeavyBall,
    LagWorker,
    LazyGradient,
    ProblemInfo,
    censored,
)
from fedsim.core.ports import Array
from tests.algorithms.test_censored import WORKERS, run
from tests.tiers import every, examples


@every(
    ("method", "bound"),
    [
        (GradientDescent, 0.5),
        (partial(LazyGradient, censor=0.0), 0.5),
        (LagWorker, 0.5),
        (HeavyBall, 0.7),
        (partial(CensoredHeavyBall, eps1=0.0), 0.7),
    ],
)
def test_a_step_at_which_a_quadratic_diverges_is_a_concern(
    method: Callable[..., GradientDescent], bound: float
) -> None:
    """L = 4: 2/L without momentum, 2 (1 + beta)/L with beta = 0.4."""
    info = ProblemInfo(clients=7, dimension=3, smoothness=lambda: 4.0)
    assert not list(method(step_size=0.999 * bound).configure(info).concerns(info))
    (concern,) = method(step_size="4/L").configure(info).concerns(info)
    assert concern.key == "step_size"
    assert "got 1," in concern.text
    assert f"/L = {bound:g}:" in concern.text


@pytest.mark.parametrize("kind", ["gd", "hb"])
def test_there_it_diverges_and_just_below_it_does_not(kind: str, tmp_path: Path) -> None:
    spec = {
        "loss": {"kind": "squared", "scale": "sum"},
        "data": {"kind": "sklearn", "name": "diabetes"},
        "split": {"kind": "contiguous", "clients": WORKERS},
    }
    factor = 2.0 if kind == "gd" else 2.8
    ends = {}
    for share in (0.98, 1.02):
        algorithm = {"kind": kind, "step_size": f"{share * factor}/L"}
        models = run(spec, algorithm, tmp_path / f"{share}", stop={"rounds": 150}).models
        ends[share] = np.abs(np.diff(models, axis=0)).max(axis=1)
    assert ends[0.98][-1] < ends[0.98][20]
    assert ends[1.02][-1] > 10 * ends[1.02][20]


# Censoring

BETAS, SHARES = st.floats(0, 0.9), st.floats(0.01, 0.95)


@given(st.floats(0, 0.95), st.floats(0.01, 0.99))
def test_the_gain_is_the_largest_over_frequencies_and_curvatures(beta: float, share: float) -> None:
    s = share * 2 * (1 + beta)
    z = np.exp(1j * np.linspace(1e-4, np.pi, 1500))[:, None]
    a = np.linspace(0, s, 400)[None, 1:]
    grid = (np.abs(z - 1) / np.abs(z**2 - (1 + beta - a) * z + beta)).max()
    assert grid <= censored.gain(s, beta) * (1 + 1e-9)
    assert grid >= censored.gain(s, beta) * 0.97


@given(BETAS, SHARES, st.floats(0.1, 100), st.integers(1, 50), st.booleans())
def test_beyond_the_certain_step_censoring_is_a_concern(
    beta: float, share: float, L: float, clients: int, absolute: bool
) -> None:
    """Where sqrt(c) times the gain is 1, however the threshold is given."""
    root = share * (1 - beta)
    bound = censored.longest(L, beta, root**2)
    assert root * censored.gain(bound * L, beta) == pytest.approx(1, rel=1e-6)
    info = ProblemInfo(clients=clients, dimension=3, smoothness=lambda: L)
    for step in (0.999 * bound, 1.001 * bound):
        eps1 = (root / (step * clients)) ** 2 if absolute else None
        method = CensoredHeavyBall(
            step_size=step, momentum=beta, eps1=eps1, censor=None if absolute else root**2
        ).configure(info)
        seen = [concern.key for concern in method.concerns(info)]
        assert seen == (["step_size"] if step > bound else [])


def test_a_threshold_that_no_step_bears_is_a_concern_of_its_own() -> None:
    """(1 - 0.4)^2 = 0.36; what is recommended is a quarter of it, in four digits."""
    info = ProblemInfo(clients=7, dimension=3, smoothness=lambda: 4.0)
    assert not list(CensoredHeavyBall(step_size="1/L").configure(info).concerns(info))
    method = CensoredHeavyBall(step_size="1/L", censor=0.64).configure(info)
    (censor,) = method.concerns(info)
    assert censor.key == "censor"
    assert "give `censor: 0.08999`" in censor.text
    mended = CensoredHeavyBall(step_size="1/L", censor=0.08999).configure(info)
    assert not list(mended.concerns(info))


@pytest.mark.parametrize(("beta", "root"), [(0.0, 0.5), (0.05, 0.3)])
def test_beyond_it_an_error_within_the_bound_drives_a_quadratic_away(
    beta: float, root: float
) -> None:
    """The worst error of one coordinate of curvature L is against its last step."""
    for factor in (0.98, 1.02):
        s = factor * censored.longest(1.0, beta, root**2)
        x, last = 1.0, -1.0
        for _ in range(2000):
            d = x - last
            x, last = x - s * x + beta * d - root * d, x
        assert (abs(x) < 1e-3) == (factor < 1)


def quadratics(rng: np.random.Generator, workers: int, d: int) -> tuple[Array, Array]:
    """Return the Hessians and the minimisers of some workers' losses."""
    roots = rng.standard_normal((workers, d, d)) * rng.uniform(0.1, 3, (workers, 1, 1))
    return roots @ roots.transpose(0, 2, 1), rng.standard_normal((workers, d))


def energies(seed: int, factor: float, beta: float, root: float) -> tuple[Array, int]:
    """Return V^k of CHB on random quadratics, and how often a worker kept quiet.

    Args:
        seed: of the quadratics.
        factor: of the step 2 (1 - kappa)/L of which the energy is known to fall.
        beta: the momentum.
        root: sqrt(c).
    """
    rng, M, d = np.random.default_rng(seed), 5, 4
    H, best = quadratics(rng, M, d)
    L, kappa, quiet = float(np.linalg.eigvalsh(H.sum(axis=0))[-1]), beta + root, 0
    alpha = factor * 2 * (1 - kappa) / L
    theta = last = rng.standard_normal(d)
    held, V = np.zeros((M, d)), []
    for _ in range(150):
        away = theta - best
        f = np.einsum("mi,mij,mj", away, H, away) / 2
        V.append(f + kappa / (2 * alpha) * np.square(theta - last).sum())
        news = np.einsum("mij,mj->mi", H, away) - held
        step = np.square(theta - last).sum()
        said = np.square(news).sum(axis=1) > (root / (alpha * M)) ** 2 * step
        quiet += int(np.count_nonzero(~said))
        held = np.where(said[:, None], held + news, held)
        theta, last = theta - alpha * held.sum(axis=0) + beta * (theta - last), theta
    return np.array(V), quiet


@given(st.integers(0, 10**6), BETAS, SHARES)
@examples(40)
def test_the_energy_falls_with_shorter_steps(seed: int, beta: float, share: float) -> None:
    V, _ = energies(seed, 1.0, beta, share * (1 - beta))
    assert np.diff(V).max() <= 1e-12 * V[0]


def test_with_longer_ones_it_may_grow() -> None:
    """At 1.8/L, where heavy ball alone, up to 2.8/L, converges: for most problems."""
    grown = [energies(seed, 3.0, 0.4, 0.3) for seed in range(20)]
    assert np.mean([np.diff(V).max() > 1e-3 * V[0] for V, _ in grown]) > 0.5
    assert all(quiet for _, quiet in grown)
