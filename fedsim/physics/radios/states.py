"""What a radio does between two messages: the stages that it goes through, and how it wakes.

After its last bit a radio goes through its stages in order, each for its time, and stays in the
last one. LTE has a tail and then idles; NB-IoT listens, listens now and then (connected DRX), is
paged now and then (idle, with eDRX), and sleeps (PSM). All of them are one thing here: a mean
power, for some time, out of which a radio wakes in `wake_time`, and in which it hears what is sent
to it every `cycle`.

Powers are beyond what the radio draws at rest, that is in its last stage, whose own power is 0.
What listens now and then draws its mean power: the log has a row a stage, not one a paging
occasion. A message up wakes the radio at once; one down waits in the network for the next
occasion, and only then wakes it.
"""

from dataclasses import dataclass, replace
from math import ceil, inf


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a radio that transfers nothing.

    Attributes:
        power: on average, beyond that at rest, W.
        time: how long it lasts, s; infinite for the last one.
        cycle: the radio can be reached at the multiples of it since the stage began, s; 0 for
            always.
        wake_time: from waking until bits can flow, s.
        wake_power: meanwhile, beyond that at rest, W.
        name: what the log calls it; empty where there is but one.
    """

    power: float = 0.0
    time: float = inf
    cycle: float = 0.0
    wake_time: float = 0.0
    wake_power: float = 0.0
    name: str = ""


@dataclass(frozen=True, slots=True)
class States:
    """The stages of a radio, from its last bit on.

    >>> States((Stage(1.0, 10.0), Stage(cycle=4.0))).heard(1, 100.0, 105.0)
    108.0

    Attributes:
        stages: in their order, two or more. The first one hears always; the last one is the
            rest: it has no power of its own, and no end.
    """

    stages: tuple[Stage, ...] = (Stage(time=0.0), Stage())

    @property
    def stateful(self) -> bool:
        """Whether there is anything but a radio that is always ready."""
        rest = self.stages[-1]
        passing = any(stage.time > 0 for stage in self.stages[:-1])
        return passing or rest.wake_time > 0 or rest.cycle > 0

    def above(self, power: float) -> "States":
        """Return the same stages, their powers beyond one that a radio draws at rest, W.

        No stage draws less than that.
        """
        if not power:
            return self
        *stages, rest = self.stages
        least = [replace(each, power=max(each.power - power, 0.0)) for each in stages]
        woken = [
            replace(each, wake_power=max(each.wake_power - power, 0.0)) for each in (*least, rest)
        ]
        return States(tuple(woken))

    @property
    def longest_wait(self) -> float:
        """What a message down waits at most until it is heard, or somewhat more, s."""
        return sum(stage.cycle for stage in self.stages)

    def heard(self, number: int, since: float, now: float) -> float:
        """Return when a message down is heard, if nothing else wakes the radio, s.

        Args:
            number: of the stage that it is in.
            since: when that began, s.
            now: when the message is there, s.
        """
        while (stage := self.stages[number]).cycle > 0:
            occasion = max(ceil((now - since) / stage.cycle), 1)
            due = since + occasion * stage.cycle
            if due <= since + stage.time:
                return max(due, now)
            since += stage.time
            number += 1
        return max(since, now)
