"""What runs have left is opened as it was handed over when they were made."""

from pathlib import Path

import pandas as pd
import pytest

import fedsim
from tests.runs import small

METHODS = {
    "zeta": {"algorithm": {"kind": "gd", "step_size": "1/L"}},
    "alpha": {"algorithm": {"kind": "hb", "step_size": "1/L"}},
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> fedsim.Result:
    return fedsim.run(small(variants=METHODS, seeds=2), out=tmp_path_factory.mktemp("runs"))


@pytest.mark.slow
def test_a_folder_opens_to_the_tables_that_the_run_returned(made: fedsim.Result) -> None:
    found = fedsim.open(made.folder)
    assert found.runs == made.runs
    for name in ("events", "rounds", "clients", "summary"):
        pd.testing.assert_frame_equal(getattr(found, name), getattr(made, name))
    assert (found.model("zeta", 2) == made.model("zeta", 2)).all()


def test_variants_stand_in_the_order_of_the_scenario(made: fedsim.Result) -> None:
    order = fedsim.open(made.folder).summary["variant"].drop_duplicates().tolist()
    assert order == ["base", *METHODS]


def test_a_variant_or_a_run_is_opened_by_its_folder(made: fedsim.Result) -> None:
    assert fedsim.open(str(made.folder / "zeta")).summary["seed"].tolist() == [1, 2]
    assert fedsim.open(made.folder / "zeta/seed-2").summary["variant"].tolist() == ["zeta"]


def test_what_the_scenario_no_longer_has_is_left_out(tmp_path: Path) -> None:
    fedsim.run(small(variants=METHODS), out=tmp_path)
    fedsim.run(small(variants={"zeta": METHODS["zeta"]}), out=tmp_path)
    assert (tmp_path / "alpha").is_dir()
    assert fedsim.open(tmp_path).summary["variant"].tolist() == ["base", "zeta"]


def test_runs_that_have_not_ended_are_read_as_far_as_they_went(tmp_path: Path) -> None:
    fedsim.run(small(seeds=2), out=tmp_path)
    (tmp_path / "base/seed-2/summary.json").unlink()
    found = fedsim.open(tmp_path)
    assert found.rounds["seed"].unique().tolist() == [1, 2]
    assert found.summary["seed"].tolist() == [1]


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fedsim.DataError, match="there is no folder"):
        fedsim.open(tmp_path / "nothing")
    with pytest.raises(fedsim.DataError, match=r"there are no runs in .*`fedsim run`"):
        fedsim.open(tmp_path)
