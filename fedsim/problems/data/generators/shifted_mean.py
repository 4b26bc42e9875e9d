"""Features whose mean and spread differ from client to client, and one sparse model."""

# ruff: noqa: ARG002 - no file is read

from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.data.generators.base import Count, Variance, by_client, check_size, normal
from fedsim.problems.samples import Samples


class ShiftedMean(Source):
    """Clients i = 1..M whose features are N(mu_i, i^-decay), and a sparse model for all.

    mu_i ~ N(0, alpha) is one number a client, so alpha says how much clients differ; second
    arguments are variances. The model x has `sparsity` entries other than 0, at places drawn
    uniformly, their values from the unit sphere. Labels are A_i x + e, e ~ N(0, noise).
    """

    source: ClassVar[str] = "Jeong, Needell, Qin, FedGradMP: synthetic experiments"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["shifted-mean"] = "shifted-mean"
    clients: Count = Field(default=50, description="M, the number of clients")
    rows: Count = Field(default=100, description="samples of each client")
    features: Count = Field(default=1000, description="features of each sample")
    sparsity: Count = Field(default=10, description="entries of the model other than 0")
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
        """Draw the samples; `client` numbers their rows, and `truth` is x."""
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
