"""What is done when to which part: a pure function of the seed and the number of the case."""

from typing import NamedTuple

from numpy.random import default_rng

from tests.runs import small

RUNS = 16
STUDY = small(sweep={"algorithm.censor": [0.01, 0.1]}, seeds=RUNS // 2, stop={"rounds": 60})
"""What is run: some seconds for one worker."""

PARTS = {
    "worker": ("SIGKILL", "SIGTERM", "SIGSTOP"),
    "nanny": ("SIGKILL", "SIGTERM"),
    "scheduler": ("SIGKILL", "SIGTERM", "SIGSTOP"),
    "wire of a worker": ("cut", "stall"),
    "wire of the parent": ("cut", "stall"),
    "parent": ("SIGINT", "SIGTERM", "SIGKILL", "SIGSTOP"),
    "all here": ("SIGINT to all", "SIGINT", "SIGTERM to all", "SIGTERM", "SIGKILL"),
}
"""The ways in which each part fails; "all here" is a command with a cluster of its own."""

_LASTING = (0.5, 10.0)  # seconds of real time: less than parts wait for each other, and more


class Case(NamedTuple):
    """One fault.

    Attributes:
        number: of the case.
        part, way: what is done to which part.
        blind: whether workers do not see the folder.
        after: so many runs have ended before.
        pause: seconds of real time between that and the fault.
        lasting: seconds that it lasts, where it is taken back.
    """

    number: int
    part: str
    way: str
    blind: bool
    after: int
    pause: float
    lasting: float

    @property
    def called(self) -> str:
        """What to call it."""
        folder = "blind" if self.blind else "seeing"
        lasts = f" for {self.lasting:g} s" if self.way in {"SIGSTOP", "stall"} else ""
        where = f"{self.pause:.2f} s after {self.after} of {RUNS} runs"
        return f"case {self.number}: {self.part}, {self.way}{lasts}, {where}, {folder} workers"


def cases(seed: int, count: int) -> list[Case]:
    """Return the cases of a campaign: seeing workers first, as others are begun for the blind."""
    drawn = [_case(seed, number) for number in range(count)]
    return sorted(drawn, key=lambda each: (each.blind, each.number))


def _case(seed: int, number: int) -> Case:
    draw = default_rng([seed, number])
    part = str(draw.choice(list(PARTS)))
    return Case(
        number,
        part,
        str(draw.choice(PARTS[part])),
        blind=bool(draw.random() < 0.5),
        after=int(draw.integers(RUNS)),
        pause=draw.random() * 0.3,
        lasting=float(draw.choice(_LASTING)),
    )
