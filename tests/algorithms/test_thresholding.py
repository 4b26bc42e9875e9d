"""Fed-HT, FedIter-HT and Distributed-IHT are the loops of Tong et al. 2022."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fedsim import ScenarioError
from fedsim.algorithms import DistributedIHT, FedHT, FedIterHT, ProblemInfo
from fedsim.core.errors import ParameterError
from fedsim.core.ports import Array
from tests.algorithms.deadlines import late, slow
from tests.algorithms.harness import trajectory
from tests.algorithms.packing import Seen, run
from tests.algorithms.unequal import FULL_PRECISION, Unequal, check_near, cohorts, unequal

ROUNDS = 20
SPARSITY = 4
GAMMA = 0.05
KINDS = ("distributed-iht", "fed-ht", "fediter-ht")


def largest(w: Array, count: int) -> Array:
    """Keep the largest magnitudes, of equal ones those of lowest index."""
    kept = np.argsort(-np.abs(w), kind="stable")[:count]
    return np.where(np.isin(np.arange(len(w)), kept), w, 0.0)


def threshold(w: Array, shape: tuple[int, ...]) -> Array:
    """H_tau, on each column of a matrix."""
    if len(shape) == 1:
        return largest(w, SPARSITY)
    columns = [largest(column, SPARSITY) for column in w.reshape(shape).T]
    return np.array(columns).T.ravel()


def loop(
    problem: Unequal,
    kind: str,
    *,
    K: int,
    batches: list[int | None],
    asked: list[list[int]] | None = None,
    seed: int = 1,
) -> Array:
    """The three algorithms of the paper, one round after the other."""
    gradient, shares, shape = problem.stochastic(seed), problem.shares, problem.shape
    w, models = np.zeros(int(np.prod(shape))), []
    for t, batch in enumerate(batches):
        cohort = asked[t] if asked else range(len(problem.rows))
        mean = np.zeros_like(w)
        for m in cohort:
            local = w
            for _ in range(K):
                local = local - GAMMA * gradient(m, local, batch)
                if kind == "fediter-ht":
                    local = threshold(local, shape)
            mean += shares[m] / shares[list(cohort)].sum() * local
        w = threshold(mean, shape)
        models.append(w)
    return np.array(models)


def block(kind: str, **parameters: Any) -> dict[str, Any]:
    return {"kind": kind, "sparsity": SPARSITY, "step_size": GAMMA} | parameters


def scenario(problem: Unequal, algorithm: dict[str, Any], **blocks: Any) -> dict[str, Any]:
    base = {"problem": problem.block, "algorithm": algorithm}
    return base | {"wire": FULL_PRECISION, "stop": {"rounds": ROUNDS}} | blocks


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_paper_s_loop(kind: str, loss: str, tmp_path: Path) -> None:
    problem, steps = unequal(loss, tmp_path), 1 if kind == "distributed-iht" else 3
    algorithm = block(kind, local_steps=steps, batch=6)
    seen = trajectory(scenario(problem, algorithm), tmp_path / "run").models
    check_near(seen, loop(problem, kind, K=steps, batches=[6] * ROUNDS))
    assert np.count_nonzero(seen[-1]) == SPARSITY * (3 if loss == "softmax" else 1)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_batch_grows_as_the_theorems_have_it(kind: str, tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path)
    algorithm = block(kind, local_steps=2, batch={"start": 1.5, "ratio": 0.9})
    seen = trajectory(scenario(problem, algorithm), tmp_path / "run").models
    batches: list[int | None] = [int(np.ceil(1.5 / 0.9**t)) for t in range(ROUNDS)]
    assert batches[0] == 2
    check_near(seen, loop(problem, kind, K=2, batches=batches))


def test_of_a_cohort_the_shares_are_scaled_to_add_up_to_one(tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path)
    two = {"kind": "uniform", "count": 2}
    algorithm = block("fediter-ht", local_steps=3, batch=5)
    seen = run(scenario(problem, algorithm, participation=two), tmp_path / "run")
    asked = cohorts(seen.events)
    assert {len(cohort) for cohort in asked} == {2}
    expected = loop(problem, "fediter-ht", K=3, batches=[5] * ROUNDS, asked=asked)
    check_near(np.array(seen.models), expected)


def test_fed_ht_with_one_local_step_is_distributed_iht(tmp_path: Path) -> None:
    problem = unequal("logistic", tmp_path)
    one, two = (
        trajectory(scenario(problem, block(kind, batch=3)), tmp_path / kind).models
        for kind in ("fed-ht", "distributed-iht")
    )
    assert np.array_equal(one, two)


def test_where_nothing_is_dropped_all_is_gradient_descent(tmp_path: Path) -> None:
    """With tau = d and K = 1 a round is a gradient step on the weighted mean of the losses."""
    problem = unequal("logistic", tmp_path)
    algorithm = block("fediter-ht") | {"sparsity": 20}
    seen = trajectory(scenario(problem, algorithm), tmp_path / "run").models
    w = np.zeros(20)
    for model in seen:
        gradients = [problem.gradient(X, y, w) for X, y in problem.rows]
        w = w - GAMMA * sum(p * g for p, g in zip(problem.shares, gradients, strict=True))
        assert model == pytest.approx(w, rel=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_comes_late_is_not_counted(kind: str, tmp_path: Path) -> None:
    """The last client always misses its round, and is heard in a later one, with an old model."""
    problem, steps = unequal("squared", tmp_path), 1 if kind == "distributed-iht" else 3
    blocks = slow(4, behind=1, up="40 kbit/s" if kind == "fediter-ht" else "100 kbit/s")
    seen = run(scenario(problem, block(kind, local_steps=steps), **blocks), tmp_path / "run")
    assert set(late(seen)) == {"client-3"}
    assert len(late(seen)) >= 5
    asked = [[0, 1, 2]] * ROUNDS
    expected = loop(problem, kind, K=steps, batches=[None] * ROUNDS, asked=asked)
    check_near(np.array(seen.models), expected)


def test_a_round_without_replies_in_time_leaves_the_model(tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path)
    blocks = slow(4, behind=4, up="100 kbit/s")
    seen = run(scenario(problem, block("fed-ht"), **blocks), tmp_path / "run")
    assert len(late(seen)) >= ROUNDS
    assert len(seen.models) == ROUNDS
    assert not np.any(seen.models)


@pytest.mark.parametrize("kind", KINDS)
def test_it_needs_rounds(kind: str, tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path)
    blocks = {"participation": {"kind": "asynchronous"}}
    with pytest.raises(ScenarioError, match=f"participation.kind: .*{kind} needs rounds"):
        run(scenario(problem, block(kind), **blocks), tmp_path / "run")


def payload_bits(seen: Seen, node: str) -> set[int]:
    return {
        row["payload_bits"]
        for row in seen.of("send")
        if (row["node"] == "server") == (node == "server")
    }


def test_what_a_payload_takes(tmp_path: Path) -> None:
    """Of d = 8 numbers one is sent: 5 bytes of kind, d, k, code and index, and its value.

    A dense vector takes 2 bytes, 4 for its length and its values.
    """
    problem = {
        "loss": {"kind": "squared"},
        "data": {"kind": "shifted-mean", "clients": 3, "rows": 6, "features": 8, "sparsity": 1},
        "split": {"kind": "groups"},
    }
    sent = {}
    for kind in KINDS:
        algorithm = {"kind": kind, "sparsity": 1, "step_size": 0.01}
        seen = run(
            {"problem": problem, "algorithm": algorithm, "stop": {"rounds": 3}}, tmp_path / kind
        )
        sent[kind] = payload_bits(seen, "client")
        # The first model is zero, and its index set empty.
        assert payload_bits(seen, "server") == {8 * 4, 8 * (5 + 4)}
    assert sent["fediter-ht"] == {8 * (5 + 4)}
    assert sent["fed-ht"] == sent["distributed-iht"] == {8 * (2 + 4 + 8 * 4)}


WIDE = st.integers(1, 12).flatmap(
    lambda d: st.tuples(
        arrays.arrays(np.float64, d, elements=st.integers(-3, 3).map(float)), st.integers(1, d)
    )
)


def info(d: int, shape: tuple[int, ...] = ()) -> ProblemInfo:
    return ProblemInfo(
        clients=2,
        dimension=d,
        smoothness=lambda: 4.0,
        client_smoothness=lambda: np.array([10.0, 10.0]),
        shape=shape or (d,),
    )


@given(WIDE)
def test_thresholding_keeps_the_largest(drawn: tuple[Array, int]) -> None:
    w, count = drawn
    method = FedIterHT(sparsity=count, step_size=0.1).configure(info(len(w)))
    assert np.array_equal(method.threshold(w), largest(w, count))
    assert np.array_equal(method.retain(w), largest(w, count))


def test_of_a_matrix_every_column_keeps_as_many() -> None:
    method = FedHT(sparsity=2, step_size="1/L").configure(info(12, (4, 3)))
    assert method.eta == 0.25
    W = np.arange(1.0, 13.0).reshape(4, 3)
    expected = np.where(np.arange(4)[:, None] >= 2, W, 0.0)
    assert np.array_equal(method.threshold(W.ravel()).reshape(4, 3), expected)


@pytest.mark.parametrize(("sparsity", "shape"), [(13, (12,)), (5, (4, 3))])
def test_no_more_is_kept_than_there_is(sparsity: int, shape: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match=f"got {sparsity}, .*{shape[0]} or less") as caught:
        FedHT(sparsity=sparsity, step_size=0.1).configure(info(12, shape))
    assert caught.value.key == "sparsity"


def test_a_scenario_names_the_key_at_fault(tmp_path: Path) -> None:
    problem = unequal("squared", tmp_path)
    with pytest.raises(ScenarioError, match=r"algorithm.sparsity: got 21, but there are 20"):
        trajectory(scenario(problem, block("fed-ht") | {"sparsity": 21}), tmp_path / "run")
    with pytest.raises(ScenarioError, match=r"algorithm.local_steps.*2"):
        trajectory(scenario(problem, block("distributed-iht", local_steps=2)), tmp_path / "run")


@pytest.mark.parametrize("method", [FedHT, FedIterHT, DistributedIHT])
def test_a_constant_batch_is_a_concern(method: type[FedHT]) -> None:
    concerns = list(method(sparsity=1, step_size=0.1, batch=40).concerns(info(3)))
    assert [concern.key for concern in concerns] == ["batch"]
    assert "batch of 40" in concerns[0].text
    assert "Gamma/omega^t" in concerns[0].text
    for batch in (None, {"start": 4, "ratio": 0.5}):
        quiet = method.model_validate({"sparsity": 1, "step_size": 0.1, "batch": batch})
        assert not list(quiet.concerns(info(3)))
