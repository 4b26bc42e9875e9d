"""Matrices as features, and a model that is a matrix of low rank."""

# ruff: noqa: ARG001, ARG002 - no file is read, and the number of a client changes nothing

from math import prod
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.data.generators.base import Count, Variance, by_client, check_size, normal
from fedsim.problems.samples import Samples


class LowRank(Source):
    """Matrices around a mean matrix of each client's own, and a model of low rank.

    A sample is a matrix X = M_i + D flattened row by row, the entries of M_i (once a
    client) and of D (for each sample) standard normal. The model W has ones in the first
    `rank` places of its diagonal and zeros elsewhere. Labels are <X, W> + e,
    e ~ N(0, noise).
    """

    source: ClassVar[str] = "Bao, Crawshaw, Luo, Liu, ICML 2022: synthetic low-rank regression"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["low-rank"] = "low-rank"
    clients: Count = Field(default=64, description="number of clients")
    rows: Count = Field(default=128, description="samples of each client")
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
        """Draw the samples; `client` numbers their rows, and `truth` is W, flattened."""
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
