"""Gateways that average (tiers) in the report, in the drawing of the network, and in a paper."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.addons.paper.methods import methods
from fedsim.results.analysis import Comparison
from fedsim.results.analysis.log.edges import edges
from fedsim.results.analysis.log.links import Network
from fedsim.results.analysis.plots.network import plot_network
from fedsim.results.report import fleet, write
from fedsim.results.report.network import drawings
from fedsim.results.report.study import ReportedStudy
from tests.results.report.pages import Page
from tests.runs import small

TIERS = [
    {"count": 2, "rounds": 3, "radio": "wifi"},
    {"count": 1, "rounds": 2, "radio": "lte", "outer": "fedadam"},
]
ABOVE = {
    **{f"client-{number}": "gateway-5" for number in (0, 1)},
    **{f"client-{number}": "gateway-6" for number in (2, 3, 4)},
    "gateway-5": "gateway-7",
    "gateway-6": "gateway-7",
    "gateway-7": "server",
}
ROUNDS = 2
VISITS = {"server": 1, "gateway-7": 2, "gateway-6": 2 * 3, "gateway-5": 2 * 3}


def tiered(folder: Path, **changes: Any) -> fedsim.Result:
    averaging = {"kind": "fedavg", "step_size": "1/L_max"}
    scenario = small(algorithm=averaging, tiers=TIERS, stop={"rounds": ROUNDS})
    return fedsim.run({**scenario, **changes}, out=folder)


@pytest.fixture(name="result")
def _result(tmp_path: Path) -> fedsim.Result:
    return tiered(tmp_path)


@pytest.fixture(name="reported")
def _reported(result: fedsim.Result) -> ReportedStudy:
    return ReportedStudy(Comparison.of([result.folder]))


def test_links_lead_to_the_server_that_a_node_has(
    result: fedsim.Result, reported: ReportedStudy
) -> None:
    run, rows = reported.first, edges(result.events)
    found = Network.of(run.scenario, run.rows(reported.clients), rows).carried(rows)
    assert set(found) == set(ABOVE.items())
    table = rows.set_index(["source", "target"])["bits"]
    for (below, above), (up, down) in found.items():
        assert up == table[below, above] > 0
        assert down == table[above, below] > 0
    assert "gateways" in drawings(reported, run, "one")["bits"].note


def test_a_gateway_replies_once_to_each_message_from_above(reported: ReportedStudy) -> None:
    clients = fleet.with_received_counts(reported).set_index("client")
    for node, above in ABOVE.items():
        asked = ROUNDS * VISITS[above]
        assert [clients["received"][node], clients["transmissions"][node]] == [asked, asked], node


@pytest.mark.slow
def test_the_page_has_gateways_as_kinds_of_their_own(tmp_path: Path) -> None:
    fedsim.run(
        small(
            algorithm={"kind": "fedavg", "step_size": "1/L_max"},
            stop={"rounds": ROUNDS},
            variants={"none": {}, "two": {"tiers": TIERS[:1]}, "three": {"tiers": TIERS}},
        ),
        out=tmp_path,
    )
    page = Page(write(tmp_path))
    rows = page.tables[
        "Participation of each kind in a run: sums over its clients, means over seeds"
    ]
    kinds = [row[1] for row in rows[1:]]
    assert sum("gateway" in kind for kind in kinds) == 3
    assert len([name for name in page.figures if name.startswith("fleet-")]) == 3


def test_plot_network_draws_gateways(result: fedsim.Result) -> None:
    axes = plot_network(result)
    names = {text.get_text() for text in axes.texts}
    assert names >= {
        "server",
        *(f"client-{n}" for n in range(5)),
        *(f"gateway-{n}" for n in (5, 6, 7)),
    }


def test_a_paper_says_what_gateways_run(reported: ReportedStudy) -> None:
    text = methods(reported)
    assert "2 gateways, ideal" in text
    assert "1 gateways, ideal" in text
    assert "gateways runs 3 rounds with the clients below it" in text
    assert "2 rounds with the gateways below it" in text
    assert "fedadam" in text
