"""Participation policies: client sampling and when a round closes, as scenario blocks.

Policies receive what depends on the fleet as arguments: the number of clients, and the number of
samples of each client.
"""

from typing import TYPE_CHECKING, Annotated

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, Spec
from fedsim.protocol.participation.asynchronous import AsynchronousParticipation
from fedsim.protocol.participation.rounds import FIRST, Early, FullParticipation, Rounds
from fedsim.protocol.participation.sampling import (
    PoissonParticipation,
    Sample,
    UniformParticipation,
    WeightedParticipation,
)

if TYPE_CHECKING:
    from fedsim.protocol.participation.carbon import CarbonAwareParticipation
    from fedsim.protocol.participation.importance import ImportanceParticipation
    from fedsim.protocol.participation.informed import (
        AgeParticipation,
        ExchangeOutcome,
        Informed,
        Intensities,
        KnownFleet,
        Moment,
        Report,
        Selector,
        Sent,
        Truth,
    )
    from fedsim.protocol.participation.losses import PowerOfChoiceParticipation
    from fedsim.protocol.participation.utility import EnergyAwareParticipation, OortParticipation
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "FIRST",
    "PARTICIPATION",
    "AgeParticipation",
    "AnyParticipation",
    "AsynchronousParticipation",
    "CarbonAwareParticipation",
    "Early",
    "EnergyAwareParticipation",
    "ExchangeOutcome",
    "FullParticipation",
    "ImportanceParticipation",
    "Informed",
    "Intensities",
    "KnownFleet",
    "Moment",
    "OortParticipation",
    "Participation",
    "PoissonParticipation",
    "PowerOfChoiceParticipation",
    "Report",
    "Rounds",
    "Sample",
    "Selector",
    "Sent",
    "Truth",
    "UniformParticipation",
    "WeightedParticipation",
]

Participation = Rounds | AsynchronousParticipation
"""A policy. Two classes without a common base, since their keys have no common order, but with the
same methods."""

PARTICIPATION: Registry[Spec] = Registry(
    "participation",
    Named(
        __name__,
        {
            "full": "FullParticipation",
            "uniform": "UniformParticipation",
            "weighted": "WeightedParticipation",
            "poisson": "PoissonParticipation",
            "age": "AgeParticipation",
            "oort": "OortParticipation",
            "power-of-choice": "PowerOfChoiceParticipation",
            "energy-aware": "EnergyAwareParticipation",
            "carbon-aware": "CarbonAwareParticipation",
            "importance": "ImportanceParticipation",
            "asynchronous": "AsynchronousParticipation",
        },
    ),
    Sample,
    plural="participation",
)
"""The kinds of participation."""

AnyParticipation = Given[
    Annotated[Participation, OneOf(PARTICIPATION, default="full")], Participation | Block
]
"""A field that takes one of them."""
