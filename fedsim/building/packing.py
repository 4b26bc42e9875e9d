"""Packing: what turns the vectors of a sender into what goes on the wire."""

from collections.abc import Sequence

import numpy as np

from fedsim.ports import ClientId, Packer
from fedsim.scenario import Compression
from fedsim.streams import stream
from fedsim.wire import PACKERS, Contract, Contractive, Identity, Plain, ValueFormat

_UNUSED = np.random.default_rng(0)  # a stream takes its time to make


def packer(
    spec: Compression,
    form: ValueFormat,
    seed: int,
    sender: ClientId,
    field: str = "",
    *,
    feeds_back: Sequence[str] = (),
    in_full: Sequence[str] = (),
) -> Packer:
    """Return the packer of one field; random compressors draw from the stream "compressor".

    Args:
        spec: the compressor, and what is kept of its errors.
        form: how a value is written.
        seed: of the run.
        sender: the client, or the server.
        field: which of its vectors.
        feeds_back: the fields whose errors the method keeps itself: there, as under EF21, a
            compressor that is unbiased is made contractive.
        in_full: the fields that nothing compresses.
    """
    if field in in_full:
        return Plain(Identity(), form, _UNUSED)
    make = Contractive if field in feeds_back else PACKERS[spec.error_feedback]
    exact = isinstance(spec.compressor, Identity)
    name = ("compressor", sender, field) if field else ("compressor", sender)
    rng = _UNUSED if exact else stream(seed, *name)
    return make(spec.compressor, form, rng, in_full=spec.if_longer == "plain")


def promise(spec: Compression, dimension: int) -> Contract:
    """Return what a link promises; feedback makes an unbiased compressor contractive."""
    contract = spec.compressor.contract(dimension)
    if contract.kind == "unbiased" and spec.error_feedback != "none":
        return Contract("contractive", contract.delta)
    return contract
