"""Carbon: blocks that say what the electricity of clients emits."""

from typing import Annotated

from fedsim.blocks.choice import OneOf
from fedsim.blocks.given import Block, Given
from fedsim.blocks.presets import names_of
from fedsim.blocks.registry import Registry
from fedsim.physics.carbon.base import Carbon, GridCarbon, HourlyCarbon, Reading
from fedsim.physics.carbon.countries import COUNTRIES, YEAR
from fedsim.physics.carbon.intensity import Intensity

CARBON: Registry[Carbon] = Registry(
    "carbon", (GridCarbon, HourlyCarbon), Carbon, plural="carbon", names=names_of
)
"""The classes that read a block of it."""

AnyCarbon = Given[Annotated[Carbon, OneOf(CARBON)] | None, Carbon | Block | None]
"""A field that takes one of them, or a country."""

__all__ = [
    "CARBON",
    "COUNTRIES",
    "YEAR",
    "AnyCarbon",
    "Carbon",
    "GridCarbon",
    "HourlyCarbon",
    "Intensity",
    "Reading",
]
