r"""FLASH's state traces: states that phones reported, and their availability.

Yang et al., "Characterizing Impacts of Heterogeneity in Federated Learning upon Large-Scale
Smartphone Data", WWW 2021, https://github.com/PKU-Chengxu/FLASH, data/state_traces.json: an object
of {user: {"messages": "2020-02-01 10:20:30\tscreen_lock\n...", "guid": ..., "model": ...}}.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import ClassVar, Literal, TypeVar

import numpy as np

from fedsim.core.errors import DataError
from fedsim.physics.formats.pickles import Tree, read_json
from fedsim.physics.headers import CLIENT, Column, words
from fedsim.physics.signals import Steps
from fedsim.physics.tables import read_table

# Periodic availability: the pattern of a user, whose trace starts again after its end.

T = TypeVar("T")


def _edges(begins: tuple[float, ...], ends: tuple[float, ...]) -> list[float]:
    """Return the begins and ends of intervals alternately.

    Raises:
        ValueError: an interval does not end after it begins.
    """
    if not all(begin < end for begin, end in zip(begins, ends, strict=True)):
        raise ValueError("every interval must end after it begins")
    return [edge for pair in zip(begins, ends, strict=True) for edge in pair]


@dataclass(frozen=True, slots=True)
class Cycle:
    """Online from begins[i] to ends[i] of every cycle.

    Attributes:
        begins: increasing times between 0 and the period, s.
        ends: the ends of these intervals, which do not overlap, s.
        period: the period of a cycle, s.
        offset: the time in the cycle at which the run starts, s.

    Raises:
        ValueError: intervals are reversed, overlap, or extend beyond the cycle.
    """

    begins: tuple[float, ...]
    ends: tuple[float, ...]
    period: float
    offset: float = 0.0
    always: ClassVar[bool] = False
    chance: ClassVar[float] = 1.0
    reaction: ClassVar[str] = "clients come and go"

    def __post_init__(self) -> None:
        edges = _edges(self.begins, self.ends)
        if edges != sorted(edges):
            raise ValueError("intervals must be in order and not overlap")
        if not (0 < self.period < inf and all(0 <= edge <= self.period for edge in edges)):
            raise ValueError("intervals must be within a cycle of finite length above 0 s")

    @property
    def share(self) -> float:
        """The share of time online."""
        return (sum(self.ends) - sum(self.begins)) / self.period

    def _edges(self) -> list[float]:
        """Return the times in a cycle at which the state toggles, in increasing order, s."""
        toggles: set[float] = set()
        for edge in (*self.begins, *self.ends):  # two toggles at one time cancel
            toggles ^= {0.0 if edge == self.period else edge}
        return sorted(toggles)

    def _there(self, place: float) -> bool:
        pairs = zip(self.begins, self.ends, strict=True)
        return any(begin <= place < end for begin, end in pairs)

    def timeline(self, rng: np.random.Generator) -> tuple[bool, Iterator[float]]:
        """Return whether the client is online at time 0, and the times at which that toggles, s."""
        offset = self.offset % self.period
        return self._there(offset), self._toggles(self._edges(), offset)

    def _toggles(self, edges: Sequence[float], offset: float) -> Iterator[float]:
        cycle = 0
        # A client that never toggles has no edges, and the loop must end.
        while edges:
            for edge in edges:
                time = cycle * self.period + (edge - offset)
                if time > 0:
                    yield time
            cycle += 1

    def signal(self, value: float) -> Steps:
        """Return the signal with a given value while the client is online, and 0 otherwise."""
        times = sorted({0.0, *self._edges()})
        values = [value if self._there(time) else 0.0 for time in times]
        return Steps(times, values, self.period).shift(self.offset)


class Users(Mapping[int, T]):
    """The traces of users by client: client k follows the k-th user of a file, cyclically.

    Args:
        users: the traces, at least one.
    """

    def __init__(self, users: Sequence[T]) -> None:
        self.users = tuple(users)

    def __getitem__(self, client: int) -> T:
        return self.users[client % len(self.users)]

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.users)))

    def __len__(self) -> int:
        return len(self.users)


Condition = Literal["idle", "charging", "wifi"]
"""A state of a phone: locked, charging, or connected to Wi-Fi."""

_TIME = "%Y-%m-%d %H:%M:%S"
_DAY = 86400.0

_STATES: dict[str, tuple[Condition, bool]] = {
    "screen_lock": ("idle", True),
    "screen_unlock": ("idle", False),
    "battery_charged_on": ("charging", True),
    "battery_charged_off": ("charging", False),
    "wifi": ("wifi", True),
    **dict.fromkeys(("unknown", "2g", "3g", "4g", "5g"), ("wifi", False)),
}
_OTHERS = frozenset(
    {"screen_on", "screen_off", "battery_low", "battery_okay", "phone_on", "phone_off"}
)

_Event = tuple[float, str]


def read_states(path: Path, when: str) -> Users[Cycle]:
    """Read the times at which phones had several states at once, such as idle and charging.

    A phone is idle while it is locked, as in FLASH. Before its first message about a state it does
    not have this state. Its trace starts again after its last message. The run starts at midnight
    before the first message of all users. As in FLASH, a user is ignored if the messages are
    malformed, span no time, or never have all of the states at once.

    Args:
        path: the file, which may be compressed by gzip, bzip2 or xz.
        when: the states, separated by commas.

    Returns:
        The users in the order of the file, cyclically.

    Raises:
        DataError: the file cannot be read or has another form, or no user is left; the text has the
            fault of the first user.
    """
    members = read_json(path, "states").members()
    faults: list[str] = []
    traces = [found for each in members.values() if (found := _events(each, faults))]
    midnight = min((events[0][0] // _DAY * _DAY for events in traces), default=0.0)
    wanted = frozenset(when.split(","))
    users = [_cycle(events, wanted, midnight) for events in traces]
    kept = [user for user in users if user is not None]
    if not kept:
        first = faults[0] if faults else f"none is ever {' and '.join(sorted(wanted))} at once"
        wants = "expected lines of messages such as 2020-02-01 10:20:30, a tab, and a state"
        raise DataError(
            "states", f"{path} has no user whose messages can be used: {first}; {wants}"
        )
    return Users(kept)


def read_charging(path: Path, user: int, power: float) -> Steps:
    """Read the times at which a phone was charging, as the offered power, W.

    Args:
        path: the file, as in `read_states`.
        user: the index, from 0, among the users that ever reported charging.
        power: the power of the charger, W.

    Raises:
        DataError: see `read_states`; or the file has fewer users.
    """
    users = read_states(path, "charging")
    if user >= len(users):
        text = f"{path} has {len(users)} users that charge, and no user {user} (from 0)"
        raise DataError("states", text)
    return users[user].signal(power)


def _events(user: Tree, faults: list[str]) -> list[_Event]:
    """Return the messages of a user by time; malformed ones add a fault, and none are returned."""
    text = user["messages"].text()
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        events = sorted((_event(line) for line in lines), key=lambda each: each[0])
    except ValueError:
        wrong = next(line for line in lines if not _sound(line))
        faults.append(f"at {user.place}: got {wrong.strip()[:60]!r}")
        return []
    if not events or events[-1][0] <= events[0][0]:
        faults.append(f"at {user.place}: {len(events)} messages that span no time")
        return []
    return events


def _event(line: str) -> _Event:
    time, state = (part.strip() for part in line.strip().split("\t"))
    state = state.lower()
    if state not in _STATES and state not in _OTHERS and not _is_level(state):
        raise ValueError
    return datetime.strptime(time, _TIME).replace(tzinfo=UTC).timestamp(), state


def _sound(line: str) -> bool:
    try:
        _event(line)
    except ValueError:
        return False
    return True


def _is_level(state: str) -> bool:
    """Return whether a state is the battery's level, such as "73.0%".

    Raises:
        ValueError: it ends with %, but has no number.
    """
    if state.endswith("%"):
        float(state[:-1])  # malformed if this fails
        return True
    return False


def _cycle(events: list[_Event], wanted: frozenset[str], midnight: float) -> Cycle | None:
    """Return the times at which all states hold at once; None if they never do."""
    start, end = events[0][0], events[-1][0]
    # States that still hold at the last message end there.
    toggles = [*_toggles(events, wanted), end]
    spans = zip(toggles[::2], toggles[1::2], strict=False)  # from each begin to the next end
    pairs = [(begin - start, stop - start) for begin, stop in spans if begin < stop]
    if not pairs:
        return None
    period = end - start
    return Cycle(
        tuple(begin for begin, _ in pairs),
        tuple(stop for _, stop in pairs),
        period,
        (midnight - start) % period,
    )


def _toggles(events: list[_Event], wanted: frozenset[str]) -> Iterator[float]:
    """Yield the times at which the conjunction of all states begins and ends, alternately."""
    # A state that a phone has not reported yet counts as not holding.
    holds: dict[str, bool] = {}
    there = False
    for time, state in events:
        if state in _STATES:
            name, on = _STATES[state]
            holds[name] = on
        now = all(holds.get(state, False) for state in wanted)
        if now != there:
            there = now
            yield time


# Availability from a file with the columns client, start, end.


@dataclass(frozen=True, slots=True)
class Intervals:
    """Online from begins[i] to ends[i], and offline otherwise.

    Attributes:
        begins: increasing times, s.
        ends: the ends of these intervals, s; the last one may be infinite.

    Raises:
        ValueError: intervals are reversed, overlap, or begin before 0.
    """

    begins: tuple[float, ...]
    ends: tuple[float, ...]
    always: ClassVar[bool] = False
    chance: ClassVar[float] = 1.0
    reaction: ClassVar[str] = "clients come and go"

    def __post_init__(self) -> None:
        edges = _edges(self.begins, self.ends)
        if edges != sorted(edges) or (edges and edges[0] < 0):
            raise ValueError("intervals must begin at 0 or later, be in order, and not overlap")

    def timeline(self, rng: np.random.Generator) -> tuple[bool, Iterator[float]]:
        """Return the toggles; an end that coincides with the next begin is none."""
        edges = set(self.begins) ^ set(self.ends)
        online = 0.0 in self.begins
        return online, iter(sorted(edges - {0.0, inf}))


NEVER = Intervals((), ())


_COLUMNS = (
    Column("client", words=CLIENT),
    Column("start", "s", "s", words("start begin on since online from connect")),
    Column("end", "s", "s", words("end stop finish off until offline to disconnect")),
)


def read_intervals(path: Path) -> Mapping[int, Intervals]:
    """Read the times at which clients are online: a CSV file with columns client, start, end, in s.

    Rows may be in any order. Clients without a row are never online. Times start with the run; an
    end of "inf" means no end. For headers, dates and times since 1970 see
    `fedsim.physics.tables.read_table`.

    Returns:
        The intervals by client number, for clients that have some.

    Raises:
        DataError: the file cannot be read, a line is malformed, or intervals of one client overlap;
            the text names the lines.
    """
    table = read_table(path, _COLUMNS, "intervals")
    client, start, end = table.columns
    table.refuse_clients(client)
    table.refuse(~((start >= 0) & (start < inf)), "a start must be at least 0 s")
    table.refuse(~(end > start), "an interval must end after it starts")
    # np.lexsort sorts by its last key first: by client, and then by start.
    order = np.lexsort((start, client))
    same = client[order[1:]] == client[order[:-1]]
    overlaps = same & (start[order[1:]] < end[order[:-1]])
    if overlaps.any():
        at = int(np.argmax(overlaps))
        before, after = order[at : at + 2]
        table.fail(after, f"it begins before the interval of line {table.numbers[before]} ends")
    # No client has the number -1, so the first row begins a group, too.
    first = np.flatnonzero(np.diff(client[order], prepend=-1.0))
    return {
        int(client[rows[0]]): Intervals(tuple(start[rows].tolist()), tuple(end[rows].tolist()))
        for rows in np.split(order, first[1:])
    }
