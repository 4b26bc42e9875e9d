"""Powers fitted to half of a phone's log, and the stored errors of the other half."""

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.conftest import ROOT

PAGE = ROOT / "analysis/reality/README.md"


@pytest.fixture
def meters(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "analysis/reality"))
    return importlib.import_module("meters")


def _walk(seconds: int, *, noise: float) -> pd.DataFrame:
    """Return a file as the artifact has it: 3 W at rest, 0.5 W connected, 4 and 9 nJ/bit."""
    rng = np.random.default_rng(8)
    down = np.where(rng.uniform(size=seconds) < 0.2, 0.0, rng.uniform(0, 200, seconds))
    up = np.where(down > 0, rng.uniform(0, 60, seconds), 0.0)
    dates = pd.date_range("2021-01-23 07:09:06", periods=seconds, freq="s")
    watts = 3.0 + 0.5 * (down > 0) + 4e-3 * down + 9e-3 * up
    return pd.DataFrame(
        {
            "timestamp": dates.astype(str),
            "provider": "TMobile",
            "direction": "downlink",
            "downlink_mbps": down,
            "uplink_mbps": up,
            "avg_power": 1e3 * watts * rng.normal(1.0, noise, seconds),
        }
    )


def test_the_page_has_the_table_of_what_is_stored(meters: Any) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = text.split("<!-- meters -->\n")[1].split("<!-- end of meters -->")[0]
    assert shown.splitlines() == [*meters.table(meters.read())]


def test_medians_and_counts_are_those_of_the_rows(meters: Any) -> None:
    rows = meters.read()
    low = [row for row in rows if row["radio"] == "5G, low band" and row["median"]]
    found = meters.summary(low)
    assert found.logs == len(low) > 10
    assert found.median == pytest.approx(np.median([float(row["median"]) for row in low]))
    assert found.within == sum(float(row["median"]) <= 0.1 for row in low)
    assert all(row["why"] for row in rows if not row["median"])


@pytest.mark.parametrize(("noise", "least", "most"), [(0.0, 0.0, 1e-6), (0.05, 1e-4, 0.03)])
def test_a_log_of_known_powers_predicts_itself(
    meters: Any, tmp_path: Path, noise: float, least: float, most: float
) -> None:
    place = tmp_path / "S20UPM-run1.csv"
    _walk(600, noise=noise).to_csv(place, index=False)
    row = meters.fitted(place)
    assert (row["log"], row["radio"], row["windows"]) == ("S20UPM-run1", "5G, low band", "20")
    assert least <= float(row["median"]) <= most
    assert float(row["worst"]) >= float(row["median"])


def test_short_logs_and_steady_ones_say_why_they_are_left_out(meters: Any, tmp_path: Path) -> None:
    place = tmp_path / "log.csv"
    _walk(100, noise=0.0).to_csv(place, index=False)
    assert meters.fitted(place)["why"] == "fewer than 200 seconds"
    steady = _walk(400, noise=0.1)
    steady["avg_power"] = np.random.default_rng(1).uniform(2e3, 3e3, 400)
    steady.to_csv(place, index=False)
    assert "does not follow" in meters.fitted(place)["why"]
