"""A loss in the coefficients of a basis: the same function, its derivatives, its Newton step."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_array

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import (
    LocalLoss,
    Logistic,
    Loss,
    LossOracle,
    MultilayerPerceptron,
    NeymanPearson,
    Softmax,
    Squared,
)
from fedsim.problems.restricted import Restriction, newton, newton_operations, restrict
from fedsim.problems.samples import Sparse
from tests.tiers import every, examples

from .examples import CONSTRAINED, CONVEX, LOSSES, differences, local, named, samples

DATA = samples(rows=12, features=6)
SQUARED = local(Squared(scale="sum"), DATA)
each_loss = pytest.mark.parametrize("loss", [*LOSSES, *CONSTRAINED], ids=named)
seeds = st.integers(0, 2**32 - 1)
few = examples(20)  # of each loss


def matrix(basis: NDArray[np.generic], d: int) -> Array:
    """The basis as columns."""
    return np.eye(d)[:, basis] if basis.ndim == 1 else np.asarray(basis, dtype=np.float64)


def bases(f: LocalLoss, seed: int) -> list[NDArray[np.generic]]:
    """Some coordinates in any order, and the columns of a skew matrix."""
    rng = np.random.default_rng(seed)
    return [rng.choice(f.dimension, 3, replace=False), rng.standard_normal((f.dimension, 4))]


@each_loss
@few
@given(seed=seeds)
def test_it_is_the_loss_of_the_model_that_the_coefficients_make(loss: Loss, seed: int) -> None:
    f = local(loss, DATA)
    for basis in bases(f, seed):
        B, own = matrix(basis, f.dimension), restrict(f, basis)
        c = np.random.default_rng(seed).standard_normal((B.shape[1],))
        assert own.dimension == len(c)
        assert own.value(c) == pytest.approx(f.value(B @ c), rel=1e-12)
        assert own.gradient(c) == pytest.approx(B.T @ f.gradient(B @ c), rel=1e-9, abs=1e-11)
        rows = np.array([3, 0, 11])
        expected = B.T @ f.minibatch_gradient(B @ c, rows)
        assert own.minibatch_gradient(c, rows) == pytest.approx(expected, rel=1e-9, abs=1e-11)


@every("loss", CONVEX)
def test_its_hessian_is_that_in_the_basis_and_lies_below_its_smoothness(loss: Loss) -> None:
    f = local(loss, DATA)
    for basis in bases(f, 7):
        B, own = matrix(basis, f.dimension), restrict(f, basis)
        c = np.linspace(0.5, 1.0, B.shape[1])
        hessian = own.hessian(c)
        assert hessian == pytest.approx(B.T @ f.hessian(B @ c) @ B, rel=1e-9, abs=1e-11)
        assert np.linalg.eigvalsh(hessian)[-1] <= own.smoothness * (1 + 1e-12)


@each_loss
def test_its_gradient_is_that_of_finite_differences(loss: Loss) -> None:
    f = local(loss, DATA)
    for basis in bases(f, 3):
        own = restrict(f, basis)
        c = np.linspace(0.4, 0.9, own.dimension)
        assert own.gradient(c) == pytest.approx(differences(own.value, c), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("loss", CONSTRAINED, ids=named)
def test_a_constraint_is_restricted_too(loss: Loss) -> None:
    f = local(loss, DATA)
    for basis in bases(f, 4):
        B, own = matrix(basis, f.dimension), restrict(f, basis)
        c = np.linspace(-1, 1, B.shape[1])
        assert own.constraint(c) == pytest.approx(f.constraint(B @ c), rel=1e-12)
        assert own.constraint_gradient(c) == pytest.approx(B.T @ f.constraint_gradient(B @ c))


def test_a_restriction_can_be_restricted_again() -> None:
    first = restrict(SQUARED, np.array([5, 1, 4]))
    second = restrict(first, np.array([2, 0]))
    w = np.zeros(6)
    w[[4, 5]] = 0.3, -2.0
    assert second.value(np.array([0.3, -2.0])) == pytest.approx(SQUARED.value(w), rel=1e-14)


def test_no_coefficients_leave_the_zero_model() -> None:
    own, none = restrict(SQUARED, np.array([], dtype=np.intp)), np.zeros(0)
    assert own.value(none) == SQUARED.value(np.zeros(6))
    assert own.gradient(none).shape == newton(own, none).shape == (0,)


@pytest.mark.parametrize("basis", [np.ones((5, 2)), np.ones(3), np.ones((2, 2, 2), dtype=int)])
def test_what_is_no_basis_is_refused(basis: NDArray[np.generic]) -> None:
    with pytest.raises(ValueError, match=r"a matrix of shape \(6, k\); got"):
        restrict(SQUARED, basis)


class TestPrice:
    def test_a_linear_loss_costs_four_operations_a_row_and_coefficient(self) -> None:
        for basis, forming in [(np.array([1, 4]), 0), (np.ones((6, 2)), 2 * 12 * 6 * 2)]:
            own = restrict(SQUARED, basis)
            assert own.gradient_operations == 4 * 12 * 2
            assert own.forming_operations == forming

    @every("first", range(5))
    def test_the_first_work_pays_for_the_forming_and_no_other(self, first: int) -> None:
        """Whichever it is: with 12 rows, 6 coordinates and 2 coefficients 2 * 12 * 6 * 2."""
        f, c = local(NeymanPearson(), DATA), np.ones(2)
        plain, skew = (LossOracle(f).restricted(basis) for basis in (np.arange(2), np.ones((6, 2))))

        def price(oracle: LossOracle, number: int) -> float:
            asked = (
                oracle.gradient,
                oracle.value,
                oracle.constraint,
                oracle.constraint_gradient,
                oracle.newton,
            )
            return asked[number](c).operations

        assert price(skew, first) == price(plain, first) + 2 * 12 * 6 * 2
        for number in range(5):
            assert price(skew, number) == price(plain, number)

    def test_a_minibatch_pays_for_the_forming_of_all_rows(self) -> None:
        oracle, rng = LossOracle(SQUARED).restricted(np.ones((6, 2))), np.random.default_rng(0)
        assert oracle.minibatch(np.ones(2), 3, rng).operations == 4 * 3 * 2 + 2 * 12 * 6 * 2
        assert oracle.minibatch(np.ones(2), 3, rng).operations == 4 * 3 * 2

    @pytest.mark.parametrize("loss", [Softmax(), MultilayerPerceptron(hidden=3)])
    def test_other_losses_cost_what_they_cost_in_full(self, loss: Loss) -> None:
        f = local(loss, DATA)
        d = f.dimension
        own, skew = restrict(f, np.arange(2)), restrict(f, np.ones((d, 3)))
        assert own.gradient_operations == f.gradient_operations
        assert skew.gradient_operations == f.gradient_operations + 4 * d * 3
        assert own.forming_operations == skew.forming_operations == 0

    def test_penalties_in_a_skew_basis_are_those_of_the_model_at_its_price(self) -> None:
        f = local(Squared(l2=0.1), DATA)
        assert restrict(f, np.array([0])).gradient_operations == 4 * 12
        assert restrict(f, np.ones((6, 1))).gradient_operations == 4 * 12 * 6 + 4 * 6

    def test_a_newton_step_forms_solves_and_takes_a_gradient(self) -> None:
        own = restrict(SQUARED, np.arange(3))
        assert newton_operations(own) == pytest.approx(2 * 12 * 9 + 2 / 3 * 27 + 4 * 12 * 3)


class TestNewton:
    @few
    @given(seed=seeds)
    def test_one_step_solves_least_squares_from_anywhere(self, seed: int) -> None:
        for basis in bases(SQUARED, seed):
            own = restrict(SQUARED, basis)
            start = np.random.default_rng(seed).standard_normal(own.dimension)
            expected, *_ = np.linalg.lstsq(own.arranged.X, DATA.y)
            assert newton(own, start) == pytest.approx(expected, rel=1e-7, abs=1e-9)

    @pytest.mark.parametrize("repeated", [False, True])
    def test_from_zero_it_finds_the_solution_of_least_norm(self, repeated: bool) -> None:
        # More columns than rows, or two columns that are one.
        wide = samples(rows=4, features=9)
        X = np.hstack([DATA.X, DATA.X[:, :1]]) if repeated else wide.X
        f = LocalLoss(Squared(), X, DATA.y[: len(X)])
        expected = np.linalg.pinv(X) @ DATA.y[: len(X)]
        assert newton(f, np.zeros(X.shape[1])) == pytest.approx(expected, rel=1e-9, abs=1e-11)

    def test_a_step_from_a_solution_of_a_singular_problem_stays(self) -> None:
        f = local(Squared(), samples(rows=4, features=9))
        w = newton(f, np.linspace(-3, 3, 9))
        assert newton(f, w) == pytest.approx(w, rel=1e-12)
        assert f.value(w) == pytest.approx(0, abs=1e-25)

    def test_ridge_regression_takes_one_step_too(self) -> None:
        f = local(Squared(scale="sum", l2=0.7), DATA)
        expected = np.linalg.solve(DATA.X.T @ DATA.X + 0.7 * np.eye(6), DATA.X.T @ DATA.y)
        assert newton(f, np.ones(6)) == pytest.approx(expected, rel=1e-10)

    @pytest.mark.parametrize("loss", [Logistic(l2=0.05), Softmax(l2=0.05)])
    def test_a_few_steps_reach_the_minimiser(self, loss: Loss) -> None:
        for basis in bases(local(loss, DATA), 9):
            own: Restriction = restrict(local(loss, DATA), basis)
            c = np.zeros(own.dimension)
            for _ in range(12):
                c = newton(own, c)
            assert own.gradient(c) == pytest.approx(0, abs=1e-12)

    def test_sparse_rows_are_solved_by_way_of_the_hessian(self) -> None:
        X: Sparse = csr_array(DATA.X)
        f = LocalLoss(Squared(), X, DATA.y)
        expected, *_ = np.linalg.lstsq(DATA.X, DATA.y)
        assert newton(f, np.zeros(6)) == pytest.approx(expected, rel=1e-9)

    def test_a_loss_without_a_hessian_is_refused(self) -> None:
        f = local(MultilayerPerceptron(hidden=2), DATA)
        with pytest.raises(DataError, match="the loss mlp does not provide its Hessian"):
            newton(f, np.zeros(f.dimension))

    def test_a_diverged_model_gives_numbers_that_say_so(self) -> None:
        assert np.isnan(newton(SQUARED, np.full(6, np.nan))).all()
