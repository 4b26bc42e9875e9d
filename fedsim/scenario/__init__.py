"""Scenarios: what the user writes, read from YAML into frozen specs with units resolved."""

from fedsim.blocks.presets import Preset
from fedsim.scenario.batteries import CHARGING, Battery, Charging
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
from fedsim.scenario.participation import (
    PARTICIPATION,
    AsynchronousParticipation,
    FullParticipation,
    Participation,
    UniformParticipation,
    WeightedParticipation,
)
from fedsim.scenario.plan import Plan, Variant, dump, load
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.schema import schema
from fedsim.scenario.silence import SILENCES, BeaconSilence, DeadlineSilence, Silence
from fedsim.scenario.specs import Compression, ProblemSpec, Stop, Wire

__all__ = [
    "CHARGING",
    "DEVICES",
    "NETWORKS",
    "PARTICIPATION",
    "SILENCES",
    "AsynchronousParticipation",
    "Battery",
    "BeaconSilence",
    "Charging",
    "Compression",
    "DeadlineSilence",
    "Device",
    "FullParticipation",
    "GraphNetwork",
    "Group",
    "NetworkSpec",
    "Participation",
    "Plan",
    "Preset",
    "ProblemSpec",
    "Scenario",
    "ServerLink",
    "Silence",
    "StarNetwork",
    "Stop",
    "TreeNetwork",
    "UniformParticipation",
    "Variant",
    "WeightedParticipation",
    "Wire",
    "dump",
    "load",
    "schema",
]
