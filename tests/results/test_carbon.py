"""Grams of CO2 in what runs leave: sums, closed forms, quadrature, linearity, and prices anew."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.addons.repricing.api import price_table
from fedsim.core.errors import AuditError, DataError, ScenarioError
from fedsim.results.record.emissions import KILOWATT_HOUR, Emissions
from fedsim.results.record.folder import check_run
from fedsim.results.record.ledger import Ledger, Meters

SMALL: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "scale": "mean", "l2": 0.1},
        "data": {"kind": "tong", "clients": 4, "rows": 6, "features": 3, "informative": 2},
        "split": {"kind": "groups"},
    },
    "algorithm": {"kind": "gd", "step_size": "0.5/L"},
    "fleet": [
        {"count": 2, "device": "phone-mid", "radio": "lte", "carbon": "DE"},
        {"count": 2, "device": {"kind": "cortex-m4", "speed": "20 flop/s"}, "radio": "wifi"},
    ],
    "stop": {"rounds": 12},
}
GRID = ((0.0, 30.0), (0.0002, 400.0), (0.0005, 250.0), (0.0011, 90.0), (0.0013, 10.0))


def ran(out: Path, carbon: Any = None, *more: str) -> fedsim.Result:
    """Run the small scenario, the second group on some electricity."""
    fleet = [SMALL["fleet"][0], SMALL["fleet"][1] | {"carbon": carbon}]
    return fedsim.run(SMALL | {"fleet": fleet}, out=out, overrides=more)


def hourly(folder: Path, **keys: Any) -> dict[str, Any]:
    path = folder / "grid.csv"
    path.write_text("".join(f"{hour},{grams}\n" for hour, grams in GRID))
    return {"kind": "hourly", "path": str(path), **keys}


def intensity(times: np.ndarray[Any, np.dtype[np.float64]]) -> Any:
    """Return what the file says, at its cycle."""
    hours, grams = np.array(GRID).T
    period = 2 * hours[-1] - hours[-2]
    return grams[np.searchsorted(hours, (times / 3600) % period, side="right") - 1]


def test_a_country_is_joules_times_its_figure_in_every_table(tmp_path: Path) -> None:
    result = ran(tmp_path / "out", "IN")
    clients = result.clients
    share = np.array([342.06, 342.06, 708.96, 708.96]) / KILOWATT_HOUR
    assert np.allclose(clients["grams"], clients["joules"] * share, rtol=1e-12)
    assert np.allclose(clients["idle_grams"], clients["idle_joules"] * share, rtol=1e-12)
    total = result.summary["grams"].iloc[0]
    assert clients["grams"].sum() == pytest.approx(total, rel=1e-12)
    assert result.events["grams"].sum() == pytest.approx(total, rel=1e-12)
    ended = result.events["event"] == "round"
    last = result.events.index[ended][-1]
    by_round = result.rounds["grams"].sum()
    # The log has the tails that are open at the end of the last round after it. All are in a round.
    assert result.events["grams"].iloc[: last + 1].sum() < by_round
    assert by_round == pytest.approx(total, rel=1e-12)


def test_an_hourly_signal_is_what_quadrature_makes_of_it(tmp_path: Path) -> None:
    """The midpoint rule on many points; spans are of all lengths, over several steps."""
    result = ran(tmp_path / "out", hourly(tmp_path))
    rows = result.events[result.events["node"].isin(["client-2", "client-3"])]
    rows = rows[rows["joules"] > 0]
    assert rows["duration"].max() > 1
    shares = (np.arange(200_000) + 0.5) / 200_000
    for row in rows.iloc[:: len(rows) // 40].to_dict("records"):
        times = row["t"] - row["duration"] + shares * row["duration"]
        wanted = row["joules"] * intensity(times).mean() / KILOWATT_HOUR
        assert row["grams"] == pytest.approx(wanted, rel=1e-3)
    end = result.summary["t"].iloc[0]
    assert end > 3600 * GRID[-1][0]
    idle = result.clients.iloc[2]
    mean = intensity(np.linspace(0, end, 2_000_001)[:-1]).mean()
    assert idle["idle_grams"] == pytest.approx(idle["idle_joules"] * mean / KILOWATT_HOUR, rel=1e-4)


def test_grams_are_linear_in_the_intensity(tmp_path: Path) -> None:
    one = ran(tmp_path / "one", hourly(tmp_path))
    three = ran(tmp_path / "three", hourly(tmp_path, scale=3))
    ratio = three.clients["grams"] / one.clients["grams"]
    assert ratio.tolist() == pytest.approx([1, 1, 3, 3], rel=1e-12)
    other = ran(tmp_path / "other", "PL")
    emitted = ["grams", "grams_after"]
    assert one.rounds.drop(columns=emitted).equals(other.rounds.drop(columns=emitted))
    assert one.events.drop(columns="grams").equals(other.events.drop(columns="grams"))


def test_a_start_is_a_cycle_that_begins_elsewhere(tmp_path: Path) -> None:
    begun = ran(tmp_path / "begun", hourly(tmp_path, start="0.0011 h"))
    path = tmp_path / "turned.csv"
    path.write_text("0,90\n0.0002,10\n0.0004,30\n0.0006,400\n0.0009,250\n0.0012,250\n")
    turned = ran(tmp_path / "turned", {"kind": "hourly", "path": str(path)})
    assert np.allclose(begun.clients["grams"], turned.clients["grams"], rtol=1e-9)
    early = ran(tmp_path / "early", hourly(tmp_path))
    assert not np.allclose(begun.rounds["grams"], early.rounds["grams"], rtol=1e-3)


def test_whose_electricity_nobody_knows_is_in_no_sum(tmp_path: Path) -> None:
    result = ran(tmp_path / "out")
    assert result.clients["grams"].isna().tolist() == [False, False, True, True]
    assert (result.events.loc[result.events["node"] == "client-3", "grams"] == 0).all()
    total = result.clients["joules"].iloc[:2].sum() * 342.06 / KILOWATT_HOUR
    assert result.summary["grams"].iloc[0] == pytest.approx(total, rel=1e-12)


def test_without_carbon_no_table_has_a_column_of_it(tmp_path: Path) -> None:
    result = ran(tmp_path / "out", None, "fleet.0.carbon=null")
    for table in (result.events, result.rounds, result.clients, result.summary):
        assert not [name for name in table if "grams" in str(name)]
    assert "CO2" not in repr(result)
    assert "CO2" not in repr(result.compare())


def test_idle_power_of_a_battery_that_was_empty_emits_nothing(tmp_path: Path) -> None:
    battery = (
        "{capacity: 4 J, charge: 100 %, threshold: 50 %, charging: {kind: constant, power: 1 W}}"
    )
    more = (f"fleet.0.battery={battery}", "participation={kind: full, deadline: 20 s}")
    result = ran(tmp_path / "out", hourly(tmp_path), *more)
    clients = result.clients
    assert clients["depletions"].iloc[0] > 0
    idle = 0.35 + 0.0  # W of a phone
    assert clients["idle_joules"].iloc[0] < 0.99 * idle * result.summary["t"].iloc[0]
    share = 342.06 / KILOWATT_HOUR
    assert np.allclose(clients["grams"].iloc[:2], share * clients["joules"].iloc[:2], rtol=1e-12)
    rest = result.events["node"] == "server"
    at_rest = result.events.loc[rest, "grams"].sum()
    assert at_rest == pytest.approx(clients["idle_grams"].sum(), rel=1e-9)


def same(one: fedsim.Result, other: fedsim.Result) -> bool:
    names = ("events.parquet", "rounds.parquet", "clients.parquet")
    return all(
        (one.runs[0] / name).read_bytes() == (other.runs[0] / name).read_bytes() for name in names
    )


@pytest.mark.slow
@pytest.mark.parametrize("before", [None, "BR"])
def test_priced_again_is_a_fresh_run_whether_there_was_carbon_or_not(
    before: str | None, tmp_path: Path
) -> None:
    block = hourly(tmp_path, start="1 s")
    said = f"{{kind: hourly, path: {block['path']}, start: 1 s}}"
    overrides = [f"fleet.1.carbon={said}", "fleet.0.carbon=NO"]
    made = ran(tmp_path / "made", before, *(["fleet.0.carbon=null"] if before is None else []))
    priced = fedsim.reprice(made.folder, overrides, tmp_path / "priced")
    assert same(priced, ran(tmp_path / "fresh", None, *overrides))
    heads = [str(column.header) for column in price_table(made.folder, priced.runs).columns]
    assert heads[-4:] == ["energy", "original energy", "CO2", "original CO2"]
    nobody = ["fleet.0.carbon=null", "fleet.1.carbon=null"]
    without = fedsim.reprice(priced.folder, nobody, tmp_path / "without")
    assert same(without, ran(tmp_path / "plain", None, *nobody))


class Level:
    """An intensity that is one."""

    least = most = 500.0

    def averages(self, begins: Any, _: Any) -> Any:
        return np.full(len(begins), 500.0)


def test_the_audit_refuses_grams_that_no_meter_explains() -> None:
    emissions = Emissions([Level()], np.array([0, -1]))
    meters = Meters(0, 0, 0, 0, 0, np.array([2.0, 0]), np.zeros(2), idle_grams=np.zeros(2))
    ledger = Ledger(2)
    ledger._sums["joules", 0] = np.array([2.0] + [0.0] * 15)
    ledger._place[1], ledger._seen = 0, 1
    emissions.grams[1] = 2.0 * 500 / KILOWATT_HOUR
    ledger.audit(meters, emissions)
    emissions.grams[1] *= 1 + 1e-6
    with pytest.raises(AuditError, match=r"grams of client-0: .* by the meters"):
        ledger.audit(meters, emissions)
    emissions.grams[1] /= 1 + 1e-6
    emissions.grams[0] = 1e-9
    with pytest.raises(AuditError, match="idle grams: 1e-09 logged"):
        ledger.audit(meters, emissions)


def test_a_client_of_unknown_intensity_emits_nothing_whatever_it_spends() -> None:
    emissions = Emissions([Level()], np.array([0, -1]))
    spent = np.array([0.0, KILOWATT_HOUR])
    assert list(emissions.faults(spent, spent, np.zeros(2))) == []
    emissions.grams[2] = 1.0
    (fault,) = emissions.faults(spent, spent, np.zeros(2))
    assert fault == "grams of client-1: 1.0, and 0.0 to 0.0 by the meters"


@pytest.mark.parametrize("table", ["events", "rounds", "clients"])
def test_a_table_that_lacks_its_grams_is_damaged(table: str, tmp_path: Path) -> None:
    (run,) = ran(tmp_path / "out").runs
    assert check_run(run)["grams"] > 0
    path = run / f"{table}.parquet"
    pd.read_parquet(path).drop(columns="grams").to_parquet(path)
    with pytest.raises(DataError, match="it has no column grams"):
        check_run(run)


@pytest.mark.slow
def test_compare_and_report_tell_grams(tmp_path: Path) -> None:
    variants = "variants={half: {algorithm: {step_size: 0.25/L}}}"
    result = ran(tmp_path / "out", "IN", variants, "stop={rounds: 60, gap: 0.01}")
    compared = result.compare()
    (case,) = compared.cases
    assert case.table["grams"].tolist() == sorted(case.table["grams"])
    assert set(case.pairs["cost"]) >= {"joules", "grams"}
    assert "CO2" in repr(compared)
    assert "CO2" in repr(result)
    assert len(result.plot().axes) == 5
    assert len(result.plot(x="grams").axes) == 1
    page = result.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<td>CO2</td>" in page
    assert fedsim.results.analysis.ranking(case.costs, compared.runs.labels).count("CO2") == 1


def test_a_file_that_is_not_there_is_a_fault_at_its_key(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"fleet\.1\.carbon\.path"):
        ran(tmp_path / "out", {"kind": "hourly", "path": str(tmp_path / "none.csv")})
