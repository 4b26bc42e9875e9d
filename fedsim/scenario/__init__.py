"""Scenarios: what the user writes, read from YAML into frozen specs with units resolved."""

from fedsim.blocks.presets import Preset
from fedsim.scenario.batteries import Battery
from fedsim.scenario.devices import DEVICES, Device
from fedsim.scenario.fleet import Group
from fedsim.scenario.network import (
    NETWORKS,
    GraphNetwork,
    NetworkSpec,
    ServerLink,
    StarNetwork,
    TreeNetwork,
)
from fedsim.scenario.plan import Plan, Variant, dump, load
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.schema import schema
from fedsim.scenario.specs import Compression, ProblemSpec, Wire

__all__ = [
    "DEVICES",
    "NETWORKS",
    "Battery",
    "Compression",
    "Device",
    "GraphNetwork",
    "Group",
    "NetworkSpec",
    "Plan",
    "Preset",
    "ProblemSpec",
    "Scenario",
    "ServerLink",
    "StarNetwork",
    "TreeNetwork",
    "Variant",
    "Wire",
    "dump",
    "load",
    "schema",
]
