"""Quantizers: compressors that send a few bits of each coordinate."""

from abc import abstractmethod
from math import ceil, sqrt
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedsim.core.ports import Array
from fedsim.wire.bitstream import Numbers
from fedsim.wire.compressors.base import Compressor, Contract
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import (
    LARGEST_STEPS,
    Encodable,
    FourBits,
    Powers,
    Quantized,
    Sign,
    SparsePowers,
)
from fedsim.wire.payloads.dense import euclidean


class _Dithered(Compressor):
    """Levels of a norm, rounded up or down at random so that the expectation is exact."""

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Quantized:
        """Return s |v_i| / norm, rounded at random to one of the two nearest integers."""
        # The norm is rounded up to a float32, never down: the receiver multiplies by the rounded
        # norm, so the levels are fractions of that one, and below a magnitude they would exceed s.
        steps, norm = self.steps(vector.size), float32_above(self.norm(vector))
        draws = rng.random(vector.size)
        if not 0 < norm < np.inf:
            return Quantized.of(norm, np.zeros(vector.size, dtype=np.intp), steps)
        exact = np.abs(vector) / norm * steps  # at most s, since the norm is not below |v_i|
        levels = np.floor(exact)
        levels += draws < exact - levels
        return Quantized.of(norm, np.copysign(levels, vector).astype(np.intp), steps)

    def longest(self, vector: Array, payload: Encodable) -> int:
        """Return the length, in bits, if every level is rounded up."""
        if not isinstance(payload, Quantized) or not 0 < payload.norm < np.inf:
            return payload.bits
        up = np.ceil(np.abs(vector) / payload.norm * payload.steps).astype(np.intp)
        return Quantized.of(payload.norm, up, payload.steps).longest

    @abstractmethod
    def steps(self, dimension: int) -> int:
        """Return s, the number of levels above zero."""

    @abstractmethod
    def norm(self, vector: Array) -> float:
        """Return the norm that the levels are fractions of, at least the largest magnitude."""


class QSGD(_Dithered):
    """QSGD: s levels of the Euclidean norm, rounded at random, in Elias's codes.

    With s = sqrt(d) the payload has at most 2.8 d + 32 bits, and a few bytes for the sizes.
    """

    source: ClassVar[str] = (
        "Alistarh, Grubic, Li, Tomioka, Vojnovic: QSGD: Communication-Efficient SGD via "
        "Gradient Quantization and Encoding, NeurIPS 2017, lemma 3.1"
    )
    law: ClassVar[str] = "unbiased, omega = min(d/s^2, sqrt(d)/s)"

    kind: Literal["qsgd"] = "qsgd"
    levels: Annotated[int, Field(ge=1, le=LARGEST_STEPS)] | Literal["sqrt"] = Field(
        default="sqrt", description="s, the number of levels above zero; sqrt for ceil(sqrt d)"
    )

    def steps(self, dimension: int) -> int:
        """Return s."""
        return max(ceil(sqrt(dimension)), 1) if self.levels == "sqrt" else self.levels

    def norm(self, vector: Array) -> float:
        """Return |v|_2."""
        return euclidean(vector)

    def contract(self, dimension: int) -> Contract:
        """Return: unbiased."""
        steps = self.steps(dimension)
        return Contract("unbiased", min(dimension / steps**2, sqrt(dimension) / steps))


class Dithered(_Dithered):
    """b bits per coordinate: uniform levels of the largest magnitude, rounded at random.

    s = 2^(b - 1) - 1 levels on either side of zero. The largest magnitude is exact. The worst
    of the other d - 1 are all equal, to x norm/s with 0 < x < 1; their errors have the mean
    square x (1 - x), so omega is the largest (d - 1) x (1 - x) / (s^2 + (d - 1) x^2), found at
    x = 1/(1 + sqrt(1 + (d - 1)/s^2)).
    """

    source: ClassVar[str] = (
        "Roberts: Picture Coding Using Pseudo-Random Noise, IRE Trans. Inf. Theory 1962; "
        "with the maximum norm"
    )
    law: ClassVar[str] = "unbiased, omega = (sqrt(1 + (d - 1)/s^2) - 1)/2, s = 2^(b - 1) - 1"

    kind: Literal["dithered"] = "dithered"
    bits: int = Field(default=8, ge=2, le=24, description="b, the bits of a coordinate")

    def steps(self, dimension: int) -> int:
        """Return s."""
        return int(2 ** (self.bits - 1)) - 1

    def norm(self, vector: Array) -> float:
        """Return |v|_inf."""
        return float(np.abs(vector).max(initial=0.0))

    def contract(self, dimension: int) -> Contract:
        """Return: unbiased."""
        others = max(dimension - 1, 0)
        return Contract("unbiased", (sqrt(1 + others / self.steps(dimension) ** 2) - 1) / 2)


