"""Scenarios: what the user writes, read from YAML into frozen specs with units resolved."""

from fedsim.blocks.presets import Preset
from fedsim.scenario.availability import AVAILABILITY, Availability
from fedsim.scenario.batteries import CHARGING, Battery, Charging
from fedsim.scenario.channels import RADIO_KINDS, LoRaRadio, RadioSpec, ShannonRadio
from fedsim.scenario.devices import DEVICES, SLOWDOWNS, Device, Slowdown
from fedsim.scenario.fleet import Group
from fedsim.scenario.network import (
    NETWORKS,
    GraphNetwork,
    NetworkSpec,
    ServerLink,
    StarNetwork,
    TreeNetwork,
)
from fedsim.scenario.packet_loss import PACKET_LOSSES, PacketLoss
from fedsim.scenario.participation import (
    PARTICIPATION,
    AsynchronousParticipation,
    FullParticipation,
    Participation,
    UniformParticipation,
    WeightedParticipation,
)
from fedsim.scenario.plan import Plan, Variant, dump, load
from fedsim.scenario.radio_presets import LORA, RADIOS
from fedsim.scenario.radios import FirstOrderRadio, Radio
from fedsim.scenario.schema import schema
from fedsim.scenario.silence import SILENCES, BeaconSilence, DeadlineSilence, Silence
from fedsim.scenario.specs import Compression, ProblemSpec, Scenario, Stop, Wire
from fedsim.scenario.traces import TRACES, Trace

__all__ = [
    "AVAILABILITY",
    "CHARGING",
    "DEVICES",
    "LORA",
    "NETWORKS",
    "PACKET_LOSSES",
    "PARTICIPATION",
    "RADIOS",
    "RADIO_KINDS",
    "SILENCES",
    "SLOWDOWNS",
    "TRACES",
    "AsynchronousParticipation",
    "Availability",
    "Battery",
    "BeaconSilence",
    "Charging",
    "Compression",
    "DeadlineSilence",
    "Device",
    "FirstOrderRadio",
    "FullParticipation",
    "GraphNetwork",
    "Group",
    "LoRaRadio",
    "NetworkSpec",
    "PacketLoss",
    "Participation",
    "Plan",
    "Preset",
    "ProblemSpec",
    "Radio",
    "RadioSpec",
    "Scenario",
    "ServerLink",
    "ShannonRadio",
    "Silence",
    "Slowdown",
    "StarNetwork",
    "Stop",
    "Trace",
    "TreeNetwork",
    "UniformParticipation",
    "Variant",
    "WeightedParticipation",
    "Wire",
    "dump",
    "load",
    "schema",
]
