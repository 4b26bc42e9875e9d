"""The network is drawn with the bits that its links carried, which are those of the log."""

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

import fedsim
from fedsim.results.analysis import Comparison, edges, plot_network, quantity
from fedsim.results.analysis.log.frames import SERVER
from fedsim.results.analysis.log.links import Ends, Network
from fedsim.results.analysis.plots.canvas import figure_of
from fedsim.results.report.components import PageTable
from fedsim.results.report.drawing import PageFigure
from fedsim.results.report.network import drawings
from fedsim.results.report.study import ReportedRun, ReportedStudy
from tests.runs import small

BITS = ["payload_bits", "header_bits", "transport_bits"]
COLUMNS = ["t", "event", "node", "peer", "round", "message", "duration", "joules", "detail", *BITS]


def network(study: ReportedStudy, run: ReportedRun, value: str = "bits") -> Network:
    return Network.of(run.scenario, run.rows(study.clients), edges(run.events(COLUMNS)), value)


def carried(
    study: ReportedStudy, run: ReportedRun, value: str = "bits"
) -> dict[Ends, tuple[float, float]]:
    return network(study, run, value).carried(edges(run.events(COLUMNS)), value)


def sent(run: ReportedRun) -> dict[Ends, float]:
    """Return the bits that each node has sent to another, repeated packets included."""
    rows = run.events(["event", "node", "peer", *BITS])
    rows = rows[rows["event"].isin(["send", "retransmit"])].astype({"node": str, "peer": str})
    totals = rows[BITS].sum(axis=1).groupby([rows["node"], rows["peer"]]).sum()
    pairs: dict[Any, Any] = totals.to_dict()
    return {(str(node), str(peer)): float(bits) for (node, peer), bits in pairs.items()}


def both_ways(run: ReportedRun, clients: list[str]) -> tuple[float, float]:
    """Return the bits of some clients, up and down."""
    bits = sent(run)
    up, down = ([bits[ends] for ends in pairs] for pairs in _pairs(clients))
    return sum(up), sum(down)


def _pairs(clients: list[str]) -> tuple[list[Ends], list[Ends]]:
    return [(each, SERVER) for each in clients], [(SERVER, each) for each in clients]


def shown(study: ReportedStudy, run: ReportedRun, value: str = "bits") -> PageFigure:
    return drawings(study, run, "one")[value]


def table_of(figure: PageFigure) -> PageTable:
    assert figure.table is not None
    return figure.table


def widths(axis: Axes) -> list[float]:
    lines: Any = axis.collections[0]
    return [float(each) for each in lines.get_linewidths()]


def reported(folder: Path, **changes: object) -> tuple[ReportedStudy, ReportedRun]:
    fedsim.run(small(**{"stop": {"rounds": 5}, **changes}), out=folder)
    study = ReportedStudy(Comparison.of([folder]))
    return study, study.first


def test_a_star_s_links_carried_what_was_sent_over_them(study: ReportedStudy) -> None:
    run = study.first
    assert carried(study, run) == {
        (client, SERVER): both_ways(run, [client]) for client in study.clients["client"].unique()
    }


def test_a_gateway_s_link_carried_what_its_clients_did(study: ReportedStudy) -> None:
    found = carried(study, study.variants["tree"])
    gateways = [ends[0] for ends in found if ends[1] == SERVER]
    assert len(gateways) == 2
    for gateway in gateways:
        below = [bits for (_, upper), bits in found.items() if upper == gateway]
        assert found[gateway, SERVER] == tuple(map(sum, zip(*below, strict=True)))


def test_links_are_as_wide_as_their_bits_and_a_table_has_these(
    study: ReportedStudy, drawn: dict[str, Axes]
) -> None:
    run = study.first
    bits = carried(study, run)
    most = max(map(sum, bits.values()))
    figure = shown(study, run)
    assert f"at most {quantity(most, 'bit')}" in figure.note
    wanted = [0.6 + 3.4 * sum(both) / most for both in bits.values()]
    assert widths(drawn["fleet-0-bits"]) == pytest.approx(wanted)
    words = {text.get_text() for text in drawn["fleet-0-bits"].texts}
    assert words >= {quantity(sum(both), "bit") for both in bits.values()}
    rows = [[cell.text for cell in row] for row in table_of(figure).rows]
    assert rows == [
        [*ends, quantity(up, "bit"), quantity(down, "bit")] for ends, (up, down) in bits.items()
    ]


