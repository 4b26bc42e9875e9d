"""A run as a trace: a JSON file for Perfetto and chrome://tracing.

Trace Event Format, Google 2016. Every kind of client is a process, and every client a thread in it
under its name, with a second thread for its radio. States are complete events ("X"), events
without duration are instants ("i"). The server's process has the rounds, which are
instants of the whole trace, too, and counters ("C") of the load; counters of state of charge
stand with their clients. Times are microseconds. Within each of these parts they never run
back, and on a thread nothing overlaps; thread numbers are unique in the whole trace, because
Perfetto names threads by them alone.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import NamedTuple
from zlib import compressobj

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedsim.core.atomic import Draft
from fedsim.results.analysis.client_names import client_names
from fedsim.results.analysis.costs import last_round
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.analysis.timeline import link_load, spans
from fedsim.results.record.folder import PACKED

# Tracks: the lanes of a trace, in which nothing overlaps, and their numbers.

Nanoseconds = NDArray[np.int64]

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "": ("processor", "presence", "power"),
    "radio": ("radio", "up", "down"),
}
"""Which lanes of a client share a track as long as they do not overlap, and the track's name."""

_FINE, _COARSE = 1, 1000  # ns; a viewer reads times as doubles in microseconds
_LONG = 1e6  # s; times of longer runs are rounded to microseconds


def nanoseconds(seconds: pd.Series, length: float) -> Nanoseconds:
    """Return times in whole nanoseconds, rounded to microseconds if the run is long.

    Args:
        seconds: times, s.
        length: of the run, s.
    """
    grain = _FINE if length <= _LONG else _COARSE
    ticks = np.rint(seconds.to_numpy(np.float64) * (1e9 / grain))
    return ticks.astype(np.int64) * grain


@dataclass(slots=True)
class Track:
    """A track: its name, and the begins and ends of its spans."""

    name: str
    begins: Nanoseconds = field(default_factory=lambda: np.zeros(0, np.int64))
    ends: Nanoseconds = field(default_factory=lambda: np.zeros(0, np.int64))
    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def has_room(self, begins: Nanoseconds, ends: Nanoseconds, slack: int) -> bool:
        """Return whether spans overlap those of the track by no more than rounding.

        Args:
            begins: of spans that do not overlap each other, in order, ns.
            ends: of the same spans, ns.
            slack: the largest rounding error, ns.
        """
        # The first span of the track that ends after a new one begins must not begin before that
        # ends.
        after = np.searchsorted(self.ends, begins + slack, side="right")
        nearby = np.append(self.begins, np.iinfo(np.int64).max)[after]
        return bool((nearby >= ends - slack).all())

    def add(self, begins: Nanoseconds, ends: Nanoseconds, rows: NDArray[np.int64]) -> None:
        """Add spans, and their numbers."""
        begins, ends = np.append(self.begins, begins), np.append(self.ends, ends)
        order = np.lexsort((ends, begins))
        self.begins, self.ends = begins[order], ends[order]
        self.rows = np.append(self.rows, rows)[order]

    def settle(self) -> None:
        """Move each begin to the end of the span before it, if rounding made them overlap."""
        before = np.append(0, np.maximum.accumulate(self.ends)[:-1]) if len(self.ends) else 0
        self.begins = np.maximum(self.begins, before)
        self.ends = np.maximum(self.ends, self.begins)


def tracks(spans: pd.DataFrame, clients: Sequence[str], slack: int) -> dict[str, list[Track]]:
    """Return the tracks of each client: the fewest without overlaps.

    Every client has a track under its own name. Spans of its radio go on a second one, and spans
    that would overlap there, such as a download during an upload, on a third.

    Args:
        spans: with the columns node, lane, begin and end, the times in ns.
        clients: the nodes, in order.
        slack: the largest rounding error, ns.
    """
    lanes: dict[tuple[str, str], pd.DataFrame] = {
        (str(node), str(lane)): own
        for (node, lane), own in spans.groupby(["node", "lane"], observed=True, sort=False)
    }
    by_node = {}
    for node in clients:
        by_node[node] = [Track(node)]
        for family, members in FAMILIES.items():
            shared = by_node[node] if not family else []
            for lane in members:
                if (node, lane) in lanes:
                    name = f"{node} {lane if shared else family}"
                    _place(shared, lanes[node, lane], name, slack)
            if family:
                by_node[node] += shared
        for track in by_node[node]:
            track.settle()
    return by_node


def _place(shared: list[Track], lane_spans: pd.DataFrame, name: str, slack: int) -> None:
    """Put a lane on the first track with room for it, or on a new track of that name."""
    rows = lane_spans.index.to_numpy(np.int64)
    begins, ends = lane_spans["begin"].to_numpy(), lane_spans["end"].to_numpy()
    order = np.lexsort((ends, begins))
    begins, ends, rows = begins[order], ends[order], rows[order]
    for track in shared:
        if track.has_room(begins, ends, slack):
            track.add(begins, ends, rows)
            return
    shared.append(Track(name))
    shared[-1].add(begins, ends, rows)


