"""A logistic regression, and the images of digits that come with scikit-learn."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

Arrays = list[NDArray[Any]]


def load_data(partition: int, partitions: int) -> tuple[Any, Any, Any, Any]:
    """Return the rows and labels that a client trains on, and those that it tests on."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order][partition::partitions] / 16, y[order][partition::partitions]
    cut = len(y) * 4 // 5
    return X[:cut], X[cut:], y[:cut], y[cut:]


def create() -> LogisticRegression:
    """Return a model that goes on from its parameters, all zero."""
    model = LogisticRegression(max_iter=2, warm_start=True)
    model.classes_ = np.arange(10)
    set_params(model, [np.zeros((10, 64)), np.zeros(10)])
    return model


def get_params(model: LogisticRegression) -> Arrays:
    """Return the parameters."""
    return [model.coef_, model.intercept_]


def set_params(model: LogisticRegression, params: Arrays) -> None:
    """Set the parameters."""
    model.coef_, model.intercept_ = params


def fit(model: LogisticRegression, X: Any, y: Any) -> None:
    """Go on for a few iterations, which are too few to converge."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
