"""Conformance: checks that any block of a kind has to pass, fedsim's own ones as well."""

from fedsim.conformance.algorithms import check_algorithm, check_sending
from fedsim.conformance.compressors import check_compressor
from fedsim.conformance.data import check_loss, check_source, check_split
from fedsim.conformance.energy import check_energy
from fedsim.conformance.findings import PromiseCheck
from fedsim.conformance.physical import check_device, check_radio
from fedsim.conformance.stops import check_stop_rule
from fedsim.conformance.user_blocks import check_block, check_blocks

__all__ = [
    "PromiseCheck",
    "check_algorithm",
    "check_block",
    "check_blocks",
    "check_compressor",
    "check_device",
    "check_energy",
    "check_loss",
    "check_radio",
    "check_sending",
    "check_source",
    "check_split",
    "check_stop_rule",
]
