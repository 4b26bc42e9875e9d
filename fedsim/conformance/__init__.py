"""Conformance: checks that any block of a kind has to pass, fedsim's own ones as well."""

from fedsim.conformance.algorithms import check_algorithm
from fedsim.conformance.compressors import check_compressor
from fedsim.conformance.devices import check_device
from fedsim.conformance.energy import check_energy
from fedsim.conformance.files import check_block, check_blocks
from fedsim.conformance.findings import Check
from fedsim.conformance.losses import check_loss
from fedsim.conformance.radios import check_radio
from fedsim.conformance.sending import check_sending
from fedsim.conformance.sources import check_source
from fedsim.conformance.splits import check_split

__all__ = [
    "Check",
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
]