# Events of a trace as JSON: spans of clients, instants, counters.
#
# They are formatted as text without a dictionary per event, since there are as many as rows of the
# log.

INSTANTS = ("silent", "sampled", "skipped", "late", "lost")
"""Events without duration that a trace shows at their client."""

SERVER_PROCESS = 1
"""The process number of the server."""

_CHUNK = 16384


def slices(
    doings: pd.DataFrame,
    tracks_by_node: Mapping[str, list[Track]],
    processes: Mapping[str, int],
    threads: Mapping[str, int],
) -> Iterator[str]:
    """Return the spans of clients, in the order of their begins."""
    begins = doings["begin"].to_numpy(copy=True)
    ends = doings["end"].to_numpy(copy=True)
    tids = np.zeros(len(doings), np.int64)
    pids = np.zeros(len(doings), np.int64)
    for node, own in tracks_by_node.items():
        for track in own:
            begins[track.rows], ends[track.rows] = track.begins, track.ends
            tids[track.rows], pids[track.rows] = threads[track.name], processes[node]
    order = np.argsort(begins, kind="stable")
    for begin in range(0, len(order), _CHUNK):
        places = order[begin : begin + _CHUNK]
        rows, starts = doings.take(places), begins[places]
        numbers = (starts, ends[places] - starts, pids[places], tids[places])
        facts = (rows["round"], _texts(rows["message"]), rows["bits"], rows["joules"])
        columns = (rows["state"], *numbers, *facts, _texts(rows["detail"]))
        for row in zip(*(column.tolist() for column in columns), strict=True):
            state, ts, dur, pid, tid, number, message, bits, joules, detail = row
            args = f'"joules":{joules:.6g}'
            if number:
                args += f',"round":{number}'
            if message:
                args += f',"message":{message},"bits":{bits}'
            if detail:
                args += f',"detail":{detail}'
            yield (
                f'{{"name":"{state}","cat":"client","ph":"X","ts":{us(ts)},"dur":{us(dur)},'
                f'"pid":{pid},"tid":{tid},"args":{{{args}}}}}'
            )


def instants(
    events: pd.DataFrame, processes: Mapping[str, int], threads: Mapping[str, int], length: float
) -> Iterator[str]:
    """Return the instants of clients."""
    rows = events[events["event"].isin(INSTANTS)]
    nodes, peers = rows["node"].astype(object), rows["peer"].astype(object)
    rows = rows.assign(node=nodes.where(nodes != SERVER, peers))
    rows = rows[rows["node"].notna()]  # a broadcast without receivers has no client
    times = nanoseconds(rows["t"], length).tolist()
    columns = (rows["event"], rows["node"], rows["round"], _texts(rows["detail"]))
    for ts, event, node, number, detail in zip(times, *columns, strict=True):
        args = f'"round":{number}' + (f',"detail":{detail}' if detail else "")
        yield (
            f'{{"name":"{event}","cat":"client","ph":"i","s":"t","ts":{us(ts)},'
            f'"pid":{processes[node]},"tid":{threads[node]},"args":{{{args}}}}}'
        )


def loads(events: pd.DataFrame, window: tuple[float, float], length: float) -> Iterator[str]:
    """Return the load of the server's link, up and down, wherever it changes."""
    begin, end = window
    load = link_load(events)
    before = load[load["t"] < begin].tail(1).assign(t=begin)
    load = pd.concat([before, load[load["t"].between(begin, end)]])
    times = nanoseconds(load["t"], length)
    for name in ("up", "down"):
        changes = (load[name] != load[name].shift()).to_numpy()
        for ts, value in zip(times[changes].tolist(), load[name][changes], strict=True):
            yield _counter(f"link load {name}", "bit/s", ts, SERVER_PROCESS, value)


def charges(events: pd.DataFrame, processes: Mapping[str, int], length: float) -> Iterator[str]:
    """Return the state of charge of every battery, wherever it changes by 0.001 %."""
    rows = events[events["state_of_charge"].notna()]
    percent = (100 * rows["state_of_charge"]).round(3)
    changes = percent != percent.groupby(rows["node"], observed=True).shift()
    rows, percent = rows[changes], percent[changes]
    times = nanoseconds(rows["t"], length).tolist()
    for ts, node, value in zip(times, rows["node"], percent, strict=True):
        yield _counter(f"{node} charge", "%", ts, processes[node], value)


def _counter(name: str, unit: str, ts: int, pid: int, value: float) -> str:
    args = f'{{"{unit}":{value:.9g}}}'
    return f'{{"name":"{name}","ph":"C","ts":{us(ts)},"pid":{pid},"args":{args}}}'


def us(nanoseconds: int) -> str:
    """Format nanoseconds as microseconds, exactly.

    >>> us(1_234_567)
    '1234.567'
    """
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def _texts(column: pd.Series) -> NDArray[np.object_]:
    """Return texts as JSON; empty for null."""
    categories = pd.Categorical(column)
    texts = [*(json.dumps(text) for text in categories.categories), ""]
    return np.asarray(np.array(texts, dtype=object)[categories.codes])


