"""Device and radio laws evaluated over sampled parameter sets.

The laws are those of `fedsim.physics`. A block whose uncertain constants are columns, with one
number per world, is evaluated like a block with plain numbers, so that each law is written once. A
law that does not work on columns, for instance because it branches on a value, is evaluated world
by world. That takes longer and gives the same.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isclose
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedsim.core.blocks.spec import Spec
from fedsim.core.columns import choose
from fedsim.core.ports import Array
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.radios import RadioLaw, powers_of
from fedsim.physics.radios.stages import FIGURES
from fedsim.sim.power.radio_kind import bit_energies

Stage = tuple[float, ...]
"""The `FIGURES` of a `fedsim.physics.radios.RadioStage`: power, time, and others."""


class DeviceFigures(NamedTuple):
    """The constants of a device, each a number or a column of shape (W,).

    Attributes:
        idle: the power at rest, W.
        working: the power at work beyond that, W.
        per_operation: seconds per operation; 0 in the model with cycles.
        per_sample: seconds per sample; 0 in the model with operations.
        battery: the energy of the full battery, J; infinite on mains.
    """

    idle: float
    working: float
    per_operation: float
    per_sample: float
    battery: float

    @classmethod
    def of(cls, device: DeviceLaw) -> "DeviceFigures":
        """Return the constants of a device."""
        # Work takes time by operations or by samples, depending on the model of the device.
        speed, working = device.constant, device.working() - device.idle
        times = (0.0, device.seconds(0.0, 1.0)) if speed is None else (1.0 / speed, 0.0)
        return cls(device.idle, working, *times, device.battery)


class RadioFigures(NamedTuple):
    """The constants of a radio, each a number or a column of shape (W,); pairs are down, up.

    Attributes:
        idle: the power at rest, W.
        latency: the latency, s.
        held: the power during a message, beyond idle power, W.
        rates: the rates, bit/s.
        per_bit: the energy per bit, with its time on the air, J/bit.
        stages: the stages between messages, without power if the radio is always ready.
    """

    idle: float
    latency: float
    held: float
    rates: tuple[float, float]
    per_bit: tuple[float, float]
    stages: tuple[Stage, ...]

    @classmethod
    def of(cls, radio: RadioLaw) -> "RadioFigures":
        """Return the constants of a radio with constant rates."""
        rates, powers, states = radio.rates({}), powers_of(radio), radio.states
        # A rate of 0 stands for one that is not constant: such radios are not priced here.
        down, up = (0.0 if rate.constant is None else rate.constant for rate in rates[::-1])
        # `choose` instead of a condition: whether a radio has states may depend on the world, and
        # is then a column.
        stages = tuple(
            (
                choose(states.stateful, stage.power, 0.0),
                *(getattr(stage, name) for name in FIGURES[1:]),
            )
            for stage in states.stages
        )
        energies = bit_energies(powers, rates)
        return cls(radio.resting, radio.latency, powers.held, (down, up), energies, stages)

    def pad_stages(self, count: int) -> "RadioFigures":
        """Return the radio with `count` stages; added ones last no time, before the last one."""
        *passing, (power, _, *further) = self.stages
        # A stage of no time changes neither times nor energies.
        more = [(power, 0.0, *further)] * (count - len(self.stages))
        return self._replace(stages=(*passing, *more, self.stages[-1]))


B = TypeVar("B", bound=Spec)
F = TypeVar("F", bound=tuple[Any, ...])


def device_figures(device: DeviceLaw, columns: Mapping[str, Array], worlds: int) -> DeviceFigures:
    """Return the constants of a device in many worlds.

    Args:
        device: the device.
        columns: uncertain constants by field, each of shape (W,).
        worlds: the number of worlds, W.
    """
    return _join(_evaluate(DeviceFigures.of, device, columns, worlds))


def radio_figures(radio: RadioLaw, columns: Mapping[str, Array], worlds: int) -> RadioFigures:
    """Return the constants of a radio in many worlds; arguments as for `device_figures`."""
    candidates = _evaluate(RadioFigures.of, radio, columns, worlds)
    # Worlds evaluated one by one may have different numbers of stages.
    longest = max(len(figures.stages) for figures in candidates)
    return _join([figures.pad_stages(longest) for figures in candidates])


def differing_worlds(
    block: DeviceLaw | RadioLaw, columns: Mapping[str, Array], worlds: int
) -> list[int]:
    """Return the worlds in which columns and single numbers give different constants.

    There are none if the law does not work on columns. Arguments are as for `device_figures`.
    """
    figures: Any = DeviceFigures.of if isinstance(block, DeviceLaw) else RadioFigures.of
    together = _together(figures, block, columns)
    if together is None:
        return []
    every = ((world, _alone(figures, block, columns, world)) for world in range(worlds))
    return [world for world, alone in every if not _agree(together, alone, world)]


def _evaluate(
    figures: Callable[[B], F], block: B, columns: Mapping[str, Array], worlds: int
) -> Sequence[F]:
    """Return the constants of a block as columns, or world by world if its law needs that."""
    if not columns:  # one result for all worlds
        return [figures(block)]
    together = _together(figures, block, columns)
    # Columns are trusted only if they agree with plain numbers at the ends of every column, and in
    # the first and last world: a law may accept columns and still compute something else.
    ends = [world for column in columns.values() for world in (column.argmin(), column.argmax())]
    if together is not None and all(
        _agree(together, _alone(figures, block, columns, world), world)
        for world in {0, worlds - 1, *map(int, ends)}
    ):
        return [together]
    return [_alone(figures, block, columns, world) for world in range(worlds)]


def _together(figures: Callable[[B], F], block: B, columns: Mapping[str, Array]) -> F | None:
    """Return the constants of a block with columns; None if its law does not work on them."""
    try:
        return figures(block.model_copy(update=dict(columns)))
    except (TypeError, ValueError):  # it branches on a value, or only accepts numbers
        return None


def _alone(figures: Callable[[B], F], block: B, columns: Mapping[str, Array], world: int) -> F:
    """Return the constants of a block in a single world."""
    values = {name: float(column[world]) for name, column in columns.items()}
    return figures(block.model_copy(update=values))


def _agree(together: Any, alone: Any, world: int) -> bool:
    """Return whether constants with columns equal those of a single world."""
    if isinstance(alone, tuple):
        same = isinstance(together, tuple) and len(together) == len(alone)
        return same and all(map(partial(_agree, world=world), together, alone))
    value = float(together[world]) if isinstance(together, np.ndarray) else together
    # Functions of arrays and of numbers may differ in the last bit. Equality covers infinities.
    return isclose(value, alone, rel_tol=1e-12) or value == alone


def _join(figures: Sequence[F]) -> F:
    """Return the constants of all worlds as columns; a single entry is returned as it is."""
    if len(figures) == 1:
        return figures[0]
    parts = [
        _join(values) if isinstance(values[0], tuple) else np.array(values, np.float64)
        for values in zip(*figures, strict=True)
    ]
    kind = type(figures[0])
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
