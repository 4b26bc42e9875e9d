"""Files of a study that are damaged, missing, or exchanged: whoever reads them says so."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import fedsim
from fedsim.core.errors import DataError, RepricingError
from fedsim.results.record.folder import FAILED
from fedsim.results.record.parts import read_table
from fedsim.running.folder import status
from tests.campaigns.flips.campaign import Flips
from tests.campaigns.flips.folders import contents


@pytest.fixture(scope="module")
def flips(tmp_path_factory: pytest.TempPathFactory) -> Flips:
    return Flips(tmp_path_factory.mktemp("flips"), seed=0)


@pytest.mark.slow
def test_what_is_taken_up_again_ends_as_if_nothing_had_been_cut_off(flips: Flips) -> None:
    for name in ("ended", "cut"):
        home = flips.homes[name]
        out = home.copied(flips.place)
        fedsim.run(home.source, out=out)
        assert contents(out) == home.ended


@pytest.fixture
def out(flips: Flips) -> Path:
    return flips.homes["ended"].copied(flips.place)


@pytest.fixture
def cut(flips: Flips) -> Path:
    return flips.homes["cut"].copied(flips.place)


def digit(path: Path, key: str) -> None:
    """Change the first digit after a key, so that the file is as readable as before."""
    text = path.read_text(encoding="utf-8")
    place = next(i for i in range(text.index(key), len(text)) if text[i] in "12345678")
    path.write_text(text[:place] + "9" + text[place + 1 :], encoding="utf-8")


@pytest.mark.slow
def test_another_digit_in_a_summary_is_no_summary(out: Path) -> None:
    digit(out / "gd/seed-1/summary.json", "bits_up")
    with pytest.raises(DataError, match=r"gd/seed-1/summary\.json is damaged"):
        _ = fedsim.open(out).summary
    shutil.copy(out / "gd/seed-2/summary.json", out / "gd/seed-1/summary.json")
    with pytest.raises(DataError, match=r"gd/seed-1/summary\.json is damaged"):
        fedsim.open(out).model("gd", 1)


@pytest.mark.slow
@pytest.mark.parametrize("home", ["ended", "cut"])
def test_another_digit_in_a_scenario_is_no_setting(flips: Flips, home: str) -> None:
    out = flips.homes[home].copied(flips.place)
    digit(out / "base/seed-1/scenario.yaml", "count:")
    with pytest.raises(DataError, match=r"base/seed-1/scenario\.yaml is damaged"):
        _ = fedsim.open(out).setting


def test_a_run_without_its_log_is_missed(out: Path) -> None:
    (out / "gd/seed-2/events.parquet").unlink()
    assert len(fedsim.open(out).runs) == 4
    with pytest.raises(DataError, match=r"there is no .*gd/seed-2/events\.parquet"):
        _ = fedsim.open(out).events
    with pytest.raises(RepricingError, match=r"there is no .*gd/seed-2/events\.parquet; repeat"):
        fedsim.reprice(out, ["fleet.0.radio=wifi"], out.parent / "priced")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)


def first_gone(parts: Path) -> None:
    min(parts.iterdir()).unlink()


def first_of_another_run(parts: Path) -> None:
    other = parts.parents[1] / "seed-1" / parts.name
    min(parts.iterdir()).unlink()
    shutil.copy(min(other.iterdir()), parts)


@pytest.mark.parametrize("name", ["events", "rounds", "models"])
@pytest.mark.parametrize(
    "harm", [lambda parts: flip(min(parts.iterdir())), first_gone, first_of_another_run]
)
def test_parts_of_a_table_are_those_that_were_written(
    cut: Path, name: str, harm: Callable[[Path], None]
) -> None:
    folder = cut / "base/seed-2"
    read_table(folder, name)
    parts = folder / f"{name}.parts"
    if harm is not first_gone or len(list(parts.iterdir())) > 1:
        harm(parts)
        with pytest.raises(DataError, match=rf"base/seed-2/{name}\.parts/part-.* is damaged"):
            read_table(folder, name)


@pytest.mark.parametrize(
    "name", ["summary.json", "manifest.json", "rounds.parquet", "scenario.yaml", "clients.parquet"]
)
def test_status_counts_no_run_that_would_be_made_again(out: Path, name: str) -> None:
    assert [each.done for each in status(out).variants] == [(1, 2), (1, 2)]
    flip(out / "base/seed-2" / name)
    base, gd = status(out).variants
    assert (base.done, base.pending, gd.done) == ((1,), (2,), (1, 2))
    assert f"base/seed-2/{name} is damaged" in base.reasons[2]


def test_status_names_another_file_in_the_place_of_a_manifest(out: Path) -> None:
    folder = out / "base/seed-2"
    shutil.copy(folder / "summary.json", folder / "manifest.json")
    (base, _) = status(out).variants
    assert base.pending == (2,)
    assert "manifest.json is damaged (it lacks its schema version)" in base.reasons[2]


def test_status_misses_a_log_and_a_damaged_reason(out: Path, flips: Flips) -> None:
    (out / "gd/seed-1/events.parquet").unlink()
    assert "events.parquet; repeat the run" in status(out).variants[1].reasons[1]
    cut = flips.homes["cut"].copied(flips.place)
    assert status(cut).variants[0].failed == (1,)
    flip(cut / "base/seed-1" / FAILED)
    assert "failed.json is damaged" in status(cut).variants[0].reasons[1]


@pytest.mark.parametrize("name", ["gd/seed-1/manifest.json", "study.json"])
def test_a_file_that_lacks_its_last_byte_is_made_again(flips: Flips, name: str) -> None:
    """Though it says the same: what is kept is what an undisturbed study has."""
    home = flips.homes["ended"]
    out = home.copied(flips.place)
    (out / name).write_bytes((out / name).read_bytes()[:-1])
    fedsim.run(home.source, out=out)
    assert contents(out) == home.ended


def test_status_names_the_manifest_of_another_variant(out: Path) -> None:
    shutil.copy(out / "gd/seed-1/manifest.json", out / "base/seed-1/manifest.json")
    found = {each.variant: each for each in status(out).variants}
    assert found["base"].pending == (1,)
    assert "its hash in manifest.json" in found["base"].reasons[1]
