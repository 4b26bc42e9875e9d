"""Headers of files of numbers: what they say is converted or refused, in all readers alike."""

from collections.abc import Callable
from fractions import Fraction
from itertools import permutations
from math import asin, cos, hypot, inf, radians, sin, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.core.remarks import hearing
from fedsim.physics.availability import read_intervals
from fedsim.physics.graphs_in_time import read_contacts
from fedsim.physics.mobility import project, read_positions
from fedsim.physics.traces import read_csv, read_intensity, read_power

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])

Read = Callable[[Path], Any]
READERS: dict[str, Read] = {
    "csv": lambda path: _steps(read_csv(path, repeat=True)),
    "harvest": lambda path: _steps(read_power(path, repeat=True)),
    "hourly": lambda path: _steps(read_intensity(path, repeat=True)),
    "intervals": read_intervals,
    "contacts": lambda path: read_contacts(path).tolist(),
    "positions": lambda path: read_positions(path).tolist(),
}

DOCUMENTED: dict[str, tuple[str, list[Any]]] = {
    "csv": ("seconds,Mbit/s", [(0, 1), (60, 2)]),
    "harvest": ("seconds,W", [(0, 1), (60, 2)]),
    "hourly": ("hours,g/kWh", [(0, 1), (1, 2)]),
    "intervals": ("client,start,end", [(0, 0, 60), (1, 30, 90)]),
    "contacts": ("source,target,begin,end", [(0, 1, 0, 60), (1, 2, 30, 90)]),
    "positions": ("client,time,x,y", [(0, 0, 5, 6), (0, 60, 7, 8), (1, 0, 1, 2)]),
}
"""Of each reader a header as documented, and rows."""

TIMES = {"csv": [0], "harvest": [0], "hourly": [0], "intervals": [1, 2], "contacts": [2, 3]}
TIMES |= {"positions": [1]}


def _steps(signal: Any) -> Any:
    return signal.times.tolist(), signal.values.tolist(), signal.period


