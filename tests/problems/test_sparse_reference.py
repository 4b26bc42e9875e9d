"""The best sparse model, held against all supports and against planted truths."""

import math
from collections.abc import Sequence
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from fedsim.core.ports import Array
from fedsim.problems import (
    Logistic,
    MultilayerPerceptron,
    Problem,
    Reference,
    Samples,
    Squared,
    optimum,
    sparse_optimum,
)
from fedsim.problems.losses import Softmax
from fedsim.problems.penalties import L1, L2, GroupL2, NoPenalty, Penalty
from fedsim.problems.references.composite import CompositeForm
from fedsim.problems.references.sparse import _SupportSearch
from tests.tiers import every, examples

from .examples import samples


def planted(seed: int, rows: int, features: int, count: int, noise: float) -> Samples:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features))
    truth = np.zeros(features)
    truth[rng.choice(features, count, replace=False)] = rng.choice([-1.0, 1.0], count)
    return Samples(X, X @ truth + noise * rng.standard_normal(rows), truth=truth)


def search(problem: Problem, count: int) -> _SupportSearch:
    form = CompositeForm.of(problem)
    assert form is not None
    return _SupportSearch(form, count, columns=False)


def clients(data: Samples) -> list[Samples]:
    return [data.take(rows) for rows in np.array_split(np.arange(data.rows), 3)]


def found(problem: Problem, count: int, *, columns: bool = False) -> Reference:
    best = sparse_optimum(problem, count, columns=columns)
    assert best is not None
    assert best.value == problem.value(best.model)
    return best


def exhaustive(data: Samples, count: int) -> tuple[float, Array]:
    """Return the least |Xw - y|^2/(2n) over all supports, and where it is."""
    best, model = np.inf, np.zeros(data.features)
    for support in map(list, combinations(range(data.features), count)):
        weights = np.linalg.lstsq(data.X[:, support], data.y)[0]
        value = ((data.X[:, support] @ weights - data.y) ** 2).mean() / 2
        if value < best:
            best, model = value, np.zeros(data.features)
            model[support] = weights
    return best, model


@examples(25)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 3), noise=st.sampled_from([0.0, 0.3]))
def test_a_well_posed_problem_is_solved_over_all_supports(
    seed: int, count: int, noise: float
) -> None:
    data = planted(seed, 60, 8, count, noise)
    best = found(Problem.of(Squared(), clients(data)), count)
    value, model = exhaustive(data, count)
    assert best.value == pytest.approx(value, rel=1e-10, abs=1e-14)
    assert best.model == pytest.approx(model, abs=1e-8)


@examples(25)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 4))
def test_few_supports_are_all_searched(seed: int, count: int) -> None:
    """Labels of noise alone, where local searches often end at another support."""
    rng = np.random.default_rng(seed)
    data = Samples(rng.standard_normal((9, 7)), rng.standard_normal(9))
    problem = Problem.of(Squared(), clients(data))
    best = found(problem, count)
    assert np.count_nonzero(best.model) <= count
    assert best.value == pytest.approx(exhaustive(data, count)[0], rel=1e-12)
    assert best.residual <= 1e-12
    assert best.certified
    assert best.title == "optimum"
    assert best.method == f"least squares on all {math.comb(7, count)} supports"
    assert problem.value(search(problem, count).local().model) >= best.value * (1 - 1e-12)


def test_a_local_search_that_ends_above_the_optimum_is_not_what_is_returned() -> None:
    rng = np.random.default_rng(0)
    data = Samples(rng.standard_normal((9, 7)), rng.standard_normal(9))
    problem = Problem.of(Squared(), clients(data))
    best = found(problem, 2)
    assert problem.value(search(problem, 2).local().model) > 1.05 * best.value
    assert best.value == pytest.approx(exhaustive(data, 2)[0], rel=1e-12)


