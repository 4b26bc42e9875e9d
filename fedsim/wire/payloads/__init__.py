"""Payloads: what a message carries, with exact bits and the value that arrives.

Every encoding starts with one byte, the payload's kind in the high half and its value
format in the low half. `bits` is computed without encoding and equals
`8 * len(encode(payload))`: a simulation of a million messages serialises none of them.

| kind | after the first byte |
|---|---|
| Dense | dimensions (1 byte), each of them (4 bytes), the values in C order |
| Sparse | d and k, index code (1 byte), the indices, the k values |
| Scalar | one value |
| SeededSparse | d and k, seed (8 bytes), the k values in the order of their indices |
| Quantized | d and s, norm, code of the levels (1 byte), the levels |
| Sign | d, scale, one bit a coordinate, set where it is negative |
| Powers | d, nine bits a coordinate: its sign and its exponent |
| SparsePowers | d and k, index code (1 byte), the indices, nine bits for each of k |
| Octets | how many, and the bytes |
| LowRank | d, rows m and rank r, the factors (m, r) and (n, r) in C order |
| Parts | how many, and each of them with its first byte: vectors in a row |
| Update | a payload, which is added to what the receiver holds |
| Empty | nothing at all, not even the first byte: the header alone |

Where no length is given, a count takes a byte for every seven bits it has (`varint`). A norm
and a scale are a float32 whatever the scenario's value format is. The low half of an update's
first byte is no format, but the number of the vector that it changes.
"""

from fedsim.wire.payloads.base import MOST_UPDATED, Encodable, Octets, Update
from fedsim.wire.payloads.composite import PartsPayload
from fedsim.wire.payloads.dense import Dense, Empty, LowRank, Scalar
from fedsim.wire.payloads.quantized import LARGEST_STEPS, Powers, Quantized, Sign, SparsePowers
from fedsim.wire.payloads.sparse import SeededSparse, Sparse, draw_indices

PAYLOADS: tuple[type[Encodable], ...] = (
    Dense,
    Sparse,
    Scalar,
    SeededSparse,
    Quantized,
    Sign,
    Powers,
    LowRank,
    SparsePowers,
    Octets,
    PartsPayload,
)
"""Every payload that stands for itself and has an encoding; `Empty` has none."""

__all__ = [
    "LARGEST_STEPS",
    "MOST_UPDATED",
    "PAYLOADS",
    "Dense",
    "Empty",
    "Encodable",
    "LowRank",
    "Octets",
    "PartsPayload",
    "Powers",
    "Quantized",
    "Scalar",
    "SeededSparse",
    "Sign",
    "Sparse",
    "SparsePowers",
    "Update",
    "draw_indices",
]