def test_links_of_a_graph_carried_what_went_their_way(tmp_path: Path) -> None:
    """The way by b is the faster one for who is at a, though it has a hop more."""
    edges = [
        {"source": "server", "target": "a", "latency": "9 ms"},
        {"source": "server", "target": "b", "latency": "1 ms"},
        {"source": "a", "target": "b", "latency": "1 ms"},
        *({"source": "a" if n < 3 else "b", "target": f"client-{n}"} for n in range(5)),
    ]
    study, run = reported(tmp_path, network={"topology": "graph", "edges": edges})
    found = carried(study, run)
    near, every = [f"client-{n}" for n in range(3)], [f"client-{n}" for n in range(5)]
    assert found["client-0", "a"] == both_ways(run, ["client-0"])
    assert found["a", "b"] == both_ways(run, near)
    assert found["b", SERVER] == both_ways(run, every)
    assert found["a", SERVER] == (0, 0)
    assert "not distinguished" not in shown(study, run).note


def test_links_of_ways_that_are_as_good_are_not_told_apart(tmp_path: Path) -> None:
    pairs = [("server", "a"), ("server", "b"), ("a", "c"), ("b", "c")]
    pairs += [("c", f"client-{number}") for number in range(5)]
    edges = [{"source": one, "target": other} for one, other in pairs]
    study, run = reported(tmp_path, network={"topology": "graph", "edges": edges})
    assert set(carried(study, run)) == {(f"client-{n}", "c") for n in range(5)}
    assert set(map(frozenset, network(study, run).unsure)) == set(map(frozenset, pairs[:4]))
    figure = shown(study, run)
    assert "not distinguished" in figure.note
    assert [key.name for key in figure.keys][-1] == "one of several routes"


def test_peers_links_carried_what_one_sent_to_the_other(tmp_path: Path) -> None:
    study, run = reported(
        tmp_path,
        algorithm={"kind": "d-psgd", "step_size": "0.1/L_max"},
        network={"peers": {"kind": "ring"}},
    )
    found, bits = carried(study, run), sent(run)
    assert len(found) == 5
    for (one, other), both in found.items():
        assert both == (bits[one, other], bits[other, one])
        assert min(both) > 0
    assert SERVER not in {end for ends in found for end in ends}


def test_peers_links_are_drawn_by_bits_and_by_what_these_cost_both_ends(tmp_path: Path) -> None:
    study, run = reported(
        tmp_path,
        algorithm={"kind": "d-psgd", "step_size": "0.1/L_max"},
        network={"peers": {"kind": "ring"}},
        fleet=[{"count": 5, "device": "pi-4", "radio": "wifi"}],
    )
    drawn = drawings(study, run, "one")
    assert list(drawn) == ["bits", "joules"]
    assert "joules of messages at both ends" in drawn["joules"].note
    rows = run.events(["event", "node", "peer", "joules"])
    rows = rows[rows["event"].isin(["send", "receive"])]
    by_link = carried(study, run, "joules")
    assert len(by_link) == 5
    for (one, other), joules in by_link.items():
        own = rows[rows["node"].isin([one, other]) & rows["peer"].isin([one, other])]
        assert sum(joules) == pytest.approx(own["joules"].sum())
    star, run = reported(tmp_path / "star")
    assert list(drawings(star, run, "one")) == ["bits"]


def test_peers_are_drawn_by_how_far_their_models_are_apart_where_these_are_kept(
    tmp_path: Path,
) -> None:
    study, run = reported(
        tmp_path,
        algorithm={"kind": "d-psgd", "step_size": "0.1/L_max"},
        network={"peers": {"kind": "ring"}},
        models={"every": 2, "clients": True},
    )
    models = fedsim.open(run.path.parents[1]).node_models(seed=run.seed)
    figure = shown(study, run, "disagreement")
    assert "the distance between the models of its ends" in figure.note
    rows = table_of(figure).rows
    assert len(rows) == 5
    for one, other, far in rows:
        ends = (int(end.text.removeprefix("client-")) for end in (one, other))
        assert far.value == pytest.approx(
            np.linalg.norm(np.subtract(*(models[end] for end in ends))), rel=1e-12
        )


