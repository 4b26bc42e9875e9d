"""The timeline: what every client was doing in some rounds of a run."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from fedsim.results.analysis import critical_path, quantity
from fedsim.results.analysis.client_names import (
    display_names,
    has_groups,
    kinds_of,
    names_with_groups,
)
from fedsim.results.analysis.plots.canvas import add_keys
from fedsim.results.analysis.plots.rounds import COLUMNS, MOST, Lanes, Window, draw_round, windows
from fedsim.results.analysis.style import STATE_ORDER, STATES
from fedsim.results.report.components import PageTable, number, words
from fedsim.results.report.drawing import PageFigure, draw
from fedsim.results.report.study import ReportedRun, ReportedStudy

ROUNDS = ("median", "slowest", "first", "last")
"""The rounds of a run that can be looked at, by their durations; in the first radios wake up."""

RUNS = 12
"""So many runs can be looked at at most, the first seeds of all variants before the others."""

_PAGE, _FEWEST = 400, 8  # lanes of all timelines of a page, and of each at the least


def choose_runs(study: ReportedStudy) -> list[ReportedRun]:
    """Return the runs that can be looked at: all, or as many as a page has room for.

    Every variant has one, where there are no more of them than `RUNS`.
    """
    ordered = sorted(study.runs, key=lambda run: run.seed)  # stable: variants keep their order
    clients = min(MOST, int(study.clients.groupby(["variant", "seed"]).size().max()))
    room = max(_PAGE // (len(ROUNDS) * max(clients, 1)), len(study.labels))
    taken = set(ordered[: min(room, RUNS)])
    return [run for run in study.runs if run in taken]


def lanes_each(runs: int) -> int:
    """Return how many clients each timeline draws at most, of so many runs on a page."""
    return max(_FEWEST, min(MOST, _PAGE // (len(ROUNDS) * max(runs, 1))))


def chosen(rounds: pd.DataFrame) -> Mapping[str, Window]:
    """Return the rounds of `ROUNDS` of one run; none where it has no round."""
    every = windows(rounds)
    if not every:
        return {}
    order = np.argsort([window.end - window.begin for window in every], kind="stable")
    places = int(order[(len(order) - 1) // 2]), int(order[-1]), 0, len(every) - 1
    return {name: every[place] for name, place in zip(ROUNDS, places, strict=True)}


def figures(
    study: ReportedStudy, run: ReportedRun, name: str, most: int = MOST
) -> dict[str, PageFigure]:
    """Return the timeline of each of `ROUNDS` of a run.

    Args:
        study: which it is of.
        run: which one.
        name: with which those of the figures begin.
        most: clients that are drawn at most.
    """
    events = run.events(COLUMNS)
    lanes, clients = Lanes.of(events), run.rows(study.clients)
    abandoned = events[events["event"] == "abandoned"]
    reasons = dict(zip(abandoned["round"], abandoned["detail"].astype(str), strict=True))
    wanted = chosen(run.rows(study.rounds))
    paths = critical_path(events).set_index("round").to_dict("index")
    # The slowest round of a run is often its first one: each is drawn once.
    drawn = {
        window.number: figure(
            f"{name}-{window.number}",
            lanes,
            window,
            clients,
            most,
            reasons.get(window.number, ""),
            paths.get(window.number),
        )
        for window in {each.number: each for each in wanted.values()}.values()
    }
    return {called: drawn[window.number] for called, window in wanted.items()}


def figure(
    name: str,
    lanes: Lanes,
    window: Window,
    clients: pd.DataFrame,
    most: int = MOST,
    given_up: str = "",
    path: Mapping[Hashable, Any] | None = None,
) -> PageFigure:
    """Return what clients were doing in a round: a lane a client, time from its begin.

    Args:
        name: with which that of the figure begins.
        lanes: of the run.
        window: the round.
        clients: the rows of its client table.
        most: clients that are drawn at most.
        given_up: why the round was given up, if so.
        path: the row of the round in `critical_path`.
    """
    seen = lanes.within(window)
    drawn = seen.choose(most)

    def plot(axis: Axes) -> None:
        add_keys(axis, draw_round(axis, seen, drawn, window, clients), own=False)

    label = f"What clients were doing in round {window.number}"
    note = _note(window, len(drawn), len(seen.clients), given_up)
    note = f"{note}{_path(path, clients)}{_groups(clients)}"
    made = draw(name, label, plot, note, size=(_WIDE, 1.0), row=_ROW)
    return replace(made, table=_table(seen, drawn, window, clients))


def _groups(clients: pd.DataFrame) -> str:
    """Return what the groups of the lanes are; empty if the fleet has only one."""
    if not has_groups(clients):
        return ""
    return f". Groups of the fleet: {'; '.join(sorted(set(kinds_of(clients))))}"


def _table(seen: Lanes, drawn: Sequence[str], window: Window, clients: pd.DataFrame) -> PageTable:
    """Return how long each client that is drawn was in each state within a round."""
    own = seen.spans.assign(state=seen.spans["state"].astype(str))
    states = sorted(own["state"].unique(), key=lambda each: STATE_ORDER.index(STATES[each][0]))
    lane, state = (
        pd.Index(names).get_indexer(pd.Index(own[column]))
        for names, column in ((drawn, "node"), (states, "state"))
    )
    lasted = own["end"].clip(upper=window.end) - own["begin"].clip(lower=window.begin)
    spent, kept = np.zeros((len(drawn), len(states))), lane >= 0
    np.add.at(spent, (lane[kept], state[kept]), lasted.to_numpy()[kept])
    became = seen.moments.groupby("node")["event"].agg(lambda each: ", ".join(map(str, each)))
    rows = [
        [*words(name), *(number(each, "s") for each in own), *words(became.get(node, "-"))]
        for node, name, own in zip(drawn, names_with_groups(drawn, clients), spent, strict=True)
    ]
    heads = ("client", *(STATES[state][0] for state in states), "what became of it")
    return PageTable("Time in each state within the round", heads, rows)


def _path(row: Mapping[Hashable, Any] | None, clients: pd.DataFrame) -> str:
    """Return the critical path of a round in words; empty if it is unknown.

    Args:
        row: of `critical_path`.
        clients: the rows of the client table.
    """
    if row is None:
        return ""
    parts = [f"{quantity(row[part], 's')} {words}" for part, words in _PARTS.items() if row[part]]
    if not row["tied"]:
        return ". No reply arrived in this round: it waited until its end"
    (name,) = display_names([str(row["client"])], clients)
    tied = f", one of {row['tied']:,} that arrived together" if row["tied"] > 1 else ""
    return f". Critical path: the last reply is that of {name}{tied}; {', '.join(parts)}"


_PARTS = {
    "before_download": "until its download",
    "download": "download",
    "work": "work and waiting",
    "upload": "upload",
    "transit": "in transit",
    "after": "until the round closed",
}
"""The parts of a critical path, and their words."""

_WIDE, _ROW = 7.6, 0.21  # inches of a timeline, and of a lane


def _note(window: Window, lanes: int, busy: int, given_up: str) -> str:
    length, begin = quantity(window.end - window.begin, "s"), quantity(window.begin, "s")
    note = f"Round {window.number:,}: {length} from {begin} on; {busy:,} clients in the log"
    if given_up:
        note = f"{note}; given up, for {given_up}"
    if busy == lanes:
        return note
    last, others = lanes // 2, lanes - lanes // 2
    return f"{note}. Shown are the {last} that finished last, and {others} of the others"
