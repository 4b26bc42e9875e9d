"""The network is drawn with the bits that its links carried, which are those of the log."""

from pathlib import Path

import numpy as np
import pytest

import fedsim
from fedsim.results.analysis import Comparison, quantity
from fedsim.results.report.network import SERVER, Ends, drawing, drawings, graph_of, node_models
from fedsim.results.report.study import ReportedRun, ReportedStudy
from tests.results.report.drawings import Drawing
from tests.runs import small

LINKS = "g[@class='links']/g"
BITS = ["payload_bits", "header_bits", "transport_bits"]


def carried(study: ReportedStudy, run: ReportedRun) -> dict[Ends, tuple[float, float]]:
    return dict(graph_of(run, run.rows(study.clients)).carried)


def sums(run: ReportedRun, event: str) -> dict[str, float]:
    """Return the bits of the log's rows of an event, by client."""
    rows = run.events(["event", "node", *BITS])
    rows = rows[rows["event"] == event]
    totals = rows[BITS].sum(axis=1).groupby(rows["node"].astype(str)).sum()
    return {str(client): float(bits) for client, bits in totals.items()}


def reported(folder: Path, **changes: object) -> tuple[ReportedStudy, ReportedRun]:
    fedsim.run(small(**{"stop": {"rounds": 5}, **changes}), out=folder)
    study = ReportedStudy(Comparison.of([folder]))
    return study, study.first


def test_a_star_s_links_carried_what_their_clients_sent_and_received(study: ReportedStudy) -> None:
    run = study.first
    up, down = sums(run, "send"), sums(run, "receive")
    assert carried(study, run) == {
        (client, SERVER): (up[client], down[client]) for client in study.clients["client"].unique()
    }


def test_a_gateway_s_link_carried_what_its_clients_did(study: ReportedStudy) -> None:
    found = carried(study, study.variants["tree"])
    gateways = [ends[0] for ends in found if ends[1] == SERVER]
    assert len(gateways) == 2
    for gateway in gateways:
        below = [bits for (_, upper), bits in found.items() if upper == gateway]
        assert found[gateway, SERVER] == tuple(map(sum, zip(*below, strict=True)))


