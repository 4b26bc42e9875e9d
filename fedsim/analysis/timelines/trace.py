"""A run as a trace: the JSON object that Perfetto and chrome://tracing open.

Trace Event Format, Google 2016. Every kind of client is a process, every client a thread in it
under its own name, with another one for its radio; what they were doing are complete events
("X"), what happened to them instants ("i"). The server's process has the rounds, which are
instants of the whole trace, too, and counters ("C") of the load; counters of state of charge
stand with their clients. Times are microseconds. Within each of these parts they never run
back, and on a thread nothing overlaps; thread numbers are unique in the whole trace, because
Perfetto names threads by them alone.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import NamedTuple
from zlib import compressobj

import pandas as pd

from fedsim.analysis.timelines.spans import SERVER, spans
from fedsim.analysis.timelines.trace_events import (
    SERVER_PROCESS,
    charges,
    instants,
    loads,
    slices,
    us,
)
from fedsim.analysis.timelines.tracks import nanoseconds, tracks
from fedsim.record.folder import PACKED
from fedsim.record.writing import Draft

_GZIP = 31  # asks zlib for the format of gzip, which then has no date in it

_SLACK = 2000  # ns; what rounding may seem to overlap


class Window(NamedTuple):
    """A part of a run: its first and last round, and when it begins and ends, s."""

    first: int
    last: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Log:
    """What one run has written, as `fedsim.record` has it.

    Attributes:
        events, rounds, clients: its tables.
    """

    events: pd.DataFrame
    rounds: pd.DataFrame
    clients: pd.DataFrame

    def of(self, clients: Sequence[str]) -> "Log":
        """Return what the log says of some clients, and of the server."""
        nodes, peers = self.events["node"], self.events["peer"]
        about = peers.isin(clients) | peers.isna() | (peers == SERVER)
        events = self.events[nodes.isin(clients) | ((nodes == SERVER) & about)]
        return Log(events, self.rounds, self.clients[self.clients["client"].isin(clients)])

    def window(self, first: int | None = None, last: int | None = None) -> Window:
        """Return the part of the run that has these rounds, both included.

        Without a first round it begins when the run does, without a last one, or with the
        run's last one, it ends when the run does.

        Raises:
            ValueError: the run has no such rounds.
        """
        count, length = len(self.rounds), float(self.events["t"].max())
        low, high = check_rounds(first, last, count)
        ends = dict(zip(self.rounds["round"], self.rounds["t"], strict=True))
        end = length if high >= count else float(ends[high])
        return Window(low, high, float(ends.get(low - 1, 0.0)), end)


def check_rounds(first: int | None, last: int | None, count: int) -> tuple[int, int]:
    """Return the first and the last round of a part of a run; None leaves an end open.

    Raises:
        ValueError: the run, which has so many rounds, has no such part.
    """
    low, high = 1 if first is None else first, count if last is None else last
    if not (1 <= low <= high <= count) and (first, last) != (None, None):
        raise ValueError(f"the run has rounds 1 to {count}, not {low} to {high}")
    return low, high


def write_trace(path: Path, log: Log, window: Window | None = None) -> int:
    """Write the trace of a run, aside and then under its name; return its number of events.

    Args:
        path: of the file; one that ends in .gz is compressed, which Perfetto opens as it is.
        log: of the run.
        window: the part to write; spans that reach over its borders are in it, whole.

    Raises:
        OutputError: it cannot be written.
    """
    window = window or log.window()
    count = 0
    packing = compressobj(wbits=_GZIP) if path.suffix == PACKED else None
    with Draft(path) as draft:

        def write(text: str) -> None:
            draft.write(packing.compress(text.encode()) if packing else text.encode())

        write('{"displayTimeUnit":"ms","traceEvents":[\n')
        for count, line in enumerate(_lines(log, window), start=1):
            write(line if count == 1 else ",\n" + line)
        write("\n]}\n")
        if packing:
            draft.write(packing.flush())
    return count


def _lines(log: Log, window: Window) -> Iterator[str]:
    """Return the events of the trace, as JSON."""
    length = float(log.events["t"].max())
    doings = spans(log.events)
    doings = doings[(doings["end"] >= window.begin) & (doings["begin"] <= window.end)]
    doings = doings.reset_index(drop=True).assign(
        begin=lambda own: nanoseconds(own["begin"], length),
        end=lambda own: nanoseconds(own["end"], length),
    )
    kinds = _kinds(log.clients)
    pids = {name: 2 + place for place, name in enumerate(dict.fromkeys(kinds.values()))}
    processes = {node: pids[kind] for node, kind in kinds.items()}
    found = tracks(doings, list(kinds), _SLACK)
    rounds_thread = SERVER_PROCESS + len(pids) + 1
    threads = {
        track.name: rounds_thread + place
        for place, track in enumerate((each for own in found.values() for each in own), start=1)
    }
    yield _meta("process_name", SERVER_PROCESS, 0, name=SERVER)
    yield _meta("thread_name", SERVER_PROCESS, rounds_thread, name="rounds")
    for name, pid in pids.items():
        yield _meta("process_name", pid, 0, name=name)
        yield _meta("process_sort_index", pid, 0, sort_index=pid)
    for node, own in found.items():
        for track in own:
            tid = threads[track.name]
            yield _meta("thread_name", processes[node], tid, name=track.name)
            yield _meta("thread_sort_index", processes[node], tid, sort_index=tid)
    yield from _rounds(log, window, rounds_thread, length)
    yield from slices(doings, found, processes, threads)
    inside = log.events[log.events["t"].between(window.begin, window.end)]
    yield from instants(inside, processes, threads, length)
    yield from loads(log.events, (window.begin, window.end), length)
    yield from charges(inside, processes, length)


def _kinds(clients: pd.DataFrame) -> dict[str, str]:
    """Return what each client is: its group in the scenario, its device and its radio."""
    columns = (clients[name] for name in ("client", "group", "device", "radio"))
    return {
        client: f"{group}: {device}, {radio}"
        for client, group, device, radio in zip(*columns, strict=True)
    }


def _meta(what: str, pid: int, tid: int, **args: object) -> str:
    thread = {"tid": tid} if tid else {}
    content = {"name": what, "ph": "M", "pid": pid, **thread, "args": args}
    return json.dumps(content, separators=(",", ":"))


def _rounds(log: Log, window: Window, tid: int, length: float) -> Iterator[str]:
    """Return a slice for every round, with what it reached or lacked, and a mark at its end."""
    table = log.rounds
    own = table[(table["round"] >= window.first) & (table["round"] <= window.last)]
    ends = nanoseconds(own["t"], length)
    begins = nanoseconds(table["t"].shift(fill_value=0.0).loc[own.index], length)
    place = f'"pid":{SERVER_PROCESS},"tid":{tid}'
    abandoned = log.events[log.events["event"] == "abandoned"]
    reasons = dict(zip(abandoned["round"], abandoned["detail"].astype(str), strict=True))
    facts = own[["round", "objective", "gap"]].itertuples(index=False, name=None)
    for begin, end, (number, objective, gap) in zip(
        begins.tolist(), ends.tolist(), facts, strict=True
    ):
        reached = {"objective": objective, "gap": gap}
        args = ",".join(f'"{key}":{value:.9g}' for key, value in reached.items() if isfinite(value))
        if number in reasons:
            args = ",".join(filter(None, [args, f'"given up":{json.dumps(reasons[number])}']))
        ending = ", given up" if number in reasons else ""
        name = f'"name":"round {number}{ending}","cat":"round"'
        yield (
            f'{{{name},"ph":"X","ts":{us(begin)},"dur":{us(end - begin)},{place},'
            f'"args":{{{args}}}}}'
        )
        yield f'{{{name},"ph":"i","s":"g","ts":{us(end)},{place}}}'
