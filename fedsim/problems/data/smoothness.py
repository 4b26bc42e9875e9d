"""Planted smoothness: features whose losses have prescribed smoothness constants.

`PlantedSmoothness` scales Gaussian rows. `PlantedDirections` has one constant for all clients.
"""

from math import inf
from pathlib import Path
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.ports import Array
from fedsim.problems.data.base import Source
from fedsim.problems.data.synthetic import Count, Positive, check_size
from fedsim.problems.samples import Samples


class PlantedSmoothness(Source):
    """Gaussian features, scaled so that each client's loss has a prescribed smoothness constant.

    Client m has rows x features standard normal entries X_m, times a factor for which
    lambda_max(X_m^T X_m) is L_m for the squared loss, and 4 (L_m - l2) for the logistic loss, both
    with scale sum. Labels are -1 and +1 with equal probability.
    """

    source: ClassVar[str] = "Chen, Blum, Sadler, CHB, and Chen et al., LAG: synthetic experiments"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["smoothness"] = "smoothness"
    clients: int = Field(default=9, ge=1, description="M, the number of clients")
    rows: int = Field(default=50, ge=1, description="samples per client")
    features: int = Field(default=50, ge=1, description="features per sample")
    constants: Positive | tuple[Positive, ...] | None = Field(
        default=None, description="the L_m: one number for all, or a list with one per client"
    )
    growth: float | None = Field(
        default=None, gt=0, description="instead of constants: L_m = (growth^(m-1))^2, m from 1"
    )
    form: Literal["squared", "logistic"] = Field(
        default="squared", description="the loss (with scale sum) that the L_m are meant for"
    )
    l2: float = Field(
        default=0.0, ge=0, description="the l2 weight of that loss, which is a part of L_m"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.constants is None) == (self.growth is None):
            raise ValueError("give either constants (such as [1, 2, 4]) or growth (such as 1.3)")
        if isinstance(self.constants, tuple) and len(self.constants) != self.clients:
            raise ValueError(
                f"{len(self.constants)} constants for {self.clients} clients; give one a client"
            )
        least, most = self._range()
        if least <= self.l2:
            raise ValueError(f"every L_m must be above l2 = {self.l2:g}; got {least:g}")
        if most == inf:
            text = f"with growth {self.growth:g} the L_m of {self.clients:,} clients are infinite"
            raise ValueError(f"{text}; give fewer clients, or a growth nearer to 1")
        return self

    def _range(self) -> tuple[float, float]:
        """Return the smallest and the largest L_m, without computing the others."""
        if self.growth is not None:
            # An infinite result is reported by the caller.
            with np.errstate(over="ignore", under="ignore"):
                last = float(np.float64(self.growth) ** (2.0 * (self.clients - 1)))
            return min(1.0, last), max(1.0, last)
        constants = (
            self.constants if isinstance(self.constants, tuple) else (self.constants or 0.0,)
        )
        return min(constants), max(constants)

    def smoothness(self) -> Array:
        """Return the planted L_m, shape (M,)."""
        if self.growth is not None:
            return np.float64(self.growth) ** (2.0 * np.arange(self.clients))
        return np.full(self.clients, np.asarray(self.constants, dtype=np.float64))

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Draw the samples; `client` has the client number of each row."""
        check_size(self.clients, self.rows, self.features)
        X = rng.standard_normal((self.clients, self.rows, self.features))
        y = rng.choice([-1.0, 1.0], self.clients * self.rows)
        wanted = self.smoothness() - self.l2
        # The curvature of the logistic loss is at most a quarter of that of the squared loss.
        if self.form == "logistic":
            wanted = 4.0 * wanted
        # Under the squared loss with scale sum, L_m - l2 is the squared spectral norm of X_m.
        X *= (np.sqrt(wanted) / np.linalg.norm(X, ord=2, axis=(1, 2)))[:, None, None]
        client = np.repeat(np.arange(self.clients), self.rows)
        return Samples(X.reshape(-1, self.features), y, client)


class PlantedDirections(Source):
    """A direction of each client plus the identity, with the same smoothness for all clients.

    Client m has the rows X_m = s (q_m q_m^T + I), d x d, for which lambda_max(X_m^T X_m) is 4 s^2 =
    `constant`. q_m is a column of Q, from the QR decomposition of a Gaussian d x d matrix. Labels
    are -1 and +1 with equal probability: the same d labels for all clients, or different ones.
    """

    source: ClassVar[str] = "Chen et al., LAG: the authors' code"
    numbers_clients: ClassVar[bool | str] = True

    kind: Literal["directions"] = "directions"
    clients: Count = Field(default=9, description="M, the number of clients")
    features: Count = Field(default=50, description="d, rows of each client and features")
    constant: Positive = Field(default=4.0, description="the largest eigenvalue of X_m^T X_m")
    labels: Literal["shared", "own"] = Field(
        default="shared", description="whether all clients have the same labels"
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.clients > self.features:
            raise ValueError(
                f"got {self.clients} clients and {self.features} features; expected at least as "
                "many features as clients, each of which has a direction of its own"
            )
        return self

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Draw the samples; `client` has the client number of each row."""
        d, clients = self.features, self.clients
        check_size(clients, d, d)
        Q, _ = np.linalg.qr(rng.standard_normal((d, d)))
        directions = Q.T[:clients]
        X = directions[:, :, None] * directions[:, None, :] + np.eye(d)
        # The largest eigenvalue of a direction u u^T plus the identity is 2.
        X *= np.sqrt(self.constant) / 2
        drawn = 1 if self.labels == "shared" else clients
        y = rng.choice([-1.0, 1.0], (drawn, d))
        labels = np.broadcast_to(y, (clients, d)).reshape(-1)
        return Samples(X.reshape(-1, d), labels, np.repeat(np.arange(clients), d))
