"""What classifiers predict, in the data's own labels; and who does not classify."""

import numpy as np
import pytest
from scipy.special import expit

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems import (
    Logistic,
    Loss,
    MultilayerPerceptron,
    Problem,
    Samples,
    Softmax,
    Squared,
    TraceRegression,
)
from fedsim.problems.measures import HeldOutAccuracy, HeldOutLoss, TrainingAccuracy
from tests.tiers import every

from .examples import local, samples

X = samples(rows=30, features=4).X
THREE = np.array([9.0, -1.0, 4.0])[np.arange(30) % 3]
TWO = np.array([5.0, 2.0])[np.arange(30) % 2]


def test_logistic_regression_predicts_the_larger_label_on_the_positive_side() -> None:
    w = np.array([1.0, -0.5, 2.0, 0.0])
    for loss, labels in [(Logistic(labels="plus-minus"), TWO), (Logistic(), np.sign(X[:, 0]))]:
        classes = loss.classes(labels)
        predicted = loss.predict(X, w, classes)
        assert set(np.unique(predicted)) <= set(labels)
        assert np.array_equal(predicted, np.where(X @ w > 0, labels.max(), labels.min()))


def test_what_is_predicted_at_a_minimiser_is_what_was_learnt() -> None:
    labels = np.where(X @ np.array([1.0, -1.0, 0.5, 0.2]) > 0, 5.0, 2.0)
    loss = Logistic(labels="plus-minus", l2=1e-3)
    f, w = local(loss, Samples(X, labels)), np.zeros(4)
    for _ in range(200):
        w -= f.gradient(w) / f.smoothness
    assert np.mean(loss.predict(X, w, loss.classes(labels)) == labels) > 0.95


@pytest.mark.parametrize("labels", ["signs", "as-given"])
def test_other_labels_than_signs_tell_no_two_classes_apart(labels: str) -> None:
    loss = Logistic.model_validate({"labels": labels})
    assert loss.classes(np.array([1.0, 1.0])).tolist() == [-1, 1]
    with pytest.raises(DataError, match=r"the data has -1, 4, 9; give {positive: 9}") as caught:
        loss.classes(THREE)
    assert caught.value.key == "loss.labels"


def test_one_label_against_all_others_is_the_same_as_two_labels() -> None:
    """Value, gradient, prediction and both accuracies are those of labels mapped by hand."""
    by_hand = np.where(THREE == 4.0, 1.0, -1.0)
    w = np.array([0.5, -1.0, 0.3, 0.7])
    one, two = Logistic.model_validate({"labels": {"positive": 4}}), Logistic()
    mine = Problem.of(one, [Samples(X, THREE)], test=Samples(X[:9], np.full(9, 77.0)))
    other = Problem.of(two, [Samples(X, by_hand)], test=Samples(X[:9], np.full(9, -1.0)))
    assert mine.value(w) == other.value(w)
    assert np.array_equal(mine.gradient(w), other.gradient(w))
    for measure in (TrainingAccuracy(), HeldOutAccuracy(), HeldOutLoss()):
        figures = [measure.bind(problem)(w) for problem in (mine, other)]
        assert figures[0] == figures[1]
    assert 0 < figures[0]["test_loss"] < np.inf


def test_a_label_that_no_row_has_is_no_class() -> None:
    loss = Logistic.model_validate({"labels": {"positive": 3}})
    with pytest.raises(DataError, match="no row has the label 3; the data has -1, 4, 9") as caught:
        loss.encode(THREE)
    assert caught.value.key == "loss.labels"


@every(
    ("labels", "words"),
    [
        (np.arange(10.0), ["has 0, 1, 2, 3, 4, ...", "{positive: 9}", "softmax", "squared"]),
        (np.array([0.0, 1.0]), ["has 0, 1", "give plus-minus", "{positive: 1}"]),
        (np.array([1.0, 2.0, -1.0]), ["{positive: 2}", "softmax"]),
        (np.array([0.5, 0.7, 1.3]), ["has 0.5, 0.7, 1.3", "squared"]),
        (np.zeros(3), ["has 0;", "{positive: 0}"]),
    ],
)
def test_logistic_refuses_labels_that_are_no_signs(labels: Array, words: list[str]) -> None:
    with pytest.raises(DataError) as caught:
        Logistic().encode(labels)
    assert caught.value.key == "loss.labels"
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("loss", "key"), [(Softmax(), "loss.kind"), (MultilayerPerceptron(), "loss.output")]
)
def test_a_class_for_each_label_takes_whole_numbers(loss: Loss, key: str) -> None:
    with pytest.raises(DataError, match=r"has 1.5 among its 3 distinct labels.*squared") as caught:
        loss.encode(np.array([1.0, 2.0, 1.5]))
    assert caught.value.key == key
    assert loss.encode(np.array([-3.0, 2.0, 1.0])).shape == (3, 3)


@pytest.mark.parametrize("output", ["sigmoid", "softmax"])
def test_a_network_predicts_the_likeliest_label(output: str, rng: np.random.Generator) -> None:
    labels = TWO if output == "sigmoid" else THREE
    loss = MultilayerPerceptron.model_validate({"hidden": 5, "output": output})
    f = local(loss, Samples(X, labels))
    w = 3 * rng.standard_normal(f.dimension)
    layers = loss.layers(w, 4, f.outputs)
    units = expit(X @ layers.hidden + layers.hidden_bias)
    scores = units @ layers.output + layers.output_bias
    if output == "sigmoid":
        scores = np.hstack([np.full((30, 1), 0.5), expit(scores)])
    classes = loss.classes(labels)
    assert classes.tolist() == sorted(set(labels))
    assert np.array_equal(loss.predict(X, w, classes), classes[scores.argmax(axis=1)])


def test_classes_are_not_those_of_one_client_but_as_many_as_the_model_has() -> None:
    # Row 1 alone is of one class; what it may be taken for are all three.
    loss = MultilayerPerceptron(hidden=2, output="softmax")
    f = local(loss, Samples(X, THREE))
    predicted = loss.predict(X[1:2], np.ones(f.dimension), loss.classes(THREE))
    assert predicted.tolist() == [-1]  # all are as likely; the first is chosen


@pytest.mark.parametrize(
    "loss", [Squared(), TraceRegression(), MultilayerPerceptron(output="squared")]
)
def test_losses_of_numbers_do_not_classify(loss: Loss) -> None:
    w: Array = np.zeros(loss.dimension(4, 1))
    with pytest.raises(DataError, match=f"the loss {loss.kind} does not classify; logistic, "):
        loss.predict(X, w, np.unique(TWO))
    with pytest.raises(DataError, match="does not classify"):
        loss.classes(TWO)
