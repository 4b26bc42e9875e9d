"""A run publishes its progress in its folder while it is made, and leaves nothing of it."""

import threading
from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.results.record import live as files
from fedsim.results.record.live import LIVE, LiveCampaign, read_live
from fedsim.results.record.scenarios import Note, ignore_note
from fedsim.running import live
from fedsim.running.live import LiveReporter
from fedsim.running.run import RunProgress, ignore_progress
from fedsim.scenario import load
from tests.runs import small

TWO: dict[str, Any] = small(
    variants={"gd": {"algorithm": {"kind": "gd", "step_size": "1/L"}}}, seeds=2, stop={"rounds": 6}
)


class Clock:
    """Real time that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def reporter(folder: Path, clock: Clock) -> LiveReporter:
    return LiveReporter(folder, load(TWO), clock)


def test_the_rate_and_the_curve_of_a_run_are_those_of_its_reports(tmp_path: Path) -> None:
    clock = Clock()
    own = reporter(tmp_path, clock)
    watch = own.watch(ignore_progress)
    begun = RunProgress("gd", 2, "gd", 900)
    for number in range(1, 6):
        gap, joules = 2.0**-number, 3.0 * number
        watch(begun._replace(round=number, objective=1 + gap, gap=gap, t=number / 4, joules=joules))
        clock.now += 0.5
    (run,) = own.state().running
    assert (run.variant, run.seed, run.rounds, run.round) == ("gd", 2, 900, 5)
    assert run.seconds == 2.5
    assert run.rate == pytest.approx(4 / 2.5)  # the first report was of round 1
    assert [point.round for point in run.curve] == [1, 2, 3, 4, 5]
    assert run.curve[3] == (4, 1.0, 1.0625, 0.0625, 12.0)


def test_runs_begin_end_and_are_left_by_their_workers(tmp_path: Path) -> None:
    clock = Clock()
    own = reporter(tmp_path, clock)
    passed = list[RunProgress]()
    watch = own.watch(passed.append)
    first = RunProgress("base", 1, "chb", 9, round=1, gap=0.5, worker="process 7")
    second = RunProgress("gd", 1, "gd", 9, round=1, gap=0.5, worker="process 8")
    for progress in (first, second):
        watch(progress)
    clock.now += 3.0
    own.tell(ignore_note)(Note("base", "runs", "seed 1 has failed: of a test"))
    watch(first._replace(seed=2))  # its worker has left the run that failed
    watch(second._replace(round=7, gap=0.25, ended=True, worker=""))
    watch(second._replace(seed=2, round=7, gap=0.125, ended=True))  # which was there
    state = own.state()
    assert [(each.variant, each.seed, each.worker) for each in state.running] == [
        ("base", 2, "process 7")
    ]
    assert state.ended == 2
    assert [tuple(event) for event in state.events] == [
        (0.0, "base (chb), seed 1 has begun"),
        (0.0, "gd, seed 1 has begun"),
        (3.0, "base: runs: seed 1 has failed: of a test"),
        (3.0, "base (chb), seed 2 has begun"),
        (3.0, "gd, seed 1 has ended: round 7, gap 0.25"),
        (3.0, "gd, seed 2 is complete: round 7, gap 0.125"),
    ]
    assert len(passed) == 5


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Write the live file without a pause; the event is set once that has been done."""
    written, write = threading.Event(), files.write_live

    def observed(out: Path, name: str, campaign: LiveCampaign) -> bool:
        done = write(out, name, campaign)
        if campaign.running and campaign.running[0].curve:
            written.set()
        return done

    monkeypatch.setattr(live, "_PAUSE", 1e-3)
    monkeypatch.setattr(live, "_SHARE", 1.0)
    monkeypatch.setattr(live, "write_live", observed)
    return written


def test_a_run_in_progress_is_in_the_folder_and_an_ended_one_is_not(
    quick: threading.Event, tmp_path: Path
) -> None:
    seen = list[LiveCampaign]()

    def look(progress: RunProgress) -> None:
        if progress.round == 3 and not progress.ended:
            for _ in range(2):  # the state of the first one may be of the round before
                quick.clear()
                assert quick.wait(60)
            seen.extend(read_live(tmp_path))

    fedsim.run(TWO, out=tmp_path, watch=look)
    assert [(each.runs, each.ended) for each in seen] == [(4, n) for n in range(4)]
    for campaign in seen:
        (run,) = campaign.running
        assert run.round == 3
        assert [point.round for point in run.curve] == [0, 1, 2, 3]
        table = fedsim.Result(tmp_path, (tmp_path / run.variant / f"seed-{run.seed}",)).rounds
        assert [point.gap for point in run.curve] == table["gap"][:4].to_list()
        assert [point.t for point in run.curve] == table["t"][:4].to_list()
        joules = table["joules"].cumsum()[:4].to_list()
        assert [point.joules for point in run.curve] == pytest.approx(joules, rel=1e-12)
    assert not (tmp_path / LIVE).exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_run_that_is_cut_off_leaves_no_live_file(
    error: type[BaseException], quick: threading.Event, tmp_path: Path
) -> None:
    def cut_off(progress: RunProgress) -> None:
        if progress.round == 3:
            assert quick.wait(60)
            assert (tmp_path / LIVE).is_dir()
            raise error

    with pytest.raises(error):
        fedsim.run(small(stop={"rounds": 5}), out=tmp_path, watch=cut_off)
    assert not (tmp_path / LIVE).exists()


def test_the_live_file_of_a_killed_process_goes_with_the_next_run(tmp_path: Path) -> None:
    files.write_live(tmp_path, "killed.json", LiveCampaign("there, process 7"))
    (tmp_path / LIVE / "killed.json.7-0.aside").touch()
    fedsim.run(small(stop={"rounds": 2}), out=tmp_path)
    assert not (tmp_path / LIVE).exists()