def test_of_many_peers_those_are_drawn_that_carried_the_most(tmp_path: Path) -> None:
    study, run = reported(
        tmp_path,
        algorithm={"kind": "d-psgd", "step_size": "0.1/L_max"},
        network={"peers": {"kind": "star"}},
        fleet=[{"count": 210, "radio": "wifi"}],
        stop={"rounds": 1},
    )
    found = carried(study, run)
    assert len(found) == 199
    assert all("client-0" in ends for ends in found)  # the centre of the star
    assert "of 210 peers the 200 that carried the most" in shown(study, run).note


def test_a_fleet_of_many_has_a_link_for_each_kind(tmp_path: Path) -> None:
    fleet = [{"count": 210, "device": "pi-4"}, {"count": 2, "device": "phone-mid"}]
    study, run = reported(tmp_path, fleet=fleet)
    kinds = study.clients.groupby("group")["client"].agg(list)
    assert carried(study, run) == {
        (f"kind {group}", SERVER): both_ways(run, names) for group, names in kinds.items()
    }
    figure = shown(study, run)
    assert "a node stands for a whole kind" in figure.note
    assert "kind 1" in figure.drawing


def test_a_broadcast_counts_for_each_that_received_it_and_the_page_says_so(tmp_path: Path) -> None:
    study, run = reported(tmp_path, network={"topology": "star", "broadcast": "cell"})
    assert "a copy of a broadcast for each that received it" in shown(study, run).note
    rows = run.events(["event", "node", *BITS])
    received = rows[(rows["event"] == "receive") & (rows["node"] != SERVER)]
    down = sum(bits for _, bits in carried(study, run).values())
    assert down == float(received[BITS].to_numpy().sum())
    assert down > sum(bits for (node, _), bits in sent(run).items() if node == SERVER)


def test_a_result_draws_the_links_of_gateways_as_the_page_does(
    runs: Path, study: ReportedStudy
) -> None:
    axis = plot_network(fedsim.open(runs), variant="tree", seed=1)
    bits = carried(study, study.variants["tree"])
    most = max(map(sum, bits.values()))
    assert widths(axis) == pytest.approx([0.6 + 3.4 * sum(both) / most for both in bits.values()])
    names = {text.get_text() for text in axis.texts}
    assert names >= {"server", "gateway-0", "gateway-1", *(f"client-{n}" for n in range(5))}
    joules = plot_network(fedsim.open(runs), "joules", variant="tree", seed=1)
    assert len(widths(joules)) == 5  # gateways spend nothing: these are the clients' own


def test_names_stand_where_no_link_is(runs: Path) -> None:
    axis = plot_network(fedsim.open(runs), variant="tree", seed=1)
    graph = nx.Graph(
        [(SERVER, "gateway-0"), (SERVER, "gateway-1")]
        + [(f"client-{n}", f"gateway-{int(n > 1)}") for n in range(5)]
    )
    texts: dict[str, Any] = {text.get_text(): text for text in axis.texts}
    for node in graph:
        side = np.asarray(texts[node].xyann)
        for other in graph[node]:
            link = np.subtract(texts[other].xy, texts[node].xy)
            aligned = side @ link / np.linalg.norm(side) / np.linalg.norm(link)
            assert aligned < np.cos(np.pi / (1 + len(graph[node])))


@pytest.mark.parametrize("clients", [2, 3, 6, 10])
def test_a_name_without_a_box_lies_on_no_link(clients: int, tmp_path: Path) -> None:
    """Also that of a server, whose links leave little room."""
    fleet = [{"count": clients, "device": "pi-4", "radio": "wifi"}]
    result = fedsim.run(small(fleet=fleet, stop={"rounds": 2}), out=tmp_path)
    axis = plot_network(result)
    figure = figure_of(axis)
    figure.draw_without_rendering()
    (links,) = [each for each in axis.collections if isinstance(each, LineCollection)]
    ends = [axis.transData.transform(segment) for segment in links.get_segments()]
    for text in axis.texts:
        if text.get_bbox_patch() is None:
            # A point inside the letters, and not at their rim, which blank space surrounds.
            box = text.get_window_extent().shrunk(0.9, 0.7)
            assert not any(
                box.contains(*(one + share * (other - one)))
                for one, other in ends
                for share in np.linspace(0, 1, 500)
            ), text.get_text()
    names = {text.get_text() for text in axis.texts}
    keys = {key.get_text() for key in (axis.get_legend() or figure.legends[0]).get_texts()}
    assert SERVER in names | keys
