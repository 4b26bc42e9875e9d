"""Attacks: what the malicious clients of a fleet send, as scenario blocks.

A malicious client runs the method like any other, and then sends something else. Its message is
encoded, sent and charged as it is. Clients that collude know the vectors of the honest clients in
the same round; what they send has the size of their own message, and its values are set when the
server combines the replies.
"""

from typing import TYPE_CHECKING, Annotated

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given
from fedsim.protocol.attacks.base import Attack
from fedsim.protocol.attacks.packer import FalsePacker

if TYPE_CHECKING:
    from fedsim.protocol.attacks.alone import (
        GaussianAttack,
        LabelFlipAttack,
        NotFiniteAttack,
        ReplayAttack,
        ScaledAttack,
        SignFlipAttack,
        SilentAttack,
        UnreadableAttack,
    )
    from fedsim.protocol.attacks.colluding import (
        ALittleIsEnough,
        InnerProductAttack,
        MimicAttack,
        largest_shift,
    )
else:
    __getattr__, __dir__ = exports(__name__)

__all__ = [
    "ATTACKS",
    "ALittleIsEnough",
    "AnyAttack",
    "Attack",
    "FalsePacker",
    "GaussianAttack",
    "InnerProductAttack",
    "LabelFlipAttack",
    "MimicAttack",
    "NotFiniteAttack",
    "ReplayAttack",
    "ScaledAttack",
    "SignFlipAttack",
    "SilentAttack",
    "UnreadableAttack",
    "largest_shift",
]

ATTACKS: Registry[Attack] = Registry(
    "attack",
    Named(
        __name__,
        {
            "sign-flip": "SignFlipAttack",
            "scaled": "ScaledAttack",
            "gaussian": "GaussianAttack",
            "replay": "ReplayAttack",
            "nan": "NotFiniteAttack",
            "unreadable": "UnreadableAttack",
            "silent": "SilentAttack",
            "label-flip": "LabelFlipAttack",
            "alie": "ALittleIsEnough",
            "ipm": "InnerProductAttack",
            "mimic": "MimicAttack",
        },
    ),
    Attack,
)
"""The kinds of attack."""

AnyAttack = Given[Annotated[Attack, OneOf(ATTACKS)] | None, Attack | Block | None]
"""A field that takes one of them, or none."""
