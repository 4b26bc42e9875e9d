"""Kernels and the work made of them: pure, known by name, and the same bits wherever they run."""

import inspect
import pickle
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context

import numpy as np
import pytest
from scipy.sparse import csr_array

from fedsim.core.ports import Array, Work, alike
from fedsim.problems import (
    LocalLoss,
    Logistic,
    Loss,
    LossOracle,
    NeymanPearson,
    Softmax,
    Squared,
    kernels,
)
from fedsim.problems import MultilayerPerceptron as Perceptron
from fedsim.problems.evaluators import SerialEvaluator
from fedsim.problems.optimizers import Adam, Training
from tests.problems.examples import local, samples
from tests.tiers import every

DATA = samples(rows=30, features=4)
EACH = [Squared(l2=0.1), Logistic(scale="mean", l1=0.02), Softmax(l2=0.1), NeymanPearson()]
LOSSES: list[Loss] = [*EACH, Perceptron(hidden=3)]
KERNELS = [
    function
    for name, function in inspect.getmembers(kernels, inspect.isfunction)
    if function.__module__ == kernels.__name__ and not name.startswith("_")
]


def works(f: LocalLoss, client: int) -> list[Work]:
    """Return work of every kind that there is on the loss, restricted to bases too."""
    oracle, rng = LossOracle(f, client), np.random.default_rng(client)
    d = f.dimension
    skew = rng.standard_normal((d, 3))
    parts = [
        oracle,
        oracle.restricted(np.array([2, 0])),
        oracle.restricted(skew),
        oracle.restricted(csr_array(skew * (skew > 0))),
        oracle.restricted(skew).restricted(np.array([1])),
    ]
    return [
        work
        for part, k in zip(parts, (d, 2, 3, 3, 1), strict=True)
        for work in described(part, rng.standard_normal(k), f.loss, rng)
    ]


def described(oracle: LossOracle, w: Array, loss: Loss, rng: np.random.Generator) -> list[Work]:
    made = [
        oracle.gradient(w),
        oracle.value(w),
        oracle.root_mean_square(w),
        oracle.minibatch(w, 7, rng),
        oracle.minibatch_change(w, 0.5 * w, 7, rng),
        oracle.minibatch_change(w, 0.5 * w, None, rng),
        oracle.strong_convexity(),
        oracle.sgd_steps(w, 0.1, oracle.draws(3, 7, rng)),
        oracle.sgd_steps(w, 0.1, oracle.draws(2, None, rng), 0.5),
        oracle.sgd_steps(w, 0.1, oracle.draws(2, 5, rng), 0.2, change=True),
        oracle.optimizer_steps(w, oracle.draws(2, 5, rng), Training(Adam(), (0.1, 0.05))),
    ]
    made += [
        made[6]._replace(
            kernel=kernels.mixed_steps,
            arguments=(np.concatenate([w, 0.5 * w]), 0.1, 0.3, oracle.draws(3, 7, rng)),
        ),
        made[6]._replace(
            kernel=kernels.adaptive_mixed_steps,
            arguments=(np.concatenate([w, 0.5 * w]), 0.1, 0.3, 0.2, oracle.draws(3, 7, rng)),
        ),
        made[-1]._replace(
            kernel=kernels.alternating_steps,
            arguments=(w, oracle.draws(3, 5, rng), *(Training(Adam(), (0.1,) * k) for k in (1, 2))),
        ),
    ]
    if type(loss).hessian is not Loss.hessian:
        made.append(oracle.newton(w))
    if loss.constrained:
        made.extend([oracle.constraint(w), oracle.constraint_gradient(w)])
    return made


def results(losses: Sequence[LocalLoss], asked: Sequence[Work]) -> list[Array]:
    evaluator = SerialEvaluator(losses)
    return [evaluator.result(ticket) for ticket in [evaluator.submit(work) for work in asked]]


def results_of(pickled: bytes) -> list[Array]:
    return results(*pickle.loads(pickled))


@every("kernel", KERNELS)
def test_a_kernel_is_known_by_its_name(kernel: object) -> None:
    assert pickle.loads(pickle.dumps(kernel)) is kernel


def test_every_kernel_is_in_the_works_that_these_tests_try() -> None:
    tried = {work.kernel for loss in LOSSES for work in works(local(loss, DATA), 0)}
    assert tried == set(KERNELS)


@every("loss", LOSSES)
def test_work_has_one_result_in_any_order_however_often_and_whoever_evaluates_it(
    loss: Loss,
) -> None:
    losses = [local(loss, DATA), local(loss, DATA.take(np.arange(5, 25)))]
    asked = [work for client, f in enumerate(losses) for work in works(f, client)]
    first = results(losses, asked)
    backwards = results(losses, [*reversed(asked), *reversed(asked)])
    sent = results_of(pickle.dumps((losses, asked)))
    for others in (backwards[::-1][: len(asked)], backwards[: len(asked)][::-1], sent):
        assert all(alike(one, other) for one, other in zip(first, others, strict=True))


@pytest.mark.slow
def test_another_process_gives_the_same_bits() -> None:
    losses = [local(loss, DATA) for loss in LOSSES]
    asked = [work for client, f in enumerate(losses) for work in works(f, client)]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        there = pool.submit(results_of, pickle.dumps((losses, asked))).result()
    here = results(losses, asked)
    assert all(alike(one, other) for one, other in zip(here, there, strict=True))


def test_work_on_nobody_s_loss_is_given_its_arguments_alone() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.ones(3)
    assert SerialEvaluator().result(Work(np.dot, None, (a, b), 12.0)).tolist() == [3.0, 12.0]


def test_work_is_equal_to_what_says_the_same_and_to_nothing_else() -> None:
    f = local(Squared(), DATA)
    said, again = works(f, 0), pickle.loads(pickle.dumps(works(f, 0)))
    assert said == again
    assert [hash(work) for work in said] == [hash(work) for work in again]
    assert all(one != other for one, other in combinations([*said, *works(f, 1)], 2))
    one = LossOracle(f).gradient(np.array([0.0, 1.0, 2.0, 3.0]))
    assert one != LossOracle(f).gradient(np.array([-0.0, 1.0, 2.0, 3.0]))
    assert one != one.plus(1.0)


def test_what_becomes_of_a_basis_later_is_not_what_was_asked() -> None:
    f, basis = local(Squared(), DATA), np.array([2, 0])
    work = LossOracle(f).restricted(basis).gradient(np.ones(2))
    basis[:] = 1
    (seen,) = results([f], [work])
    (expected,) = results([f], [LossOracle(f).restricted(np.array([2, 0])).gradient(np.ones(2))])
    assert seen.tolist() == expected.tolist()
