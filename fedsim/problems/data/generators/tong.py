"""Sparse regression and classification on clients that differ in model and in features."""

# ruff: noqa: ARG002 - no file is read

from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.data.generators.base import Count, Variance, by_client, check_size
from fedsim.problems.samples import Samples

Reading = Literal["deviations", "client-noise", "feature-centres", "row-means"]


class Tong(Source):
    """Clients that differ in their own sparse models (alpha) and in their features (beta).

    Client i has a level u_i ~ N(0.1, alpha) and a model x_i whose first `informative`
    entries are N(u_i, 1), the rest 0; a centre B_i ~ N(0, beta) and a mean vector v_i with
    entries N(B_i, 1). Its samples are z ~ N(v_i, diag(j^-1.2)), j = 1..d, their scores
    x_i.z + e with noise e ~ N(u_i, 1) on each. For regression a score is the label; for
    classification the highest `positive_share` of a client's scores are labelled 1, the
    others 0.

    The paper leaves open how some of it is meant. Literally, second arguments are variances,
    u_i and B_i numbers, v_i a vector drawn once a client, and e is drawn for every row.
    `reading` names departures from that, which combine:

    - deviations: alpha and beta are standard deviations, as in the code of FedProx, whose
      synthetic data this follows;
    - client-noise: e is drawn once a client, an offset that all of its scores share;
    - feature-centres: there is a B_j for each feature, the same for all clients, in the
      place of a B_i for each client;
    - row-means: the mean vector is drawn anew for every row, so that no single direction
      dominates a client's features.
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
        description="samples of each client; 100 for regression and 1000 for classification "
        "when not given",
    )
    features: Count = Field(default=1000, description="features of each sample, d")
    informative: Count = Field(
        default=100, description="entries of the models other than 0, the first ones"
    )
    alpha: Variance = Field(default=1.0, description="variance of the clients' levels u_i")
    beta: Variance = Field(default=1.0, description="variance of the clients' centres B_i")
    positive_share: float = Field(
        default=0.1, gt=0, lt=1, description="share of a client's rows that are labelled 1"
    )
    reading: tuple[Reading, ...] = Field(
        default=(),
        description="departures from the literal reading of the paper: deviations, "
        "client-noise, feature-centres, row-means",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.informative > self.features:
            raise ValueError(
                f"{self.informative} informative features, but only {self.features} features"
            )
        if self.task == "classification" and self.samples < 2:
            raise ValueError("classification takes 2 rows a client or more; got 1")
        return self

    @property
    def samples(self) -> int:
        """The number of rows of each client."""
        return self.rows or (100 if self.task == "regression" else 1000)

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Draw the samples; `client` numbers their rows.

        The clients' models differ, and `truth` is their mean: its support is what they share.
        """
        check_size(self.clients, self.samples, self.features)
        streams = rng.spawn(self.clients)
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
        """Fill a client's features and return its labels."""
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
        """Return 1 for the highest scores, at least one and not all, and 0 for the others."""
        rows = len(scores)
        positive = min(max(round(self.positive_share * rows), 1), rows - 1)
        labels = np.zeros(rows)
        labels[np.argsort(scores, kind="stable")[rows - positive :]] = 1.0
        return labels

    def _spread(self, written: float) -> float:
        """Return the standard deviation that alpha or beta stands for."""
        return written if "deviations" in self.reading else float(np.sqrt(written))
