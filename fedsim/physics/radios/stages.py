"""The stages of a radio between two messages, and its promotion; a law for one radio or many.

After its last bit a radio passes through its stages in order, each for its duration, and stays in
the last one. LTE has a tail and then idles. NB-IoT listens, listens periodically (connected DRX),
is paged periodically (idle, with eDRX), and sleeps (PSM). All of these have one form here: a stage
has a mean power and a duration. The radio wakes from it in `wake_time`, and can be reached in it
every `cycle`.

Powers are relative to that of the last stage, whose own power is 0. A stage with periodic listening
draws its mean power: the log has one row per stage, not one per paging occasion. An uplink message
wakes the radio at once; a downlink message waits in the network for the next occasion to wake it.

The law has a scalar form, for one radio at one instant, and an array form, for many radios, or one
radio in many worlds. In the array form a figure of a stage may be an array, which broadcasts with
the others.
"""

from dataclasses import dataclass, replace
from functools import reduce
from math import ceil, inf
from operator import or_
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedsim.core.columns import larger
from fedsim.core.ports import Array

Numbers = NDArray[np.integer]


@dataclass(frozen=True, slots=True)
class RadioStage:
    """A stage of a radio between two messages.

    Attributes:
        power: the mean power, relative to the last stage, W.
        time: the duration, s; infinite for the last stage.
        cycle: the radio can be reached at multiples of this time since the start of the stage, s; 0
            for always.
        wake_time: the time from waking until bits can be sent, s.
        wake_power: the power during that time, relative to the last stage, W.
        name: the name in the log; empty if there is only one stage.
    """

    power: float = 0.0
    time: float = inf
    cycle: float = 0.0
    wake_time: float = 0.0
    wake_power: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class States:
    """The stages of a radio after its last bit.

    >>> States((RadioStage(1.0, 10.0), RadioStage(cycle=4.0))).reception_time(1, 100.0, 105.0)
    108.0

    Attributes:
        stages: two or more stages in order. In the first one the radio can always be reached; the
            last one (idle) has power 0 and no end.
    """

    stages: tuple[RadioStage, ...] = (RadioStage(time=0.0), RadioStage())

    @property
    def stateful(self) -> bool:
        """Whether the radio is not simply always ready; an array if figures are arrays."""
        rest = self.stages[-1]
        passing = [stage.time > 0 for stage in self.stages[:-1]]
        return reduce(or_, passing) | (rest.wake_time > 0) | (rest.cycle > 0)

    def above(self, power: float) -> "States":
        """Return the same stages with powers relative to an idle power, W.

        No power becomes negative: every stage draws at least the idle power.
        """
        *stages, rest = self.stages
        least = [replace(stage, power=larger(stage.power - power, 0.0)) for stage in stages]
        woken = [
            replace(stage, wake_power=larger(stage.wake_power - power, 0.0))
            for stage in (*least, rest)
        ]
        return States(tuple(woken))

    @property
    def longest_wait(self) -> float:
        """An upper bound of the wait of a downlink message until the radio can be reached, s."""
        return sum(stage.cycle for stage in self.stages)

    # The event form.

    def reception_time(self, number: int, since: float, now: float) -> float:
        """Return the time at which a downlink message reaches the radio, unless it wakes before, s.

        Args:
            number: the index of the current stage.
            since: the start of the stage, s.
            now: the time at which the message is ready, s.
        """
        while (stage := self.stages[number]).cycle > 0:
            occasion = max(ceil((now - since) / stage.cycle), 1)
            due = since + occasion * stage.cycle
            # An occasion after the end of the stage does not happen: the next stage has its own
            # cycle.
            if due <= since + stage.time:
                return max(due, now)
            since += stage.time
            number += 1
        return max(since, now)

    # The array form. Arguments and figures broadcast with each other.

    def figure(self, name: str, number: Numbers) -> Array:
        """Return a figure of each radio's current stage.

        Args:
            name: the name of an attribute of `RadioStage`, such as "power".
            number: the index of each radio's stage.
        """
        first, *others = (getattr(stage, name) for stage in self.stages)
        figures = first
        for place, figure in enumerate(others, 1):
            figures = np.where(number >= place, figure, figures)
        return cast("Array", figures)

    def advance(self, number: Numbers, since: Array, until: Array) -> tuple[Numbers, Array, Array]:
        """End the stages that are over before a time.

        Args:
            number: the index of each radio's stage.
            since: the start of this stage, s.
            until: the time before which a stage has to end, s.

        Returns:
            The index of each radio's stage at that time, its start in s, and the energy of the
            ended stages in J.
        """
        joules: Array | float = 0.0
        for place, stage in enumerate(self.stages[:-1]):
            end = since + stage.time
            over = (number == place) & (end < until)
            joules = joules + np.where(over, stage.power, 0.0) * np.where(over, stage.time, 0.0)
            number, since = number + over, np.where(over, end, since)
        return number, since, cast("Array", joules)

    def until_idle(self, number: Numbers, since: Array, now: Array) -> tuple[Array, Array]:
        """Return when radios enter their last stage without messages, s, and their energy, J.

        Args:
            number: the index of each radio's stage.
            since: the start of this stage, s.
            now: the time, s, from which on their energy counts.
        """
        joules, end = cast("Array", 0.0), since
        for place, stage in enumerate(self.stages[:-1]):
            passes = number <= place
            begin, end = np.maximum(end, now), np.where(passes, end + stage.time, end)
            joules = joules + np.where(passes, stage.power, 0.0) * np.maximum(end - begin, 0.0)
        return np.maximum(end, now), joules

    def reception_times(self, number: Numbers, since: Array, now: Array) -> Array:
        """Return the result of `reception_time` for each radio."""
        number, since, now = np.broadcast_arrays(number, since, now)
        reached = now
        with np.errstate(divide="ignore", invalid="ignore"):  # stages without a cycle or an end
            for place, stage in enumerate(self.stages):
                here = number == place
                paged = here & (stage.cycle > 0)
                occasion = np.maximum(np.ceil((now - since) / stage.cycle), 1.0)
                due, end = since + occasion * stage.cycle, since + stage.time
                in_time = paged & (due <= end)
                reached = np.where(in_time, np.maximum(due, now), reached)
                reached = np.where(here & ~paged, np.maximum(since, now), reached)
                late = paged & ~in_time
                number, since = number + late, np.where(late, end, since)
        return reached
