"""Energy of server and network: by hand from the log, off by default, and prices anew."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.addons.repricing.api import price_table
from fedsim.cli import app
from fedsim.cli.job_table import LEFT_OUT_BESIDE
from fedsim.core.errors import DataError, ScenarioError
from fedsim.core.tables import as_text
from fedsim.physics.infrastructure import Infrastructure
from fedsim.results.record.folder import check_run
from tests.tiers import every

SMALL: dict[str, Any] = {
    "problem": {
        "loss": {"kind": "squared", "scale": "mean", "l2": 0.1},
        "data": {"kind": "tong", "clients": 4, "rows": 6, "features": 3, "informative": 2},
        "split": {"kind": "groups"},
    },
    "algorithm": {"kind": "gd", "step_size": "0.5/L"},
    "fleet": [{"count": 4, "device": "phone-mid", "radio": "lte"}],
    "stop": {"rounds": 6},
}
LAW = {
    "kind": "custom",
    "per_bit": "3 uJ/bit",
    "idle": "100 W",
    "active": "300 W",
    "speed": "1 kflop/s",
    "pue": 1.5,
    "share": "40 %",
}


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def ran(out: Path, infrastructure: Any = None, **changes: Any) -> fedsim.Result:
    return fedsim.run(SMALL | changes | {"infrastructure": infrastructure}, out=out)


def by_hand(log: pd.DataFrame, dimension: int) -> tuple[float, float]:
    """Return the energy of server and network from the rows of a log."""
    sent = log[log["event"] == "send"]
    bits = sent[["payload_bits", "header_bits", "transport_bits"]].to_numpy().sum()
    replies = ((sent["node"] != "server") & (sent["payload_bits"] > 0)).sum()
    work = 2 * dimension * replies / 1e3 * 200
    return 1.5 * (0.4 * 100 * log["t"].max() + work), 3e-6 * bits


def test_it_is_bits_times_joules_per_bit_and_seconds_times_watts_times_pue(tmp_path: Path) -> None:
    result = ran(tmp_path / "out", LAW)
    (summary,) = result.summary.to_dict("records")
    expected = by_hand(result.events, summary["dimension"])
    assert (summary["server_joules"], summary["network_joules"]) == pytest.approx(expected)
    for name in ("server_joules", "network_joules"):  # the run ends with its last round
        assert result.rounds[name].sum() == pytest.approx(summary[name], rel=1e-12)
        assert result.rounds[name].iloc[0] == 0
        assert (result.rounds[name].iloc[1:] > 0).all()
    check_run(result.runs[0])


def test_a_run_that_ends_within_a_round_is_charged_until_its_end(tmp_path: Path) -> None:
    result = ran(tmp_path / "out", LAW, stop={"time": "1.7 s"})
    (summary,) = result.summary.to_dict("records")
    assert summary["t"] == 1.7 > result.rounds["t"].max()
    expected = by_hand(result.events, summary["dimension"])
    assert (summary["server_joules"], summary["network_joules"]) == pytest.approx(expected)


def test_nothing_else_of_a_run_changes(tmp_path: Path) -> None:
    off, on = ran(tmp_path / "off"), ran(tmp_path / "on", "mobile")
    for name in ("events", "clients", "models"):
        file = f"{name}.parquet"
        assert (off.runs[0] / file).read_bytes() == (on.runs[0] / file).read_bytes()
    assert "infrastructure" not in (off.runs[0] / "scenario.yaml").read_text()
    counted = ["server_joules", "network_joules"]
    assert not {*counted} & {*off.rounds, *off.summary}
    pd.testing.assert_frame_equal(off.rounds, on.rounds.drop(columns=counted))


def test_a_log_is_priced_anew_as_if_it_had_been_counted_from_the_start(tmp_path: Path) -> None:
    ran(tmp_path / "off")
    fresh = ran(tmp_path / "on", "fixed")
    priced = fedsim.reprice(tmp_path / "off", ["infrastructure=fixed"], tmp_path / "priced")
    for name in ("events", "rounds", "clients"):
        file = f"{name}.parquet"
        assert (priced.runs[0] / file).read_bytes() == (fresh.runs[0] / file).read_bytes()
    table = as_text(price_table(tmp_path / "off", priced.runs))
    assert "total energy" in table


def test_work_under_secure_aggregation_is_counted(tmp_path: Path) -> None:
    plain, secret = (
        ran(tmp_path / name, LAW, **changes)
        for name, changes in (("plain", {}), ("secret", {"secrecy": {"kind": "secagg"}}))
    )
    operations = secret.rounds["secrecy_operations"].sum()
    (summary,) = secret.summary.to_dict("records")
    own, _ = by_hand(secret.events, 0)
    replies = summary["transmissions"]
    expected = own + 1.5 * 200 * (operations + 2 * summary["dimension"] * replies) / 1e3
    assert operations > 0
    assert summary["server_joules"] == pytest.approx(expected)
    assert summary["server_joules"] > plain.summary["server_joules"].iloc[0]


@pytest.mark.slow
def test_tables_have_it_beside_the_clients_energy_and_answers_say_the_total(tmp_path: Path) -> None:
    scenario = SMALL | {
        "infrastructure": LAW,
        "variants": {"slow": {}, "fast": {"algorithm": {"kind": "gd", "step_size": "1/L"}}},
        "stop": {"rounds": 60, "gap": 1e-3},
    }
    result = fedsim.run(scenario, out=tmp_path / "out")
    compared = result.compare()
    costs = compared.frames()["costs"].set_index("variant")
    total = costs["joules"] + costs["server_joules"] + costs["network_joules"]
    assert np.allclose(costs["total_joules"], total, rtol=1e-12)
    assert "total_joules" in set(compared.frames()["pairs"]["cost"])
    shown = invoke("compare", result.folder).stdout
    said = [line for line in shown.splitlines() if line.startswith("with the server and the")]
    assert len(said) == 1
    assert "total energy" in said[0]
    assert "less total energy" in compared.totals[0]
    assert result.shown.total() == compared.totals[0]
    assert compared.answers[0].count("total") == 0
    by_total = result.compare(by="total energy")
    assert f"with the server and the network: {by_total.answers[0]}" == compared.totals[0]
    assert by_total.totals == []


def test_where_it_is_not_counted_nothing_is_said(tmp_path: Path) -> None:
    result = ran(tmp_path / "out")
    assert result.shown.total() == ""
    assert result.compare().totals == []


def test_check_says_what_it_charges(tmp_path: Path) -> None:
    done = invoke("check", "quickstart", "--set", "infrastructure=mobile")
    text = " ".join(done.stdout.split())
    assert "mobile: the server takes 117 W" in text
    assert "90 µJ per bit" in text
    assert LEFT_OUT_BESIDE in text


def test_a_graph_of_peers_has_no_server() -> None:
    peers = {"algorithm": {"kind": "d-psgd", "step_size": 0.1}, "network": {"peers": "ring"}}
    with pytest.raises(ScenarioError, match="has no server"):
        fedsim.run(SMALL | peers | {"infrastructure": "fixed"})


@every(
    ("keys", "match"),
    [
        ({"active": "50 W"}, "below the idle power"),
        ({"pue": 0.9}, "pue"),
        ({"kind": "satellite"}, "fixed"),
    ],
)
def test_bad_figures_are_refused(keys: dict[str, Any], match: str) -> None:
    with pytest.raises(ScenarioError, match=match):
        fedsim.run(SMALL | {"infrastructure": LAW | keys})


def test_a_table_without_its_columns_is_damaged(tmp_path: Path) -> None:
    result = ran(tmp_path / "out", LAW)
    path = result.runs[0] / "rounds.parquet"
    pd.read_parquet(path).drop(columns="server_joules").to_parquet(path)
    with pytest.raises(DataError):
        check_run(result.runs[0])


def test_power_and_energy_per_bit_are_linear() -> None:
    block = Infrastructure.model_validate(LAW)
    one, two = block.joules(10, 1e6, 500), block.joules(20, 2e6, 1000)
    assert two == pytest.approx((2 * one.server, 2 * one.network))
    assert one == pytest.approx((1.5 * (0.4 * 100 * 10 + 200 * 0.5), 3.0))
