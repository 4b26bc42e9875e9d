"""Conformance: checks that any block of a kind has to pass, fedsim's own ones as well."""

from fedsim.conformance.algorithms import check_algorithm
from fedsim.conformance.compressors import check_compressor
from fedsim.conformance.files import check_blocks
from fedsim.conformance.findings import Check
from fedsim.conformance.losses import check_loss

__all__ = ["Check", "check_algorithm", "check_blocks", "check_compressor", "check_loss"]
