"""The network, drawn: its links as wide as what they carried."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes

from fedsim.core.ports import Array
from fedsim.results.analysis.client_names import client_names
from fedsim.results.analysis.plots.canvas import add_keys
from fedsim.results.analysis.plots.network import Carried, NetworkDrawing, OnEdges
from fedsim.results.record.models import nodes_of
from fedsim.results.report.components import PageTable, TableCell, words
from fedsim.results.report.drawing import PageFigure, draw
from fedsim.results.report.study import ReportedRun, ReportedStudy

ON_LINKS: Mapping[str, str] = {
    "bits": "bits",
    "joules": "joules at both ends",
    "disagreement": "distance between the models",
}
"""What the links of peers are drawn by, with its name."""

_COLUMNS = (
    *("event", "node", "peer", "round", "message", "duration", "joules", "detail"),
    *("payload_bits", "header_bits", "transport_bits"),
)

_SIZE = 4.2, 4.2  # inches


def drawings(study: ReportedStudy, run: ReportedRun, name: str) -> dict[str, PageFigure]:
    """Return the drawings of the network, of peers by all of `ON_LINKS` that is known.

    Args:
        study: whose page it is.
        run: whose network.
        name: with which those of the figures begin.
    """
    clients, models = run.rows(study.clients), node_models(run)
    known: list[OnEdges] = ["bits"]
    if run.scenario["network"].get("peers"):
        known += ["joules"] * bool(float(clients["joules"].sum()))
        known += ["disagreement"] * (models is not None)
    events = run.events(_COLUMNS)
    return {
        value: drawing(run, events, clients, models, value, f"{name}-{value}") for value in known
    }


def drawing(
    run: ReportedRun,
    events: pd.DataFrame,
    clients: pd.DataFrame,
    models: Array | None,
    value: OnEdges,
    name: str,
) -> PageFigure:
    """Return the network as it is drawn: server, gateways or routers, clients, or peers.

    Args:
        run: whose network.
        events: its log, `COLUMNS` of it.
        clients: the rows of its client table.
        models: of the nodes, shape (M, ...), by which they are apart; None if they are not kept.
        value: of `ON_LINKS`.
        name: of the figure.
    """

    def kept(_: int | None) -> Array:
        if models is None:
            raise ValueError("no models of nodes are kept")
        return models

    whole = NetworkDrawing.of(events, clients, run.scenario, value, kept)
    carried, own = whole.amounts()

    def plot(axis: Axes) -> None:
        keys = whole.draw(axis, carried, own)
        axis.set_title("")
        add_keys(axis, keys, own=False)

    called = whole.network.called
    note = f"{called}; {_widths(whole, run, whole.say(whole.most(carried)))}"
    made = draw(name, f"The network: {called}", plot, note, size=_SIZE)
    return replace(made, table=_table(whole, carried, client_names(clients)))


def _widths(whole: NetworkDrawing, run: ReportedRun, most: str) -> str:
    if whole.value == "disagreement":
        return (
            "the width of a link shows the distance between the models of its ends under seed"
            f" {run.seed}, in the last round with stored models; at most {most}"
        )
    what = "bits" if whole.value == "bits" else "joules of messages at both ends"
    text = (
        f"the width of a link shows its {what} in both directions, seed {run.seed}; at most {most}"
    )
    if run.scenario["network"].get("broadcast", "unicast") != "unicast":
        text += ", with a copy of a broadcast for each that received it"
    if whole.network.unsure:
        text += "; a dashed link is on one of several equally good routes, not distinguished here"
    if whole.value == "joules" and run.scenario["network"].get("medium"):
        text += "; the joules of a broadcast at its sender belong to no link"
    return text


def _table(whole: NetworkDrawing, carried: Carried, names: Mapping[str, str]) -> PageTable:
    """Return what each link carried."""
    apart = whole.value == "disagreement"
    rows = []
    for ends, (there, back) in carried.items():
        both = (there,) if apart else (there, back)
        amounts = [TableCell(whole.say(amount), amount) for amount in both]
        rows.append([*words(*(names.get(end, end) for end in ends)), *amounts])
    heads = ("one end", "other end", *(("apart",) if apart else ("from one to other", "back")))
    return PageTable(f"Links by {ON_LINKS[whole.value]}", heads, rows)


def node_models(run: ReportedRun) -> Array | None:
    """Return the last models of the nodes that are kept, shape (M, ...); None if none are."""
    if not (run.scenario.get("models") or {}).get("clients"):
        return None
    with suppress(ValueError):  # no round of which they are kept has ended
        return nodes_of([run.path], None)
    return None
