"""Joules of presets beside meters: the table, its predictions, and its two halves."""

import importlib
from typing import Any

import pytest

import fedsim
from fedsim.results.accuracy import ENERGY, MEASURED
from tests.conftest import ROOT


@pytest.fixture
def energy(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "analysis/reality"))
    return importlib.import_module("energy")


def _one(energy: Any, **cells: str) -> Any:
    """Return the first point with these cells."""
    return next(
        point for point in energy.read() if all(point[name] == cell for name, cell in cells.items())
    )


def test_the_file_is_what_the_script_writes(energy: Any) -> None:
    points = energy.read()
    assert list(energy.complete(points)) == points


def test_each_point_has_its_place_and_a_measurement(energy: Any) -> None:
    points = energy.read()
    assert len({point["source"] for point in points}) >= 12
    for point in points:
        assert point["address"]
        assert point["place"]
        assert point["error"]
        assert float(point["measured"]) > 0
        assert point["unit"] == ("W" if "power" in point["kind"] else "J")


@pytest.mark.parametrize(
    ("cells", "by_hand"),
    [
        # Operations / speed, times the power of the state.
        ({"preset": "cortex-m4", "work": "operations 528384"}, 528384 / 0.02e9 * 0.042),
        ({"preset": "jetson-nano", "work": "operations 600000000"}, 0.6 / 80 * 10),
        ({"preset": "pi-5", "work": "power idle"}, 3.0),
        # Base and slope, without the paging of 43 ms in 1.28 s at 0.594 W.
        (
            {"preset": "5g-sa", "radio": "standalone 5G of T-Mobile"},
            1.2 - 0.594 * 0.043 / 1.28 + 32.2e-3 * 14.17,
        ),
        # 1 s to synchronise, 0.35 s to resume, and 440 bytes at 30 kbit/s.
        (
            {"preset": "nb-iot-psm", "work": "message up 400 B"},
            1 * 0.1656 + 0.35 * 0.25 + 8 * 440 / 30e3 * 0.792,
        ),
        ({"preset": "zigbee"}, 8 * 28 / 0.1e6 * 52e-3),
    ],
)
def test_predictions_by_hand(energy: Any, cells: dict[str, str], by_hand: float) -> None:
    assert float(_one(energy, **cells)["predicted"]) == pytest.approx(by_hand, rel=2e-3)


@pytest.mark.parametrize("radio", ["nb-iot-drx", "lte-2020", "wifi-6"])
def test_a_message_costs_what_a_run_charges_for_it(energy: Any, radio: str) -> None:
    """The log's row of a reply, beside the law without waking and stages."""
    fleet = [{"count": 2, "device": "ideal", "radio": radio}]
    changes = ["variants={}", "stop.rounds=1", "network.server.uplink=unlimited", f"fleet={fleet}"]
    log = fedsim.run("censoring", overrides=changes).events
    sent = log[(log["event"] == "send") & (log["node"] == "client-0")].iloc[0]
    size = (sent["payload_bits"] + sent["header_bits"]) / 8
    point = {"preset": radio, "settings": "", "work": f"message up {size:.0f} B"}
    block = energy.block_of(point)
    *stages, last = block.states.stages
    around = last.wake_power * last.wake_time + sum(each.power * each.time for each in stages)
    assert energy.predict(point, block) - around == pytest.approx(sent["joules"], rel=1e-6)


def test_an_interval_of_one_figure_is_that_of_the_preset(energy: Any) -> None:
    point = _one(energy, preset="pi-zero-2w", work="power idle")
    assert (point["low"], point["high"]) == ("0.55", "0.95")
    for row in energy.read():
        assert float(row["low"]) <= float(row["predicted"]) <= float(row["high"])


def test_every_second_source_is_held_out_whatever_it_measured(energy: Any) -> None:
    points = energy.read()
    unseen = energy.held_out(points)
    others = {point["source"] for point in points if point["own"] == "no"} - unseen
    assert len(others) - len(unseen) in {0, 1}
    turned = [{**point, "measured": "1", "work": ""} for point in reversed(points)]
    assert energy.held_out(turned) == unseen
    assert not unseen & {point["source"] for point in points if point["own"] == "yes"}


def test_errors_are_factors(energy: Any) -> None:
    def point(ratio: float, measured: float) -> dict[str, str]:
        ends = {"low": "1", "high": "3"}
        return {"ratio": str(ratio), "measured": str(measured), "source": "a", **ends}

    found = energy.Errors.of([point(0.25, 2), point(2, 3), point(1, 4)])
    assert found[:4] == pytest.approx((3, 1, 2, 2 ** (1 + 0.8)))
    assert found[4:] == pytest.approx((0.25, 2 / 3))


def test_a_check_states_the_errors_of_the_table(energy: Any) -> None:
    """Errors of all groups, and the presets of each: no others are said to be measured."""
    points = [point for point in energy.read() if energy.counts(point)]
    assert {point["group"] for point in points} == ENERGY.keys() == {*MEASURED.values()}
    for group, stated in ENERGY.items():
        found = energy.Errors.of([point for point in points if point["group"] == group])
        assert stated[:3] == pytest.approx((found.median, found.nine, found.worst), rel=6e-3)
        assert stated[3:] == (found.points, found.sources)
    for point in points:
        starts = [name for start, name in MEASURED.items() if point["preset"].startswith(start)]
        assert starts == [point["group"]]


def test_other_arguments_are_refused(energy: Any) -> None:
    with pytest.raises(SystemExit, match="got fit; expected nothing, or: predict"):
        energy.main(["fit"])
