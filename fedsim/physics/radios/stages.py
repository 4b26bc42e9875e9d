"""The stages of a radio between two messages, and its promotion: the law, for one radio.

After its last bit a radio passes through its stages in order, each for its duration, and stays in
the last one. LTE has a tail and then idles. NB-IoT listens, listens periodically (connected DRX),
is paged periodically (idle, with eDRX), and sleeps (PSM). All of these have one form here: a stage
has a mean power and a duration. The radio wakes from it in `wake_time`, and can be reached in it
every `cycle`.

Powers are relative to that of the last stage, whose own power is 0. A stage with periodic listening
draws its mean power: the log has one row per stage, not one per paging occasion. An uplink message
wakes the radio at once; a downlink message waits in the network for the next occasion to wake it.

The functions of this module are laws (see `fedsim.core.laws`). Python calls them with a tuple of
`RadioStage`, and kernels with a row of `stage_records`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from math import ceil, inf
from operator import or_

import numpy as np
from numpy.typing import NDArray

from fedsim.core.columns import larger
from fedsim.core.laws import law


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


Stages = Sequence[RadioStage]
"""The stages of a radio in order: objects, or records of `STAGE`."""

FIGURES = tuple(field.name for field in fields(RadioStage) if field.name != "name")

STAGE = np.dtype([(name, np.float64) for name in FIGURES])
"""A stage as a record, without its name."""


def stage_records(radios: Sequence[Stages]) -> NDArray[np.void]:
    """Return the stages of radios, shape (n, stages); records after a last stage are zeros."""
    records = np.zeros((len(radios), max(map(len, radios))), STAGE)
    for row, stages in zip(records, radios, strict=True):
        for place, stage in enumerate(stages):
            row[place] = tuple(getattr(stage, name) for name in FIGURES)
    return records


@law
def reception_time(stages: Stages, number: int, since: float, now: float) -> float:
    """Return the time at which a downlink message reaches a radio, unless it wakes before, s.

    Example:
        >>> reception_time((RadioStage(1.0, 10.0), RadioStage(cycle=4.0)), 1, 100.0, 105.0)
        108.0

    Args:
        stages: the stages of the radio.
        number: the index of the current stage.
        since: the start of the stage, s.
        now: the time at which the message is ready, s.
    """
    while stages[number].cycle > 0:
        cycle = stages[number].cycle
        occasion = max(ceil((now - since) / cycle), 1)
        due = since + occasion * cycle
        # An occasion after the end of the stage does not happen: the next stage has its own
        # cycle.
        if due <= since + stages[number].time:
            return max(due, now)
        since += stages[number].time
        number += 1
    return max(since, now)


@law
def pass_stages(
    stages: Stages, number: int, since: float, until: float
) -> tuple[int, float, float]:
    """End the stages that are over before a time.

    Args:
        stages: the stages of the radio.
        number: the index of the current stage.
        since: the start of the stage, s.
        until: the time before which a stage has to end, s.

    Returns:
        The index of the stage at that time, its start in s, and the energy of the ended stages in
        J.
    """
    joules = 0.0
    while since + stages[number].time < until:  # the last stage has no end
        joules += stages[number].power * stages[number].time
        since += stages[number].time
        number += 1
    return number, since, joules


@law
def connect(
    stages: Stages,
    number: int,
    since: float,
    now: float,
    paged: bool,  # noqa: FBT001 - kernels have no keywords
) -> tuple[float, float, float]:
    """Return a radio to its first stage for a message, after a promotion from any other stage.

    Args:
        stages: the stages of the radio.
        number: the index of its stage at `since`.
        since: the start of that stage, s.
        now: the time at which the message is ready, s.
        paged: whether the message waits until the radio can be reached.

    Returns:
        The time at which the radio is ready, the start of its first stage, both in s, and the
        energy before that in J.
    """
    number, since, joules = pass_stages(stages, number, since, now)
    if paged:
        # While the message waits, the radio may enter its next stage. It is then woken from there.
        now = reception_time(stages, number, since, now)
        number, since, passed = pass_stages(stages, number, since, now)
        joules += passed
    if number:
        stage = stages[number]
        if stage.power:  # the last stage has none, and may have begun an infinite time ago
            joules += stage.power * (now - since)
        joules += stage.wake_power * stage.wake_time
        now = since = now + stage.wake_time
    return now, since, joules
