"""Payloads: the contents of messages, with exact lengths in bits and decoded values.

Every encoding starts with one byte, the payload's kind in the high half and its value format in the
low half. `bits` is computed without encoding, and equals `8 * len(encode(payload))`: a simulation
of a million messages serialises none of them.

| kind | after the first byte |
|---|---|
| Dense | dimensions (1 byte), each of them (4 bytes), the values in C order |
| Sparse | d and k, index code (1 byte), the indices, the k values |
| Scalar | one value |
| SeededSparse | d and k, seed (8 bytes), the k values in the order of their indices |
| Quantized | d and s, norm, code of the levels (1 byte), the levels |
| Sign | d, scale, one bit per coordinate, set if negative |
| FourBits | d, scale, four bits per coordinate: sign and exponent |
| Powers | d, nine bits per coordinate: sign and exponent |
| SparsePowers | d and k, index code (1 byte), the indices, nine bits for each of k |
| Octets | their number, and the bytes |
| LowRank | d, rows m and rank r, the factors (m, r) and (n, r) in C order |
| Parts | their number, and each payload with its first byte: consecutive vectors |
| Update | a payload that is added to the receiver's vector |
| Empty | nothing, not even the first byte: the message is the header alone |

Counts without a stated length are varints, a byte for every seven bits. A norm and a scale are
float32 under any value format of the scenario. The low half of an update's first byte is not a
format but the number of the vector that it changes.
"""

from fedsim.wire.payloads.base import MOST_UPDATED, Encodable, Octets, Update
from fedsim.wire.payloads.composite import PartsPayload
from fedsim.wire.payloads.dense import Dense, Empty, LowRank, Scalar
from fedsim.wire.payloads.quantized import (
    LARGEST_STEPS,
    FourBits,
    Powers,
    Quantized,
    Sign,
    SparsePowers,
)
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
    FourBits,
)
"""Every self-contained payload with a body: not `Update`, nor `Empty`, which has no bytes."""

__all__ = [
    "LARGEST_STEPS",
    "MOST_UPDATED",
    "PAYLOADS",
    "Dense",
    "Empty",
    "Encodable",
    "FourBits",
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