_GZIP = 31  # zlib's code for the gzip format; it writes no date

_SLACK = 2000  # ns; overlaps up to this are due to rounding


class RunWindow(NamedTuple):
    """A part of a run: its first and last round, and its begin and end, s."""

    first: int
    last: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Log:
    """The tables of one run.

    Attributes:
        events, rounds, clients: its tables.
    """

    events: pd.DataFrame
    rounds: pd.DataFrame
    clients: pd.DataFrame

    def of(self, clients: Sequence[str]) -> "Log":
        """Return the rows of some clients and of the server."""
        nodes, peers = self.events["node"], self.events["peer"]
        about = peers.isin(clients) | peers.isna() | (peers == SERVER)
        events = self.events[nodes.isin(clients) | ((nodes == SERVER) & about)]
        return Log(events, self.rounds, self.clients[self.clients["client"].isin(clients)])

    def window(self, first: int | None = None, last: int | None = None) -> RunWindow:
        """Return the part of the run from the first to the last of these rounds, both included.

        Without a first round it begins when the run does, without a last one, or with the
        run's last one, it ends when the run does.

        Raises:
            ValueError: the run has no such rounds.
        """
        count, length = last_round(self.rounds), float(self.events["t"].max())
        low, high = check_rounds(first, last, count)
        ends = dict(zip(self.rounds["round"], self.rounds["t"], strict=True))
        end = length if high >= count else float(ends[high])
        return RunWindow(low, high, float(ends.get(low - 1, 0.0)), end)


def check_rounds(first: int | None, last: int | None, count: int) -> tuple[int, int]:
    """Return the first and the last round of a part of a run; None leaves an end open.

    Raises:
        ValueError: the run lacks some of these rounds.
    """
    if not count and (first, last) != (None, None):
        raise ValueError("the run has no round")
    low, high = 1 if first is None else first, count if last is None else last
    if not (1 <= low <= high <= count) and (first, last) != (None, None):
        raise ValueError(f"the run has rounds 1 to {count}, not {low} to {high}")
    return low, high


def write_trace(path: Path, log: Log, window: RunWindow | None = None) -> int:
    """Write the trace of a run atomically; return its number of events.

    Args:
        path: the file; if it ends in .gz it is compressed, which Perfetto opens as well.
        log: of the run.
        window: the part to write; spans that cross its borders are included in full.

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


def _lines(log: Log, window: RunWindow) -> Iterator[str]:
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
    tracks_by_node = tracks(doings, list(kinds), _SLACK)
    rounds_thread = SERVER_PROCESS + len(pids) + 1
    threads = {
        track.name: rounds_thread + place
        for place, track in enumerate(
            (each for own in tracks_by_node.values() for each in own), start=1
        )
    }
    yield _meta("process_name", SERVER_PROCESS, 0, name=SERVER)
    yield _meta("thread_name", SERVER_PROCESS, rounds_thread, name="rounds")
    for name, pid in pids.items():
        yield _meta("process_name", pid, 0, name=name)
        yield _meta("process_sort_index", pid, 0, sort_index=pid)
    names = client_names(log.clients)
    for node, own in tracks_by_node.items():
        for track in own:
            tid = threads[track.name]
            shown = names.get(node, node) + track.name.removeprefix(node)
            yield _meta("thread_name", processes[node], tid, name=shown)
            yield _meta("thread_sort_index", processes[node], tid, sort_index=tid)
    yield from _rounds(log, window, rounds_thread, length)
    yield from slices(doings, tracks_by_node, processes, threads)
    inside = log.events[log.events["t"].between(window.begin, window.end)]
    yield from instants(inside, processes, threads, length)
    yield from loads(log.events, (window.begin, window.end), length)
    yield from charges(inside, processes, length)


def _kinds(clients: pd.DataFrame) -> dict[str, str]:
    """Return the kind of each client: its group in the scenario, its device and its radio."""
    columns = (clients[name] for name in ("client", "group", "device", "radio"))
    return {
        client: f"{group}: {device}, {radio}"
        for client, group, device, radio in zip(*columns, strict=True)
    }


def _meta(what: str, pid: int, tid: int, **args: object) -> str:
    thread = {"tid": tid} if tid else {}
    content = {"name": what, "ph": "M", "pid": pid, **thread, "args": args}
    return json.dumps(content, separators=(",", ":"))


def _rounds(log: Log, window: RunWindow, tid: int, length: float) -> Iterator[str]:
    """Return a slice for every round with its figures, and a mark at its end."""
    table = log.rounds
    selected = table[(table["round"] >= window.first) & (table["round"] <= window.last)]
    ends = nanoseconds(selected["t"], length)
    begins = nanoseconds(table["t"].shift(fill_value=0.0).loc[selected.index], length)
    place = f'"pid":{SERVER_PROCESS},"tid":{tid}'
    abandoned = log.events[log.events["event"] == "abandoned"]
    reasons = dict(zip(abandoned["round"], abandoned["detail"].astype(str), strict=True))
    facts = selected[["round", "objective", "gap"]].itertuples(index=False, name=None)
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
