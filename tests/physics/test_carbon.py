"""Carbon intensities: averages over spans in closed form, and blocks that say what there is."""

from importlib import resources
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.physics.carbon import COUNTRIES, Carbon, HourlyCarbon, Intensity
from fedsim.physics.signals import Constant, Steps
from fedsim.physics.traces import read_intensity
from fedsim.scenario import Group

from .signals import SIGNALS, TIMES, added_up, slack

HOUR = 3600.0


def law(block: Any) -> Carbon:
    made = Group(carbon=block).carbon
    assert made is not None
    return made


def signal(folder: Path, text: str, **keys: Any) -> Steps:
    """Return the signal of an hourly block whose file says so."""
    path = folder / "grid.csv"
    path.write_text(text)
    made = law({"kind": "hourly", "path": path, **keys})
    assert isinstance(made, HourlyCarbon)
    return made.signal(read_intensity)


@given(SIGNALS, st.lists(st.tuples(TIMES, st.floats(1e-3, 1e4)), min_size=1, max_size=9))
def test_averages_are_the_integral_over_the_span(
    drawn: Constant | Steps, spans: list[tuple[float, float]]
) -> None:
    begins, lengths = np.array(spans).T
    ends = begins + lengths
    found = Intensity(drawn).averages(begins, ends)
    for average, begin, end in zip(found, begins, ends, strict=True):
        wanted, rounding = added_up(drawn, begin, end), slack(drawn, begin, end)
        assert average * (end - begin) == pytest.approx(wanted, rel=1e-9, abs=2 * rounding)


@given(SIGNALS, TIMES, st.floats(0, 1e4))
def test_averages_lie_between_the_least_and_the_most(
    drawn: Constant | Steps, begin: float, length: float
) -> None:
    intensity = Intensity(drawn)
    (average,) = intensity.averages(np.array([begin]), np.array([begin + length]))
    assert intensity.least <= average <= intensity.most


def test_a_span_of_a_period_ends_in_the_step_that_it_began_in_and_has_all_of_them() -> None:
    daily = Intensity(Steps([0.0, 6.0], [100.0, 400.0], period=8.0))
    found = daily.averages(np.array([1.0, 1.0]), np.array([9.0, 17.0]))
    assert found == pytest.approx((6 * 100 + 2 * 400) / 8)


def test_a_moment_has_the_intensity_of_its_step() -> None:
    daily = Intensity(Steps([0.0, 6.0], [100.0, 400.0], period=8.0))
    times = np.array([0.0, 5.0, 6.0, 7.5, 8.0, 8e6 + 6.0])
    assert daily.averages(times, times).tolist() == [100, 100, 400, 400, 100, 400]


def test_a_span_of_many_cycles_is_one_closed_form() -> None:
    daily = Intensity(Steps([0.0, 6.0], [100.0, 400.0], period=8.0))
    (average,) = daily.averages(np.array([7.0]), np.array([7.0 + 8e9]))
    assert average == pytest.approx(175.0, rel=1e-12)


def test_every_country_is_a_name_a_block_and_a_figure_of_a_grid() -> None:
    assert len(COUNTRIES) >= 40
    for code in COUNTRIES:
        assert len(code) == 2
        assert code.isupper()
        found = law(code).signal(read_intensity)
        assert isinstance(found, Constant)
        assert 10 < found.value < 1000
        assert law({"kind": code}) == law(code)
    assert law({"kind": "DE", "intensity": "0.5 kg/kWh"}).signal(read_intensity) == Constant(500.0)


OTHERWISE = {
    "CZ": "Czechia",
    "GB": "United Kingdom",
    "KR": "South Korea",
    "TR": "Türkiye",
    "VN": "Viet Nam",
}
"""What is called otherwise in the table of time zones than in ISO 3166."""


def test_a_country_has_the_name_of_its_code() -> None:
    table = resources.files("tzdata").joinpath("zoneinfo/iso3166.tab").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in table.splitlines() if not line.startswith("#"))
    names = dict(rows) | OTHERWISE
    for code, preset in COUNTRIES.items():
        assert preset.basis.startswith(f"[lit] {names[code]}, mean of "), code


def test_a_file_says_hours_and_the_run_begins_at_its_start(tmp_path: Path) -> None:
    text = "hours,g/kWh\n0,100\n6,400\n"
    whole = signal(tmp_path, text)
    assert (whole.times.tolist(), whole.values.tolist()) == ([0, 6 * HOUR], [100, 400])
    assert whole.period == 12 * HOUR
    later = signal(tmp_path, text, start="5 h", scale=2)
    assert [later.at(t * HOUR) for t in (0, 0.5, 1, 6.5, 7, 12)] == [200, 200, 800, 800, 200, 200]


@given(start=st.sampled_from([3.0, 9.0]) | st.floats(1e-6, 20), at=st.floats(0, 20))
def test_a_file_that_does_not_repeat_is_cut_off_at_its_start(start: float, at: float) -> None:
    steps = Steps([0.0, 3 * HOUR, 9 * HOUR], [1.0, 5.0, 2.0])
    made = law({"kind": "hourly", "path": "any", "start": f"{start!r} h", "repeat": False})
    assert isinstance(made, HourlyCarbon)
    cut = made.signal(lambda _, *, repeat: steps)
    assert cut.period == inf
    assert cut.times[0] == 0
    assert (np.diff(cut.times) > 0).all()  # also where it starts at a step: each time once
    moment = made.start + at * HOUR
    near = np.abs(steps.times - moment).min() < 1e-6
    assert near or cut.at(at * HOUR) == steps.at(moment)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,100\n", "times begin at 0 h"),
        ("0,100\n0,200\n", "times rise"),
        ("0,-1\n", "at least 0 g/kWh"),
        ("0\n", "expected hours, g/kWh in numbers"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        signal(tmp_path, text)
