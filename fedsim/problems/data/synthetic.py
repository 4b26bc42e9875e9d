"""Generators of synthetic data, which have a random stream and a block of rows per client.

Parameters that clients share are drawn from the generator's own stream. Those of one client are
drawn from a stream spawned for it, so that adding a client does not change the others' rows.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.memory import check_budget
from fedsim.core.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Variance = Annotated[float, Field(ge=0)]

Fill = Callable[[int, np.random.Generator, Array], Array]
"""Fills the features (n, d) of a client, given its number from 0 and its stream; returns its
labels, shape (n,)."""


def check_size(clients: int, rows: int, features: int) -> None:
    """Check that the rows of all clients fit into memory.

    They are stored twice: as drawn, and as partitioned.

    Raises:
        DataError: they do not fit.
    """
    what = f"{clients} clients with {rows} rows of {features} features"
    check_budget("data", what, 16 * clients * (rows * (features + 2) + features + 100))


def by_client(
    streams: Sequence[np.random.Generator], rows: int, features: int, fill: Fill, truth: Array
) -> Samples:
    """Return the rows of all clients, one after the other, with client numbers.

    Args:
        streams: the random stream of each client.
        rows: n, the samples of each client.
        features: d, the features of each sample.
        fill: draws the rows of one client.
        truth: the planted model, shape (d,).
    """
    clients = len(streams)
    X, y = np.empty((clients, rows, features)), np.empty((clients, rows))
    for m, stream in enumerate(streams):
        y[m] = fill(m, stream, X[m])
    numbers = np.repeat(np.arange(clients), rows)
    return Samples(X.reshape(-1, features), y.reshape(-1), numbers, truth)


def normal(rng: np.random.Generator, variance: float, size: int | tuple[int, ...]) -> Array:
    """Draw from N(0, variance)."""
    return np.asarray(rng.standard_normal(size) * np.sqrt(variance))


# Matrices as features, with a model that is a matrix of low rank.

# ruff: noqa: ARG001 - no file is read, and the number of a client changes nothing


class LowRankData(Source):
    """Matrices around a mean matrix of each client, and a model of low rank.

    A sample is a matrix X = M_i + D, flattened row by row. M_i is drawn once per client and D once
    per sample, both with standard normal entries. The model W has ones in the first `rank` entries
    of its diagonal, and zeros elsewhere. Labels are <X, W> + e, e ~ N(0, noise).
    """

    source: ClassVar[str] = "Bao, Crawshaw, Luo, Liu, ICML 2022: synthetic low-rank regression"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["low-rank"] = "low-rank"
    clients: Count = Field(default=64, description="number of clients")
    rows: Count = Field(default=128, description="samples per client")
    shape: tuple[Count, Count] = Field(
        default=(32, 32), description="rows and columns of a sample and of the model"
    )
    rank: Count = Field(default=16, description="the rank of the model")
    noise: Variance = Field(default=1.0, description="variance of the noise on the labels")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rank > min(self.shape):
            m, n = self.shape
            raise ValueError(f"no {m} x {n} matrix has rank {self.rank}; give {min(m, n)} or less")
        return self

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Draw the samples; `client` has the client of each row, and `truth` is W, flattened."""
        check_size(self.clients, self.rows, prod(self.shape))
        features = prod(self.shape)
        W = np.zeros(self.shape)
        np.fill_diagonal(W[: self.rank, : self.rank], 1.0)
        truth = W.reshape(-1)

        def fill(number: int, own: np.random.Generator, X: Array) -> Array:
            mean = own.standard_normal(features)
            own.standard_normal(out=X)
            X += mean
            return X @ truth + normal(own, self.noise, self.rows)

        return by_client(rng.spawn(self.clients), self.rows, features, fill, truth)


# Features whose mean and variance differ between clients, with one sparse model.


