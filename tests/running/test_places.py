"""Runs that are made stage: moved into their places whole, and none lost that was whole."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex

import pytest

import fedsim
from fedsim.core.atomic import ASIDE
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.lock import HOLDER
from fedsim.running.staging import MAKING, Place, clear, publish, share_folder
from tests.runs import files, small

QUICK = small(stop={"rounds": 3})
RUN = Path("base/seed-1")


def made(home: Path, content: str, run: Path = RUN) -> Path:
    """Return the folder of a run that is whole, made somewhere."""
    folder = home / run
    folder.mkdir(parents=True)
    for name in ("events.parquet", SUMMARY):
        (folder / name).write_text(content)
    return folder


@pytest.mark.parametrize("before", [None, "old"])
def test_a_run_takes_its_place(before: str | None, tmp_path: Path) -> None:
    if before:
        made(tmp_path, before)
    publish(made(tmp_path / MAKING / "token", "new"), tmp_path / RUN)
    assert set(files(tmp_path / RUN).values()) == {b"new"}


def test_of_many_that_move_a_run_at_once_each_succeeds_and_one_stays(tmp_path: Path) -> None:
    homes = [tmp_path / MAKING / token_hex(4) for _ in range(40)]
    runs = [made(home, home.name) for home in homes]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda run: publish(run, tmp_path / RUN), runs))
    (stays,) = set(files(tmp_path / RUN).values())
    assert stays.decode() in {home.name for home in homes}


def test_what_was_whole_when_its_maker_was_killed_is_kept(tmp_path: Path) -> None:
    home = tmp_path / MAKING / "token-1"
    made(home, "old", Path("base/seed-1-0a1b-old"))
    made(home, "new")
    made(home, "another", Path("base/seed-2"))
    made(home, "half", Path("base/seed-3") / "never")
    made(tmp_path, "there", Path("base/seed-2"))
    clear(tmp_path)
    assert {path.parent.name: path.read_text() for path in tmp_path.rglob(SUMMARY)} == {
        "seed-1": "new",
        "seed-2": "there",
    }
    assert not (tmp_path / MAKING).exists()


def test_an_error_of_who_makes_a_run_is_its_own(tmp_path: Path) -> None:
    with share_folder(tmp_path) as place, pytest.raises(FileNotFoundError), place.stage():
        raise FileNotFoundError("of a file of somebody's own")
    assert not (tmp_path / MAKING).exists()


def test_the_last_shard_to_end_clears_up_after_one_that_was_killed(tmp_path: Path) -> None:
    swept = {**QUICK, "seeds": 2}
    left = tmp_path / MAKING / "token-of-the-killed" / RUN

    def watch(_: object) -> None:
        if not left.exists():
            left.mkdir(parents=True)

    fedsim.run(swept, out=tmp_path, shard="1/2", watch=watch)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *(".history.jsonl", ".lock", "base", "study.json")
    ]


def test_what_a_kill_leaves_at_the_top_goes_when_the_study_is_taken_up(tmp_path: Path) -> None:
    fedsim.run(QUICK, out=tmp_path)
    before = files(tmp_path)
    for name in ("study.json", HOLDER, "convergence.png"):
        (tmp_path / f"{name}.4711-0{ASIDE}").write_text("half")
    (tmp_path / HOLDER).write_text("{}")
    run = tmp_path / RUN
    (run / f"failed.json.4711-0{ASIDE}").write_text("half")
    (run / "events.parts").mkdir()
    (run / "events.parts/part-000000.parquet").write_text("what a disk did not let go")
    age = (run / SUMMARY).stat().st_mtime_ns
    fedsim.run(QUICK, out=tmp_path)
    assert files(tmp_path) == before
    assert (run / SUMMARY).stat().st_mtime_ns == age, "it is kept"


def test_a_worker_that_does_not_see_the_folder_stages_runs_in_one_of_its_own(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path / "elsewhere", "token")
    with place.stage() as home:
        assert home.is_dir()
        assert home.name.startswith("fedsim-")  # so that what a kill leaves can be recognised
        made(home, "new")
    assert not home.exists()
    assert not (tmp_path / "elsewhere").exists()
