"""Live files: what a process reports of its runs, and what of it is believed."""

import os
from dataclasses import replace
from itertools import pairwise
from math import isnan, nan
from pathlib import Path

import pytest

from fedsim.results.record.live import (
    LIVE,
    POINTS,
    STALE,
    CurvePoint,
    LiveCampaign,
    LiveCurve,
    LiveEvent,
    LiveRun,
    clear_live,
    read_live,
    remove_live,
    write_live,
)
from tests.tiers import every

CURVE = (CurvePoint(3, 0.5, 2.0, 1.5, 7.25), CurvePoint(4, 0.75, 1.75, 1.25, 9.0))
RUN = LiveRun("chb", 2, "chb", 900, 4, 12.5, 0.25, "process 7", "round 5: 3 of 8 answered", CURVE)
EVENTS = (LiveEvent(0.5, "chb, seed 1 has ended"), LiveEvent(2.0, "chb, seed 2 has begun"))
CAMPAIGN = LiveCampaign("here, process 6", 30.0, 4, 1, (RUN,), "reading data", EVENTS)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert write_live(tmp_path, "a.json", CAMPAIGN)
    assert list(read_live(tmp_path)) == [CAMPAIGN]
    remove_live(tmp_path, "a.json")
    assert list(tmp_path.iterdir()) == []


def test_unknown_numbers_are_unknown_again(tmp_path: Path) -> None:
    point = CurvePoint(1, 0.5, nan, nan, nan)
    run = replace(RUN, rate=nan, curve=(point,))
    write_live(tmp_path, "a.json", replace(CAMPAIGN, running=(run,)))
    assert b"NaN" not in (tmp_path / LIVE / "a.json").read_bytes()  # which JSON does not have
    (read,) = next(read_live(tmp_path)).running
    assert isnan(read.rate)
    assert read.curve[0][:2] == (1, 0.5)
    assert all(map(isnan, read.curve[0][2:]))


def test_a_file_of_a_killed_process_beside_a_new_one_is_not_believed(tmp_path: Path) -> None:
    write_live(tmp_path, "a.json", CAMPAIGN)
    write_live(tmp_path, "b.json", replace(CAMPAIGN, process="there"))
    os.utime(tmp_path / LIVE / "a.json", (0, 1000))
    os.utime(tmp_path / LIVE / "b.json", (0, 1000 + STALE))
    assert [each.process for each in read_live(tmp_path)] == ["there"]
    os.utime(tmp_path / LIVE / "a.json", (0, 1001))
    assert [each.age for each in read_live(tmp_path)] == [STALE - 1, 0.0]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff", b'{"running": [1]}'])
def test_a_damaged_file_is_left_out(content: bytes, tmp_path: Path) -> None:
    write_live(tmp_path, "b.json", CAMPAIGN)
    (tmp_path / LIVE / "a.json").write_bytes(content)
    assert [each.process for each in read_live(tmp_path)] == [CAMPAIGN.process]
    clear_live(tmp_path)
    assert not (tmp_path / LIVE).exists()


def test_nothing_is_written_or_removed_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    (other / "a.json").write_text("of another program")
    (tmp_path / "out" / LIVE).symlink_to(other)
    assert not write_live(tmp_path / "out", "a.json", CAMPAIGN)
    remove_live(tmp_path / "out", "a.json")
    clear_live(tmp_path / "out")
    assert (other / "a.json").read_text() == "of another program"


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / LIVE).write_text("a file")
    assert not write_live(tmp_path, "a.json", CAMPAIGN)
    assert list(read_live(tmp_path)) == []


@every("rounds", [1, 2, POINTS - 1, POINTS, POINTS + 1, 100_003])
def test_a_curve_has_few_points_evenly_spread_the_start_and_the_last_round(rounds: int) -> None:
    curve = LiveCurve()
    for number in range(rounds + 1):
        curve.add(CurvePoint(number, t=number / 2))
    points = curve.points()
    numbers = [point.round for point in points]
    assert (numbers[0], numbers[-1]) == (0, rounds)
    assert len(points) <= POINTS
    assert len(points) >= min(rounds, POINTS // 2)
    steps = {after - before for before, after in pairwise(numbers[:-1])}
    assert len(steps) <= 1
    assert all(point.t == point.round / 2 for point in points)


def test_a_curve_of_reports_that_leave_out_rounds_rises() -> None:
    curve = LiveCurve()
    for number in range(1, 5_000, 7):
        curve.add(CurvePoint(number))
    numbers = [point.round for point in curve.points()]
    assert numbers == sorted(set(numbers))
    assert len(numbers) <= POINTS