class TernGrad(_Dithered):
    """The largest magnitude, its negative, or zero for each coordinate, at random.

    For a vector, omega = |v|_inf |v|_1 / |v|_2^2 - 1; the worst has one coordinate that is
    1 + sqrt(d) times as large as all others, and omega = (sqrt(d) - 1)/2.
    """

    source: ClassVar[str] = (
        "Wen et al.: TernGrad: Ternary Gradients to Reduce Communication in Distributed Deep "
        "Learning, NeurIPS 2017"
    )
    law: ClassVar[str] = "unbiased, omega = |v|_inf |v|_1 / |v|_2^2 - 1 <= (sqrt(d) - 1)/2"

    kind: Literal["terngrad"] = "terngrad"

    def steps(self, dimension: int) -> int:
        """Return 1."""
        return 1

    def norm(self, vector: Array) -> float:
        """Return |v|_inf."""
        return float(np.abs(vector).max(initial=0.0))

    def contract(self, dimension: int) -> Contract:
        """Return: unbiased, for the worst vector."""
        return Contract("unbiased", (sqrt(max(dimension, 1)) - 1) / 2)

    def contract_for(self, vector: Array) -> Contract:
        """Return: unbiased, for this vector; every vector attains it."""
        square = float(vector @ vector)
        if not square:
            return Contract("unbiased", 0.0)
        return Contract("unbiased", self.norm(vector) * float(np.abs(vector).sum()) / square - 1)


class Natural(Compressor):
    """One of the two nearest powers of two for each coordinate, at random: nine bits.

    The error is largest, and omega attained, at 4/3 of a power of two. Magnitudes below 2^-126
    become zero or 2^-126, still unbiased; those above 2^127 may become infinite.
    """

    source: ClassVar[str] = (
        "Horvath, Ho, Horvath, Sahu, Canini, Richtarik: Natural Compression for Distributed "
        "Deep Learning, 2019, theorem 1"
    )
    law: ClassVar[str] = "unbiased, omega = 1/8"

    kind: Literal["natural"] = "natural"

    def compress(
        self, vector: Array, rng: np.random.Generator, form: ValueFormat
    ) -> Powers | SparsePowers:
        """Return sign and exponent of each coordinate, or of the nonzero ones if shorter."""
        draws, magnitudes = rng.random(vector.size), np.abs(vector)
        # v = f 2^e with 1/2 <= f < 1 lies between 2^(e-1) and 2^e, and is rounded up with
        # probability 2 f - 1. The biased exponent of 2^(e-1) is e - 1 + 127 = e + 126. Below 2^-126
        # float32 has no normal numbers, so the two neighbours there are 0 and 2^-126 (code 1).
        fractions, exponents = np.frexp(magnitudes)
        codes = np.clip(exponents + 126 + (draws < 2 * fractions - 1), 1, 255)
        tiny = magnitudes < 2.0**-126
        codes[tiny] = draws[tiny] < magnitudes[tiny] * 2.0**126
        codes[~np.isfinite(vector)] = 255
        return _shorter(codes.astype(np.intp) + 256 * (np.signbit(vector) & (vector != 0)))

    def longest(self, vector: Array, payload: Encodable) -> int:
        """Return the length, in bits, if no magnitude below 2^-126 is rounded to zero."""
        if not (vector[np.abs(vector) < 2.0**-126]).any():
            return payload.bits
        some = (vector != 0).astype(np.intp)
        return min(Powers(some).bits, SparsePowers.of(some).longest)

    def contract(self, dimension: int) -> Contract:
        """Return: unbiased."""
        return Contract("unbiased", 1 / 8)


