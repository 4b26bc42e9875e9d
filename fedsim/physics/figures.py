"""The form of presets' figures: a value, its 90 % interval, and its source.

A row such as `meas("6 Mbit/s", 3, 12, HUANG_2012)` has the ends of the interval in the unit of the
value. A figure that is a text alone is a definition, such as a standard's, or a choice.
"""

from typing import NamedTuple

from fedsim.blocks.presets import Basis, Citation, Doubt, Preset


class Figure(NamedTuple):
    """A figure of a preset.

    Attributes:
        value: what a scenario would have in its place.
        doubt: how well it is known.
    """

    value: str | float
    doubt: Doubt


def meas(value: str | float, low: float, high: float, source: Citation, aside: str = "") -> Figure:
    """Return a figure that was measured; see `fedsim.blocks.presets.Doubt`."""
    return _figure(value, low, high, "meas", source, aside)


def lit(value: str | float, low: float, high: float, source: Citation, aside: str = "") -> Figure:
    """Return a figure of the literature, which states it, its range, or what bounds it."""
    return _figure(value, low, high, "lit", source, aside)


def est(value: str | float, low: float, high: float, source: Citation, aside: str = "") -> Figure:
    """Return an estimate, with the nearest source that is published."""
    return _figure(value, low, high, "est", source, aside)


def preset(basis: str, **figures: Figure | str | float) -> Preset:
    """Return a preset by its figures; those without a doubt are definitions or choices.

    Example:
        >>> from fedsim.physics.sources import HUANG_2012
        >>> made = preset("[lit] a paper", base=meas("1288 mW", 900, 1800, HUANG_2012))
        >>> made.values["base"], str(made.doubts["base"])
        ('1288 mW', '900 mW to 1800 mW')
    """
    values = {
        name: each.value if isinstance(each, Figure) else each for name, each in figures.items()
    }
    doubts = {name: each.doubt for name, each in figures.items() if isinstance(each, Figure)}
    return Preset(basis, values, doubts)


def _figure(
    value: str | float, low: float, high: float, basis: Basis, source: Citation, aside: str
) -> Figure:
    if not isinstance(value, str):
        return Figure(value, Doubt(low, high, basis, source, aside))
    unit = value.partition(" ")[2]
    return Figure(value, Doubt(f"{low:g} {unit}", f"{high:g} {unit}", basis, source, aside))
