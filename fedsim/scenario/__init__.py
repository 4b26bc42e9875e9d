"""Scenarios: what the user writes, read from YAML into frozen specs with units resolved."""

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
    "NETWORKS",
    "Compression",
    "GraphNetwork",
    "Group",
    "NetworkSpec",
    "Plan",
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