def test_links_are_as_wide_as_their_bits_and_tell_them(study: ReportedStudy) -> None:
    run = study.first
    bits = carried(study, run)
    most = max(map(sum, bits.values()))
    drawn = Drawing(drawing(study, run).drawing)
    assert f"at most {quantity(most, 'bit')}" in drawing(study, run).note
    lines = drawn.root.findall(f"{LINKS}/line[@stroke-width]")
    for line, told, ((client, _), (up, down)) in zip(
        lines, drawn.titles(LINKS), bits.items(), strict=True
    ):
        assert float(line.attrib["stroke-width"]) == pytest.approx(
            1 + 7 * (up + down) / most, abs=0.006
        )
        assert told.splitlines() == [
            f"{client} to {SERVER}: {quantity(up, 'bit')}",
            f"{SERVER} to {client}: {quantity(down, 'bit')}",
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
    up, down = sums(run, "send"), sums(run, "receive")
    near, every = [f"client-{n}" for n in range(3)], [f"client-{n}" for n in range(5)]
    assert found["client-0", "a"] == (up["client-0"], down["client-0"])
    assert found["a", "b"] == tuple(sum(bits[each] for each in near) for bits in (up, down))
    assert found["b", SERVER] == tuple(sum(bits[each] for each in every) for bits in (up, down))
    assert found["a", SERVER] == (0, 0)
    assert "not distinguished" not in drawing(study, run).note


def test_links_of_ways_that_are_as_good_are_not_told_apart(tmp_path: Path) -> None:
    pairs = [("server", "a"), ("server", "b"), ("a", "c"), ("b", "c")]
    pairs += [("c", f"client-{number}") for number in range(5)]
    edges = [{"source": one, "target": other} for one, other in pairs]
    study, run = reported(tmp_path, network={"topology": "graph", "edges": edges})
    assert set(carried(study, run)) == {(f"client-{n}", "c") for n in range(5)}
    figure = drawing(study, run)
    assert len(Drawing(figure.drawing).root.findall(f"{LINKS}/line[@stroke-dasharray]")) == 4
    assert "not distinguished" in figure.note


def test_peers_links_carried_what_one_sent_to_the_other(tmp_path: Path) -> None:
    study, run = reported(
        tmp_path,
        algorithm={"kind": "d-psgd", "step_size": "0.1/L_max"},
        network={"peers": {"kind": "ring"}},
    )
    rows = run.events(["event", "node", "peer", *BITS])
    rows = rows[rows["event"] == "send"]
    found = carried(study, run)
    assert len(found) == 5
    for (one, other), bits in found.items():
        for sent, (node, peer) in zip(bits, [(one, other), (other, one)], strict=True):
            own = rows[(rows["node"] == node) & (rows["peer"] == peer)]
            assert sent > 0
            assert sent == float(own[BITS].to_numpy().sum())
    assert SERVER not in {end for ends in found for end in ends}


def test_peers_links_are_drawn_by_bits_and_by_what_these_cost_both_ends(tmp_path: Path) -> None:
    study, run = reported(
        tmp_path,
        algorithm={"kind": "d-psgd", "step_size": "0.1/L_max"},
        network={"peers": {"kind": "ring"}},
        fleet=[{"count": 5, "device": "pi-4", "radio": "wifi"}],
    )
    drawn = drawings(study, run)
    assert list(drawn) == ["bit", "J"]
    assert "cost at its ends" in drawn["J"].note
    rows = run.events(["event", "node", "peer", "joules"])
    rows = rows[rows["event"].isin(["send", "receive"])]
    by_link = graph_of(run, run.rows(study.clients), "J").carried
    assert len(by_link) == 5
    for (one, other), joules in by_link.items():
        own = rows[rows["node"].isin([one, other]) & rows["peer"].isin([one, other])]
        assert sum(joules) == pytest.approx(own["joules"].sum())
    star, run = reported(tmp_path / "star")
    assert list(drawings(star, run)) == [""]


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
    graph = graph_of(run, run.rows(study.clients), "apart", node_models(run))
    assert len(graph.carried) == 5
    for ends, far in graph.carried.items():
        one, other = (int(end.removeprefix("client-")) for end in ends)
        assert sum(far) == pytest.approx(np.linalg.norm(models[one] - models[other]), rel=1e-12)
    figure = drawings(study, run)["apart"]
    assert "the models of its ends are apart" in figure.note
    distance = np.linalg.norm(models[3] - models.mean(axis=0))
    texts = [each.text or "" for each in Drawing(figure.drawing).root.iter()]
    assert any(text.endswith(f"{distance:.3g} from the mean of the models") for text in texts)


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
    assert "of 210 peers the 200 that carried the most" in drawing(study, run).note


def test_a_fleet_of_many_has_a_link_for_each_kind(tmp_path: Path) -> None:
    fleet = [{"count": 210, "device": "pi-4"}, {"count": 2, "device": "phone-mid"}]
    study, run = reported(tmp_path, fleet=fleet)
    totals = study.clients.groupby("group")[["bits_up", "bits_down"]].sum()
    up, down = (totals[name].to_dict() for name in totals)
    expected = {(f"kind {group}", SERVER): (up[group], down[group]) for group in (0, 1)}
    assert carried(study, run) == expected


def test_a_broadcast_counts_for_each_that_received_it_and_the_page_says_so(tmp_path: Path) -> None:
    study, run = reported(tmp_path, network={"topology": "star", "broadcast": "cell"})
    assert "a copy of a broadcast for each that received it" in drawing(study, run).note
    sent = run.events(["event", "node", *BITS])
    sent = sent[(sent["event"] == "send") & (sent["node"] == SERVER)]
    down = sum(bits for _, bits in carried(study, run).values())
    assert down == sum(sums(run, "receive").get(client, 0) for client in study.clients["client"])
    assert down > float(sent[BITS].to_numpy().sum())
