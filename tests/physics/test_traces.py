"""Traces: what a file offers is what passes, and a fault in it is named."""

from math import inf
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedsim.core.errors import DataError
from fedsim.physics.signals import Steps
from fedsim.physics.traces import read_csv, read_mahimahi, read_power

PACKET = 12000  # bits

in_a_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def written(folder: Path, text: str) -> Path:
    path = folder / "trace"
    path.write_text(text, encoding="utf-8")
    return path


def mahimahi(folder: Path, *times: int) -> Steps:
    return read_mahimahi(written(folder, "".join(f"{t}\n" for t in times)))


@in_a_folder
@given(st.lists(st.integers(0, 50), min_size=1, max_size=60).filter(any), st.integers(0, 130))
def test_at_each_millisecond_so_much_has_passed_as_mahimahi_delivered(
    tmp_path: Path, times: list[int], until: int
) -> None:
    times.sort()
    rate = mahimahi(tmp_path, *times)
    # Mahimahi's schedule: the k-th cycle has all its times, k last times later.
    delivered = sum(k * times[-1] + t <= until for k in range(131) for t in times)
    # What is due at 0 of the first cycle has no time to pass before the end of that cycle.
    early = times.count(0)
    assert rate.integral(0, until / 1000) == pytest.approx((delivered - early) * PACKET)


def test_opportunities_are_spread_over_the_millisecond_before_them(tmp_path: Path) -> None:
    rate = mahimahi(tmp_path, 2, 2, 5)
    assert rate.period == 0.005
    assert [rate.at(t / 1000) for t in (0.5, 1.5, 2.5, 4.5)] == [0, 24e6, 0, 12e6]
    assert rate.when(0, PACKET) == pytest.approx(0.0015)
    assert rate.when(0, 3 * PACKET) == pytest.approx(0.005)
    assert rate.when(0, 3 * PACKET + 1) > 0.006


def test_an_opportunity_at_0_belongs_to_the_end_of_the_cycle(tmp_path: Path) -> None:
    assert mahimahi(tmp_path, 0, 4).values.tolist() == [0, 24e6]
    assert mahimahi(tmp_path, 0, 4).times.tolist() == [0, 0.003]


def test_whole_seconds_of_silence_cost_nothing(tmp_path: Path) -> None:
    rate = mahimahi(tmp_path, 10**8)
    assert len(rate.times) == 2
    assert rate.average == pytest.approx(PACKET / 1e5)


@pytest.fixture
def traces(data_folder: Path) -> Path:
    folder = data_folder / "traces"
    if not folder.is_dir():
        pytest.skip(f"the real traces are not here: no {folder}")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ATT-LTE-driving-2016", "TMobile-UMTS-driving"])
