"""The timeline: what every client was doing in some rounds of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np
import pandas as pd

from fedsim.results.analysis import quantity, spans
from fedsim.results.analysis.client_names import client_names
from fedsim.results.analysis.costs import without_start
from fedsim.results.analysis.seeds import spread
from fedsim.results.analysis.style import OUTCOME_COLOURS, STATE_ORDER, STATES
from fedsim.results.report.charts import Moments, Spans, bar_icon, symbol_icon
from fedsim.results.report.charts import lanes as draw_lanes
from fedsim.results.report.components import LegendKey, PageFigure
from fedsim.results.report.study import ReportedRun, ReportedStudy
from fedsim.results.report.svg import linear

ROUNDS = ("first", "slowest", "median", "last")
"""The rounds of a run that can be looked at."""

RUNS = 12
"""So many runs can be looked at at most, the first seeds of all variants before the others."""

_LANES = 40  # clients that are drawn at most; half of them are those that were done last

_PAGE, _FEWEST = 400, 8  # lanes of all timelines of a page, and of each at the least

_BUSY = ("download", "compute", "upload", "retransmit")

_MARKS = {
    "silent": ("silent", "circle", "#000000"),
    "skipped": ("skipped", "square", OUTCOME_COLOURS["skipped"]),
    "lost": ("lost", "cross", OUTCOME_COLOURS["lost"]),
    "late": ("late", "diamond", OUTCOME_COLOURS["late"]),
}
"""Events of a moment: what they are called, their symbols and colours."""

_COLUMNS = (
    *("t", "duration", "event", "node", "peer", "round", "message"),
    *("payload_bits", "header_bits", "transport_bits", "joules", "detail"),
)


@dataclass(frozen=True, slots=True)
class RoundWindow:
    """A round: its number, when it began and when it ended, s, and why it was given up, if so."""

    number: int
    begin: float
    end: float
    given_up: str = ""


def choose_runs(study: ReportedStudy) -> list[ReportedRun]:
    """Return the runs that can be looked at: all, or as many as a page has room for.

    Every variant has one, where there are no more of them than `RUNS`.
    """
    ordered = sorted(study.runs, key=lambda run: run.seed)  # stable: variants keep their order
    clients = min(_LANES, int(study.clients.groupby(["variant", "seed"]).size().max()))
    room = max(_PAGE // (len(ROUNDS) * max(clients, 1)), len(study.labels))
    taken = set(ordered[: min(room, RUNS)])
    return [run for run in study.runs if run in taken]


def lanes_each(runs: int) -> int:
    """Return how many clients each timeline draws at most, of so many runs on a page."""
    return max(_FEWEST, min(_LANES, _PAGE // (len(ROUNDS) * max(runs, 1))))


def windows(rounds: pd.DataFrame) -> Mapping[str, RoundWindow]:
    """Return the rounds of `ROUNDS` of one run; none where it has no round."""
    played = without_start(rounds)
    if played.empty:
        return {}
    ends = played["t"].to_numpy(np.float64)
    begins = np.concatenate([[0.0], ends[:-1]])
    order = np.argsort(ends - begins, kind="stable")
    places = (0, int(order[-1]), int(order[(len(order) - 1) // 2]), len(ends) - 1)
    return {
        name: RoundWindow(int(played["round"].iloc[at]), float(begins[at]), float(ends[at]))
        for name, at in zip(ROUNDS, places, strict=True)
    }


def figures(study: ReportedStudy, run: ReportedRun, most: int = _LANES) -> dict[str, PageFigure]:
    """Return the timeline of each of `ROUNDS` of a run.

    Args:
        study: which it is of.
        run: which one.
        most: clients that are drawn at most.
    """
    events = run.events(_COLUMNS)
    doings, marks = spans(events), events[events["event"].isin(_MARKS)]
    marks = marks[marks["node"] != "server"]
    abandoned = events[events["event"] == "abandoned"]
    reasons = dict(zip(abandoned["round"], abandoned["detail"].astype(str), strict=True))
    names = client_names(run.rows(study.clients))
    wanted = windows(run.rows(study.rounds))
    # The slowest round of a run is often its first one: each is drawn once.
    drawn = {
        window.number: figure(
            doings, marks, replace(window, given_up=reasons.get(window.number, "")), most, names
        )
        for window in {each.number: each for each in wanted.values()}.values()
    }
    return {name: drawn[window.number] for name, window in wanted.items()}


def figure(
    doings: pd.DataFrame,
    marks: pd.DataFrame,
    window: RoundWindow,
    most: int = _LANES,
    names: Mapping[str, str] = MappingProxyType({}),
) -> PageFigure:
    """Return what clients were doing in a round: a lane a client, time from its begin.

    Args:
        doings: the spans of one run.
        marks: rows of its log that tell of a moment of a client.
        window: the round.
        most: clients that are drawn at most.
        names: of the clients that have one in the data, by node.
    """
    doings, marks = _inside(doings, marks, window)
    drawn, busy = _lanes(doings, marks, most)
    lanes = [names.get(node, node) for node in drawn]
    doings, marks = (each.assign(node=each["node"].replace(names)) for each in (doings, marks))
    states, events = _by("state", doings, lanes), _by("event", marks, lanes)
    kinds: list[Spans | Moments] = [
        _spans(states[state], window, *STATES[state]) for state in STATES if state in states
    ]
    ordered = sorted(kinds, key=lambda each: STATE_ORDER.index(each.name))
    keys = [LegendKey(each.name, bar_icon(each.colour)) for each in ordered]
    for event, (name, symbol, colour) in _MARKS.items():
        if event in events:
            kinds.append(_moments(events[event], window, name, symbol, colour))
            keys.append(LegendKey(name, symbol_icon(symbol, colour)))
    scale = linear(0.0, window.end - window.begin, "s", most=6)
    label = f"What clients were doing in round {window.number}"
    drawing = draw_lanes(lanes, scale, "time since the round began", label, kinds)
    return PageFigure(drawing, _note(window, len(lanes), busy), tuple(keys))


def _note(window: RoundWindow, lanes: int, busy: int) -> str:
    length, begin = quantity(window.end - window.begin, "s"), quantity(window.begin, "s")
    note = f"round {window.number:,}: {length} from {begin} on; {busy:,} clients in the log"
    if window.given_up:
        note = f"{note}; given up, for {window.given_up}"
    if busy == lanes:
        return note
    return (
        f"{note}. Drawn are the {lanes // 2} that were done last, and {lanes - lanes // 2} spread "
        "over the others"
    )


def _inside(
    doings: pd.DataFrame, marks: pd.DataFrame, window: RoundWindow
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the spans and the marks that are in a round; it has its begin and not its end."""
    begin, end = doings["begin"], doings["end"]
    moment = (begin == end) & (end == window.begin)
    doings = doings[((end > window.begin) | moment) & (begin < window.end)]
    marks = marks[marks["t"].between(window.begin, window.end, inclusive="left")]
    return doings.astype({"node": str}), marks.astype({"node": str})


