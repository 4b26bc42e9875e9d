"""Loss: how packets are lost on a client's radio. The block is the law."""

from typing import Annotated

from fedsim.blocks.choice import OneOf
from fedsim.blocks.given import Block, Given
from fedsim.blocks.registry import Registry
from fedsim.physics.packet_loss.base import LossProcess, Outcome, PacketLoss, repeat
from fedsim.physics.packet_loss.gilbert_elliott import BurstLosses, GilbertElliottLoss
from fedsim.physics.packet_loss.independent import IndependentLoss, IndependentLosses, NoLoss

PACKET_LOSSES: Registry[PacketLoss] = Registry(
    "packet loss",
    (NoLoss, IndependentLoss, GilbertElliottLoss),
    PacketLoss,
    plural="packet losses",
)
"""The kinds of packet loss."""

AnyPacketLoss = Given[Annotated[PacketLoss, OneOf(PACKET_LOSSES)], PacketLoss | Block]
"""A field that takes one of them."""

__all__ = [
    "PACKET_LOSSES",
    "AnyPacketLoss",
    "BurstLosses",
    "GilbertElliottLoss",
    "IndependentLoss",
    "IndependentLosses",
    "LossProcess",
    "NoLoss",
    "Outcome",
    "PacketLoss",
    "repeat",
]
