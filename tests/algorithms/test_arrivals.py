"""FedAsync and FedBuff are the loops of their papers, arrival by arrival."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from fedsim.algorithms import FedAsync, FedBuff, ProblemInfo
from fedsim.core.ports import Array
from tests.algorithms.local_loops import SIZES, Local, Told, check_near, local, told

ETA, STEPS, ROUNDS = 0.1, 3, 40
SPEEDS = (900, 2100, 1300, 3700, 170)
"""The clients' speeds, flop/s: no two of them ever report at the same instant."""

FLEET = [{"count": 1, "device": {"kind": "pi-4", "speed": f"{each} flop/s"}} for each in SPEEDS]


def run(
    problem: Local, algorithm: dict[str, Any], folder: Path, buffer: int = 1, **participation: Any
) -> Told:
    """Run on clients of very different speeds."""
    algorithm = {"step_size": ETA, "local_steps": STEPS} | algorithm
    policy = {"kind": "asynchronous", "buffer": buffer} | participation
    blocks = {"fleet": FLEET, "participation": policy, "stop": {"rounds": ROUNDS}}
    return told(problem, algorithm, folder, **blocks)


def buffers(seen: Told, size: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield every round with who has arrived in it, by client, and which round each answers."""
    for t in range(1, ROUNDS + 1):
        yield t, sorted(seen.arrivals[(t - 1) * size : t * size])


def staleness(seen: Told, size: int) -> list[float]:
    """Return the mean staleness by round."""
    return [float(np.mean([t - tau for _, tau in told])) for t, told in buffers(seen, size)]


def trust(u: int, shape: dict[str, Any]) -> float:
    """Xie et al., section 4.2: s(t - tau)."""
    if shape["staleness"] == "constant":
        return 1.0
    if shape["staleness"] == "polynomial":
        return float((u + 1) ** -shape["a"])
    return 1.0 if u <= shape["b"] else float(1 / (shape["a"] * (u - shape["b"]) + 1))


def mixed(
    problem: Local, seen: Told, size: int, shape: dict[str, Any], alpha: float, rho: float
) -> list[Array]:
    """Xie et al., Algorithm 1: x <- (1 - alpha_t) x + alpha_t x_new, one arrival at a time."""
    models = [np.zeros(problem.dimension)]  # the one that round 1 sends comes first
    for t, arrived in buffers(seen, size):
        x = models[-1]
        for m, tau in arrived:
            new = problem.descend(m, models[tau - 1], ETA, STEPS, rho)
            share = alpha * trust(t - tau, shape)
            x = (1 - share) * x + share * new
        models.append(x)
    return models[1:]


SHAPES: dict[str, dict[str, Any]] = {
    "constant": {"staleness": "constant"},
    "polynomial": {"staleness": "polynomial", "a": 0.7},
    "hinge": {"staleness": "hinge", "a": 2.0, "b": 1.0},
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("buffer", "batch", "rho"), [(1, None, 0.0), (1, 4, 0.5), (2, 4, 0.0)])
def test_fedasync_is_its_paper_s_loop(
    shape: str, buffer: int, batch: int | None, rho: float, tmp_path: Path
) -> None:
    problem = local(tmp_path, "logistic", batch)
    algorithm = {"kind": "fedasync", "alpha": 0.5, "rho": rho} | SHAPES[shape]
    seen = run(problem, algorithm, tmp_path, buffer)
    check_near(seen.run.models, mixed(problem, seen, buffer, SHAPES[shape], 0.5, rho))
    assert [row["staleness"] for row in seen.rounds] == staleness(seen, buffer)
    assert max(staleness(seen, buffer)) > 2  # the slowest is far behind


def buffered(problem: Local, seen: Told, size: int, server_rate: float) -> list[Array]:
    """Nguyen et al., Algorithm 1: w <- w - eta_g/K sum_i Delta_i/sqrt(1 + u_i)."""
    models = [np.zeros(problem.dimension)]
    for t, arrived in buffers(seen, size):
        step = np.zeros_like(models[-1])
        for m, tau in arrived:
            start = models[tau - 1]
            delta = start - problem.descend(m, start, ETA, STEPS)
            share = problem.weights[m] * len(SIZES)  # 1 where clients hold alike
            step = step + share * delta / (1 + t - tau) ** 0.5
        models.append(models[-1] - server_rate / size * step)
    return models[1:]


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize(
    ("buffer", "concurrency", "batch"), [(1, None, None), (3, None, 4), (2, 3, 4)]
)
def test_fedbuff_is_its_paper_s_loop(
    loss: str, buffer: int, concurrency: int | None, batch: int | None, tmp_path: Path
) -> None:
    problem = local(tmp_path, loss, batch)
    algorithm = {"kind": "fedbuff", "server_rate": 0.8}
    seen = run(problem, algorithm, tmp_path, buffer, concurrency=concurrency)
    check_near(seen.run.models, buffered(problem, seen, buffer, 0.8))
    assert [row["staleness"] for row in seen.rounds] == staleness(seen, buffer)


def test_a_buffer_of_all_who_wait_for_each_other_is_fedavg(tmp_path: Path) -> None:
    """Then nobody is stale, and sum_i M p_i Delta_i/M is the weighted mean."""
    problem = local(tmp_path, "logistic", 4)
    waited = run(problem, {"kind": "fedbuff"}, tmp_path / "buffer", len(SIZES))
    algorithm = {"kind": "fedavg", "step_size": ETA, "local_steps": STEPS}
    stop = {"stop": {"rounds": ROUNDS}}
    averaged = told(problem, algorithm, tmp_path / "rounds", fleet=FLEET, **stop)
    check_near(waited.run.models, list(averaged.run.models))
    assert {row["staleness"] for row in waited.rounds} == {0.0}


@pytest.mark.parametrize("kind", ["fedasync", "fedbuff"])
def test_a_round_without_an_arrival_is_no_step_of_the_method(kind: str, tmp_path: Path) -> None:
    """All go away amid their first work; once they are back, the second round has an arrival."""
    problem = local(tmp_path)
    rows = [f"{m},{span}" for m in range(len(SIZES)) for span in ("0,0.01", "50,1000")]
    (tmp_path / "hours.csv").write_text("\n".join(["client,start,end", *rows]) + "\n")
    away = {"availability": {"kind": "intervals", "path": str(tmp_path / "hours.csv")}}
    algorithm = {"kind": kind, "step_size": ETA}
    blocks = {"participation": {"kind": "asynchronous"}, "stop": {"rounds": 2}}
    seen = told(problem, algorithm, tmp_path, fleet=[group | away for group in FLEET], **blocks)
    first, second = seen.run.models
    assert not first.any()
    assert second.any()
    # The method has not committed the first round: there is no staleness of it, not even none.
    assert seen.rounds[0]["staleness"] is None
    assert [row["round"] for row in seen.events if row["event"] == "abandoned"] == [1]
    assert seen.rounds[1]["staleness"] == 0.0


# -- the trust in what is old ----------------------------------------------------------

Kind = Literal["constant", "polynomial", "hinge"]


@given(
    st.sampled_from(["polynomial", "hinge"]),
    st.floats(0.01, 20),
    st.floats(0, 10),
)
def test_trust_begins_at_one_and_falls(staleness: Kind, a: float, b: float) -> None:
    more: dict[str, Any] = {"b": b} if staleness == "hinge" else {}
    method = FedAsync(step_size=0.1, staleness=staleness, a=a, **more)
    values = [method.freshness(u) for u in range(30)]
    assert values[0] == 1.0
    assert all(0 < later <= sooner for sooner, later in pairwise(values))
    assert values[-1] < 1.0


def test_what_is_not_given_is_as_in_the_paper_s_experiments() -> None:
    assert FedAsync(step_size=0.1).freshness(3) == 0.5  # (3 + 1)^-0.5
    hinge = FedAsync(step_size=0.1, staleness="hinge")
    assert [hinge.freshness(u) for u in (0, 4, 5)] == [1.0, 1.0, 1 / 11]
    assert FedAsync(step_size=0.1, staleness="constant").freshness(99) == 1.0
    assert FedAsync(step_size=0.1, staleness="hinge", b=0).freshness(1) == 1 / 11


# -- what is refused, and what theory does not cover -----------------------------------


@pytest.mark.parametrize("kind", ["fedasync", "fedbuff"])
@pytest.mark.parametrize("participation", [{"kind": "full"}, {"kind": "uniform", "count": 2}])
def test_neither_works_in_rounds(kind: str, participation: dict[str, Any], tmp_path: Path) -> None:
    scenario = {
        "problem": local(tmp_path).block,
        "algorithm": {"kind": kind, "step_size": ETA},
        "participation": participation,
    }
    with pytest.raises(fedsim.ScenarioError, match=f"server of {kind} reacts to arrivals"):
        fedsim.load(scenario)


def test_parameters_outside_their_meaning_are_refused() -> None:
    wrong: dict[str, dict[str, Any]] = {
        "constant has no a": {"staleness": "constant", "a": 1.0},
        "polynomial has no b": {"b": 1.0},
        "less than or equal to 1": {"alpha": 1.1},
        "greater than 0": {"alpha": 0.0},
    }
    for text, parameters in wrong.items():
        with pytest.raises(ValueError, match=text):
            FedAsync(step_size=0.1, **parameters)
    with pytest.raises(ValueError, match="greater than 0"):
        FedBuff(step_size=0.1, server_rate=0.0)


def test_a_step_above_the_inverse_of_the_steepest_curvature_is_a_concern() -> None:
    info = ProblemInfo(3, 5, lambda: 2.0, lambda: np.array([1.0, 4.0, 2.0]))
    (concern,) = FedAsync(step_size=0.5, rho=1.0).concerns(info)
    assert "got 0.5, but 1/(L_max + rho) = 0.2" in concern.text
    (concern,) = FedBuff(step_size=0.5).concerns(info)
    assert "got 0.5, but 1/L_max = 0.25" in concern.text
    assert not list(FedAsync(step_size=0.2, rho=1.0).concerns(info))


@pytest.mark.parametrize("kind", ["fedasync", "fedbuff"])
def test_an_abandoned_round_is_no_step_in_staleness(kind: str, tmp_path: Path) -> None:
    """Counted anew from the log: the rounds since a model was sent that were not abandoned."""
    policy = {"kind": "asynchronous", "buffer": 2, "give_up": "0.3 s"}
    blocks = {"fleet": FLEET, "participation": policy, "stop": {"rounds": 2 * ROUNDS}}
    algorithm = {"kind": kind, "step_size": ETA, "local_steps": STEPS}
    seen = told(local(tmp_path), algorithm, tmp_path, **blocks)
    abandoned = {row["round"] for row in seen.events if row["event"] == "abandoned"}
    steps = [row["round"] for row in seen.events if row["event"] == "round"]
    steps = [each for each in steps if each not in abandoned]
    assert abandoned
    assert len(steps) > 20
    arrivals, largest = iter(seen.arrivals), 0
    for row in seen.rounds:
        if row["round"] not in abandoned:
            replies = [next(arrivals)[1] for _ in range(2)]
            wanted = [sum(tau <= each < row["round"] for each in steps) for tau in replies]
            assert row["staleness"] == np.mean(wanted)
            largest = max(
                largest, *(row["round"] - tau - u for tau, u in zip(replies, wanted, strict=True))
            )
    assert largest > 0, "rounds and steps differ"
