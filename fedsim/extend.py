"""Public imports for authors of methods and of other blocks, in one place.

    from fedsim.extend import Algorithm, Client, Message, Payload, Server, StepSize

A class that derives from one of the bases here is a block of a scenario: `fedsim.run(scenario,
blocks=[Mine])`, or `fedsim run FILE --plugin mine.py`. The page "Extensions" of the documentation
has an example of each. An architecture of PyTorch derives from `fedsim.torch.Architecture`, which
loads PyTorch.
"""

from fedsim.algorithms import (
    Algorithm,
    Concern,
    PairwiseAlgorithm,
    PeerAlgorithm,
    ProblemInfo,
    StepSize,
)
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import (
    Bits,
    Bytes,
    Duration,
    Fraction,
    GramsPerKilowattHour,
    JoulesPerBit,
    Metres,
    Power,
    Rate,
    Seconds,
    Share,
    Speed,
    Watts,
)
from fedsim.core.blocks.spec import Spec
from fedsim.core.columns import choose, larger, smaller
from fedsim.core.ports import (
    SERVER,
    SILENCE,
    Array,
    Client,
    ClientId,
    Meaning,
    Message,
    Node,
    Oracle,
    PairNode,
    Payload,
    Reply,
    Server,
    Silence,
    Work,
)
from fedsim.core.ports.bearers import Bearer, Clock, Transfer
from fedsim.physics.availability import Availability, Timeline
from fedsim.physics.batteries import Charging
from fedsim.physics.batteries import PowerReader as ReadPower
from fedsim.physics.carbon import Carbon
from fedsim.physics.carbon import IntensityReader as ReadIntensity
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.mixing import Mixing
from fedsim.physics.network_models import Bearers, FluidFlows, NetworkModel
from fedsim.physics.network_models import Site as NetworkSite
from fedsim.physics.networks import Network, ReadGraph
from fedsim.physics.overlay import Neighbours, Overlay
from fedsim.physics.packet_loss import LossProcess, PacketLoss
from fedsim.physics.radios import ConstantRate, Draw, PacketRadio, RadioLaw, RateLaw, Rates
from fedsim.physics.radios import Traced as TracedRate
from fedsim.physics.radios.traces import Trace
from fedsim.physics.radios.traces import TraceReader as ReadTrace
from fedsim.physics.signals import Constant as ConstantSignal
from fedsim.physics.signals import Signal
from fedsim.physics.signals import Steps as StepSignal
from fedsim.physics.slowdowns import Slowdown
from fedsim.physics.topology import Link, Route, Topology, build_routes, star, tree
from fedsim.problems import (
    LinearLoss,
    Loss,
    Measure,
    Observer,
    Penalty,
    Problem,
    Samples,
    Source,
    Split,
    Start,
)
from fedsim.problems.losses import Rows, State
from fedsim.problems.penalties.base import Shape
from fedsim.problems.penalties.base import Weighted as WeightedPenalty
from fedsim.problems.splits.base import Indices, SizedSplit, group_rows
from fedsim.protocol.aggregation import Aggregation
from fedsim.protocol.attacks import Attack
from fedsim.protocol.participation import (
    ExchangeOutcome,
    Informed,
    KnownFleet,
    Moment,
    Sample,
    Selector,
)
from fedsim.protocol.silence import SilencePolicy
from fedsim.protocol.stop_rules import RoundCheck, RoundEnd, StopRule
from fedsim.results.tracking import TrackedRun, Tracker
from fedsim.wire import Compressor, Contract, Dense, Encodable, Quantized, Sign, Sparse, ValueFormat

__all__ = [
    "SERVER",
    "SILENCE",
    "Aggregation",
    "Algorithm",
    "Array",
    "Attack",
    "Availability",
    "Bearer",
    "Bearers",
    "Bits",
    "Bytes",
    "Carbon",
    "Charging",
    "Client",
    "ClientId",
    "Clock",
    "Compressor",
    "Concern",
    "ConstantRate",
    "ConstantSignal",
    "Contract",
    "Dense",
    "DeviceLaw",
    "Draw",
    "Duration",
    "Encodable",
    "ExchangeOutcome",
    "FluidFlows",
    "Fraction",
    "GramsPerKilowattHour",
    "Indices",
    "Informed",
    "JoulesPerBit",
    "KnownFleet",
    "LinearLoss",
    "Link",
    "Loss",
    "LossProcess",
    "Meaning",
    "Measure",
    "Message",
    "Metres",
    "Mixing",
    "Moment",
    "Nature",
    "Neighbours",
    "Network",
    "NetworkModel",
    "NetworkSite",
    "Node",
    "Observer",
    "Oracle",
    "Overlay",
    "PacketLoss",
    "PacketRadio",
    "PairNode",
    "PairwiseAlgorithm",
    "Payload",
    "PeerAlgorithm",
    "Penalty",
    "Power",
    "Problem",
    "ProblemInfo",
    "Quantized",
    "RadioLaw",
    "Rate",
    "RateLaw",
    "Rates",
    "ReadGraph",
    "ReadIntensity",
    "ReadPower",
    "ReadTrace",
    "Reply",
    "RoundCheck",
    "RoundEnd",
    "Route",
    "Rows",
    "Sample",
    "Samples",
    "Seconds",
    "Selector",
    "Server",
    "Shape",
    "Share",
    "Sign",
    "Signal",
    "Silence",
    "SilencePolicy",
    "SizedSplit",
    "Slowdown",
    "Source",
    "Sparse",
    "Spec",
    "Speed",
    "Split",
    "Start",
    "State",
    "StepSignal",
    "StepSize",
    "StopRule",
    "Timeline",
    "Topology",
    "Trace",
    "TracedRate",
    "TrackedRun",
    "Tracker",
    "Transfer",
    "ValueFormat",
    "Watts",
    "WeightedPenalty",
    "Work",
    "build_routes",
    "choose",
    "group_rows",
    "larger",
    "smaller",
    "star",
    "tree",
]
