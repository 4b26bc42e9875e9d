"""Fifty stars and trees, against what SimGrid said of them (see analysis/simgrid)."""

import importlib.util
import sys
from dataclasses import replace
from types import ModuleType

import pandas as pd
import pytest

from tests.conftest import ROOT
from tests.sim.links import varying
from tests.tiers import every

STUDY = ROOT / "analysis/simgrid"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simgrid_study", STUDY / "compare.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded  # its dataclasses look themselves up there
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return pd.read_csv(STUDY / "arrivals.csv")


@every("model", ["fluid", "lv08"])
@every("general", [False, True])
def test_messages_arrive_when_simgrid_says(
    study: ModuleType, table: pd.DataFrame, model: str, general: bool
) -> None:
    rows = table[table["model"] == model]
    assert rows["platform"].nunique() == study.PLATFORMS == 50
    for seed, expected in rows.groupby("platform")["simgrid"]:
        one = study.platform(seed)
        if general:
            one = replace(one, topology=varying(one.topology))
        assert study.by_fedsim(one, model) == pytest.approx(list(expected), rel=1e-8)


def test_the_table_says_how_far_apart_the_two_are(table: pd.DataFrame) -> None:
    off = (table["fedsim"] - table["simgrid"]).abs() / table["simgrid"]
    assert off.max() < 1e-8  # nine digits are written
    assert table["difference"].max() < 1e-8


@pytest.mark.parametrize("model", ["fluid", "lv08"])
def test_most_messages_of_the_study_have_to_share(study: ModuleType, model: str) -> None:
    held_up = sum(study.held_up(study.platform(seed), model) for seed in range(0, 50, 5))
    sent = sum(len(study.platform(seed).messages) for seed in range(0, 50, 5))
    assert held_up > sent / 2
