"""A live run of a synchronous method is the simulated one: bits, rounds, silence and models."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedsim
from fedsim.addons.live import run_live
from fedsim.results.result import Result
from tests import methods

CLIENTS, ROUNDS = 4, 6

pytestmark = pytest.mark.filterwarnings("ignore::fedsim.core.errors.TheoryWarning")

TOP_K = {"compressor": {"kind": "top-k", "fraction": 0.3}}
UPDATES = {"compressor": {"kind": "top-k", "fraction": 0.5}, "error_feedback": "ef21"}
QUANTISED = {"compressor": {"kind": "qsgd", "levels": 4}}

CASES: dict[str, dict[str, Any]] = {
    "chb": {"algorithm": {"censor": 5.0}},
    "chb, compressed": {"algorithm": {"censor": 2.0}, "wire": {"up": TOP_K}},
    "fedavg": {"participation": {"kind": "uniform", "count": 2}},
    "fedavg, large losses": {
        "participation": {"kind": "oort", "count": 2, "penalty": 0, "staleness": False}
    },
    "fedavg, candidates": {
        "participation": {"kind": "power-of-choice", "count": 2, "candidates": 3}
    },
    "fedavg, large updates": {"participation": {"kind": "importance", "count": 2}},
    "fedavg, quantised": {"wire": {"values": "float32", "up": QUANTISED, "down": UPDATES}},
    "fedavg, false labels": {
        "fleet": [
            {"count": CLIENTS - 2},
            {"count": 1, "attack": {"kind": "label-flip"}},
            {"count": 1, "attack": {"kind": "sign-flip"}},
        ],
        "aggregation": {"kind": "krum", "byzantine": 0},
    },
    "fedsgm": {},
    "fedgradmp": {},
    "fed-ht": {},
    "fast-fedda": {},
}


def scenario(case: str) -> dict[str, Any]:
    method, more = case.partition(",")[0], CASES[case]
    made = methods.scenario(method)
    made["algorithm"] |= more.get("algorithm", {})
    return {
        **made,
        "problem": made["problem"] | {"optimum": "unknown"},
        "fleet": [{"count": CLIENTS}],
        "stop": {"rounds": ROUNDS},
        "models": {"every": 1},
        **{key: value for key, value in more.items() if key != "algorithm"},
    }


def messages(result: Result) -> pd.DataFrame:
    """Return every message and silence of a run, in an order that does not depend on time."""
    events = result.events
    columns = ["round", "event", "node", "peer", "message", "payload_bits", "header_bits"]
    rows = events[events["event"].isin(["send", "receive", "silent", "sampled"])][columns]
    return rows.astype(str).sort_values(columns, ignore_index=True)


QUICK = {"chb", "fedavg, quantised", "fedavg, false labels"}
"""Cases that run by default."""


@pytest.mark.parametrize(
    "case",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in CASES],
)
def test_bits_rounds_silence_and_models_are_those_of_the_simulated_run(
    case: str, tmp_path: Path
) -> None:
    made = run_live(scenario(case), out=tmp_path / "live")
    due = fedsim.run(scenario(case), out=tmp_path / "simulated")
    pd.testing.assert_frame_equal(messages(made), messages(due))
    timeless = [name for name in due.rounds.columns if name not in {"t", "joules"}]
    pd.testing.assert_frame_equal(made.rounds[timeless], due.rounds[timeless], check_exact=True)
    assert made.rounds["round"].tolist() == [*range(ROUNDS + 1)]
    pd.testing.assert_frame_equal(made.models, due.models, check_exact=True)
    work = ["client", "transmissions", "beacons", "silent", "bits_up", "bits_down"]
    pd.testing.assert_frame_equal(made.clients[work], due.clients[work])


@pytest.mark.slow
def test_some_of_these_clients_keep_silent(tmp_path: Path) -> None:
    made = run_live(scenario("chb"), out=tmp_path)
    silent = (made.events["event"] == "silent").sum()
    assert 0 < silent < CLIENTS * ROUNDS


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedbuff", "fedasync"])
def test_an_asynchronous_server_takes_replies_as_they_come(method: str, tmp_path: Path) -> None:
    made = methods.scenario(method)
    problem = made["problem"] | {"optimum": "unknown"}
    changes = {"problem": problem, "fleet": [{"count": CLIENTS}], "stop": {"rounds": ROUNDS}}
    result = run_live(made | changes, out=tmp_path)
    assert result.summary["status"].tolist() == ["done"]
    assert result.rounds["round"].tolist() == [*range(ROUNDS + 1)]
    buffer = made["participation"]["buffer"]
    arrived = result.events[result.events["event"] == "receive"]
    assert (arrived["node"] == "server").sum() >= buffer * ROUNDS


def test_a_run_that_diverges_does_so_in_the_same_round(tmp_path: Path) -> None:
    made = scenario("chb") | {"algorithm": {"kind": "gd", "step_size": "1e200/L"}}
    wild = made | {"problem": made["problem"] | {"loss": {"kind": "squared", "l2": 1.0}}}
    live, simulated = (
        run(wild, out=tmp_path / run.__name__, check=False).summary.iloc[0]
        for run in (run_live, fedsim.run)
    )
    assert live["status"] == simulated["status"] == "diverged"
    assert live["rounds"] == simulated["rounds"]
    assert live["objective"] == simulated["objective"]
