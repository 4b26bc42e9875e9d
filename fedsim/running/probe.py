"""The cost of a job's first rounds: a dry run, recorded separately.

The job's method runs in the job's world with the job's random streams. So the rounds equal the
first rounds of a run, in every message, bit and joule: with promotions of radios, latency, client
sampling, lost packets, and everything that a method sends beside its model. Nothing is written into
the folder of runs. Later rounds are not simulated.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.errors import RunError
from fedsim.core.ports import SERVER, Array
from fedsim.core.streams import drawing
from fedsim.core.text import format_number
from fedsim.physics.batteries import Battery
from fedsim.problems.evaluators.serial import one_thread
from fedsim.protocol.silence import BeaconSilence
from fedsim.protocol.stop_rules import RoundEnd
from fedsim.results.record.recorder import RunRecorder
from fedsim.results.record.rounds import Traffic
from fedsim.results.record.schema import Event, RowColumns
from fedsim.scenario import Plan
from fedsim.scenario.building import Builder, Job
from fedsim.sim.config import WorldConfig
from fedsim.sim.world import World

# Round times on this machine: the mean of the rounds after the first one.
#
# The first round is left out, since kernels are compiled and files are read in it. The probe's
# readings between two rounds are left out as well, since a run does not take them. A round counts
# with the smaller of wall-clock and processor time, so that other programs do not count.

_FEWEST = 2  # rounds that are timed in any case


class Enough(RunError):
    """Rounds have been timed for the requested time."""


class Pace:
    """Measures the real time of rounds.

    Args:
        budget: seconds for which rounds are timed; at least two rounds are.
    """

    def __init__(self, budget: float) -> None:
        self._budget = budget
        self._marks = 0
        self._resumed = (0.0, 0.0)  # wall-clock and processor time at the end of the last mark
        self._first, self._later = 0.0, 0.0  # seconds of the first round, and of all others

    @property
    def seconds(self) -> float:
        """Seconds per round; 0 if no round has ended."""
        rounds = self._marks - 1
        return self._later / (rounds - 1) if rounds > 1 else self._first

    @contextmanager
    def round(self) -> Iterator[None]:
        """Mark the end of a round, or the start of the first; the block's time does not count.

        Raises:
            Enough: rounds have been timed for the requested time.
        """
        self._mark()
        yield
        if self._marks > _FEWEST and self._first + self._later > self._budget:
            raise Enough("timed for the requested time")
        self._resumed = perf_counter(), process_time()

    def _mark(self) -> None:
        wall, worked = perf_counter(), process_time()
        elapsed = min(wall - self._resumed[0], worked - self._resumed[1])
        if self._marks == 1:
            self._first = elapsed
        elif self._marks > 1:
            self._later += elapsed
        self._marks += 1


ROUNDS = 2
"""Number of rounds whose cost is shown: in the first one radios start from idle, later not."""

MOST = 500
"""Largest number of rounds that are timed."""

_ROWS, _ROWS_EACH = 100_000, 10_000
"""Largest number of log rows of a probe: a constant, and a term per client."""


class Endless(RunError):
    """The first rounds did not end within the largest number of log rows."""


@dataclass(frozen=True)
class RoundCost:
    """One round of a run.

    Attributes:
        seconds: its duration.
        traffic: its cost for all clients together, as in the round table.
        clients: one row per client, with the cost columns of the client table.
        joules_after: what radios take after it until they sleep, if the run ends with it.
    """

    seconds: float
    traffic: Traffic
    clients: pd.DataFrame
    joules_after: float = 0.0


@dataclass(frozen=True)
class Opening:
    """The first rounds of a run.

    Attributes:
        rounds: `ROUNDS` rounds, or fewer if the run ends earlier.
        ended: why the run ended earlier; empty if it did not.
        lasts: number of rounds like the last one until each battery is below its threshold of
            participation, from its initial charge and without charging; infinite on mains and if a
            round draws nothing.
        shares: share of each battery that such a round takes, shape (M,); NaN on mains.
        drew: whether any random number was drawn.
        replies: shortest time from the server's message to a client's reply, s, shape (M,); NaN of
            a client without one, and without a server.
        first_replies: the same for each client's first reply, before which its radio is idle.
        pace: real time of a round on this machine, s; see `fedsim.running.probe`.
    """

    rounds: tuple[RoundCost, ...]
    ended: str
    lasts: Array
    shares: Array
    drew: bool
    replies: Array
    first_replies: Array
    pace: float = 0.0


def opening(job: Job, timed: float = 0.0, *, patient: bool = False) -> Opening:
    """Simulate the first rounds of a job's run.

    Args:
        job: the run.
        timed: seconds of real time for which further rounds are simulated, to time them.
        patient: whether rounds wait for all replies, without the deadline and quorum of the run.
    """
    with drawing() as has_drawn:
        setup = replace(job).setup  # a copy: the probe must not advance the run's random streams
        if patient:
            setup = _without_deadline(setup)
        most = min(MOST if timed else ROUNDS, setup.stop.rounds)
        setup = replace(setup, stop=setup.stop.model_copy(update={"rounds": most}))
        pace = Pace(timed)
        replies = _Replies(len(setup.fleet))
        rounds, ended = _first(setup, pace, replies)
    lasts, shares = _batteries(setup, rounds)
    ended = ended if len(rounds) < ROUNDS else ""
    found = tuple(rounds), ended, lasts, shares, has_drawn()
    return Opening(*found, replies.shortest, replies.first, pace.seconds)


def _without_deadline(setup: WorldConfig) -> WorldConfig:
    """Return a setup whose rounds wait for every reply."""
    policy = setup.participation
    rules: dict[str, Any] = {
        key: None for key in ("deadline", "quorum") if key in type(policy).model_fields
    }
    patient = policy.model_copy(update=rules)
    return replace(setup, participation=patient, silence=BeaconSilence())


class _Replies:
    """Collects from the log how long clients take to reply.

    Attributes:
        shortest: as `Opening.replies`.
        first: as `Opening.first_replies`.
    """

    def __init__(self, clients: int) -> None:
        self.shortest, self.first = np.full((2, clients), np.nan)
        self._asked = 0.0  # when the server opened the last exchange

    def see(self, rows: RowColumns) -> None:
        """Receive a chunk of the log."""
        event, times = rows["event"], rows["t"]
        opened = np.where(event == Event.EXCHANGE, times, -inf)
        since = np.maximum(np.maximum.accumulate(opened), self._asked) if len(rows) else opened
        arrived = (event == Event.RECEIVE) & (rows["node"] == SERVER) & (rows["peer"] >= 0)
        arrived &= rows["peer"] < len(self.shortest)
        clients, took = rows["peer"][arrived], (times - since)[arrived]
        np.fmin.at(self.shortest, clients, took)
        clients, places = np.unique(clients, return_index=True)  # the first row of each
        new = np.isnan(self.first[clients])
        self.first[clients[new]] = took[places[new]]
        self._asked = float(since[-1]) if len(rows) else self._asked


def _first(setup: WorldConfig, pace: Pace, replies: _Replies) -> tuple[list[RoundCost], str]:
    """Return the first rounds of a world, and the reason for its end."""
    with tempfile.TemporaryDirectory() as name:
        book = _book(Path(name), len(setup.fleet), replies)
        marks: list[_Mark] = []

        def mark(end: RoundEnd) -> None:
            with pace.round():
                if len(marks) > ROUNDS:
                    return
                spent = book.clients({}, world.meters()).set_index("client")
                # As in the round table, with what open spans have taken so far.
                spans, tails = world.unsettled
                spent["joules"] += np.bincount(spans.clients, spans.joules, len(spent))
                traffic = replace(world.traffic, joules=end.joules)
                marks.append(_Mark(end.t, traffic, spent, float(tails.joules.sum())))

        world = World(setup, book, mark)  # also marks round 0, before any cost
        try:
            with one_thread(), np.errstate(over="ignore", invalid="ignore"):
                ended = world.run()
        except RunError as error:
            ended = str(error)
    return [_between(*pair) for pair in pairwise(marks)], ended


def _book(folder: Path, clients: int, replies: _Replies) -> RunRecorder:
    """Return a recorder that raises `Endless` if its log becomes too long."""
    rows, most = 0, _ROWS + _ROWS_EACH * clients

    def count(chunk: RowColumns) -> None:
        nonlocal rows
        rows += len(chunk)
        replies.see(chunk)
        if rows > most:
            raise Endless(f"not over after {most:,} rows of the log, at {book.ledger.t:g} s")

    book = RunRecorder(folder, clients, look=count)
    return book


class _Mark(NamedTuple):
    """Simulated time and costs up to the end of a round."""

    now: float
    traffic: Traffic
    clients: pd.DataFrame
    joules_after: float


def _between(before: _Mark, after: _Mark) -> RoundCost:
    """Return the cost of the round between two marks."""
    was = before.traffic.as_dict()
    spent = {name: total - was[name] for name, total in after.traffic.as_dict().items()}
    clients = after.clients - before.clients
    traffic = Traffic(**spent)  # type: ignore[arg-type]  # counts are whole
    return RoundCost(after.now - before.now, traffic, clients, after.joules_after)


def _batteries(setup: WorldConfig, rounds: list[RoundCost]) -> tuple[Array, Array]:
    """Return `Opening.lasts` and `Opening.shares`."""
    powered = [(member.battery, member.capacity) for member in setup.fleet]
    lost = [  # share of the battery per joule that the client draws
        np.nan if one is None else 1 / (one.discharge_efficiency * capacity)
        for one, capacity in powered
    ]
    joules = rounds[-1].clients["joules"].to_numpy() if rounds else np.zeros(len(lost))
    shares = joules * np.array(lost)
    usable = np.array([inf if one is None else _usable(one) for one, _ in powered])
    lasts = np.divide(usable, shares, out=np.full(len(lost), inf), where=shares > 0)
    return lasts, shares


def _usable(battery: Battery) -> float:
    """Return the share of a battery between the client's start and its threshold.

    Where it starts at the threshold or below, it is the share above the cut-off.
    """
    begin = battery.restarts_at if battery.starts_empty else battery.charge
    return begin - (battery.threshold if begin > battery.threshold else battery.cutoff)


# Size estimates of a plan: its number of runs, and their duration on this machine.

_LONG = 2.0  # longest building time that is measured again, s

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


@dataclass(frozen=True)
class Extent:
    """Number and total duration of the runs of a plan, made one after the other.

    Attributes:
        name: the name of the plan.
        variants: the number of variants.
        seeds: the number of seeds of each variant.
        seconds: the time on this machine, if it is otherwise idle and no run ends early.
        early: whether a stop rule may end a run early.
    """

    name: str
    variants: int
    seeds: tuple[int, ...]
    seconds: float
    early: bool

    @property
    def runs(self) -> int:
        """The number of runs."""
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
    """Estimate the number and the duration of a plan's runs.

    Args:
        plan: the plan.
        jobs: its variants, each under its first seed.
        openings: the first rounds of their runs, by variant, with the time of a round.
        built: seconds that it took to build `jobs`.
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
    """Return the time to build all variants under a further seed, s.

    The first build includes loading of libraries, so a fast build is measured a second time.
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
    """Return a duration of real time in words.

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


# The cost of a round per client of each group of the fleet.

COSTS = ("bits_down", "bits_up", "receive_s", "compute_s", "send_s", "joules")
"""The columns of costs that are shown."""


def members_of(job: Job, group: int) -> NDArray[np.intp]:
    """Return the numbers of the clients of one group."""
    return np.flatnonzero(job.members.numbers() == group)


def group_costs(job: Job, began: Opening) -> pd.DataFrame:
    """Return the mean cost per client of each of the first rounds, by group of the fleet.

    One row per round and group, with the columns variant, round, group, clients, device, radio and
    those of `COSTS`.
    """
    return pd.DataFrame(list(_rows(job, began)))


def _rows(job: Job, began: Opening) -> Iterator[dict[str, object]]:
    for number, cost in enumerate(began.rounds, 1):
        for index, group in enumerate(job.groups):
            members = members_of(job, index)
            yield {
                "variant": job.variant.name,
                "round": number,
                "group": index,
                "clients": len(members),
                "device": group.device.kind,
                "radio": group.radio.kind,
                **{name: cost.clients[name].iloc[members].mean() for name in COSTS},
            }
