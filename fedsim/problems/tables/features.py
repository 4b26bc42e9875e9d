"""Features from raw columns, by scikit-learn's transformers: imputed, scaled, one-hot.

Three things are fitted, on the training rows of all clients together or of each separately:

- the median and the scale of a column of numbers or dates;
- the most frequent text of a category;
- which texts are rare.

The set of a category's texts is never fitted: like the columns, it is part of the table's form,
which all clients know. Rare texts are always counted over all clients, since all clients must have
the same features.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from fedsim.problems.description import Feature
from fedsim.problems.partition import Transform

Scale = Literal["standardise", "unit-range", "none"]


@dataclass(frozen=True)
class FeatureRecipe:
    """How features are made.

    Attributes:
        features: the raw columns.
        scale: the scale of numbers and dates.
        rare: texts in a smaller share of the rows are pooled into one feature.
    """

    features: tuple[Feature, ...]
    scale: Scale
    rare: float

    @property
    def numbers(self) -> list[int]:
        """The positions of numbers and dates."""
        return [place for place, each in enumerate(self.features) if each.role != "category"]

    @property
    def categories(self) -> list[int]:
        """The positions of categories."""
        return [place for place, each in enumerate(self.features) if each.role == "category"]

    @property
    def statistics(self) -> int:
        """The least number of values that a client sends for a fit over all clients.

        A column of numbers takes a location to impute by, and two values for the scale. A category
        takes the count of every text.
        """
        each = 1 if self.scale == "none" else 3
        texts = sum(len(self.features[place].texts) for place in self.categories)
        return each * len(self.numbers) + texts


def fit_all(X: Array, recipe: FeatureRecipe) -> Transform:
    """Return the function that turns raw rows into features, fitted on rows (n, raw columns).

    Numbers and dates come first, in their order, then the texts of each category.
    """
    fill, encode = _fit_fill(X, recipe), None
    encode = _fit_encode(fill(X), recipe)
    return _Both(fill, encode)


def fit_clients(
    X: Array, rows: Sequence[NDArray[np.intp]], recipe: FeatureRecipe, names: Sequence[str]
) -> tuple[list[Transform], Transform]:
    """Return such a function for each client, fitted on its own rows.

    Args:
        X: raw rows of all clients, shape (n, raw columns).
        rows: the indices of each client's rows.
        recipe: how features are made.
        names: the names of the clients, for errors; may be empty.

    Returns:
        The functions of the clients, and their common last step, which encodes categories.

    Raises:
        DataError: a client has no value at all in a column; all such columns are named.
    """
    check_filled(X, rows, recipe, names)
    fills = [_fit_fill(X[own], recipe) for own in rows]
    filled = np.vstack([fill(X[own]) for fill, own in zip(fills, rows, strict=True)])
    encode = _fit_encode(filled, recipe)
    return [_Both(fill, encode) for fill in fills], encode


def fit_alone(X: Array, recipe: FeatureRecipe, encode: Transform) -> Transform:
    """Return the function for a client outside training, fitted on its own rows."""
    return _Both(_fit_fill(X, recipe), encode)


def check_filled(
    X: Array, rows: Sequence[NDArray[np.intp]], recipe: FeatureRecipe, names: Sequence[str]
) -> None:
    """Check that each client has a value in each column, from which its gaps can be filled.

    Raises:
        DataError: a client has none; all such columns are named, with their first client.
    """
    faulty: dict[str, str] = {}
    for client, own in enumerate(rows):
        for place in np.flatnonzero(np.isnan(X[own]).all(axis=0)):
            called = repr(names[client]) if names else f"client {client}"
            faulty.setdefault(recipe.features[int(place)].name, called)
    if faulty:
        listed = ", ".join(f"{name} of {client}" for name, client in list(faulty.items())[:8])
        filling = "fit: clients fills missing cells by each client's own values"
        text = f"{filling}, but it has none in {listed}"
        raise DataError("data.fit", f"{text}; take fit: all, or leave the columns out with"
                        f" `drop: [{', '.join(faulty)}]`")  # fmt: skip


class _Both:
    """Two steps of a transformation."""

    def __init__(self, first: Transform, second: Transform) -> None:
        self._first, self._second = first, second

    def __call__(self, X: Any) -> Any:
        return self._second(self._first(X))


def _fit_fill(X: Array, recipe: FeatureRecipe) -> Transform:
    """Return the fitted step that fills gaps and scales numbers; the number of columns stays.

    Numbers and dates come first, then the numbers of texts.
    """
    from sklearn.compose import ColumnTransformer  # takes most of a second
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MinMaxScaler, StandardScaler

    steps: Mapping[str, list[Any]] = {
        "standardise": [StandardScaler()], "unit-range": [MinMaxScaler()], "none": [],
    }  # fmt: skip
    median = SimpleImputer(strategy="median", keep_empty_features=True)
    frequent = SimpleImputer(strategy="most_frequent", keep_empty_features=True)
    parts = [
        ("numbers", make_pipeline(median, *steps[recipe.scale]), recipe.numbers),
        ("categories", frequent, recipe.categories),
    ]
    fitted = ColumnTransformer([part for part in parts if part[2]])
    fitted.fit(np.asarray(X, np.float64))
    return _as_transform(fitted)


def _fit_encode(filled: Array, recipe: FeatureRecipe) -> Transform:
    """Return the fitted step that makes a feature of each text that is not rare."""
    from sklearn.compose import ColumnTransformer  # takes most of a second
    from sklearn.preprocessing import OneHotEncoder

    first = len(recipe.numbers)
    if not recipe.categories:
        return _identity
    texts = [np.arange(float(len(recipe.features[place].texts))) for place in recipe.categories]
    encoder = OneHotEncoder(
        categories=texts,
        # The feature of a second text would only be 1 minus that of the first.
        drop="if_binary",
        min_frequency=recipe.rare or None,
        handle_unknown="infrequent_if_exist" if recipe.rare else "error",
        sparse_output=False,
    )
    both = ColumnTransformer(
        [
            ("numbers", "passthrough", list(range(first))),
            ("categories", encoder, list(range(first, first + len(texts)))),
        ]
    )
    both.fit(filled)
    return _as_transform(both)


def _identity(X: Any) -> Any:
    return X


def _as_transform(fitted: Any) -> Transform:
    def transform(X: Any) -> Any:
        return np.ascontiguousarray(fitted.transform(np.asarray(X, np.float64)), np.float64)

    return transform
