"""The walk through the log: its answers are those of the books, of this run and of others."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fedsim
from tests.conftest import ROOT
from tests.drawn import bars_of
from tests.runs import small
from tests.scripts import script
from tests.tiers import every

SCRIPT = ROOT / "analysis/walkthrough.py"


walk = script("walkthrough")


@pytest.fixture(scope="module")
def result() -> fedsim.Result:
    run: fedsim.Result = walk.run()
    return run


@pytest.fixture(scope="module")
def log(result: fedsim.Result) -> pd.DataFrame:
    frame: pd.DataFrame = walk.log_of(result)
    return frame


@pytest.fixture(scope="module")
def clients(result: fedsim.Result) -> pd.DataFrame:
    return result.clients.set_index("client")


@pytest.mark.slow
def test_it_prints_its_answers_and_draws_its_figure(
    result: fedsim.Result,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(walk, "run", lambda *_: result)
    monkeypatch.setattr(walk, "FIGURE", tmp_path / "figure.png")
    monkeypatch.setattr(sys, "argv", ["walkthrough"])
    walk.main()
    printed = capsys.readouterr().out
    for question in walk.QUESTIONS:
        assert question.__doc__.splitlines()[0] in printed
    assert printed.strip().endswith(".")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (ROOT / "analysis/figures/walkthrough.png").read_bytes().startswith(b"\x89PNG")


def test_bits_are_those_of_the_client_table(log: pd.DataFrame, clients: pd.DataFrame) -> None:
    bits = walk.bits(log)
    names = {"send": "bits_up", "receive": "bits_down", "retransmit": "bits_again"}
    for event, column in names.items():
        ours = clients[column] if event != "retransmit" else sent_again(log, clients)
        assert bits[event].to_dict() == ours.to_dict()


def sent_again(log: pd.DataFrame, clients: pd.DataFrame) -> pd.Series:
    """Return the bits that each client itself sent again."""
    rows = log[log["event"] == "retransmit"]
    sums = rows["transport_bits"].groupby(rows["node"].astype(str)).sum()
    return sums.reindex(clients.index, fill_value=0)


def test_every_round_has_one_straggler(log: pd.DataFrame, result: fedsim.Result) -> None:
    last = walk.stragglers(log)
    assert last["rounds"].sum() == len(result.rounds) - 1
    closing = log[log["event"] == "round"].set_index("round")["t"]
    arrivals = log[(log["event"] == "receive") & (log["node"] == "server")]
    assert (arrivals.groupby("round")["t"].max() <= closing).all()
    assert (last["most, s"] >= last["median, s"]).all()


def test_who_is_left_out_is_who_was_skipped(log: pd.DataFrame, clients: pd.DataFrame) -> None:
    missing = walk.missing(log).sum(axis=1)
    skipped = clients["skipped"][clients["skipped"] > 0]
    assert missing.to_dict() == skipped.to_dict()
    assert {"offline", "battery empty", "charge too low"} == set(walk.missing(log))


def test_energy_is_all_that_is_not_spent_at_rest(log: pd.DataFrame, clients: pd.DataFrame) -> None:
    energy = walk.energy(log)
    own = clients["joules"] - clients["idle_joules"]
    assert np.allclose(energy.drop(columns="tail share").sum(axis=1), own, rtol=1e-9)
    assert np.allclose(energy["tail share"], clients["tail_joules"] / own, rtol=1e-9)


def test_shares_of_time_add_up(log: pd.DataFrame, clients: pd.DataFrame) -> None:
    states = walk.states(log)
    assert np.allclose(states.sum(axis=1), 1.0, rtol=1e-12)
    length = log["t"].max()
    assert np.allclose(length * states["compute"], clients["compute_s"], rtol=1e-9)
    phones = clients["radio"] == "lte"
    assert (states["tail"] < clients["tail_s"] / length)[phones].all()  # it computes meanwhile


def test_outages_are_the_depletions(log: pd.DataFrame, clients: pd.DataFrame) -> None:
    outages = walk.outages(log)
    assert outages["times"].to_dict() == clients["depletions"].dropna().to_dict()
    assert (outages["each, s"] > 0).all()


@every("question", walk.QUESTIONS)
def test_a_run_on_mains_can_be_asked_the_same(
    question: Callable[[pd.DataFrame], pd.DataFrame], quiet: pd.DataFrame
) -> None:
    answer = question(quiet)
    assert isinstance(answer, pd.DataFrame)
    assert answer.empty == (question in {walk.missing, walk.outages})


@pytest.fixture(scope="module")
def quiet() -> pd.DataFrame:
    frame: pd.DataFrame = walk.log_of(fedsim.run(small(stop={"rounds": 5})))
    return frame


def test_the_figure_has_a_bar_for_every_client(log: pd.DataFrame) -> None:
    shares, timeline = walk.draw(log).axes
    clients = log["node"].nunique() - 1
    assert {state: len(bars) for state, bars in bars_of(shares).items()} == dict.fromkeys(
        walk.COLOURS, clients
    )
    assert len(timeline.get_yticks()) == clients
