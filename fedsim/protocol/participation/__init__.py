"""Participation policies: client sampling and when a round closes, as scenario blocks.

What depends on the fleet is passed as arguments: the number of clients, and the number of samples
of each client.
"""

from typing import Annotated

from fedsim.blocks.choice import OneOf
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Block, Given, Spec
from fedsim.protocol.participation.asynchronous import AsynchronousParticipation
from fedsim.protocol.participation.rounds import FIRST, Early, FullParticipation, Rounds
from fedsim.protocol.participation.sampling import (
    Sample,
    UniformParticipation,
    WeightedParticipation,
)

__all__ = [
    "FIRST",
    "PARTICIPATION",
    "AnyParticipation",
    "AsynchronousParticipation",
    "Early",
    "FullParticipation",
    "Participation",
    "Rounds",
    "Sample",
    "UniformParticipation",
    "WeightedParticipation",
]

Participation = Rounds | AsynchronousParticipation
"""A policy. The two share no base, since their keys have no common order, but answer alike."""

PARTICIPATION: Registry[Spec] = Registry(
    "participation",
    (
        FullParticipation,
        UniformParticipation,
        WeightedParticipation,
        AsynchronousParticipation,
    ),
    Sample,
    plural="participation",
)
"""The kinds of participation."""

AnyParticipation = Given[Annotated[Participation, OneOf(PARTICIPATION)], Participation | Block]
"""A field that takes one of them."""
