"""Conformance checks: contracts of blocks, for user-defined blocks and for those of fedsim."""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.addons.conformance.aggregation import check_aggregation, check_attack
    from fedsim.addons.conformance.algorithms import check_algorithm, check_sending
    from fedsim.addons.conformance.compressors import check_compressor
    from fedsim.addons.conformance.data import check_loss, check_source, check_split
    from fedsim.addons.conformance.energy import check_energy
    from fedsim.addons.conformance.findings import PromiseCheck
    from fedsim.addons.conformance.network_models import check_network_model
    from fedsim.addons.conformance.physical import check_device, check_radio
    from fedsim.addons.conformance.stops import check_stop_rule
    from fedsim.addons.conformance.user_blocks import check_block, check_blocks
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "PromiseCheck",
    "check_aggregation",
    "check_algorithm",
    "check_attack",
    "check_block",
    "check_blocks",
    "check_compressor",
    "check_device",
    "check_energy",
    "check_loss",
    "check_network_model",
    "check_radio",
    "check_sending",
    "check_source",
    "check_split",
    "check_stop_rule",
]