class E3M0(Compressor):
    """The nearest float of four bits: sign, three bits of exponent, none of significand.

    The levels are the largest magnitude times 1, 1/2, ..., 1/64, and 0; a coordinate goes to the
    nearest, and halfway between two to the larger. The paper names the format alone: the scale is
    fedsim's. The error of a coordinate x, as a share of the largest magnitude, is x/3 at most, and
    x where it is below 1/128. At worst the other d - 1 coordinates are all at 3/4, or at 1/128.
    """

    source: ClassVar[str] = (
        "Douillard et al.: Streaming DiLoCo with Overlapping Communication: Towards a Distributed"
        " Free Lunch, 2025, section 3.3 (the format)"
    )
    law: ClassVar[str] = "contractive, delta = 1 - max(n/(16 + 9 n), n/(2^14 + n)), n = d - 1"

    kind: Literal["e3m0"] = "e3m0"

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> FourBits:
        """Return the scale, rounded up to a float32, and the nearest level of each coordinate."""
        magnitudes = np.abs(vector)
        scale = float32_above(float(magnitudes.max(initial=0.0)))
        if not 0 < scale < np.inf:
            return FourBits(scale, np.zeros(vector.size, dtype=np.intp))
        exponents = np.searchsorted(_HALFWAY, magnitudes / scale, side="right")
        return FourBits(scale, exponents + 8 * (np.signbit(vector) & (exponents > 0)))

    def contract(self, dimension: int) -> Contract:
        """Return: contractive, for the worst vector."""
        others = max(dimension - 1, 0)
        return Contract(
            "contractive", 1 - max(others / (16 + 9 * others), others / (2**14 + others))
        )


_HALFWAY = np.array([2.0**-7, *(1.5 * 2.0 ** (k - 7) for k in range(1, 7))])
"""Where the levels 2^(k - 7) of `E3M0` meet, k = 1 to 7, and at first 0 and the least of them."""


class ScaledSign(Compressor):
    """The sign of each coordinate, times the mean magnitude; zero counts as positive.

    For a vector, delta = |v|_1^2 / (d |v|_2^2); it is 1/d if a single coordinate is nonzero.
    """

    source: ClassVar[str] = (
        "Karimireddy, Rebjock, Stich, Jaggi: Error Feedback Fixes SignSGD and Other Gradient "
        "Compression Schemes, ICML 2019, lemma 8"
    )
    law: ClassVar[str] = "contractive, delta = |v|_1^2 / (d |v|_2^2) >= 1/d"

    kind: Literal["scaled-sign"] = "scaled-sign"

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Sign:
        """Return the signs and |v|_1/d."""
        with np.errstate(over="ignore"):
            scale = np.float32(np.abs(vector).sum() / max(vector.size, 1))
        return Sign(float(scale), (vector < 0).astype(np.uint8))

    def contract(self, dimension: int) -> Contract:
        """Return: contractive, for the worst vector."""
        return Contract("contractive", 1 / max(dimension, 1))

    def contract_for(self, vector: Array) -> Contract:
        """Return: contractive, for this vector; attained."""
        whole = vector.size * float(vector @ vector)
        return Contract("contractive", float(np.abs(vector).sum()) ** 2 / whole if whole else 1.0)


def _shorter(codes: Numbers) -> Powers | SparsePowers:
    """Return the shorter payload of the codes, shape (d,); `Powers` if both have one length."""
    every, some = Powers(codes), SparsePowers.of(codes)
    return some if some.bits < every.bits else every


def float32_above(value: float) -> float:
    """Return the smallest float32 that is at least a value."""
    with np.errstate(over="ignore"):
        nearest = np.float32(value)
        if float(nearest) < value:  # compared in float64: with a float32, NumPy would round `value`
            nearest = np.nextafter(nearest, np.float32(np.inf))
    return float(nearest)