def _by(column: str, rows: pd.DataFrame, lanes: list[str]) -> dict[str, pd.DataFrame]:
    """Return the rows of these lanes, by what stands in a column."""
    drawn = rows[rows["node"].isin(lanes)]
    return {str(name): own for name, own in drawn.groupby(column, observed=True)}


def _lanes(doings: pd.DataFrame, marks: pd.DataFrame, most: int) -> tuple[list[str], int]:
    """Return the lanes that are drawn, by client number, and how many there could be."""
    last = doings[doings["state"].isin(_BUSY)].groupby("node")["end"].max()
    nodes = pd.concat([doings["node"], marks["node"]]).unique()
    every = last.reindex(nodes).fillna(-1.0).sort_values(kind="stable")
    if len(every) <= most:
        return sorted(every.index, key=_number), len(every)
    latest = list(every.index[-(most // 2) :])
    others = sorted(every.index[: -(most // 2)], key=_number)
    others = [others[place] for place in spread(len(others), most - most // 2)]
    return sorted([*latest, *others], key=_number), len(every)


def _number(node: str) -> int:
    return int(node.rpartition("-")[2])


def _spans(rows: pd.DataFrame, window: RoundWindow, name: str, colour: str) -> Spans:
    """Return spans from the beginning of the round on; they may end after it."""
    begins, ends = (rows[border].to_numpy() - window.begin for border in ("begin", "end"))
    facts = zip(
        *(rows["node"], begins.tolist(), ends.tolist(), rows["bits"], rows["joules"]), strict=True
    )
    return Spans(
        name,
        colour,
        [
            (node, max(begin, 0.0), end, _describe(node, name, begin, end, bits, joules))
            for node, begin, end, bits, joules in facts
        ],
    )


def _describe(node: str, name: str, begin: float, end: float, bits: float, joules: float) -> str:
    lasts, since = quantity(end - begin, "s"), quantity(begin, "s")
    costs = [quantity(float(bits), "bit")] * (bits > 0) + [quantity(joules, "J")] * (joules > 0)
    return "\n".join([f"{node}: {name}", f"{lasts} from {since} on", *costs])


def _moments(
    rows: pd.DataFrame, window: RoundWindow, name: str, symbol: str, colour: str
) -> Moments:
    times = (rows["t"].to_numpy() - window.begin).tolist()
    own = zip(rows["node"], times, strict=True)
    text = [(node, time, f"{node}: {name}\nat {quantity(time, 's')}") for node, time in own]
    return Moments(name, symbol, colour, text)
