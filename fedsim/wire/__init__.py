"""The wire: payloads, their encodings and value formats. What is charged is what arrives."""

from fedsim.wire.codec import HEADER_BITS, decode, decode_message, encode, encode_message
from fedsim.wire.formats import ValueFormat
from fedsim.wire.payloads import Dense, Empty, Encodable, Scalar, Sparse

__all__ = [
    "HEADER_BITS",
    "Dense",
    "Empty",
    "Encodable",
    "Scalar",
    "Sparse",
    "ValueFormat",
    "decode",
    "decode_message",
    "encode",
    "encode_message",
]