@pytest.mark.parametrize("direction", ["up", "down"])
def test_a_cycle_of_a_real_trace_passes_all_its_packets(
    name: str, direction: str, traces: Path
) -> None:
    path = traces / f"{name}.{direction}"
    times = np.array(path.read_text(encoding="ascii").split(), dtype=int)
    rate = read_mahimahi(path)
    assert rate.period == times[-1] / 1000
    assert rate.integral(0, rate.period) == pytest.approx(times.size * PACKET, rel=1e-11)
    counts = np.bincount(times)
    counts[-1] += counts[0]
    assert rate.peak == 12e6 * counts[1:].max()
    for start in (0, times[-1] // 3, times[-1] // 2):
        until = np.searchsorted(times, start + 1000, side="right")
        count = until - np.searchsorted(times, start, side="right")
        passed = rate.integral(start / 1000, start / 1000 + 1)
        assert passed == pytest.approx(count * PACKET, rel=1e-9, abs=1e-3)


def test_a_rate_of_a_csv_is_in_megabits_and_the_last_one_stays(tmp_path: Path) -> None:
    rate = read_csv(written(tmp_path, "seconds,Mbit/s\n0,1.5\n10,0\n30,4e-1\n"), repeat=False)
    assert [rate.at(t) for t in (0, 9.9, 10, 30, 1e9)] == [1.5e6, 1.5e6, 0, 4e5, 4e5]
    assert rate.period == inf
    assert rate.average == 4e5


def test_a_csv_that_repeats_holds_its_last_rate_as_long_as_the_one_before(tmp_path: Path) -> None:
    rate = read_csv(written(tmp_path, "0,1\n10,2\n30,3\n"), repeat=True)
    assert rate.period == 50
    assert [rate.at(t) for t in (0, 49.9, 50, 60)] == [1e6, 3e6, 1e6, 2e6]
    assert rate.average == pytest.approx((10 + 40 + 60) / 50 * 1e6)


def test_a_header_may_order_the_columns(tmp_path: Path) -> None:
    rate = read_csv(written(tmp_path, "Mbit/s, seconds\n7,0\n8,1\n"), repeat=False)
    assert rate.values.tolist() == [7e6, 8e6]
    with pytest.raises(DataError, match="line 3: expected Mbit/s, seconds in numbers"):
        read_csv(written(tmp_path, "Mbit/s,seconds\n7,0\n8\n"), repeat=False)


@pytest.mark.parametrize("repeat", [True, False])
def test_a_single_row_is_a_constant(repeat: bool, tmp_path: Path) -> None:
    rate = read_csv(written(tmp_path, "0,2\n"), repeat=repeat)
    assert rate.next_change(3) == inf
    assert rate.average == rate.at(1e6) == 2e6
    if repeat:
        assert rate.shift(0.3).at(7) == 2e6


def test_a_power_is_in_watts(tmp_path: Path) -> None:
    power = read_power(written(tmp_path, "time,power\n0,0\n21600,2.5\n64800,0\n"), repeat=True)
    assert power.period == 108000
    assert power.integral(0, 86400) == pytest.approx(2.5 * 43200)


def test_files_of_other_systems_are_read(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"\xef\xbb\xbft , rate\r\n 0 , 1 \r\n\r\n5,2\r\n")
    rate = read_csv(path, repeat=False)
    assert (rate.times.tolist(), rate.values.tolist()) == ([0, 5], [1e6, 2e6])


@in_a_folder
@given(st.lists(st.tuples(st.floats(1e-3, 1e3), st.floats(0, 1e3)), min_size=1, max_size=20))
def test_what_was_written_is_read(tmp_path: Path, rows: list[tuple[float, float]]) -> None:
    times = np.append(0.0, np.cumsum([gap for gap, _ in rows]))[:-1]
    text = "".join(f"{t!r},{rate!r}\n" for t, (_, rate) in zip(times.tolist(), rows, strict=True))
    signal = read_csv(written(tmp_path, text), repeat=False)
    assert [signal.at(t) for t in times] == [rate * 1e6 for _, rate in rows]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no row", "milliseconds"]),
        ("\n\n", ["no row"]),
        ("1\n5\n3\n", ["line 3", "times never fall", "'3'"]),
        ("1\n-5\n", ["line 2", "at least 0 ms", "'-5'"]),
        ("1\n2.5\n", ["line 2", "milliseconds in whole numbers", "'2.5'"]),
        ("1\nnan\n", ["line 2", "whole numbers", "'nan'"]),
        ("time\n1\n", ["line 1", "'time'"]),
        ("1\n\n2 3\n", ["line 3", "'2 3'"]),
        ("1\n2,3\n", ["line 2", "'2,3'"]),
        ("1\n99999999999999999999\n", ["line 2", "'99999999999999999999'"]),
        ("0\n0\n", ["line 2", "1 ms at least", "'0'"]),
    ],
)
def test_faults_in_a_mahimahi_trace_name_the_line(
    text: str, words: list[str], tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_mahimahi(path)
    assert all(word in str(caught.value) for word in [str(path), *words])
    assert caught.value.key == "trace"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seconds,Mbit/s\n", ["no row", "seconds, Mbit/s"]),
        ("0,1\n2,1\n2,3\n", ["line 3", "times rise", "'2,3'"]),
        ("0,1\n2,1\n1,3\n", ["line 3", "times rise", "'1,3'"]),
        ("0,1\ninf,1\n", ["line 2", "times rise"]),
        ("0,1\nnan,1\n", ["line 2", "times rise"]),
        ("5,1\n6,1\n", ["line 1", "begin at 0 s", "'5,1'"]),
        ("0,1\n1,-2\n", ["line 2", "at least 0 Mbit/s", "'1,-2'"]),
        ("0,1\n1,nan\n", ["line 2", "at least 0 Mbit/s"]),
        ("0,1\n1,inf\n", ["line 2", "finite"]),
        ("0,1\n1,\n", ["line 2", "in numbers", "'1,'"]),
        ("0,1\n1,2,3\n", ["line 2", "expected seconds, Mbit/s"]),
        ("0,1,2\n", ["line 1", "expected seconds, Mbit/s"]),
        ("0\n1\n", ["line 1"]),
        ("a,b\n0,1\nx,y\n", ["line 3", "'x,y'"]),
        ("0,1\n1,5 Mbit/s\n", ["line 2", "'1,5 Mbit/s'"]),
        ("0,1\n" + "9" * 100 + "x,1\n", ["line 2", "9 ...'"]),
    ],
)
def test_faults_in_a_csv_name_the_line(text: str, words: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(DataError) as caught:
        read_csv(path, repeat=True)
    assert all(word in str(caught.value) for word in [str(path), *words])


def test_the_fault_of_a_long_file_is_found(tmp_path: Path) -> None:
    lines = [f"{t}" for t in range(50_000)]
    lines[31_415] = "31415 ms"
    with pytest.raises(DataError, match=r"line 31416: .*'31415 ms'"):
        read_mahimahi(written(tmp_path, "\n".join(lines)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for read in (lambda path: read_csv(path, repeat=True), read_mahimahi):
        with pytest.raises(DataError, match=r"cannot read .*gone: No such file"):
            read(tmp_path / "gone")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"0,1\n\xff\xfe,2\n")
    with pytest.raises(DataError, match="line 2"):
        read_csv(path, repeat=True)
