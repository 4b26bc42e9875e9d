"""Packing: what turns the vectors of a sender into what goes on the wire."""

import numpy as np

from fedsim.ports import ClientId, Packer
from fedsim.scenario import Compression
from fedsim.streams import stream
from fedsim.wire import PACKERS, Contractive, Identity, ValueFormat

_UNUSED = np.random.default_rng(0)  # a stream takes its time to make


def packer(
    spec: Compression,
    form: ValueFormat,
    seed: int,
    sender: ClientId,
    *,
    feeds_back: bool = False,
) -> Packer:
    """Return the packer of one sender; random compressors draw from its stream "compressor".

    Args:
        spec: the compressor, and what is kept of its errors.
        form: how a value is written.
        seed: of the run.
        sender: the client, or the server.
        feeds_back: whether the method keeps the errors itself: then, as under EF21, a compressor
            that is unbiased is made contractive.
    """
    make = Contractive if feeds_back else PACKERS[spec.error_feedback]
    exact = isinstance(spec.compressor, Identity)
    return make(spec.compressor, form, _UNUSED if exact else stream(seed, "compressor", sender))
