"""How much a plan comes to: how many runs there are, and how long they take on this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from fedsim.building import Builder, Job
from fedsim.protocol.stopping import Stop
from fedsim.running.probe import Opening
from fedsim.scenario import Plan

_LONG = 2.0  # seconds that are not worth while to be spent a second time

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True)
class Extent:
    """The runs of a plan, made one after the other.

    Attributes:
        name: the plan's.
        variants: how many there are.
        seeds: of each variant, in their order.
        seconds: that this machine takes if nothing else keeps it busy, and every run has all its
            rounds.
        early: whether a rule may end a run before that.
    """

    name: str
    variants: int
    seeds: tuple[int, ...]
    seconds: float
    early: bool

    @property
    def runs(self) -> int:
        """How many runs there are."""
        return sum(self.seeds)

    def __str__(self) -> str:
        alike = len({*self.seeds}) == 1
        seeds = _count(self.seeds[0], "seed") if alike else "their seeds"
        runs = f"{_count(self.variants, 'variant')} x {seeds} = {_count(self.runs, 'run')}"
        unless = ", if no rule ends one before stop.rounds" if self.early else ""
        return f"{self.name}: {runs}, {duration(self.seconds)}{unless}"


def extent(
    plan: Plan, jobs: Sequence[Job], openings: Mapping[str, Opening], built: float
) -> Extent:
    """Return how much a plan comes to.

    Args:
        plan: what is asked for.
        jobs: its variants, each under its first seed.
        openings: how their runs begin, by variant, with the time that their rounds take.
        built: seconds that `jobs` took to be built.
    """
    seeds = tuple(len(variant.seeds) for variant in plan.variants)
    again = _rebuilt(plan, jobs, built) if max(seeds) > 1 else 0.0
    rounds = sum(
        (openings[variant.name].pace * variant.scenario.stop.rounds) * count
        for variant, count in zip(plan.variants, seeds, strict=True)
    )
    early = any(_may_end_early(variant.scenario.stop) for variant in plan.variants)
    return Extent(plan.name, len(seeds), seeds, built + again * (max(seeds) - 1) + rounds, early)


def _rebuilt(plan: Plan, jobs: Sequence[Job], built: float) -> float:
    """Return how long all variants take to be built under one seed more, s.

    The first time includes what is loaded once; so one is built again where that is cheap.
    """
    if built > _LONG:
        return built
    started = perf_counter()
    variant = plan.variants[0]
    Builder(plan).build(variant, variant.seeds[-1])
    return min(built, (perf_counter() - started) * len({id(job.problem) for job in jobs}))


def _may_end_early(stop: Stop) -> bool:
    """Say whether a run may be over before its last round."""
    others = (stop.time, stop.bits, stop.energy, stop.batteries)
    return bool(stop.targets) or any(rule is not None for rule in others)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number > 1)}"


def duration(seconds: float) -> str:
    """Return a duration of real time as people say it.

    >>> duration(0.2), duration(45), duration(700), duration(7200), duration(1e6)
    ('a second', 'about 45 s', 'about 12 minutes', 'about 2 hours', 'about 12 days')
    """
    if seconds < 1:
        return "a second"
    if seconds < 2 * _MINUTE:
        return f"about {seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"about {seconds / _MINUTE:.0f} minutes"
    if seconds < 2 * _DAY:
        return f"about {seconds / _HOUR:.0f} hours"
    return f"about {seconds / _DAY:.0f} days"