class ShiftedMean(Source):
    """Clients i = 1..M with features N(mu_i, i^-decay), and one sparse model for all.

    mu_i ~ N(0, alpha) is one number per client, so alpha controls how much clients differ. Second
    arguments are variances. The model x has `sparsity` non-zero entries at uniform random
    positions, with values from the unit sphere. Labels are A_i x + e, e ~ N(0, noise).
    """

    source: ClassVar[str] = "Jeong, Needell, Qin, FedGradMP: synthetic experiments"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["shifted-mean"] = "shifted-mean"
    clients: Count = Field(default=50, description="M, the number of clients")
    rows: Count = Field(default=100, description="samples per client")
    features: Count = Field(default=1000, description="features per sample")
    sparsity: Count = Field(default=10, description="nonzero entries of the model")
    alpha: Variance = Field(default=1.0, description="variance of the clients' means mu_i")
    decay: float = Field(
        default=1.1, ge=0, description="client i's entries have the variance i^-decay, i from 1"
    )
    noise: Variance = Field(default=0.0, description="variance of the noise on the labels")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.sparsity > self.features:
            raise ValueError(f"a sparsity of {self.sparsity}, but only {self.features} features")
        return self

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Draw the samples; `client` has the client of each row, and `truth` is x."""
        check_size(self.clients, self.rows, self.features)
        x = self._model(rng)

        def fill(number: int, own: np.random.Generator, A: Array) -> Array:
            mean = normal(own, self.alpha, 1)
            own.standard_normal(out=A)
            A *= (number + 1) ** (-self.decay / 2)
            A += mean
            return A @ x + normal(own, self.noise, self.rows)

        return by_client(rng.spawn(self.clients), self.rows, self.features, fill, x)

    def _model(self, rng: np.random.Generator) -> Array:
        x = np.zeros(self.features)
        values = rng.standard_normal(self.sparsity)
        places = rng.choice(self.features, self.sparsity, replace=False)
        x[places] = values / np.linalg.norm(values)
        return x


# Correlated features around a mean of each client, with a model whose second half is zero.

# ruff: noqa: ARG001 - no file is read, and the number of a client changes nothing


class SparseLinear(Source):
    """Correlated features around a mean of each client, and a model with ones in its first half.

    x = mu_i + delta with mu_i ~ N(0, I), drawn once per client, and delta ~ N(0, Sigma) with
    Sigma_jk = correlation^|j-k|. The first `ones` entries of the model w are 1, all others 0.
    Labels are x.w + e, e ~ N(0, noise).
    """

    source: ClassVar[str] = "Bao, Crawshaw, Luo, Liu, ICML 2022: synthetic sparse regression"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["sparse-linear"] = "sparse-linear"
    clients: Count = Field(default=64, description="number of clients")
    rows: Count = Field(default=128, description="samples per client")
    features: Count = Field(default=1024, description="features per sample")
    ones: Count = Field(
        default=512,
        description="number of entries of the model that are 1, the first ones; all others are 0",
    )
    correlation: float = Field(
        default=0.5, gt=-1, lt=1, description="correlation of neighbouring features of a client"
    )
    noise: Variance = Field(default=1.0, description="variance of the noise on the labels")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.ones > self.features:
            raise ValueError(f"{self.ones} entries that are 1, but only {self.features} features")
        return self

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Draw the samples; `client` has the client of each row, and `truth` is w."""
        check_size(self.clients, self.rows, self.features)
        w = np.zeros(self.features)
        w[: self.ones] = 1.0

        def fill(number: int, own: np.random.Generator, X: Array) -> Array:
            mean = own.standard_normal(self.features)
            X[:] = autoregressive(own, X.shape, self.correlation)
            X += mean
            return X @ w + normal(own, self.noise, self.rows)

        return by_client(rng.spawn(self.clients), self.rows, self.features, fill, w)


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...], correlation: float) -> Array:
    """Draw rows from N(0, Sigma), Sigma_jk = correlation^|j-k|, in linear time.

    Entry k is the correlation times entry k - 1, plus new noise that keeps the variance at 1.
    """
    rows = rng.standard_normal(shape)
    # With this factor, every entry has the variance 1.
    rows[:, 1:] *= np.sqrt(1.0 - correlation**2)
    for k in range(1, shape[1]):
        rows[:, k] += correlation * rows[:, k - 1]
    return rows


# Sparse regression and classification on clients with different models and features.


Reading = Literal["deviations", "client-noise", "feature-centres", "row-means"]


