"""Base class of compressors: a frozen block of parameters, and a map from vectors to payloads."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedsim.core.blocks.spec import Spec
from fedsim.core.ports import Array
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Encodable

Sender = Callable[[Array, np.random.Generator, ValueFormat], Encodable]
"""The compression of one sender, with the signature of `Compressor.compress`; may have state."""


@dataclass(frozen=True, slots=True)
class Contract:
    """The bound of a compressor C on the error C(v) - v, for any vector v.

    exact: C(v) = v.
    unbiased: E C(v) = v and E|C(v) - v|^2 <= omega |v|^2.
    contractive: E|C(v) - v|^2 <= (1 - delta) |v|^2.
    absolute: |C(v) - v|^2 <= Delta^2.

    All bounds hold up to the rounding of values to their format, and within its range.

    Attributes:
        kind: the class of the bound.
        constant: omega, delta or Delta^2; 0 for exact.
    """

    kind: Literal["exact", "unbiased", "contractive", "absolute"]
    constant: float = 0.0

    @property
    def shrink(self) -> float:
        """The factor a by which a vector is scaled to use an unbiased compressor as contractive.

        With a = 1/(1 + omega), E|C(a v) - v|^2 = (1 - a)^2 |v|^2 + E|C(a v) - a v|^2, at most (1 -
        a) |v|^2 (Richtarik, Sokolov, Fatkhullin 2021, section 2). It is 1 for the other classes.
        """
        return 1 / (1 + self.constant) if self.kind == "unbiased" else 1.0

    @property
    def delta(self) -> float:
        """The delta of the contraction, after `shrink`; 0 if the class has none."""
        if self.kind == "absolute":
            return 0.0
        return self.constant if self.kind == "contractive" else self.shrink


class Compressor(Spec):
    """A map from a vector to a shorter payload; some are random."""

    source: ClassVar[str]
    """The paper that defines it, human-readable."""

    law: ClassVar[str]
    """The class and constant of its bound, human-readable."""

    own_support: ClassVar[bool] = False
    """Whether a sender sends only some coordinates, and which ones depends on its vector."""

    lengthens: ClassVar[bool] = True
    """Whether the decoded vector may be longer than the vector."""

    common_support: ClassVar[bool] = False
    """Whether senders may draw one set of coordinates for all, whatever their vectors are."""

    kind: str

    @abstractmethod
    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Encodable:
        """Return the payload of a vector; its `values` are the decoded vector.

        Args:
            vector: shape (d,). If a coordinate that is sent is not finite, the decoded vector must
                not be finite either, so that divergence is not hidden.
            rng: the sender's stream, for random compressors.
            form: the format of a value, where the payload has a choice.
        """

    @abstractmethod
    def contract(self, dimension: int) -> Contract:
        """Return the class and the constant for the worst vector of d coordinates."""

    def contract_for(self, vector: Array) -> Contract:
        """Return the class and the constant for this vector, if they depend on it."""
        return self.contract(vector.size)

    def longest(self, vector: Array, payload: Encodable) -> int:
        """Return the length, in bits, of the longest payload that any draw could produce.

        It decides whether a vector is sent in full, which is exact. If the length of the drawn
        payload decided it, an unbiased compressor would be biased towards the draws with short
        payloads.

        Args:
            vector: shape (d,).
            payload: the drawn payload of the vector; its length is the result if not random.
        """
        return payload.bits

    def for_layer(self, shape: tuple[int, ...]) -> "Compressor":
        """Return the compressor for a single layer of a model, of the given shape."""
        return self

    @classmethod
    def unbiased(cls) -> bool:
        """Return whether the decoded vector is right in expectation, according to `law`."""
        return cls.law.startswith("unbiased")

    def sender(self) -> Sender:
        """Return the compression of one sender, which may keep state between messages."""
        return self.compress


class Sized(Compressor):
    """A compressor that sends k of d coordinates; k is a fraction of d or a number."""

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
