"""The wire: payloads, their encodings, and compressors. What is charged is what arrives."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.wire.codec import HEADER_BITS, decode, decode_message, encode, encode_message
    from fedsim.wire.compressors import (
        COMPRESSORS,
        E3M0,
        QSGD,
        Compressor,
        Contract,
        Dithered,
        HardThreshold,
        Identity,
        Layered,
        Natural,
        PowerSGD,
        RandK,
        ScaledSign,
        TernGrad,
        TopK,
    )
    from fedsim.wire.feedback import (
        PACKERS,
        ByClient,
        ErrorFeedback,
        ErrorFeedback21,
        Feedback,
        Pending,
        refusal,
    )
    from fedsim.wire.formats import ValueFormat
    from fedsim.wire.packers import Contractive, Plain
    from fedsim.wire.payloads import (
        Dense,
        Empty,
        Encodable,
        FourBits,
        LowRank,
        Octets,
        PartsPayload,
        Powers,
        Quantized,
        Scalar,
        SeededSparse,
        Sign,
        Sparse,
        SparsePowers,
        Update,
    )
    from fedsim.wire.payloads.base import frozen
    from fedsim.wire.payloads.rows import weighted_sum
    from fedsim.wire.replies import ReplyColumns, field_payloads, of_round, senders
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "COMPRESSORS",
    "E3M0",
    "HEADER_BITS",
    "PACKERS",
    "QSGD",
    "ByClient",
    "Compressor",
    "Contract",
    "Contractive",
    "Dense",
    "Dithered",
    "Empty",
    "Encodable",
    "ErrorFeedback",
    "ErrorFeedback21",
    "Feedback",
    "FourBits",
    "HardThreshold",
    "Identity",
    "Layered",
    "LowRank",
    "Natural",
    "Octets",
    "PartsPayload",
    "Pending",
    "Plain",
    "PowerSGD",
    "Powers",
    "Quantized",
    "RandK",
    "ReplyColumns",
    "Scalar",
    "ScaledSign",
    "SeededSparse",
    "Sign",
    "Sparse",
    "SparsePowers",
    "TernGrad",
    "TopK",
    "Update",
    "ValueFormat",
    "decode",
    "decode_message",
    "encode",
    "encode_message",
    "field_payloads",
    "frozen",
    "of_round",
    "refusal",
    "senders",
    "weighted_sum",
]
