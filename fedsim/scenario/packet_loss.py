"""Loss: how packets are lost on a client's radio."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from fedsim.blocks.choice import OneOf, failure
from fedsim.blocks.fields import as_written
from fedsim.blocks.quantities import Fraction, Share
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec

_ALL = "every packet would be lost, for ever; give a share of losses below 100 %"


class NoLoss(Spec):
    """Every packet passes."""

    kind: Literal["none"] = Field(default="none", description="no packet is lost")


class IndependentLoss(Spec):
    """Every packet is lost with the same probability, whatever became of the others."""

    kind: Literal["independent"] = Field(
        default="independent", description="each packet for itself"
    )
    rate: Fraction = Field(description="the share of packets that are lost, below 100 %")

    @model_validator(mode="after")
    def _some_pass(self) -> Self:
        if self.rate >= 1:
            raise failure(("rate", f'seen "100 %": {_ALL}', self.rate))
        return self


class GilbertElliottLoss(Spec):
    """Losses in bursts: a channel that is good or bad, and changes packet by packet.

    Gilbert, "Capacity of a Burst-Noise Channel", 1960; Elliott, 1963. In the long run it is
    bad for p/(p + r) of the packets.
    """

    kind: Literal["gilbert-elliott"] = Field(
        default="gilbert-elliott", description="in bursts, by a channel of two states"
    )
    p: Share = Field(description="from good to bad, per packet")
    r: Share = Field(description="from bad to good, per packet")
    h: Fraction = as_written("0 %", "packets that pass in the bad state")
    k: Fraction = as_written("100 %", "packets that pass in the good state")

    @model_validator(mode="after")
    def _some_pass(self) -> Self:
        if self.h == 0 and self.k == 0:
            raise failure(("k", f"seen 0 % for both h and k: {_ALL}", self.k))
        return self


PacketLoss = NoLoss | IndependentLoss | GilbertElliottLoss
PACKET_LOSSES: Registry[Spec] = Registry(
    "packet loss", (NoLoss, IndependentLoss, GilbertElliottLoss), plural="packet losses"
)
"""The kinds of packet loss."""

AnyPacketLoss = Annotated[PacketLoss, OneOf(PACKET_LOSSES)]
"""A field that takes one of them."""
