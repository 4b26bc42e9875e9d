"""Silence policies: how the server handles clients without an update, as scenario blocks."""

from collections.abc import Iterator
from math import inf
from typing import Annotated, Literal

from pydantic import Field

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.nature import Nature
from fedsim.core.blocks.quantities import Duration
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given, Spec


class SilencePolicy(Spec):
    """Base class of silence policies: by default a silent client sends a beacon."""

    kind: str

    def natures(self) -> Iterator[tuple[str, Nature]]:
        """Yield a nature if a deadline decides which clients count."""
        if self.closes_after < inf:
            text = f"got {self.kind}: the replies in time decide the aggregate of a round"
            yield "kind", Nature(reacts=text)

    @property
    def beacon(self) -> bool:
        """Whether a silent client sends an empty message, charged for its header.

        Otherwise it sends nothing, and only the deadline ends the round.
        """
        return True

    @property
    def closes_after(self) -> float:
        """The deadline of a round after its broadcast, s; a complete round closes earlier."""
        return inf

    @property
    def keep_late(self) -> bool:
        """Whether a late reply counts for the round in which it arrives; else it is dropped."""
        return True


class BeaconSilence(SilencePolicy):
    """A silent client sends an empty message, so that the server need not wait for it."""

    kind: Literal["beacon"] = Field(default="beacon", description="a silent client sends a beacon")


class DeadlineSilence(SilencePolicy):
    """A silent client sends nothing: the server waits until the deadline closes the round."""

    kind: Literal["deadline"] = Field(
        default="deadline", description="a silent client sends nothing, and the server waits"
    )
    after: Duration = Field(description="time after the broadcast at which the round ends")
    late: Literal["keep", "drop"] = Field(
        default="keep",
        description="replies that miss their round are kept for a later one, or dropped",
    )

    @property
    def beacon(self) -> bool:
        """False."""
        return False

    @property
    def closes_after(self) -> float:
        """The deadline, s."""
        return self.after

    @property
    def keep_late(self) -> bool:
        """Whether `late` is "keep"."""
        return self.late == "keep"


SILENCES: Registry[SilencePolicy] = Registry(
    "silence", (BeaconSilence, DeadlineSilence), SilencePolicy, title="silence"
)
"""The kinds of silence."""

AnySilence = Given[Annotated[SilencePolicy, OneOf(SILENCES)], SilencePolicy | Block]
"""A field that takes one of them."""
