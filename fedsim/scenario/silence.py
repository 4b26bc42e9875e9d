"""Silence: how the server learns that a client has nothing to say."""

from typing import Annotated, Literal

from pydantic import Field

from fedsim.blocks.choice import OneOf
from fedsim.blocks.quantities import Duration
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec


class BeaconSilence(Spec):
    """A silent client sends an empty message, so that the server need not wait for it."""

    kind: Literal["beacon"] = Field(default="beacon", description="silence is said")


class DeadlineSilence(Spec):
    """A silent client sends nothing: the server waits until a deadline closes the round."""

    kind: Literal["deadline"] = Field(default="deadline", description="silence is waited for")
    after: Duration = Field(description="from the broadcast to the end of the round")
    late: Literal["keep", "drop"] = Field(
        default="keep", description="replies that miss it: kept for a later round, or dropped"
    )


Silence = BeaconSilence | DeadlineSilence
SILENCES: Registry[Spec] = Registry("silence", (BeaconSilence, DeadlineSilence), title="silence")
"""The kinds of silence."""

AnySilence = Annotated[Silence, OneOf(SILENCES)]
"""A field that takes one of them."""
