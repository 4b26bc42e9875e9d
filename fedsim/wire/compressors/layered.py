"""Compression of each layer of a model separately."""

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from math import prod
from typing import ClassVar, Literal

import numpy as np

from fedsim.core.ports import DENSE, Array
from fedsim.wire.bitstream import varint_size
from fedsim.wire.compressors.base import Compressor, Contract, Sender
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Dense, Encodable, PartsPayload
from fedsim.wire.payloads.dense import shorter


class Layered(Compressor):
    """A compressor that is applied to each layer of a model separately.

    So a quantizer has one scale a layer, and top-k selects in each layer. Each layer is written as
    a payload of its own, with its kind, its sizes and its scale, which are charged. A layer whose
    compressed form could be longer is sent in full, as a whole vector is.

    A vector of another length than the model is compressed as a whole.
    """

    source: ClassVar[str] = "Alistarh et al., QSGD, NeurIPS 2017, section 4 (buckets)"
    law: ClassVar[str] = "that of the applied compressor, with the worst constant of all layers"

    kind: Literal["layered"] = "layered"
    of: Compressor
    shapes: tuple[tuple[int, ...], ...]

    @cached_property
    def each(self) -> tuple[Compressor, ...]:
        """The compressor of each layer."""
        return tuple(self.of.for_layer(shape) for shape in self.shapes)

    @cached_property
    def places(self) -> tuple[slice, ...]:
        """The slice of each layer in a model."""
        ends = accumulate((prod(shape) for shape in self.shapes), initial=0)
        return tuple(slice(*pair) for pair in pairwise(ends))

    def splits(self, dimension: int) -> bool:
        """Return whether a vector of `dimension` coordinates has the layers of the model."""
        return bool(self.places) and self.places[-1].stop == dimension

    def compress(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Encodable:
        """Return the payload of the layers; random draws are made in their order."""
        return self.encode_layers(
            vector, [compressor.compress for compressor in self.each], rng, form
        )

    def encode_layers(
        self,
        vector: Array,
        senders: Sequence[Sender],
        rng: np.random.Generator,
        form: ValueFormat,
    ) -> Encodable:
        """Return the payload of the layers, each compressed by its sender."""
        if not self.splits(vector.size):
            return self.of.compress(vector, rng, form)
        parts = []
        for compressor, send, place in zip(self.each, senders, self.places, strict=True):
            layer = vector[place]
            part = send(layer, rng, form)
            longest = compressor.longest(layer, part)
            parts.append(shorter(layer, DENSE, form, longest) or part)
        return PartsPayload(tuple(parts))

    def contract(self, dimension: int) -> Contract:
        """Return the worst contract of all layers; absolute errors add up."""
        if not self.splits(dimension):
            return self.of.contract(dimension)
        sizes = [place.stop - place.start for place in self.places]
        contracts = [
            compressor.contract(size)
            for compressor, size in zip(self.each, sizes, strict=True)
            if size
        ]
        kind, constants = contracts[0].kind, [contract.constant for contract in contracts]
        if kind == "absolute":
            return Contract(kind, sum(constants))
        return Contract(kind, min(constants) if kind == "contractive" else max(constants))

    def contract_for(self, vector: Array) -> Contract:
        """Return the mean of the layers' constants, weighted by their shares of |v|^2."""
        whole = float(vector @ vector)
        if not self.splits(vector.size) or not 0 < whole < np.inf:
            return self.contract(vector.size)
        total, kind = 0.0, self.contract(vector.size).kind
        for compressor, place in zip(self.each, self.places, strict=True):
            layer = vector[place]
            if share := float(layer @ layer) / whole:
                contract = compressor.contract_for(layer)
                kind = contract.kind
                total += contract.constant * (1.0 if kind == "absolute" else share)
        return Contract(kind, total)

    def longest(self, vector: Array, payload: Encodable) -> int:
        """Return the length, in bits, if every layer has its largest length."""
        if not isinstance(payload, PartsPayload):
            return self.of.longest(vector, payload)
        bits = 8 * (1 + varint_size(len(payload.parts)))
        for compressor, place, part in zip(self.each, self.places, payload.parts, strict=True):
            in_full = isinstance(part, Dense)
            bits += part.bits if in_full else compressor.longest(vector[place], part)
        return bits

    def sender(self) -> Sender:
        """Return a sender with one sender, and its state, for each layer."""
        return _LayeredSender(self)


class _LayeredSender:
    """The compression of one sender."""

    def __init__(self, compressor: Layered) -> None:
        self._compressor = compressor
        self._senders = [layer.sender() for layer in compressor.each]
        self._whole = compressor.of.sender()

    def __call__(self, vector: Array, rng: np.random.Generator, form: ValueFormat) -> Encodable:
        """Return the payload of a vector."""
        if self._compressor.splits(vector.size):
            return self._compressor.encode_layers(vector, self._senders, rng, form)
        return self._whole(vector, rng, form)
