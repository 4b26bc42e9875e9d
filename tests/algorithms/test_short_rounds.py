"""Rounds with fewer replies than a rule needs: the three policies, and what history shows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.results.record.parts import read_table
from fedsim.results.result import Result
from tests.runs import small

PHONE = {"device": "phone-mid", "radio": "lte"}
LOSSY = {"kind": "lte", "loss": {"kind": "independent", "rate": 0.2}, "tries": 1}
SLOW = {"device": {"kind": "phone-mid", "speed": "100 flop/s"}, "radio": "lte"}

SHRUNK: dict[str, dict[str, Any]] = {
    "deadline": {
        "fleet": [{"count": 3, **PHONE}, {"count": 2, **SLOW}],
        "participation": {"kind": "full", "deadline": "2 s"},
    },
    "losses": {
        "fleet": [{"count": 5, "device": "phone-mid", "radio": LOSSY}],
        "participation": {"kind": "full", "deadline": "20 s"},
    },
    "batteries": {
        "fleet": [{"count": 3, **PHONE}, {"count": 2, **PHONE, "battery": {"capacity": "0.7 J"}}],
        "participation": {"kind": "full", "deadline": "2 s"},
    },
}
"""Why fewer than five of five clients may answer."""

NEEDS = 5
"""2f + 1 with f = 2."""


def run(case: str, otherwise: str, folder: Path, **more: Any) -> Result:
    rule = {"kind": "trimmed-mean", "byzantine": 2, "otherwise": otherwise}
    scenario = small(
        algorithm={"kind": "fedavg", "step_size": 0.001},
        aggregation=rule,
        stop={"rounds": 12},
        **SHRUNK[case],
        **more,
    )
    return fedsim.run(scenario, out=folder)


def heard(events: pd.DataFrame, rounds: pd.DataFrame) -> pd.Series:
    """Return the replies that have arrived at the server by the end of each round, from its log."""
    arrived = events[(events["event"] == "receive") & (events["node"] == "server")]
    counts = arrived.groupby("round").size()
    return counts.reindex(rounds["round"].iloc[1:], fill_value=0)


def summary(result: Result) -> dict[str, Any]:
    (path,) = result.runs
    read: dict[str, Any] = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    return read


@pytest.mark.parametrize("case", SHRUNK)
def test_the_median_is_taken_in_the_rounds_that_lack_replies(case: str, tmp_path: Path) -> None:
    result = run(case, "median", tmp_path)
    few = (heard(result.events, result.rounds) < NEEDS).to_numpy()
    assert few.any()
    assert np.array_equal(result.rounds["replaced"].iloc[1:] == 1, few)
    text = f"in {few.sum()} of 12 rounds trimmed-mean had fewer than 2f + 1 = 5 vectors"
    assert any(text in note for note in summary(result)["notes"])


@pytest.mark.parametrize("case", SHRUNK)
def test_such_rounds_are_abandoned_and_the_model_stays(case: str, tmp_path: Path) -> None:
    result = run(case, "skip", tmp_path)
    few = (heard(result.events, result.rounds) < NEEDS).to_numpy()
    abandoned = result.events[result.events["event"] == "abandoned"]
    assert abandoned["detail"].str.contains("the rule needs 5").all()
    assert abandoned["round"].tolist() == (np.flatnonzero(few) + 1).tolist()
    objective = result.rounds["objective"].to_numpy()
    assert np.array_equal(np.diff(objective) == 0, few)
    assert (result.rounds["replaced"].iloc[1:] == 0).all()
    text = f"{few.sum()} rounds were abandoned: trimmed-mean had fewer than 2f + 1 = 5 vectors"
    assert any(text in note for note in summary(result)["notes"])


@pytest.mark.parametrize("case", SHRUNK)
def test_the_first_of_them_ends_the_run(case: str, tmp_path: Path) -> None:
    others = run(case, "median", tmp_path / "median")
    few = (heard(others.events, others.rounds) < NEEDS).to_numpy()
    result = run(case, "end", tmp_path / "end")
    assert summary(result)["rounds"] == int(np.argmax(few))
    assert "trimmed-mean needs 2f + 1 = 5 vectors, and got" in summary(result)["reason"]


def test_a_message_that_cannot_be_read_is_no_report(tmp_path: Path) -> None:
    fleet = [{"count": 4, **PHONE}, {"count": 1, **PHONE, "attack": {"kind": "unreadable"}}]
    scenario = small(
        algorithm={"kind": "fedavg", "step_size": 0.001}, fleet=fleet, stop={"rounds": 3}
    )
    rule = {"kind": "trimmed-mean", "byzantine": 2, "otherwise": "skip"}
    skipped = fedsim.run({**scenario, "aggregation": rule}, out=tmp_path / "skip")
    assert (skipped.events["event"] == "abandoned").sum() == 3
    taken = fedsim.run(scenario, out=tmp_path / "mean")
    assert taken.rounds["unreadable"].iloc[1:].tolist() == [1, 1, 1]
    assert any(
        "in 3 of 3 rounds replies could not be read, and were left out, 3 in all" in note
        for note in summary(taken)["notes"]
    )


def test_vectors_that_are_not_finite_are_counted_by_round(tmp_path: Path) -> None:
    fleet = [{"count": 3, **PHONE}, {"count": 2, **PHONE, "attack": {"kind": "nan"}}]
    result = fedsim.run(
        small(
            algorithm={"kind": "fedavg", "step_size": 0.001},
            fleet=fleet,
            aggregation={"kind": "median"},
            stop={"rounds": 3},
        ),
        out=tmp_path,
    )
    assert result.rounds["dropped"].iloc[1:].tolist() == [2, 2, 2]
    assert "replaced" not in result.rounds  # a median needs one vector
    (note,) = [note for note in summary(result)["notes"] if "not finite" in note]
    assert note == (
        "aggregation.kind: in 3 of 3 rounds vectors that are not finite were left out, 6 in all"
    )


def test_gateways_count_for_the_round_of_the_server(tmp_path: Path) -> None:
    """Two gateways with two rounds each, of three clients of which one sends NaN."""
    fleet = [
        {"count": 5, **PHONE},
        {"count": 1, **PHONE, "attack": {"kind": "nan"}},
    ]
    result = fedsim.run(
        small(
            algorithm={"kind": "fedavg", "step_size": 0.001},
            fleet=fleet,
            tiers=[{"count": 2, "rounds": 2}],
            aggregation={"kind": "median"},
            stop={"rounds": 3},
        ),
        out=tmp_path,
    )
    assert result.rounds["dropped"].iloc[1:].tolist() == [2, 2, 2]


def test_logs_without_a_rule_or_an_attack_have_no_such_column(tmp_path: Path) -> None:
    result = fedsim.run(small(stop={"rounds": 2}), out=tmp_path)
    (path,) = result.runs
    assert not {"replaced", "dropped", "unreadable"} & {*read_table(path, "rounds").column_names}
