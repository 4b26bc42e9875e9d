"""Neyman-Pearson: one class's loss under a bound on the other's, by the formulas."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import Bundled, LocalLoss, NeymanPearson, Problem, Samples, Squared

from .examples import local, samples

X = samples(rows=20, features=4).X
LABELS = np.where(np.arange(20) % 5 < 3, 8.0, 2.0)  # the larger label is the majority
DATA = Samples(X, LABELS)
models = arrays(np.float64, 4, elements=st.floats(-300, 300))


@given(w=models)
def test_loss_and_constraint_are_means_over_the_two_classes(w: Array) -> None:
    f = local(NeymanPearson(l2=0.4), DATA)
    majority = np.logaddexp(0, X[LABELS == 8] @ w).mean()
    minority = np.logaddexp(0, -X[LABELS == 2] @ w).mean()
    assert f.value(w) == pytest.approx(majority + 0.2 * w @ w, rel=1e-12)
    assert f.constraint(w) == pytest.approx(minority, rel=1e-12, abs=1e-300)


def test_swapped_classes_swap_loss_and_constraint(rng: np.random.Generator) -> None:
    # The first eight rows of each class, so that the smaller label is class 0 both times.
    rows = np.concatenate([np.flatnonzero(label == LABELS)[:8] for label in (8, 2)])
    even = DATA.take(rows)
    swapped = Samples(-even.X, -even.y)
    w = rng.standard_normal(4)
    f, g = local(NeymanPearson(), even), local(NeymanPearson(), swapped)
    assert f.value(w) == pytest.approx(g.constraint(w), rel=1e-14)
    assert f.constraint_gradient(w) == pytest.approx(g.gradient(w), rel=1e-14)


@given(w=models)
def test_either_class_may_be_the_one_whose_loss_is_bounded(w: Array) -> None:
    f, g = (local(NeymanPearson(bounded=which), DATA) for which in ("minority", "majority"))
    assert g.value(w) == f.constraint(-w)
    assert g.constraint(w) == f.value(-w)


@pytest.mark.parametrize("labels", [LABELS, -LABELS, np.resize([3.0, 4.0], 20)])
def test_the_bounded_class_is_class_1(labels: Array) -> None:
    few, many = NeymanPearson(), NeymanPearson(bounded="majority")
    assert many.classes(labels).tolist() == few.classes(labels)[::-1].tolist()
    assert (many.encode(labels) == 1.0 - few.encode(labels)).all()
    w = np.array([1.0, -1.0, 0.5, 0.0])
    assert np.array_equal(
        many.predict(X, w, many.classes(labels)) == many.classes(labels)[1], X @ w > 0
    )


def test_class_0_of_breast_cancer_is_benign(tmp_path: Path) -> None:
    data = Bundled(name="breast-cancer").load(tmp_path, np.random.default_rng(0))
    loss = NeymanPearson()
    classes = loss.classes(data.y)
    assert [np.count_nonzero(data.y == label) for label in classes] == [357, 212]
    assert loss.encode(data.y).sum() == 212


def test_the_majority_is_that_of_all_clients() -> None:
    # In the second client's rows the other label is the more frequent one.
    parts = [DATA.take(np.arange(12)), DATA.take(np.array([12, 13, 14, 18, 19]))]
    problem = Problem.of(NeymanPearson(), parts)
    w = np.linspace(-1, 1, 4)
    expected = np.logaddexp(0, parts[1].X[parts[1].y == 8] @ w).mean()
    assert problem.losses[1].value(w) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("label", "lacking"), [(8, "minority"), (2, "majority")])
def test_a_client_without_one_of_the_classes_is_refused(label: float, lacking: str) -> None:
    parts = [DATA, DATA.take(np.flatnonzero(label == LABELS)[:3])]
    for bounded in ("minority", "majority"):
        number = int(lacking == bounded)
        text = rf"has none with the {lacking} \(class {number}\)"
        with pytest.raises(DataError, match=text) as caught:
            Problem.of(NeymanPearson(bounded=bounded), parts)
        assert caught.value.key == "split"


@pytest.mark.parametrize("labels", [[1, 1], [0, 1, 2]])
def test_other_than_two_labels_are_refused(labels: list[float]) -> None:
    with pytest.raises(DataError, match="two distinct labels are needed"):
        NeymanPearson().encode(np.array(labels, dtype=np.float64))


@pytest.mark.parametrize("labels", [LABELS, -LABELS, np.resize([3.0, 4.0], 20)])
def test_the_minority_label_is_predicted_on_the_positive_side(labels: Array) -> None:
    loss, w = NeymanPearson(), np.array([1.0, -1.0, 0.5, 0.0])
    classes = loss.classes(labels)
    predicted = loss.predict(X, w, classes)
    assert np.array_equal(predicted == classes[1], X @ w > 0)
    assert np.array_equal(predicted == classes[0], X @ w <= 0)


@pytest.mark.parametrize("margin", [1e4, -1e4, 700.0])
def test_huge_margins_neither_overflow_nor_warn(margin: float) -> None:
    f = LocalLoss(NeymanPearson(), np.array([[margin], [margin]]), np.array([0.0, 1.0]))
    one = np.ones(1)
    assert f.value(one) == pytest.approx(max(margin, 0.0))
    assert f.constraint(one) == pytest.approx(max(-margin, 0.0))
    assert f.gradient(one) == pytest.approx([max(margin, 0.0)])
    assert f.constraint_gradient(one) == pytest.approx([max(-margin, 0.0)])
    assert np.isfinite(f.hessian(one)).all()


def test_only_a_constrained_loss_has_a_constraint() -> None:
    assert NeymanPearson.constrained
    assert not Squared.constrained
    f = local(Squared(), DATA)
    for ask in (f.constraint, f.constraint_gradient):
        with pytest.raises(DataError, match="the loss squared has no constraint"):
            ask(np.zeros(4))
