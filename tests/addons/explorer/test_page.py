"""The page as a file: its size, what it leaves out, and what it refuses."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.addons.explorer.api import LARGEST
from fedsim.addons.explorer.sliders import FIELDS
from fedsim.cli import app
from fedsim.core.errors import DataError
from fedsim.physics.devices import Device
from fedsim.physics.radios import Radio
from tests.addons.explorer.studies import data, run
from tests.addons.repricing.prices import small


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, own_cache: Path) -> Path:
    return run("shared", tmp_path_factory.mktemp("explored") / "run")


def test_the_command_writes_a_page_that_loads_nothing(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    made = CliRunner().invoke(app, ["explore", str(folder), "--out", str(out)])
    assert made.exit_code == 0
    assert str(out) in made.output.replace("\n", "")
    text = out.read_text("utf-8")
    assert len(text.encode()) < LARGEST
    assert "default-src 'none'" in text
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "src=" not in text.replace("default-src=", "")


def test_sliders_are_within_intervals_and_mark_the_value_as_written(folder: Path) -> None:
    sliders = {each["name"]: each for each in data(fedsim.explore(folder))["sliders"]}
    tail = sliders["lte.tail_time"]
    assert tail["low"] < tail["value"] == 11.6 < tail["high"]
    assert tail["keys"] == [["fleet.0.radio.tail_time"]]
    assert sliders["server.uplink"]["keys"] == [["network.server.uplink"]]
    assert sliders["server.uplink"]["value"] == 300e3
    assert all(each["low"] <= each["value"] <= each["high"] for each in sliders.values())


def test_a_page_that_would_be_too_large_holds_fewer_seeds(folder: Path) -> None:
    whole = fedsim.explore(folder).stat().st_size
    page = fedsim.explore(folder, largest=whole)
    assert page.stat().st_size < whole
    assert {each["seed"] for each in data(page)["runs"]} == {1}
    assert "1 of 2 seeds" in page.read_text("utf-8")
    with pytest.raises(DataError, match=r"with one seed, and may have 0\.001 MB"):
        fedsim.explore(folder, largest=1000)


def test_a_variant_that_time_decides_is_left_out_with_the_reason(tmp_path: Path) -> None:
    late = {"silence": {"kind": "deadline", "after": "30 s"}}
    folder = fedsim.run(small(rounds=3, variants={"a": {}, "b": late}), out=tmp_path / "run").folder
    page = fedsim.explore(folder)
    assert [each["label"] for each in data(page)["variants"]] == ["a"]
    text = page.read_text("utf-8")
    assert "b is left out: silence.kind" in text
    assert f"fedsim robust {folder} --runs 30" in text
    assert data(page)["commands"] == [{"fleet": 0, "place": str(folder / "a")}]
    why = r"re-priced in a browser: all variants are left out: silence\.kind: .*\. To train again"
    with pytest.raises(DataError, match=why):
        fedsim.explore(folder / "b")


def test_ideal_clients_have_nothing_to_move(tmp_path: Path) -> None:
    folder = fedsim.run(small(rounds=3, fleet=[{"count": 5}]), out=tmp_path / "run").folder
    with pytest.raises(DataError, match="its clients are ideal, without constants to change"):
        fedsim.explore(folder)


def test_the_page_prices_every_figure_of_a_radio_and_a_device() -> None:
    # A figure that the page does not know would be ignored there without a word. Re-pricing leaves
    # out variants with a trace, with lost packets or with drawn slowdowns.
    left_out = {"kind", "up_trace", "down_trace", "loss", "tries", "slowdown"}
    for name, block in (("radio", Radio), ("device", Device)):
        assert block.model_fields.keys() - left_out <= set(FIELDS[name])
