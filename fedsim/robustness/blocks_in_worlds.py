"""What a round takes of a device or a radio, in many worlds at once.

The laws are those of `fedsim.physics`: a block whose uncertain constants are columns of numbers,
one for each world, is asked as one with numbers is. So a law is written once. One that does not
hold for columns, for instance since it branches on a figure, is asked world by world: this takes
longer, and gives the same.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isclose
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fedsim.blocks.spec import Spec
from fedsim.columns import choose
from fedsim.physics.devices import DeviceLaw
from fedsim.physics.radios import RadioLaw, powers_of
from fedsim.ports import Array
from fedsim.sim.power.radio_kind import bit_energies

Stage = tuple[float, float, float, float, float]
"""Of a `fedsim.physics.radios.RadioStage`: power, time, cycle, wake_time and wake_power."""


class DeviceFigures(NamedTuple):
    """The figures of a device, each a number or a column of shape (W,).

    Attributes:
        idle: its power at rest, W.
        working: at work, beyond that, W.
        per_operation: seconds of an operation; 0 in the model with cycles.
        per_sample: seconds of a sample; 0 in the model with operations.
        battery: the energy of its full battery, J; infinite on mains.
    """

    idle: float
    working: float
    per_operation: float
    per_sample: float
    battery: float

    @classmethod
    def of(cls, device: DeviceLaw) -> "DeviceFigures":
        """Return those of a device."""
        speed, working = device.constant, device.working() - device.idle
        both = (0.0, device.seconds(0.0, 1.0)) if speed is None else (1.0 / speed, 0.0)
        return cls(device.idle, working, *both, device.battery)


class RadioFigures(NamedTuple):
    """The figures of a radio, each a number or a column of shape (W,); pairs are down, up.

    Attributes:
        idle: its power at rest, W.
        latency: s.
        held: its power during a message, beyond idle power, W.
        rates: bit/s.
        per_bit: the energy of a bit, with its time on the air, J/bit.
        stages: between two messages, without power where the radio is always ready.
    """

    idle: float
    latency: float
    held: float
    rates: tuple[float, float]
    per_bit: tuple[float, float]
    stages: tuple[Stage, ...]

    @classmethod
    def of(cls, radio: RadioLaw) -> "RadioFigures":
        """Return those of a radio of constant rates."""
        rates, powers, states = radio.rates({}), powers_of(radio), radio.states
        down, up = (0.0 if rate.constant is None else rate.constant for rate in rates[::-1])
        stages = tuple(
            (
                choose(states.stateful, stage.power, 0.0),
                stage.time,
                stage.cycle,
                stage.wake_time,
                stage.wake_power,
            )
            for stage in states.stages
        )
        energies = bit_energies(powers, rates)
        return cls(radio.resting, radio.latency, powers.held, (down, up), energies, stages)

    def pad_stages(self, count: int) -> "RadioFigures":
        """Return the same radio with so many stages: some last no time, before the last one."""
        *passing, (power, _, *further) = self.stages
        more = [(power, 0.0, *further)] * (count - len(self.stages))
        return self._replace(stages=(*passing, *more, self.stages[-1]))  # type: ignore[arg-type]  # five figures each


B = TypeVar("B", bound=Spec)
F = TypeVar("F", bound=tuple[Any, ...])


def device_figures(device: DeviceLaw, columns: Mapping[str, Array], worlds: int) -> DeviceFigures:
    """Return the figures of a device in many worlds.

    Args:
        device: the block.
        columns: its uncertain constants by field, each of shape (W,).
        worlds: W.
    """
    return _join(_ask(DeviceFigures.of, device, columns, worlds))


def radio_figures(radio: RadioLaw, columns: Mapping[str, Array], worlds: int) -> RadioFigures:
    """Return the figures of a radio in many worlds; arguments as for `device_figures`."""
    every = _ask(RadioFigures.of, radio, columns, worlds)
    longest = max(len(each.stages) for each in every)
    return _join([each.pad_stages(longest) for each in every])


def differing_worlds(
    block: DeviceLaw | RadioLaw, columns: Mapping[str, Array], worlds: int
) -> list[int]:
    """Return the worlds in which a block asked with columns has other figures than asked alone.

    There are none where its law does not hold for columns. Arguments are as for `device_figures`.
    """
    figures: Any = DeviceFigures.of if isinstance(block, DeviceLaw) else RadioFigures.of
    together = _together(figures, block, columns)
    if together is None:
        return []
    every = ((world, _alone(figures, block, columns, world)) for world in range(worlds))
    return [world for world, alone in every if not _agree(together, alone, world)]


def _ask(
    figures: Callable[[B], F], block: B, columns: Mapping[str, Array], worlds: int
) -> Sequence[F]:
    """Return the figures of a block as columns, or in each world if its law has no such form."""
    if not columns:
        return [figures(block)]
    together = _together(figures, block, columns)
    ends = [world for column in columns.values() for world in (column.argmin(), column.argmax())]
    if together is not None and all(
        _agree(together, _alone(figures, block, columns, world), world)
        for world in {0, worlds - 1, *map(int, ends)}
    ):
        return [together]
    return [_alone(figures, block, columns, world) for world in range(worlds)]


def _together(figures: Callable[[B], F], block: B, columns: Mapping[str, Array]) -> F | None:
    """Return the figures of a block with columns; None where its law does not hold for them."""
    try:
        return figures(block.model_copy(update=dict(columns)))
    except (TypeError, ValueError):  # it branches on a figure, or takes numbers alone
        return None


def _alone(figures: Callable[[B], F], block: B, columns: Mapping[str, Array], world: int) -> F:
    """Return the figures of a block in one of the worlds."""
    own = {name: float(column[world]) for name, column in columns.items()}
    return figures(block.model_copy(update=own))


def _agree(together: Any, alone: Any, world: int) -> bool:  # noqa: ANN401 - figures, or one of them
    """Return whether figures with columns are those of one of the worlds."""
    if isinstance(alone, tuple):
        same = isinstance(together, tuple) and len(together) == len(alone)
        return same and all(map(partial(_agree, world=world), together, alone))
    mine = float(together[world]) if isinstance(together, np.ndarray) else together
    return isclose(mine, alone, rel_tol=1e-12) or mine == alone


def _join(figures: Sequence[F]) -> F:
    """Return the figures of all worlds as columns; the only ones as they are."""
    if len(figures) == 1:
        return figures[0]
    parts = [
        _join(each) if isinstance(each[0], tuple) else np.array(each, np.float64)
        for each in zip(*figures, strict=True)
    ]
    made = type(figures[0])
    return made(*parts) if hasattr(made, "_fields") else made(parts)
