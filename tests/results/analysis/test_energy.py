"""Where energy went, and what batteries held, on tables small enough to add up by hand."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import fedsim
from fedsim.results.analysis import ENERGY_PARTS, energy_parts, stacked_bars, state_of_charge
from tests.drawn import bars_of, rows_of
from tests.runs import small

LOSS = {"kind": "independent", "rate": "20 %"}
GD = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
HARVEST = {"charge": "50 %", "charging": {"kind": "constant", "power": "1 W"}}


@pytest.fixture(scope="module")
def result() -> fedsim.Result:
    """Return a run in which everything costs something; wifi clients have batteries."""
    fleet = [
        {"count": 3, "device": "phone-mid", "radio": {"kind": "lte", "loss": LOSS}},
        {"count": 2, "device": "pi-4", "radio": "wifi", "battery": HARVEST},
    ]
    return fedsim.run(small(fleet=fleet, stop={"rounds": 8}, seeds=2, variants={"gd": GD}))


def test_the_parts_are_all_of_the_energy(result: fedsim.Result) -> None:
    parts = energy_parts(result.clients)
    totals = result.summary.set_index(["variant", "seed"])["joules"]
    # No client forwards messages in a star.
    assert list(parts.columns) == [part for part in ENERGY_PARTS.values() if part != "forwarding"]
    assert parts.index.tolist() == totals.index.tolist()
    assert np.allclose(parts.sum(axis=1), totals, rtol=1e-12)
    assert (parts > 0).all().all()


def test_groups_of_clients_share_their_parts(result: fedsim.Result) -> None:
    parts = energy_parts(result.clients, ["radio"])
    whole = energy_parts(result.clients, ["variant"])
    assert parts.index.tolist() == ["lte", "wifi"]
    assert np.allclose(parts.sum(), whole.sum(), rtol=1e-12)
    assert parts.loc["wifi", "sending again"] == 0


def events() -> pd.DataFrame:
    """Return rows of two batteries, and one of a client on mains."""
    rows = [
        ("base", 1, "client-0", 0.0, 1.0),
        ("base", 1, "client-1", 1.0, 0.5),
        ("base", 1, "client-2", 1.0, np.nan),
        ("base", 1, "client-0", 4.0, 0.8),
        ("base", 1, "client-1", 5.0, 0.7),
        ("base", 2, "client-1", 5.0, 0.3),
    ]
    names = ["variant", "seed", "node", "t", "state_of_charge"]
    frame = pd.DataFrame(rows, columns=names)
    return frame.astype({"variant": "category", "node": "category"})


def test_charge_runs_straight_between_the_rows_of_a_battery() -> None:
    charge = state_of_charge(events(), [0.0, 2.0, 4.0, 6.0])
    names = [("base", 1, "client-0"), ("base", 1, "client-1"), ("base", 2, "client-1")]
    assert charge.columns.equals(pd.MultiIndex.from_tuples(names))
    expected = [[1.0, np.nan, np.nan], [0.9, 0.55, np.nan], [0.8, 0.65, np.nan], [np.nan] * 3]
    assert np.allclose(charge.to_numpy(), expected, equal_nan=True)


def test_a_fleet_on_mains_has_no_charges() -> None:
    rows = events()
    assert state_of_charge(rows[rows["node"] == "client-2"], [0.0, 1.0]).shape == (2, 0)


def test_the_charge_of_a_run_ends_where_the_ledger_says(result: fedsim.Result) -> None:
    """A charger of 1 W against what a client on wifi draws: the last row is near the end."""
    clients = result.clients.dropna(subset=["final_joules"])
    rows = result.events.dropna(subset=["state_of_charge"])
    last = rows.groupby(["variant", "seed", "node"], sort=False, observed=True)["t"].max()
    charge = state_of_charge(result.events, [last.min()])
    assert charge.shape == (1, 8)
    capacity = 18.5 * 3600
    final = clients["final_joules"].to_numpy() / capacity
    assert np.allclose(charge.to_numpy(), final, atol=1e-4)


def test_bars_are_made_of_their_parts_from_left_to_right() -> None:
    parts = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 0.0]}, index=["first", "second"])
    axis = Figure().subplots()
    stacked_bars(axis, parts, {"a": "red", "b": "blue"})
    assert bars_of(axis) == {
        "a": [("first", 0, 1), ("second", 0, 2)],
        "b": [("first", 1, 4), ("second", 2, 2)],
    }
    assert rows_of(axis) == ["first", "second"]
    bottom, top = axis.get_ylim()
    assert bottom > top
    assert axis.get_legend_handles_labels()[1] == ["a", "b"]