def read(folder: Path, kind: str, header: str, rows: Any) -> tuple[Any, list[str]]:
    """Return what a reader makes of a file, and what it remarks."""
    path = folder / "file.csv"
    lines = [header, *(",".join(str(cell) for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with hearing() as heard:
        return READERS[kind](path), heard


SIZES = {
    "kbit/s": Fraction(10**3), "kbps": Fraction(10**3), "Kbps": Fraction(10**3),
    "mbps": Fraction(10**6), "Mb/s": Fraction(10**6), "MB/s": Fraction(8 * 10**6),
    "MBps": Fraction(8 * 10**6), "bps": Fraction(1), "Mbits/sec": Fraction(10**6),
    "KiB/s": Fraction(8 * 1024), "Gbit per second": Fraction(10**9),
    "mW": Fraction(1, 1000), "kW": Fraction(1000), "watts": Fraction(1),
    "lbs/MWh": Fraction(45359237, 10**8), "lbs_co2_per_mwh": Fraction(45359237, 10**8),
    "kgCO2/MWh": Fraction(1), "gCO₂eq/kWh": Fraction(1), "g/KWh": Fraction(1),
    "ms": Fraction(1, 1000), "minutes": Fraction(60), "Hours": Fraction(3600),
    "us": Fraction(1, 10**6),
}  # fmt: skip
"""Units as people write them, in bit/s, W, g/kWh and s."""


@pytest.mark.parametrize("unit", SIZES)
@in_a_folder
@given(number=st.floats(1e-3, 1e6), style=st.sampled_from(["{0}_{1}", "{0} ({1})", "{0} [{1}]"]))
def test_a_unit_is_converted(tmp_path: Path, unit: str, number: float, style: str) -> None:
    name = "rate" if "b" in unit.lower() and "l" not in unit else "power"
    name = "intensity" if "Wh" in unit or "mwh" in unit else name
    name = "time" if unit in ("ms", "minutes", "Hours", "us") else name
    kind = {"rate": "csv", "power": "harvest", "intensity": "hourly", "time": "csv"}[name]
    heading, (first, second) = style.format(name, unit), DOCUMENTED[kind][0].split(",")
    header, rows = f"{first},{heading}", [(0.0, number)]
    if name == "time":
        header, rows = f"{heading},{second}", [(0, 1), (number, 2)]
    (times, values, _), heard = read(tmp_path, kind, header, rows)
    found = times[-1] if name == "time" else values[0]
    assert found == pytest.approx(float(Fraction(number) * SIZES[unit]), rel=4e-16)
    documented = float(SIZES[unit]) == {"rate": 1e6}.get(name, 1.0)
    assert bool(heard) != documented
    assert all(heading in text for text in heard)


@pytest.mark.parametrize("kind", READERS)
def test_columns_are_found_by_name_in_any_order_and_among_others(kind: str, tmp_path: Path) -> None:
    header, rows = DOCUMENTED[kind]
    wanted, heard = read(tmp_path, kind, header, rows)
    assert heard == []
    names = header.split(",")
    for order in permutations(range(len(names))):
        mixed = [[row[n] for n in order] for row in rows]
        assert read(tmp_path, kind, ",".join(names[n] for n in order), mixed) == (wanted, [])
    more = [["a, b", *row, ""] for row in rows]
    quoted = [['"a, b"', *row[1:]] for row in more]
    found, heard = read(tmp_path, kind, f"what,{header},note", quoted)
    assert (found, heard) == (wanted, ["file.csv: left out: what, note"])


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("count", [1, 1000, 10**6])
def test_times_since_1970_count_from_the_first(kind: str, count: int, tmp_path: Path) -> None:
    header, rows = DOCUMENTED[kind]
    scale = 3600 if kind == "hourly" else 1
    later = [
        [count * (1_700_000_000 + scale * cell) if n in TIMES[kind] else cell
         for n, cell in enumerate(row)]
        for row in rows
    ]  # fmt: skip
    header = header.replace("hours", "timestamp").replace("seconds", "timestamp")
    found, heard = read(tmp_path, kind, header, later)
    if kind == "hourly":
        header, rows = "timestamp_s,g/kWh", [(3600 * hour, value) for hour, value in rows]
    wanted, _ = read(tmp_path, kind, header.replace("timestamp,", "seconds,"), rows)
    assert found == wanted
    assert "since 1970: the run starts at the first, 2023-11-14 22:13:20 UTC" in heard[-1]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("zone", ["", "Z", "+05:30"])
def test_dates_count_from_the_first(kind: str, zone: str, tmp_path: Path) -> None:
    header, rows = DOCUMENTED[kind]
    start = np.datetime64("2024-02-28T23:59:30")
    unit = 3600 if kind == "hourly" else 1
    dated = [
        [f"{start + np.timedelta64(unit * cell, 's')}{zone}" if n in TIMES[kind] else cell
         for n, cell in enumerate(row)]
        for row in rows
    ]  # fmt: skip
    found, heard = read(tmp_path, kind, header, dated)
    wanted, _ = read(tmp_path, kind, header, rows)
    assert found == wanted
    first = "2024-02-28 18:29:30" if zone == "+05:30" else "2024-02-28 23:59:30"
    assert f"the run starts at the first, {first} UTC" in heard[-1]
    assert ("without a zone" in heard[-1]) == (not zone)


def test_an_interval_between_dates_may_have_no_end(tmp_path: Path) -> None:
    rows = [(0, "2024-01-01", "inf"), (1, "2024-01-02", "2024-01-03")]
    found, _ = read(tmp_path, "intervals", "client,start,end", rows)
    assert (found[0].begins, found[0].ends) == ((0.0,), (inf,))
    assert (found[1].begins, found[1].ends) == ((86400.0,), (172800.0,))


@pytest.mark.parametrize(
    ("dates", "gap"), [(("13/01/2024", "02/02/2024"), 20), (("01/13/2024", "02/02/2024"), 20)]
)
def test_dates_settle_whether_the_day_is_first(
    dates: tuple[str, str], gap: int, tmp_path: Path
) -> None:
    (times, _, _), heard = read(
        tmp_path, "csv", "date,Mbit/s", [(date, n) for n, date in enumerate(dates)]
    )
    assert times == [0.0, gap * 86400.0]
    assert "(day, month, year)" in heard[0] or "(month, day, year)" in heard[0]


@pytest.mark.parametrize(
    ("kind", "header", "words"),
    [
        ("csv", "time,power_W", ["power_W is a power", "give a rate"]),
        ("csv", "time,MBPS", ["MBPS may be MB/s or Mbit/s"]),
        ("csv", "time,speed_mb/s", ["may be MB/s or Mbit/s"]),
        ("csv", "time,rate (furlongs)", ["furlongs in rate (furlongs) is no unit"]),
        ("csv", "time,rate_furlongs", ["furlongs in rate_furlongs is no unit"]),
        ("csv", "time,rate,throughput", ["rate and throughput may each be Mbit/s"]),
        ("csv", "time,a,b", ["does not say which column is Mbit/s"]),
        ("csv", "time", ["does not say which column is Mbit/s"]),
        ("csv", "time,rate_kWh", ["rate_kWh is an energy"]),
        ("harvest", "time_s,power_mw", ["mw in power_mw may be MW or mW"]),
        ("harvest", "time_s,mw", ["mw may be MW or mW"]),
        ("hourly", "hours,watts", ["watts is a power", "give a carbon intensity"]),
        ("hourly", "kg,g/kWh", ["kg is a mass", "give a duration"]),
        ("intervals", "client,start_m,end", ["start_m is a length"]),
        ("contacts", "source,target,begin_J,end", ["begin_J is an energy"]),
        ("positions", "client,time,x (ft),y (ft)", ["ft in x (ft) is no unit"]),
        ("positions", "client,time,x_s,y", ["x_s is a duration", "give a length"]),
    ],
)
def test_what_a_header_leaves_open_is_refused(
    kind: str, header: str, words: list[str], tmp_path: Path
) -> None:
    row = [0, 1, 2, 3][: header.count(",") + 1]
    with pytest.raises(DataError) as caught:
        read(tmp_path, kind, header, [row])
    assert all(word in str(caught.value) for word in ["line 1", *words])


@pytest.mark.parametrize(
    ("header", "heard"),
    [
        ("time,rate", ["time and rate have no unit, and are taken in s and Mbit/s"]),
        ("a,b", ["a is taken for seconds", "b is taken for Mbit/s"]),
        ("seconds,Mbit/s", []),
        ("uptime_s,kbit/s", ["kbit/s is converted from kbit/s to Mbit/s"]),
    ],
)
def test_what_is_guessed_is_remarked(header: str, heard: list[str], tmp_path: Path) -> None:
    assert read(tmp_path, "csv", header, [(0, 1), (1, 2)])[1] == [f"file.csv: {t}" for t in heard]


def test_the_files_of_electricity_maps_and_watttime_are_read_as_published(tmp_path: Path) -> None:
    header = (
        "Datetime (UTC),Country,Zone name,Zone id,Carbon intensity gCO₂eq/kWh (direct),"
        "Carbon intensity gCO₂eq/kWh (Life cycle),Carbon-free energy percentage (CFE%),Data source"
    )
    rows = [
        (f"2024-01-01 0{hour}:00:00", "Germany", "Germany", "DE", 200, 300 + hour, 55.5, "x")
        for hour in range(3)
    ]
    (times, values, period), heard = read(tmp_path, "hourly", header, rows)
    assert (times, values, period) == ([0, 3600, 7200], [300, 301, 302], 10800)
    assert any("(Life cycle) is taken for g/kWh" in text for text in heard)
    for header in ("point_time,value", "timestamp,MOER"):
        dated = [(f"2024-01-01T00:{minute:02}:00+00:00", 1000 + minute) for minute in (0, 5)]
        (times, values, _), heard = read(tmp_path, "hourly", header, dated)
        assert (times, values) == ([0, 300], [453.59237, 455.86033185])
        assert any("WattTime's" in text for text in heard)


@in_a_folder
@given(
    middle=st.tuples(st.floats(-60, 60), st.floats(-180, 180)),
    steps=st.lists(
        st.tuples(st.floats(-0.02, 0.02), st.floats(-0.02, 0.02)), min_size=2, max_size=5
    ),
)
def test_projected_places_are_as_far_apart_as_on_the_globe(
    middle: tuple[float, float], steps: list[tuple[float, float]]
) -> None:
    """By the haversine formula on a sphere, which the ellipsoid differs from by 0.6 % at most."""
    places = np.array([(middle[0] + a, middle[1] + b) for a, b in steps])
    x, y, error = project(places[:, 0], places[:, 1])
    assert error < 2e-3
    for n in range(1, len(steps)):
        (p, q), (r, s) = np.radians(places[0]), np.radians(places[n])
        half = sin((r - p) / 2) ** 2 + cos(p) * cos(r) * sin((s - q) / 2) ** 2
        arc = 2 * 6371008.8 * asin(sqrt(half))
        assert hypot(x[n] - x[0], y[n] - y[0]) == pytest.approx(arc, rel=8e-3, abs=1e-3)


def test_a_degree_of_the_ellipsoid_has_its_published_length() -> None:
    """At 45 degrees: 111.132 km of the meridian, 78.847 km of the parallel (NGA, WGS 84)."""
    one, other = np.array([44.5, 45.5]), np.array([10.0, 10.0])
    assert np.ptp(project(one, other)[1]) == pytest.approx(111132, abs=2)
    assert np.ptp(project(other + 35, one)[0]) == pytest.approx(78847, abs=2)


@pytest.mark.parametrize("longitudes", [(179.99, -179.99), (359.99, 0.01), (-0.01, 0.01)])
def test_places_may_lie_on_both_sides_of_a_meridian(
    longitudes: tuple[float, float], tmp_path: Path
) -> None:
    rows = [(n, 0, 0, longitude) for n, longitude in enumerate(longitudes)]
    found, heard = read(tmp_path, "positions", "client,time,lat,lon", rows)
    width = radians(0.02) * 6378137
    assert [row[2:] for row in found] == [
        pytest.approx([s * width / 2, 0], abs=1e-6) for s in (-1, 1)
    ]
    assert "projected to metres" in heard[0]


@pytest.mark.parametrize("latitudes", [(91, 0), (0, 60)])
def test_places_that_are_none_or_too_far_apart_are_refused(
    latitudes: tuple[float, float], tmp_path: Path
) -> None:
    rows = [(n, 0, latitude, 0) for n, latitude in enumerate(latitudes)]
    with pytest.raises(DataError, match=r"latitude"):
        read(tmp_path, "positions", "client,time,lat,lon", rows)
