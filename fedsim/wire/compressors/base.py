"""Base class of compressors: a frozen block of parameters, and a map from vectors to payloads."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.blocks.spec import Spec
from fedsim.ports import Array
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Encodable

Sender = Callable[[Array, np.random.Generator, ValueFormat], Encodable]
"""What one sender compresses with, called as `Compressor.compress` is."""


@dataclass(frozen=True, slots=True)
class Contract:
    """What a compressor C promises of the error C(v) - v, whatever the vector v.

    exact: there is none.
    unbiased: E C(v) = v and E|C(v) - v|^2 <= omega |v|^2.
    contractive: E|C(v) - v|^2 <= (1 - delta) |v|^2.
    absolute: |C(v) - v|^2 <= Delta^2.

    All hold up to the rounding of values to their format, and within its range.

    Attributes:
        kind: which of these.
        constant: omega, delta or Delta^2; 0 where it is exact.
    """

    kind: Literal["exact", "unbiased", "contractive", "absolute"]
    constant: float = 0.0

    @property
    def shrink(self) -> float:
        """What a vector is multiplied with before an unbiased compressor serves as contractive.

        With a = 1/(1 + omega), E|C(a v) - v|^2 = (1 - a)^2 |v|^2 + E|C(a v) - a v|^2, at most
        (1 - a) |v|^2 (Richtarik, Sokolov, Fatkhullin 2021, section 2). For the others it is 1.
        """
        return 1 / (1 + self.constant) if self.kind == "unbiased" else 1.0

    @property
    def delta(self) -> float:
        """The delta of the contraction, after `shrink`; 0 where the kind promises none."""
        if self.kind == "absolute":
            return 0.0
        return self.constant if self.kind == "contractive" else self.shrink


class Compressor(Spec):
    """A map from a vector to what is sent instead of it; some are random."""

    source: ClassVar[str]
    """The paper it is from, for people to read."""

    law: ClassVar[str]
    """Its class and constant, for people to read."""

    kind: str

    @abstractmethod
    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Encodable:
        """Return what is sent; its `values` are what arrives.

        Args:
            vector: shape (d,). Where a coordinate that is sent is not finite, something that
                arrives is not finite either.
            rng: the sender's stream, which random compressors draw from.
            form: how a value is written, where the payload leaves a choice.
        """

    @abstractmethod
    def contract(self, dimension: int) -> Contract:
        """Return the class and the constant for the worst vector of d coordinates."""

    def contract_for(self, vector: Array) -> Contract:
        """Return the class and the constant for this very vector, where they depend on it."""
        return self.contract(vector.size)

    def longest(self, vector: Array, payload: Encodable) -> int:  # noqa: ARG002 - for those that draw
        """Return the bits of the longest payload that the draw could have made of a vector.

        Whether a vector goes in full, which is exact, is decided by this: if it were decided by
        the length that was drawn, an unbiased compressor would be biased towards what is short.

        Args:
            vector: shape (d,).
            payload: what was made of it, and all there is to know where its length is not random.
        """
        return payload.bits

    def for_layer(self, shape: tuple[int, ...]) -> "Compressor":  # noqa: ARG002 - for those that ask
        """Return what compresses a layer of a model by itself, read in a shape."""
        return self

    @classmethod
    def unbiased(cls) -> bool:
        """Return whether what arrives is right in the mean, by its law."""
        return cls.law.startswith("unbiased")

    def sender(self) -> Sender:
        """Return what one sender compresses with; it may remember what it sent before."""
        return self.compress


class Sized(Compressor):
    """A compressor that keeps k of d coordinates, by a share of d or a number."""

    fraction: float | None = Field(
        default=None, gt=0, le=1, description="k as a share of d, rounded; at least 1"
    )
    count: int | None = Field(
        default=None, ge=1, description="k itself; d where the vector has fewer coordinates"
    )

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.fraction is None) == (self.count is None):
            raise ValueError("give either fraction or count" + ", not both" * bool(self.count))
        return self

    def size(self, dimension: int) -> int:
        """Return k for a vector of d coordinates."""
        wanted = self.count or max(1, round((self.fraction or 0.0) * dimension))
        return min(wanted, dimension)
