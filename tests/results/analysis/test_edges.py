"""Edges: what went over each pair of nodes, against the log, and the graph that is drawn of it."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.errors import DataError
from fedsim.physics.topology import tree
from fedsim.results import analysis
from fedsim.results.analysis import quantity
from fedsim.results.analysis.log.links import Network
from tests.tiers import every

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
    names = {text.get_text() for text in axis.texts}
    assert names == {f"client-{n}" for n in range(NODES)} | {quantity(each, "J") for each in spent}


def test_a_round_is_drawn_with_what_was_sent_in_it_where_the_nodes_are(
    result: fedsim.Result,
) -> None:
    places = {f"client-{number}": (float(number), float(number**2)) for number in range(NODES)}
    axis = result.plot_network(layout=places, round=2)
    lines: Any
    (lines,) = [each for each in axis.collections if "Line" in type(each).__name__]
    ends = {frozenset(map(tuple, segment)) for segment in lines.get_segments()}
    assert ends == {
        frozenset({places[f"client-{one}"], places[f"client-{(one + 1) % NODES}"]})
        for one in range(NODES)
    }
    events = result.events
    rows = events[(events["round"] == 2) & events["event"].isin(["send", "retransmit"])]
    bits = rows[["payload_bits", "header_bits", "transport_bits"]].sum(axis=1)
    pairs = [frozenset(pair) for pair in zip(rows["node"], rows["peer"], strict=True)]
    sums = bits.groupby(pairs).sum()
    widths = 0.6 + 3.4 * sums / sums.max()
    assert sorted(lines.get_linewidths()) == pytest.approx(sorted(widths))


@pytest.mark.slow
def test_an_animation_is_one_page_that_loads_nothing_and_has_a_frame_a_round(
    result: fedsim.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "one.html", tmp_path / "two.html"]
    pages = [analysis.animate_network(result, path).read_text("utf-8") for path in paths]
    assert pages[0] == pages[1]
    assert pages[0].count("data:image/png;base64") == ROUNDS
    assert "http" not in pages[0].replace("http://www.w3.org", "")
    assert "fa-" not in pages[0]
    monkeypatch.setattr("fedsim.results.analysis.plots.network.MOST_FRAMES", 2)
    fewer = analysis.animate_network(result, paths[0]).read_text("utf-8")
    assert fewer.count("data:image/png;base64") == 2
    with pytest.raises(DataError, match=r"got 'network\.gif'; expected a name that ends in \.html"):
        analysis.animate_network(result, tmp_path / "network.gif")


def test_of_large_graphs_those_that_carried_the_most_are_drawn(
    result: fedsim.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedsim.results.analysis.log.links.MOST", 3)
    axis = analysis.plot_network(result, layout="circular")
    assert axis.get_title() == "3 nodes of 5: those that carried the most"


def test_of_large_graphs_a_round_has_all_that_its_drawn_edges_carried(
    result: fedsim.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    def widths(asked: Any) -> list[float]:
        axis = analysis.plot_network(result, layout="circular", **asked)
        lines: Any
        (lines,) = [each for each in axis.collections if "Line" in type(each).__name__]
        return list(lines.get_linewidths())

    monkeypatch.setattr("fedsim.results.analysis.log.links.MOST", 3)
    drawn = len(widths({}))
    for number in range(1, ROUNDS + 1):
        wide = widths({"round": number})
        assert len(wide) == drawn
        assert min(wide) > 0.6  # every node sends in every round


@every(
    ("asked", "words"),
    [
        ({"layout": "sprung"}, "kamada-kawai"),
        ({"layout": {"client-0": (0.0, 1.0)}}, "got no place for client-1"),
        ({"value": "watts"}, "bits, joules, messages, busy"),
        ({"round": 9}, "got round 9; expected 1 to 4"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    result: fedsim.Result, asked: dict[str, Any], words: str
) -> None:
    with pytest.raises(DataError, match=words):
        analysis.plot_network(result, **asked)


@pytest.fixture(scope="module", name="kept")
def _kept() -> fedsim.Result:
    return fedsim.run({**PEERS, "models": {"every": 2, "clients": True}})


def test_the_disagreement_of_an_edge_is_the_distance_of_the_models_at_its_ends(
    kept: fedsim.Result, result: fedsim.Result
) -> None:
    models = kept.node_models(round=2)
    apart = models - models.mean(axis=0)
    consensus = kept.rounds.set_index("round")["consensus"][2]
    assert np.sqrt((apart**2).sum(axis=1).mean()) == pytest.approx(consensus, rel=1e-12)
    axis = kept.plot_network("disagreement", layout="circular", round=2)
    (lines,) = [each for each in axis.collections if "Line" in type(each).__name__]
    drawn: Any = lines
    norms = [np.linalg.norm(models[one] - models[(one + 1) % NODES]) for one in range(NODES)]
    assert sorted(drawn.get_linewidths()) == pytest.approx(
        sorted(0.6 + 3.4 * np.array(norms) / max(norms))
    )
    (dots,) = [each for each in axis.collections if "Path" in type(each).__name__]
    areas: Any = dots
    own = np.linalg.norm(apart, axis=1)
    assert areas.get_sizes() == pytest.approx(120 * (1 + 2 * own / own.max()) / 3)
    assert kept.events.equals(result.events)


def test_an_animation_of_models_has_the_rounds_that_kept_them(
    kept: fedsim.Result, tmp_path: Path
) -> None:
    path = analysis.animate_network(kept, tmp_path / "apart.html", "disagreement")
    assert path.read_text("utf-8").count("data:image/png;base64") == 2


def test_models_of_nodes_that_were_not_kept_are_named(
    kept: fedsim.Result, result: fedsim.Result
) -> None:
    with pytest.raises(
        ValueError, match="no models of nodes are stored for round 3, only for 2, 4"
    ):
        kept.node_models(round=3)
    with pytest.raises(ValueError, match="clients: true"):
        result.plot_network("disagreement")


def test_a_node_that_has_left_has_no_model_of_its_own() -> None:
    short = {"device": "phone-mid", "radio": "wifi", "battery": {"capacity": "0.02 J"}}
    fleet = [{"count": 3, "device": "pi-4", "radio": "wifi"}, {"count": 1, **short}]
    own = fedsim.run({**PEERS, "fleet": fleet, "models": {"clients": True}})
    models = own.node_models()
    assert np.isfinite(models[:3]).all()
    assert np.isnan(models[3]).all()
    assert len(own.plot_network("disagreement").collections) == 1 + 2  # links, and two kinds


def test_each_client_of_a_tree_is_drawn_behind_the_gateway_that_the_simulator_gives_it() -> None:
    for clients, gateways in product(range(1, 30), range(1, 12)):
        if gateways > clients:
            continue
        names = [f"client-{client}" for client in range(clients)]
        fleet = pd.DataFrame({"client": names, "group": 0})
        scenario = {"tiers": [], "network": {"topology": "tree", "gateways": gateways}}
        none = pd.DataFrame({"source": [], "target": [], "bits": []})
        drawn = Network.of(scenario, fleet, none).graph
        simulated = tree(clients, gateways, rate=1e6)
        for client, route in enumerate(simulated.up):
            link = simulated.links[route.links[0]].name.removesuffix(".up")
            assert drawn.has_edge(names[client], link), (clients, gateways, client)
