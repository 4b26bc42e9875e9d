"""What the first rounds of a job cost: found by letting them happen, in a book of their own.

It is the job's own method, in its own world, under its own random streams; so the rounds are those
that a run begins with, message by message, bit by bit and joule by joule: with radios that wake
up, latency, clients that are drawn, lost packets, and all that a method sends beside its model.
Nothing is written where runs are kept. What comes after the last of these rounds is not known.
"""

import tempfile
from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.building import Job
from fedsim.computing.one_thread import one_thread
from fedsim.errors import RunError
from fedsim.physics.batteries import Battery
from fedsim.ports import Array
from fedsim.record.book import Book
from fedsim.record.log import Rows
from fedsim.record.rounds import Traffic
from fedsim.running.pace import Pace
from fedsim.sim.setup import Setup
from fedsim.sim.world import World
from fedsim.streams import drawing

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
        clients: one row a client: the columns of the client table that are costs.
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
        pace: seconds that this machine takes for a round, see `fedsim.running.pace`.
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


def _first(setup: Setup, pace: Pace) -> tuple[list[RoundCost], str]:
    """Return the first rounds of a world, and why it ends."""
    with tempfile.TemporaryDirectory() as name:
        book = _book(Path(name), len(setup.fleet))
        marks: list[_Mark] = []

        def mark(*_: float) -> None:
            with pace.round():
                if len(marks) > ROUNDS:
                    return
                spent = book.clients({}, world.meters()).set_index("client")
                marks.append(_Mark(world.calendar.now, replace(world.traffic), spent))

        world = World(setup, book, mark)
        mark()
        try:
            with one_thread(), np.errstate(over="ignore", invalid="ignore"):
                ended = world.run()
        except RunError as error:
            ended = str(error)
    return [_between(*pair) for pair in pairwise(marks)], ended


def _book(folder: Path, clients: int) -> Book:
    """Return a book that is never closed, and refuses to become too long."""
    rows, most = 0, _ROWS + _ROWS_EACH * clients

    def count(chunk: Rows) -> None:
        nonlocal rows
        rows += len(chunk)
        if rows > most:
            raise Endless(f"not over after {most:,} rows of the log, at {book.ledger.t:g} s")

    book = Book(folder, clients, look=count)
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


def _batteries(setup: Setup, rounds: list[RoundCost]) -> tuple[Array, Array]:
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
