"""Edges: what went over each pair of nodes, against the log, and the graph that is drawn of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim import analysis
from fedsim.errors import DataError

NODES, ROUNDS = 5, 4
RADIO: dict[str, Any] = {
    "kind": "wifi",
    "loss": {"kind": "independent", "rate": "20 %"},
    "tries": 2,
}
PEERS: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "logistic", "scale": "mean", "l2": 0.1, "labels": "plus-minus"},
        "data": {"kind": "sklearn", "name": "breast-cancer", "preprocess": ["standardise"]},
        "split": {"kind": "iid"},
    },
    "algorithm": {"kind": "d-psgd", "step_size": 0.3},
    "fleet": [{"count": NODES, "device": "pi-4", "radio": RADIO}],
    "network": {"peers": {"kind": "ring"}},
    "participation": {"kind": "full", "deadline": "1 s"},
    "stop": {"rounds": ROUNDS},
}


@pytest.fixture(scope="module", name="result")
def _result() -> fedsim.Result:
    return fedsim.run(PEERS)


def test_edges_add_up_to_the_log(result: fedsim.Result) -> None:
    table, events = result.edges, result.events
    assert len(table) == 2 * NODES
    assert (table["messages"] == ROUNDS).all()
    bits = events.loc[
        events["event"].isin(["send", "retransmit"]),
        ["payload_bits", "header_bits", "transport_bits"],
    ]
    assert table["bits"].sum() == bits.to_numpy().sum() == result.rounds["bits_up"].sum()
    joules = events.groupby("event", observed=True)["joules"].sum()
    assert np.isclose(table["joules_sent"].sum(), joules["send"] + joules["retransmit"])
    assert np.isclose(table["joules_received"].sum(), joules["receive"])
    assert table["lost"].sum() == (events["event"] == "lost").sum() > 0
    assert not table["silent"].any()


def test_an_edge_is_from_its_sender_to_its_receiver(result: fedsim.Result) -> None:
    table = result.edges
    row = table[(table["source"] == "client-0") & (table["target"] == "client-1")].iloc[0]
    events = result.events
    sent = events[(events["node"] == "client-0") & (events["peer"] == "client-1")]
    came = events[(events["node"] == "client-1") & (events["peer"] == "client-0")]
    assert row["busy"] == sent[sent["event"].isin(["send", "retransmit"])]["duration"].sum()
    assert row["joules_received"] == came[came["event"] == "receive"]["joules"].sum()


def test_the_graph_is_drawn_with_a_line_an_edge(result: fedsim.Result, tmp_path: Path) -> None:
    axis = result.plot_network("joules", out=tmp_path / "network.png")
    assert (tmp_path / "network.png").stat().st_size > 5000
    lines: Any
    (lines,) = [each for each in axis.collections if "Line" in type(each).__name__]
    widths = np.asarray(lines.get_linewidths())
    table = result.edges
    ends = [frozenset(pair) for pair in zip(table["source"], table["target"], strict=True)]
    spent = (table["joules_sent"] + table["joules_received"]).groupby(ends).sum()
    assert len(widths) == NODES
    assert widths.max() / widths.min() == pytest.approx(
        4.0 / (0.6 + 3.4 * spent.min() / spent.max())
    )
    assert {text.get_text() for text in axis.texts} == set(map(str, range(NODES)))


def test_of_large_graphs_those_that_carried_the_most_are_drawn(
    result: fedsim.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.analysis.plots.network.MOST", 3)
    axis = analysis.plot_network(result, layout="circular")
    assert axis.get_title() == "3 nodes of 5: those that carried the most"


@pytest.mark.parametrize(
    ("asked", "words"),
    [({"layout": "sprung"}, "kamada-kawai"), ({"value": "watts"}, "bits, joules, messages, busy")],
)
def test_what_cannot_be_drawn_is_refused(
    result: fedsim.Result, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        analysis.plot_network(result, **asked)