def test_features_that_are_one_another_make_singular_systems_and_no_other_optimum() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 3))
    data = Samples(np.hstack([X, X, np.zeros((40, 1))]), rng.standard_normal(40))
    for count in (1, 2, 3, 4):
        best = found(Problem.of(Squared(), clients(data)), count)
        assert best.value == pytest.approx(exhaustive(data, count)[0], rel=1e-10)
        assert best.certified


@every("penalty", [NoPenalty(), L2(weight=0.3), L1(weight=0.02)])
@every("count", [1, 2])
def test_a_classifier_is_minimised_on_every_support(count: int, penalty: Penalty) -> None:
    """By L-BFGS on each support alone."""
    data = samples(60, 5)
    problem = Problem.of(Logistic(l2=0.01), clients(data), penalty)
    best = found(problem, count)
    supports = list(combinations(range(5), count))
    values = []
    for support in map(list, supports):
        own = Samples(data.X[:, support], data.y)
        alone = optimum(Problem.of(Logistic(l2=0.01), clients(own), penalty))
        assert alone is not None
        values.append(alone.value)
    assert best.value == pytest.approx(min(values), rel=1e-12)
    assert best.certified
    assert best.method == f"Newton's method on all {len(supports)} supports"


def test_the_columns_of_a_matrix_have_supports_of_their_own() -> None:
    """All 4^3 supports of one weight a class, each by L-BFGS."""
    rng = np.random.default_rng(5)
    data = Samples(rng.standard_normal((45, 4)), rng.choice(3, 45).astype(float))
    problem = Problem.of(Softmax(l2=0.05), clients(data))
    best = found(problem, 1, columns=True)
    assert best.certified
    values = []
    for rows in product(range(4), repeat=3):
        places = [row * 3 + column for column, row in enumerate(rows)]

        def value(v: Array, places: Sequence[int] = places) -> tuple[float, Array]:
            w = np.zeros(12)
            w[list(places)] = v
            return problem.value(w), problem.gradient(w)[list(places)]

        values.append(minimize(value, np.zeros(3), jac=True, tol=1e-12).fun)
    assert best.value == pytest.approx(min(values), rel=1e-9)


def test_without_a_minimiser_on_some_support_nothing_is_certified() -> None:
    """Separable data: the loss falls for ever on the first feature."""
    y = np.repeat([-1.0, 1.0], 20)
    X = np.column_stack([y, np.random.default_rng(0).standard_normal(40)])
    best = found(Problem.of(Logistic(), clients(Samples(X, y))), 1)
    assert best.model[1] == 0
    assert best.value < 1e-6
    assert best.residual > 0 or not best.certified


def test_many_supports_are_not_searched() -> None:
    for problem, count in (
        (Problem.of(Squared(), clients(planted(1, 60, 40, 5, 0.1))), 8),
        (Problem.of(Squared(l1=0.1), clients(planted(1, 60, 40, 5, 0.1))), 8),
        (Problem.of(Logistic(), clients(samples(60, 30))), 6),
    ):
        assert search(problem, count).exhaustive() is None


def test_more_weights_than_features_give_the_optimum() -> None:
    problem = Problem.of(Logistic(l2=0.05), clients(samples(60, 5)))
    whole = optimum(problem)
    assert whole is not None
    assert found(problem, 9).value == pytest.approx(whole.value, rel=1e-13)
    assert not found(problem, 0).model.any()


def test_a_wide_planted_model_is_recovered_exactly() -> None:
    data = planted(4, 150, 400, 10, 0.0)
    best = found(Problem.of(Squared(), clients(data)), 10)
    assert best.model == pytest.approx(data.truth, abs=1e-12)
    assert not best.certified
    assert best.title == "best value found"
    assert best.method == (
        "iterative hard thresholding from zero and from the truth, then pursuit on the support"
    )


