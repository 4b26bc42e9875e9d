"""Correlated features around the clients' own means, and a model whose second half is zero."""

# ruff: noqa: ARG001, ARG002 - no file is read, and the number of a client changes nothing

from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.data.generators.base import Count, Variance, by_client, check_size, normal
from fedsim.problems.samples import Samples


class SparseLinear(Source):
    """Correlated features around a mean of each client's own, and ones in half of the model.

    x = mu_i + delta with mu_i ~ N(0, I), drawn once a client, and delta ~ N(0, Sigma) with
    Sigma_jk = correlation^|j-k|. The first `ones` entries of the model w are 1, all others
    0. Labels are x.w + e, e ~ N(0, noise).
    """

    source: ClassVar[str] = "Bao, Crawshaw, Luo, Liu, ICML 2022: synthetic sparse regression"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["sparse-linear"] = "sparse-linear"
    clients: Count = Field(default=64, description="number of clients")
    rows: Count = Field(default=128, description="samples of each client")
    features: Count = Field(default=1024, description="features of each sample")
    ones: Count = Field(default=512, description="entries of the model that are 1, the first ones")
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
        """Draw the samples; `client` numbers their rows, and `truth` is w."""
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

    Entry k is the correlation times entry k - 1 plus fresh noise that keeps the variance 1.
    """
    rows = rng.standard_normal(shape)
    rows[:, 1:] *= np.sqrt(1.0 - correlation**2)
    for k in range(1, shape[1]):
        rows[:, k] += correlation * rows[:, k - 1]
    return rows
