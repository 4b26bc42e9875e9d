"""Packing: what turns the vectors of a sender into what goes on the wire."""

from fedsim.ports import Packer
from fedsim.scenario import Compression
from fedsim.streams import stream
from fedsim.wire import PACKERS, ValueFormat


def packer(spec: Compression, form: ValueFormat, seed: int, sender: int) -> Packer:
    """Return the packer of one sender; random compressors draw from its stream "compressor"."""
    make = PACKERS[spec.error_feedback]
    return make(spec.compressor, form, stream(seed, "compressor", sender))
