"""Radios: blocks of a scenario. Each block is its own law."""

from typing import TYPE_CHECKING, Annotated

from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.on_demand import Named, exports
from fedsim.core.blocks.presets import CUSTOM, Preset, names_of
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Block, Given
from fedsim.physics.radios.base import (
    Connection,
    Draw,
    Listening,
    PacketRadio,
    RadioLaw,
    RadioPowers,
    awake_power,
    powers_of,
)
from fedsim.physics.radios.presets import CELLULAR, LORA, NB_IOT, RADIOS

if TYPE_CHECKING:
    from fedsim.physics.radios.cellular import StagedRadio
    from fedsim.physics.radios.linear import FirstOrderRadio, Radio
    from fedsim.physics.radios.lora import LoRa, LoRaRadio
    from fedsim.physics.radios.narrowband import NarrowbandRadio
    from fedsim.physics.radios.rates import Carrier, ConstantRate, RateLaw, Rates, Terms, Traced
    from fedsim.physics.radios.shannon import Shannon, ShannonRadio
    from fedsim.physics.radios.stages import RadioStage, States
else:
    __getattr__, __dir__ = exports(__name__)

RADIO_KINDS: Registry[RadioLaw] = Registry(
    "radio",
    Named(
        __name__,
        {
            **dict.fromkeys((*RADIOS, CUSTOM), "Radio"),
            **dict.fromkeys(LORA, "LoRaRadio"),
            **dict.fromkeys(NB_IOT, "NarrowbandRadio"),
            **dict.fromkeys(CELLULAR, "StagedRadio"),
            "shannon": "ShannonRadio",
            "first-order": "FirstOrderRadio",
        },
    ),
    RadioLaw,
    title="radio kinds",
    names=names_of,
)
"""The classes that read a radio's block."""

AnyRadio = Given[Annotated[RadioLaw, OneOf(RADIO_KINDS)], RadioLaw | Block]
"""A field for a radio, or the name of a preset."""

__all__ = [
    "CELLULAR",
    "LORA",
    "NB_IOT",
    "RADIOS",
    "RADIO_KINDS",
    "AnyRadio",
    "Carrier",
    "Connection",
    "ConstantRate",
    "Draw",
    "FirstOrderRadio",
    "Listening",
    "LoRa",
    "LoRaRadio",
    "NarrowbandRadio",
    "PacketRadio",
    "Preset",
    "Radio",
    "RadioLaw",
    "RadioPowers",
    "RadioStage",
    "RateLaw",
    "Rates",
    "Shannon",
    "ShannonRadio",
    "StagedRadio",
    "States",
    "Terms",
    "Traced",
    "awake_power",
    "powers_of",
]
