"""Scenarios: what the user writes, read from YAML into frozen specs with units resolved."""

from fedsim.scenario.devices import DEVICES, Device
from fedsim.scenario.methods import installed
from fedsim.scenario.plan import Plan, Variant, dump, load
from fedsim.scenario.presets import Preset
from fedsim.scenario.radios import RADIOS, Radio
from fedsim.scenario.schema import schema
from fedsim.scenario.specs import (
    BeaconSilence,
    DeadlineSilence,
    FullParticipation,
    Group,
    Measure,
    Network,
    ProblemSpec,
    Scenario,
    ServerLink,
    Silence,
    Stop,
    Wire,
)

__all__ = [
    "DEVICES",
    "RADIOS",
    "BeaconSilence",
    "DeadlineSilence",
    "Device",
    "FullParticipation",
    "Group",
    "Measure",
    "Network",
    "Plan",
    "Preset",
    "ProblemSpec",
    "Radio",
    "Scenario",
    "ServerLink",
    "Silence",
    "Stop",
    "Variant",
    "Wire",
    "dump",
    "installed",
    "load",
    "schema",
]