def test_columns_have_so_many_weights_each() -> None:
    rng = np.random.default_rng(0)
    data = Samples(rng.standard_normal((90, 6)), rng.choice(3, 90).astype(float))
    problem = Problem.of(Softmax(l2=0.01), clients(data))
    best = found(problem, 2, columns=True)
    assert (np.count_nonzero(best.model.reshape(6, 3), axis=0) == 2).all()
    # A move within the support does not pay, nor does another start on it.
    support = best.model != 0
    for _ in range(20):
        step = np.where(support, rng.standard_normal(18), 0.0)
        assert problem.value(best.model + 1e-4 * step) >= best.value
    assert found(problem, 6).value <= best.value + 0.05
    assert found(problem, 2).value != best.value


def test_a_penalty_takes_part() -> None:
    data = planted(1, 60, 8, 3, 0.3)
    plain, penalty = found(Problem.of(Squared(), clients(data)), 3), L2(weight=0.5)
    shrunk = found(Problem.of(Squared(), clients(data), penalty), 3)
    assert np.linalg.norm(shrunk.model) < np.linalg.norm(plain.model)
    assert (
        np.count_nonzero(found(Problem.of(Squared(), clients(data), L1(weight=9.0)), 3).model) == 0
    )


def test_counts_do_not_share_a_place_in_the_cache() -> None:
    problem = Problem.of(Squared(), clients(planted(2, 60, 8, 4, 0.1)))
    values = [found(problem, count).value for count in range(5)]
    assert values == sorted(values, reverse=True)
    assert [found(problem, count).value for count in range(5)] == values


def test_other_problems_have_no_value_known() -> None:
    network = Problem.of(MultilayerPerceptron(), [samples()])
    grouped = Problem.of(Squared(), [samples()], GroupL2(weight=1.0, size=2))
    for problem in (network, grouped):
        assert sparse_optimum(problem, 3) is None
    with pytest.raises(ValueError, match="got -1"):
        sparse_optimum(Problem.of(Squared(), [samples()]), -1)


def test_no_gradient_step_from_the_best_leads_to_a_better_support() -> None:
    for seed in (2, 4, 11, 40, 41, 44, 47):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((12, 10)) @ (np.eye(10) + 0.7 * rng.standard_normal((10, 10)))
        data = Samples(X, rng.standard_normal(12))
        best = found(Problem.of(Squared(), [data]), 3)
        gradient = data.X.T @ (data.X @ best.model - data.y) / 12
        stepped = best.model - gradient / np.linalg.eigvalsh(data.X.T @ data.X / 12)[-1]
        support = np.argsort(-np.abs(stepped))[:3]
        weights = np.linalg.lstsq(data.X[:, support], data.y)[0]
        value = ((data.X[:, support] @ weights - data.y) ** 2).mean() / 2
        assert best.value <= value * (1 + 1e-9)


def test_the_pursuit_ends_with_the_first_step_that_leaves_the_support_as_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = Problem.of(Squared(), clients(planted(1, 40, 8, 2, 0.1)))
    searching = search(problem, 2)
    best = searching.local().model
    steps, step = list[Array](), _SupportSearch._next

    def counted(own: _SupportSearch, w: Array) -> Array:
        steps.append(w)
        return step(own, w)

    monkeypatch.setattr(_SupportSearch, "_next", counted)
    again = searching._pursue(best)
    assert len(steps) == 1
    np.testing.assert_allclose(again, best, rtol=1e-12)


def test_thresholding_ends_once_the_support_has_stayed_for_twenty_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searching = search(Problem.of(Squared(), clients(planted(2, 80, 12, 3, 0.1))), 3)
    supports = list[tuple[bool, ...]]()
    follow = _SupportSearch._next

    def watched(own: _SupportSearch, w: Array) -> Array:
        supports.append(tuple(follow(own, w) != 0))
        return follow(own, w)

    monkeypatch.setattr(_SupportSearch, "_next", watched)
    end = searching._threshold(np.zeros(12))
    assert len(set(supports[-21:])) == 1
    assert len(set(supports[-22:])) == 2 or len(supports) == 21
    assert supports[-1] == tuple(end != 0)
