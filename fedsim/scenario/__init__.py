"""Scenarios: what the user writes, read from YAML into frozen specs with units resolved."""

from fedsim.scenario.fleet import Group
from fedsim.scenario.plan import Plan, Variant, dump, load
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.schema import schema
from fedsim.scenario.specs import Compression, ProblemSpec, Wire

__all__ = [
    "Compression",
    "Group",
    "Plan",
    "ProblemSpec",
    "Scenario",
    "Variant",
    "Wire",
    "dump",
    "load",
    "schema",
]
