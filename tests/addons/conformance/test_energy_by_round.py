"""Energy until a commit: what a run that ends then has spent, whatever is open at that instant."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedsim
from fedsim.results.analysis import cost_to_target
from tests.tiers import some

from .test_energy_audit import WORLDS, fleet, world

CARBON = {"kind": "constant", "intensity": "300 g/kWh"}
FEDAVG = {"kind": "fedavg", "step_size": 1e-6, "local_steps": 1}
SAMPLED: dict[str, Any] = {
    "fleet": [{"count": 50, "device": "phone-mid", "radio": "lte", "carbon": CARBON}],
    "participation": {"kind": "uniform", "count": 5},
    "algorithm": FEDAVG,
    "stop": {"rounds": 20},
}
TIERS: dict[str, Any] = {"tiers": [{"count": 2, "rounds": 2, "device": "pi-4", "radio": "lte"}]}
TIERS |= {"fleet": fleet(["lte"] * 4), "algorithm": FEDAVG}

ALL = {**WORLDS, "sampled": SAMPLED, "tiers": TIERS}


@pytest.fixture(autouse=True)
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rate.csv").write_text("t,value\n0,40000\n2,0\n3,9000\n5,40000\n")
    monkeypatch.chdir(tmp_path)


def played(block: dict[str, Any], **stop: Any) -> fedsim.Result:
    return fedsim.run(world(**{**block, "stop": {"rounds": 12} | stop}))


@pytest.mark.parametrize(
    "name", some(ALL, "sampled", "asynchronous", "a quorum", "cells", "relays", "peers", "tiers")
)
def test_a_commit_has_what_a_run_has_spent_that_ends_then(name: str) -> None:
    """No joule waits for the end of its span, none is charged ahead, and none counts twice."""
    rounds = played(ALL[name]).rounds
    columns = [column for column in ("joules", "grams") if column in rounds]
    assert (rounds[columns] >= 0).all(axis=None)
    spent = rounds[["t", *columns]].assign(**{each: rounds[each].cumsum() for each in columns})
    for row in spent.iloc[[1, len(spent) // 2, -1]].to_dict("records"):
        # A deadline may close the round last in its instant, after the run has ended in it.
        (ended,) = played(ALL[name], time=f"{row['t']!r} s").summary.to_dict("records")
        assert ended["t"] == row["t"]
        for column in columns:
            assert ended[column] == pytest.approx(row[column], rel=1e-12)


def until(events: Any, t: float) -> float:
    """Integrate the powers of all rows up to a time; each is constant in its span."""
    lasting = np.where(events["duration"] > 0, events["duration"], 1.0)
    shares = np.clip((t - (events["t"] - events["duration"])) / lasting, 0.0, 1.0)
    shares = np.where(events["duration"] > 0, shares, events["t"] <= t)
    return float((shares * events["joules"]).sum())


def test_five_of_fifty_phones_are_charged_for_their_tails_as_they_last() -> None:
    """At every commit but the first some of the fifty phones are in a tail."""
    run = played(SAMPLED, rounds=20)
    spent = run.rounds["joules"].cumsum().to_numpy()
    expected = [until(run.events, t) for t in run.rounds["t"]]
    assert spent == pytest.approx(expected, rel=1e-9)
    closed = run.events.loc[run.events["t"] <= run.rounds["t"].iloc[10], "joules"].sum()
    assert spent[10] > 1.2 * closed  # rows that have ended lack much of it
    assert spent[-1] == pytest.approx(run.summary["joules"].item(), rel=1e-12)


def test_a_cost_to_a_target_is_that_of_the_power_curve() -> None:
    run = played(SAMPLED, rounds=20)
    target = run.rounds["objective"].iloc[12]
    (cost,) = cost_to_target(run.rounds, target, "objective").to_dict("records")
    spent = until(run.events, cost["t"]) + cost["joules_after"]  # until radios sleep
    assert cost["joules"] == pytest.approx(spent, rel=1e-9)


def test_a_budget_of_energy_ends_at_the_first_round_that_has_spent_it() -> None:
    spent = played(SAMPLED, rounds=20).rounds["joules"].cumsum()
    budget = float(spent.iloc[7:9].mean())
    ended = played(SAMPLED, rounds=20, energy=f"{budget} J")
    assert (ended.summary["rounds"].item(), spent.iloc[7] < budget < spent.iloc[8]) == (8, True)
    assert ended.summary["joules"].item() == pytest.approx(spent.iloc[8], rel=1e-12)


def test_what_comes_after_the_last_commit_is_in_no_round() -> None:
    """A run that is cut in the middle of a round: the rest is in the totals alone."""
    whole = played(SAMPLED, rounds=20).rounds
    middle = float(whole["t"].iloc[3:5].mean())
    run = played(SAMPLED, rounds=20, time=f"{middle} s")
    assert run.rounds["joules"].sum() == pytest.approx(whole["joules"].iloc[:4].sum(), rel=1e-12)
    total = run.summary["joules"].item()
    assert total == pytest.approx(until(run.events, middle), rel=1e-9)
    assert total > run.rounds["joules"].sum()
