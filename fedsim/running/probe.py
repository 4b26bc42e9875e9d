"""The cost of a job's first rounds: a dry run, recorded separately.

It is the job's own method, in its own world, under its own random streams; so the rounds are those
that a run begins with, message by message, bit by bit and joule by joule: with radios that wake
up, latency, clients that are drawn, lost packets, and all that a method sends beside its model.
Nothing is written where runs are kept. What comes after the last of these rounds is not known.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.errors import RunError
from fedsim.core.ports import Array
from fedsim.core.streams import drawing
from fedsim.core.text import format_number
from fedsim.physics.batteries import Battery
from fedsim.problems.evaluators.serial import one_thread
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import RowColumns
from fedsim.scenario import Plan
from fedsim.scenario.building import Builder, Job
from fedsim.sim.config import WorldConfig
from fedsim.sim.world import World

# Round times on this machine: the mean of the rounds after the first one.
#
# The first one is left out, in which kernels are compiled and files are read; and what is looked up
# between two rounds, as the run itself does without it. A round takes no longer than the processor
# was at work for it, on however many threads: what other programs take from it is not counted.

_FEWEST = 2  # rounds that are timed in any case


class Enough(RunError):
    """Rounds have been timed for as long as was wanted."""


class Pace:
    """Keeps the time between the marks that ends of rounds are.

    Args:
        wanted: seconds for which rounds are timed; two at the least, if there are so many.
    """

    def __init__(self, wanted: float) -> None:
        self._wanted = wanted
        self._marks = 0
        self._left = (0.0, 0.0)  # when the clocks of the wall and of the processor went on
        self._first, self._later = 0.0, 0.0  # seconds of the first round, and of all others

    @property
    def seconds(self) -> float:
        """Of a round; 0 where none has ended."""
        rounds = self._marks - 1
        return self._later / (rounds - 1) if rounds > 1 else self._first

    @contextmanager
    def round(self) -> Iterator[None]:
        """Note the end of a round, or the start of the first; what is done within takes no time.

        Raises:
            Enough: rounds have been timed for as long as is wanted.
        """
        self._note()
        yield
        if self._marks > _FEWEST and self._first + self._later > self._wanted:
            raise Enough("timed for as long as is wanted")
        self._left = perf_counter(), process_time()

    def _note(self) -> None:
        wall, worked = perf_counter(), process_time()
        taken = min(wall - self._left[0], worked - self._left[1])
        if self._marks == 1:
            self._first = taken
        elif self._marks > 1:
            self._later += taken
        self._marks += 1


ROUNDS = 2
"""How many rounds are looked at: in the first one radios are idle still, in the second not."""

MOST = 500
"""How many there are at the most where they are timed."""

_ROWS, _ROWS_EACH = 100_000, 10_000
"""Rows of the log after which rounds that do not end are left: so many, and so many a client."""


class Endless(RunError):
    """The first rounds have filled a log and are not over."""


@dataclass(frozen=True)
class RoundCost:
    """One round of a run.

    Attributes:
        seconds: how long it takes.
        traffic: what it costs all clients together, as the round table has it.
        clients: one row per client: the columns of the client table that are costs.
    """

    seconds: float
    traffic: Traffic
    clients: pd.DataFrame


@dataclass(frozen=True)
class Opening:
    """How a run begins.

    Attributes:
        rounds: its first rounds, `ROUNDS` of them where nothing ends it before.
        ended: why there are no more of them; empty where there are.
        lasts: in how many rounds like the last one each battery would be empty from its charge at
            the start, if nothing charged it; infinite on mains and where a round draws nothing.
        shares: what share of each battery such a round takes, shape (M,); NaN on mains.
        drew: whether a random stream was drawn from.
        pace: seconds that this machine takes for a round, see `fedsim.running.probe`.
    """

    rounds: tuple[RoundCost, ...]
    ended: str
    lasts: Array
    shares: Array
    drew: bool
    pace: float = 0.0


def opening(job: Job, timed: float = 0.0) -> Opening:
    """Return how a job's run begins.

    Args:
        job: the run.
        timed: seconds of real time for which it goes on after its first rounds, to be timed.
    """
    with drawing() as drawn:
        setup = replace(job).setup  # another one than the run's, which has streams of its own
        most = min(MOST if timed else ROUNDS, setup.stop.rounds)
        setup = replace(setup, stop=setup.stop.model_copy(update={"rounds": most}))
        pace = Pace(timed)
        rounds, ended = _first(setup, pace)
    lasts, shares = _batteries(setup, rounds)
    ended = ended if len(rounds) < ROUNDS else ""
    return Opening(tuple(rounds), ended, lasts, shares, drawn(), pace.seconds)


def _first(setup: WorldConfig, pace: Pace) -> tuple[list[RoundCost], str]:
    """Return the first rounds of a world, and why it ends."""
    with tempfile.TemporaryDirectory() as name:
        book = _book(Path(name), len(setup.fleet))
        marks: list[_Mark] = []

        def mark(*_: object) -> None:
            with pace.round():
                if len(marks) > ROUNDS:
                    return
                spent = book.clients({}, world.meters()).set_index("client")
                marks.append(_Mark(world.calendar.now, replace(world.traffic), spent))

        world = World(setup, book, mark)  # which marks round 0, where nothing is spent yet
        try:
            with one_thread(), np.errstate(over="ignore", invalid="ignore"):
                ended = world.run()
        except RunError as error:
            ended = str(error)
    return [_between(*pair) for pair in pairwise(marks)], ended


def _book(folder: Path, clients: int) -> RunRecorder:
    """Return a book that is never closed, and refuses to become too long."""
    rows, most = 0, _ROWS + _ROWS_EACH * clients

    def count(chunk: RowColumns) -> None:
        nonlocal rows
        rows += len(chunk)
        if rows > most:
            raise Endless(f"not over after {most:,} rows of the log, at {book.ledger.t:g} s")

    book = RunRecorder(folder, clients, look=count)
    return book


class _Mark(NamedTuple):
    """What has been spent until the end of a round.

    Attributes:
        now, traffic, clients: simulated time and costs so far.
    """

    now: float
    traffic: Traffic
    clients: pd.DataFrame


def _between(before: _Mark, after: _Mark) -> RoundCost:
    """Return the round between two marks."""
    was = before.traffic.as_dict()
    spent = {name: total - was[name] for name, total in after.traffic.as_dict().items()}
    clients = after.clients - before.clients
    traffic = Traffic(**spent)  # type: ignore[arg-type]  # counts are whole
    return RoundCost(after.now - before.now, traffic, clients)


def _batteries(setup: WorldConfig, rounds: list[RoundCost]) -> tuple[Array, Array]:
    """Return how many rounds like the last each battery lasts, and its share of each."""
    powered = [(member.battery, member.capacity) for member in setup.fleet]
    lost = [  # of the battery, for a joule that the client draws
        np.nan if one is None else 1 / (one.discharge_efficiency * capacity)
        for one, capacity in powered
    ]
    joules = rounds[-1].clients["joules"].to_numpy() if rounds else np.zeros(len(lost))
    shares = joules * np.array(lost)
    usable = np.array([inf if one is None else _usable(one) for one, _ in powered])
    lasts = np.divide(usable, shares, out=np.full(len(lost), inf), where=shares > 0)
    return lasts, shares


def _usable(battery: Battery) -> float:
    """Return the share of a battery that its client has to spend once it is on."""
    begin = battery.restarts_at if battery.starts_empty else battery.charge
    return begin - battery.cutoff


# Size estimates of a plan: its number of runs, and their duration on this machine.

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
        unless = ", or less if a stop rule ends runs early" if self.early else ""
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
    early = any(rule.early for variant in plan.variants for rule in variant.scenario.stop.rules)
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
        return f"about {format_number(seconds, '.0f')} s"
    if seconds < 2 * _HOUR:
        return f"about {format_number(seconds / _MINUTE, '.0f')} minutes"
    if seconds < 2 * _DAY:
        return f"about {format_number(seconds / _HOUR, '.0f')} hours"
    return f"about {format_number(seconds / _DAY, '.0f')} days"


# The cost of a round for a client of each group of the fleet.

COSTS = ("bits_down", "bits_up", "receive_s", "compute_s", "send_s", "joules")
"""The columns of costs that are shown."""


def members_of(job: Job, group: int) -> NDArray[np.intp]:
    """Return the numbers of the clients of one group."""
    return np.flatnonzero(job.members.numbers() == group)


def group_costs(job: Job, began: Opening) -> pd.DataFrame:
    """Return the means over the clients of each group of what each first round costs one.

    One row per round and group, with the columns variant, round, group, clients, device, radio and
    those of `COSTS`.
    """
    return pd.DataFrame(list(_rows(job, began)))


def _rows(job: Job, began: Opening) -> Iterator[dict[str, object]]:
    for number, cost in enumerate(began.rounds, 1):
        for index, group in enumerate(job.groups):
            mine = members_of(job, index)
            yield {
                "variant": job.variant.name,
                "round": number,
                "group": index,
                "clients": len(mine),
                "device": group.device.kind,
                "radio": group.radio.kind,
                **{name: cost.clients[name].iloc[mine].mean() for name in COSTS},
            }
