"""Clients with names in the data are called by them wherever a figure or a trace shows clients."""

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.addons.paper.methods import methods
from fedsim.results import analysis
from fedsim.results.analysis import Comparison
from fedsim.results.analysis.client_names import client_names, display_names
from fedsim.results.analysis.trace_files import write_traces
from fedsim.results.report.drawing import page_style
from fedsim.results.report.network import drawings
from fedsim.results.report.study import ReportedStudy

WARDS = ["Charité", "St $2 Mary", "Zürich"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    mpl.use("Agg")
    rng, out = np.random.default_rng(2), tmp_path_factory.mktemp("named")
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["y"] = np.where(frame["a"] + rng.normal(size=60) > 0, "ill", "well")
    frame["ward"] = [WARDS[row % 3] for row in range(60)]
    scenario: dict[str, Any] = {
        "problem": {
            "loss": {"kind": "logistic", "l2": 0.1},
            "data": fedsim.table(frame, target="y", client="ward"),
            "split": "groups",
        },
        "algorithm": {"kind": "gd", "step_size": "1/L"},
        "fleet": [{"count": "data", "device": "pi-4", "radio": "wifi"}],
        "stop": {"rounds": 2},
    }
    return fedsim.run(scenario, out=out / "study")


def test_each_plot_of_clients_has_their_names(result: fedsim.Result) -> None:
    wanted = ["Charité", r"St \$2 Mary", "Zürich"]
    for plot in (
        analysis.plot_participation(result),
        analysis.plot_silence(result),
        analysis.plot_round(result, 1),
        analysis.plot_energy(result, "client"),
    ):
        assert [text.get_text() for text in plot.get_yticklabels()] == wanted


@pytest.mark.slow
def test_the_report_and_the_trace_have_their_names_and_the_log_their_numbers(
    result: fedsim.Result, tmp_path: Path
) -> None:
    page = Path(result.report(tmp_path / "report.html")).read_text(encoding="utf-8")
    assert page.count(">Zürich</text>") >= 4  # network, energy, participation and timelines
    (file,) = (path for path, _ in write_traces(result.runs[0], out=tmp_path / "trace.json"))
    events = json.loads(file.read_text())["traceEvents"]
    threads = {each["args"]["name"] for each in events if each["name"] == "thread_name"}
    assert set(WARDS) <= threads
    assert set(result.events["node"].dropna()) == {"server", "client-0", "client-1", "client-2"}


def test_a_client_keeps_its_number_where_one_name_does_not_stand_for_it() -> None:
    table = pd.DataFrame(
        {
            "client": ["client-0", "client-1", "client-2", "client-0", "client-3", "client-4"],
            "name": ["A", "B", None, "C", "x" * 40 + "1", "x" * 40 + "2"],
        }
    )
    names = client_names(table)
    assert set(names) == {"client-1", "client-3", "client-4"}
    assert names["client-3"] != names["client-4"]
    assert display_names(["client-0", "client-1"], table) == ["client-0", "B"]
    assert client_names(table.drop(columns="name")) == {}


def test_the_network_of_a_report_and_the_methods_of_a_paper_say_names_and_fit(
    result: fedsim.Result,
) -> None:
    study = ReportedStudy(Comparison.of([result.folder]))
    with page_style():
        figure = drawings(study, study.first, "one")["bits"]
    assert ">Zürich</text>" in figure.drawing
    assert "client-0" not in figure.drawing
    assert figure.table is not None
    assert [row[0].text for row in figure.table.rows] == WARDS
    assert "fitted on the training rows of all clients, an exchange that is not" in methods(study)
