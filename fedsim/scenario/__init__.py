"""Scenarios: what the user writes, read from YAML into frozen specs with units resolved.

The classes of a scenario can be imported from here by name. Exceptions are methods
(`fedsim.algorithms`), the parts of problems (`fedsim.problems`) and compressors (`fedsim.wire`).
"""

from typing import TYPE_CHECKING

from fedsim.core.blocks.on_demand import exports

if TYPE_CHECKING:
    from fedsim.physics.availability import (
        AlwaysAvailable,
        BernoulliAvailability,
        FedScaleAvailability,
        FlashAvailability,
        IntervalAvailability,
        MarkovAvailability,
    )
    from fedsim.physics.batteries import (
        Battery,
        ConstantCharging,
        DailyCharging,
        FlashCharging,
        HarvestCharging,
    )
    from fedsim.physics.carbon import GridCarbon, HourlyCarbon
    from fedsim.physics.devices import Device, Phone
    from fedsim.physics.graphs import (
        Complete,
        Exponential,
        Geometric,
        Grid,
        Hypercube,
        Listed,
        Random,
        Regular,
        Ring,
        ScaleFree,
        SmallWorld,
        StarGraph,
        Torus,
        TreeGraph,
    )
    from fedsim.physics.graphs_in_time import Contacts, OnePeer, RandomMatching
    from fedsim.physics.infrastructure import Infrastructure
    from fedsim.physics.mixing import (
        BestConstant,
        FastestMixing,
        GivenMatrix,
        LaplacianMixing,
        MaximumDegree,
        Metropolis,
        OutDegree,
    )
    from fedsim.physics.mobility import LevyWalk, PositionTraces, RandomWaypoint
    from fedsim.physics.network_models import FluidFlows, Lv08, NetworkModel, TcpFlows
    from fedsim.physics.networks import (
        Edge,
        Gateway,
        GraphNetwork,
        ServerLink,
        StarNetwork,
        TreeNetwork,
    )
    from fedsim.physics.packet_loss import GilbertElliottLoss, IndependentLoss
    from fedsim.physics.radios import (
        FirstOrderRadio,
        LoRaRadio,
        NarrowbandRadio,
        Radio,
        ShannonRadio,
        StagedRadio,
    )
    from fedsim.physics.radios.traces import (
        CsvTrace,
        LumosTrace,
        MahimahiTrace,
        MonroeTrace,
        PensieveTrace,
        UccTrace,
    )
    from fedsim.physics.slowdowns import LognormalSlowdown, ShiftedExponentialSlowdown
    from fedsim.problems.held_out import HeldOut, HeldOutClients
    from fedsim.protocol.aggregation import (
        Bulyan,
        CentredClipping,
        ClippedGossip,
        CoordinateMedian,
        GeometricMedian,
        Krum,
        Mean,
        MinimumDiameter,
        MultiKrum,
        TrimmedMean,
    )
    from fedsim.protocol.attacks import (
        ALittleIsEnough,
        GaussianAttack,
        InnerProductAttack,
        LabelFlipAttack,
        MimicAttack,
        NotFiniteAttack,
        ReplayAttack,
        ScaledAttack,
        SignFlipAttack,
        SilentAttack,
        UnreadableAttack,
    )
    from fedsim.protocol.participation import (
        AgeParticipation,
        AsynchronousParticipation,
        CarbonAwareParticipation,
        EnergyAwareParticipation,
        FullParticipation,
        ImportanceParticipation,
        OortParticipation,
        PoissonParticipation,
        PowerOfChoiceParticipation,
        UniformParticipation,
        WeightedParticipation,
    )
    from fedsim.protocol.privacy import AdaptiveClip, Privacy
    from fedsim.protocol.secrecy import LightSecAgg, SecAgg, SecAggPlus
    from fedsim.protocol.silence import BeaconSilence, DeadlineSilence
    from fedsim.protocol.stop_rules import (
        EmptyBatteries,
        EnergyLimit,
        EpsilonLimit,
        GapTarget,
        ObjectiveTarget,
        Patience,
        RoundLimit,
        TimeLimit,
        TrafficLimit,
    )
    from fedsim.protocol.stopping import Observe, Stop
    from fedsim.scenario.json_schema import schema
    from fedsim.scenario.plan import Plan, Variant, dump, load
    from fedsim.scenario.scenario import Scenario
    from fedsim.scenario.specs import Compression, Group, Models, ProblemSpec, Wire
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "ALittleIsEnough",
    "AdaptiveClip",
    "AgeParticipation",
    "AlwaysAvailable",
    "AsynchronousParticipation",
    "Battery",
    "BeaconSilence",
    "BernoulliAvailability",
    "BestConstant",
    "Bulyan",
    "CarbonAwareParticipation",
    "CentredClipping",
    "ClippedGossip",
    "Complete",
    "Compression",
    "ConstantCharging",
    "Contacts",
    "CoordinateMedian",
    "CsvTrace",
    "DailyCharging",
    "DeadlineSilence",
    "Device",
    "Edge",
    "EmptyBatteries",
    "EnergyAwareParticipation",
    "EnergyLimit",
    "EpsilonLimit",
    "Exponential",
    "FastestMixing",
    "FedScaleAvailability",
    "FirstOrderRadio",
    "FlashAvailability",
    "FlashCharging",
    "FluidFlows",
    "FullParticipation",
    "GapTarget",
    "Gateway",
    "GaussianAttack",
    "Geometric",
    "GeometricMedian",
    "GilbertElliottLoss",
    "GivenMatrix",
    "GraphNetwork",
    "Grid",
    "GridCarbon",
    "Group",
    "HarvestCharging",
    "HeldOut",
    "HeldOutClients",
    "HourlyCarbon",
    "Hypercube",
    "ImportanceParticipation",
    "IndependentLoss",
    "Infrastructure",
    "InnerProductAttack",
    "IntervalAvailability",
    "Krum",
    "LabelFlipAttack",
    "LaplacianMixing",
    "LevyWalk",
    "LightSecAgg",
    "Listed",
    "LoRaRadio",
    "LognormalSlowdown",
    "LumosTrace",
    "Lv08",
    "MahimahiTrace",
    "MarkovAvailability",
    "MaximumDegree",
    "Mean",
    "Metropolis",
    "MimicAttack",
    "MinimumDiameter",
    "Models",
    "MonroeTrace",
    "MultiKrum",
    "NarrowbandRadio",
    "NetworkModel",
    "NotFiniteAttack",
    "ObjectiveTarget",
    "Observe",
    "OnePeer",
    "OortParticipation",
    "OutDegree",
    "Patience",
    "PensieveTrace",
    "Phone",
    "Plan",
    "PoissonParticipation",
    "PositionTraces",
    "PowerOfChoiceParticipation",
    "Privacy",
    "ProblemSpec",
    "Radio",
    "Random",
    "RandomMatching",
    "RandomWaypoint",
    "Regular",
    "ReplayAttack",
    "Ring",
    "RoundLimit",
    "ScaleFree",
    "ScaledAttack",
    "Scenario",
    "SecAgg",
    "SecAggPlus",
    "ServerLink",
    "ShannonRadio",
    "ShiftedExponentialSlowdown",
    "SignFlipAttack",
    "SilentAttack",
    "SmallWorld",
    "StagedRadio",
    "StarGraph",
    "StarNetwork",
    "Stop",
    "TcpFlows",
    "TimeLimit",
    "Torus",
    "TrafficLimit",
    "TreeGraph",
    "TreeNetwork",
    "TrimmedMean",
    "UccTrace",
    "UniformParticipation",
    "UnreadableAttack",
    "Variant",
    "WeightedParticipation",
    "Wire",
    "dump",
    "load",
    "schema",
]
