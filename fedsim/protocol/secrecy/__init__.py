"""Secure aggregation: the server learns the sum of its clients' vectors, and no single one."""

from fedsim.protocol.secrecy.agreement import Agreement
from fedsim.protocol.secrecy.blocks import (
    SECRECY,
    AnySecrecy,
    LightSecAgg,
    SecAgg,
    SecAggPlus,
    Secrecy,
)
from fedsim.protocol.secrecy.method import SecretMethod

__all__ = [
    "SECRECY",
    "Agreement",
    "AnySecrecy",
    "LightSecAgg",
    "SecAgg",
    "SecAggPlus",
    "Secrecy",
    "SecretMethod",
]
