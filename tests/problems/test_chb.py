"""Table I of the CHB paper on the real file: gradients, subgradients and f* all at once.

The loop is written here from the paper, in plain NumPy, and counts at the iterate whose
gradients were just gathered.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedsim.core.ports import Array
from fedsim.problems import Catalogue, Contiguous, LinearLoss, Problem, Squared, optimum

M, ALPHA, BETA = 9, 1e-4, 0.4
CENSOR = 0.1 / (ALPHA**2 * M**2)


def heavy_ball(
    gradients: list[Callable[[Array], Array]], gap: Callable[[Array], float], tolerance: float
) -> tuple[int, int]:
    """Run censored heavy ball; return transmissions and iterations until gap < tolerance."""
    theta = previous = np.zeros(22)
    held = [np.zeros(22) for _ in gradients]
    transmissions = 0
    for k in range(1, 1000):
        moved = np.sum((theta - previous) ** 2)
        for m, gradient in enumerate(gradients):
            new = gradient(theta)
            if np.sum((new - held[m]) ** 2) > CENSOR * moved:
                held[m] = new
                transmissions += 1
        if gap(theta) < tolerance:
            return transmissions, k
        step = -ALPHA * np.sum(held, axis=0) + BETA * (theta - previous)
        theta, previous = theta + step, theta
    raise AssertionError("not there after 1000 iterations")


@pytest.fixture
def problems(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> Callable[[LinearLoss], Problem]:
    monkeypatch.setenv("FEDSIM_DATA", str(data_folder))
    samples = Catalogue(name="ijcnn1").load(Path(), rng)
    split = Contiguous(clients=M, remainder="drop")
    parts = [samples.take(rows) for rows in split.assign(samples, None, rng)]
    assert all(np.shares_memory(part.X, samples.X) for part in parts)
    return lambda loss: Problem.of(loss, parts)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loss", "published"),
    [
        (Squared(scale="sum"), (465, 109)),
        (Squared(scale="sum", l1=0.5), (424, 108)),
    ],
    ids=["linear regression", "lasso"],
)
def test_censored_heavy_ball_reproduces_table_one(
    loss: LinearLoss, published: tuple[int, int], problems: Callable[[LinearLoss], Problem]
) -> None:
    problem = problems(loss)
    found = optimum(problem)
    assert found is not None
    counted = heavy_ball(
        [local.gradient for local in problem.losses],
        lambda theta: problem.value(theta) - found.value,
        1e-7,
    )
    assert counted == published