class Tong(Source):
    """Clients that differ in their sparse models (alpha) and in their features (beta).

    Client i has a level u_i ~ N(0.1, alpha) and a model x_i whose first `informative` entries are
    N(u_i, 1), and the rest 0. It has a centre B_i ~ N(0, beta) and a mean vector v_i with entries
    N(B_i, 1). Its samples are z ~ N(v_i, diag(j^-1.2)), j = 1..d. Their scores are x_i.z + e, with
    noise e ~ N(u_i, 1) on each. For regression a score is the label. For classification the highest
    `positive_share` of a client's scores are labelled 1, the others 0.

    The paper leaves some definitions open. Read literally, second arguments are variances, u_i and
    B_i are numbers, v_i is a vector drawn once per client, and e is drawn for every row. `reading`
    lists departures from this, which may be combined.

    With `deviations`, alpha and beta are standard deviations, as in the code of FedProx, whose
    synthetic data this follows. With `client-noise`, e is drawn once per client, an offset that all
    of its scores share. With `feature-centres`, there is one B_j per feature, the same for all
    clients, in place of one B_i per client. With `row-means`, the mean vector is drawn again for
    every row, so that no single direction dominates a client's features.
    """

    source: ClassVar[str] = "Tong et al., Algorithms 2022, 15, 319: Simulations I and II"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["tong"] = "tong"
    task: Literal["regression", "classification"] = Field(
        default="regression", description="regression: Simulation I; classification: II"
    )
    clients: Count = Field(default=100, description="number of clients")
    rows: Count | None = Field(
        default=None,
        description="samples per client; by default 100 for regression and 1000 for classification",
    )
    features: Count = Field(default=1000, description="d, features per sample")
    informative: Count = Field(
        default=100, description="nonzero entries of the models, the first ones"
    )
    alpha: Variance = Field(default=1.0, description="variance of the clients' levels u_i")
    beta: Variance = Field(default=1.0, description="variance of the clients' centres B_i")
    positive_share: float = Field(
        default=0.1, gt=0, lt=1, description="share of a client's rows that are labelled 1"
    )
    reading: tuple[Reading, ...] = Field(
        default=(),
        description=(
            "departures from the literal text of the paper: deviations, client-noise,"
            " feature-centres, row-means"
        ),
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.informative > self.features:
            raise ValueError(
                f"{self.informative} informative features, but only {self.features} features"
            )
        if self.task == "classification" and self.samples < 2:
            raise ValueError("classification takes 2 rows per client or more; got 1")
        return self

    @property
    def samples(self) -> int:
        """The number of rows of each client."""
        return self.rows or (100 if self.task == "regression" else 1000)

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Draw the samples; `client` has the client number of each row.

        The clients' models differ. `truth` is their mean, whose support all of them share.
        """
        check_size(self.clients, self.samples, self.features)
        streams = rng.spawn(self.clients)
        # Drawn under every reading, so that the other draws stay the same.
        shared = self._spread(self.beta) * rng.standard_normal(self.features)
        levels = np.array([0.1 + self._spread(self.alpha) * own.normal() for own in streams])
        models = np.zeros((self.clients, self.features))
        for model, level, own in zip(models, levels, streams, strict=True):
            model[: self.informative] = own.normal(level, 1.0, self.informative)
        fill = partial(self._fill, levels, models, shared)
        return by_client(streams, self.samples, self.features, fill, models.mean(axis=0))

    def _fill(
        self,
        levels: Array,
        models: Array,
        shared: Array,
        number: int,
        own: np.random.Generator,
        Z: Array,
    ) -> Array:
        """Fill a client's features; return its labels."""
        centre = np.full(self.features, self._spread(self.beta) * own.normal())
        if "feature-centres" in self.reading:
            centre = shared
        own.standard_normal(out=Z)
        Z *= np.arange(1.0, self.features + 1) ** -0.6
        Z += own.normal(centre, 1.0, Z.shape if "row-means" in self.reading else self.features)
        draws = 1 if "client-noise" in self.reading else len(Z)
        scores = Z @ models[number] + own.normal(levels[number], 1.0, draws)
        return scores if self.task == "regression" else self._labels(scores)

    def _labels(self, scores: Array) -> Array:
        """Return 1 for the highest scores (at least one, not all) and 0 for the others."""
        rows = len(scores)
        positive = min(max(round(self.positive_share * rows), 1), rows - 1)
        labels = np.zeros(rows)
        labels[np.argsort(scores, kind="stable")[rows - positive :]] = 1.0
        return labels

    def _spread(self, written: float) -> float:
        """Return the standard deviation for a value of alpha or beta."""
        return written if "deviations" in self.reading else float(np.sqrt(written))
