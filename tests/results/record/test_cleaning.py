"""`fedsim clean` shows what goes before it goes, and never touches the runs in their places."""

import itertools
import os
import shutil
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.core.errors import OutputError
from fedsim.results.record.earlier import EARLIER, TRASH, set_aside
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.live import LIVE
from fedsim.results.record.lock import hold
from fedsim.running import staging
from fedsim.running.cleaning import is_large, removable, remove
from fedsim.running.staging import MAKING
from tests.campaigns.faults.operations import Operation, met
from tests.runs import files, small

RUN = Path("base/seed-1")
DRAFT = "events.parquet.12-0.aside"


def scenario(rounds: int = 3) -> dict[str, Any]:
    return small(stop={"rounds": rounds})


def clean(*words: object) -> Result:
    return CliRunner().invoke(app, ["clean", *map(str, words)])


def age(path: Path) -> None:
    os.utime(path, (1e9, 1e9))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with one run in its place, an earlier one, trash, and leftovers."""
    out = tmp_path_factory.mktemp("made") / "out"
    for rounds, fresh in ((4, False), (3, False), (3, True)):
        fedsim.run(scenario(rounds), out=out, fresh=fresh)
    (out / RUN / DRAFT).write_bytes(b"PAR1")
    age(out / RUN / DRAFT)
    (out / RUN / "events.parts").mkdir()
    (out / RUN / "events.parts" / "part-000000-0.parquet").write_bytes(b"PAR1")
    for name in (LIVE, MAKING):
        (out / name).mkdir()
        (out / name / "left.json").write_text("{}")
    return out


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(copytree(made, tmp_path / "out"))


def test_what_goes_is_shown_with_its_size_and_stays_without_a_terminal(out: Path) -> None:
    before = {path: path.stat().st_size for path in out.rglob("*") if path.is_file()}
    said = clean(out)
    assert said.exit_code == 2
    assert "--yes" in said.stderr
    assert {path: path.stat().st_size for path in out.rglob("*") if path.is_file()} == before
    for part in (".earlier/", ".trash/", LIVE, MAKING, DRAFT, "events.parts", "1 of base"):
        assert part in said.stdout, said.stdout
    # Checked by adding up what is not there afterwards.
    shown = next(line.split() for line in said.stdout.splitlines() if line.split()[:1] == ["all"])
    assert clean(out, "--yes").exit_code == 0
    gone = sum(size for path, size in before.items() if not path.exists())
    assert float(shown[-2]) == pytest.approx(gone / 1e3, rel=1e-3)
    assert shown[-1] == "kB"


def test_runs_in_their_places_and_files_of_others_stay(out: Path) -> None:
    (out / RUN / "notes.txt").write_text("of the user")
    (out / "notes.aside").write_text("of the user")
    (out / "comparison").mkdir()
    (out / "comparison" / "gap.pdf.99-1.aside").write_bytes(b"a draft that is being written")
    kept = {name: text for name, text in files(out).items() if "seed-1" in name}
    for name in (DRAFT, "events.parts/part-000000-0.parquet"):
        del kept[f"{RUN}/{name}"]
    assert clean(out, "--yes").exit_code == 0
    assert {name: text for name, text in files(out).items() if "seed-1" in name} == kept
    assert not any((out / name).exists() for name in (EARLIER, TRASH, LIVE, MAKING))
    assert {"notes.aside", "comparison/gap.pdf.99-1.aside"} <= files(out).keys()
    assert "nothing to remove" in clean(out).stdout


def test_an_unfinished_run_keeps_its_tables(out: Path) -> None:
    (out / RUN / SUMMARY).unlink()
    assert clean(out, "--yes").exit_code == 0
    assert (out / RUN / "events.parts").exists()


@pytest.mark.parametrize("kind", ["earlier", "trash", "leftovers"])
def test_one_kind_can_be_chosen(kind: str, out: Path) -> None:
    there = {"earlier": EARLIER, "trash": TRASH, "leftovers": LIVE}
    assert clean(out, "--yes", f"--{kind}").exit_code == 0
    assert {each for each, name in there.items() if not (out / name).exists()} == {kind}


def test_a_folder_in_use_is_not_cleaned(out: Path) -> None:
    with hold(out):
        said = clean(out, "--yes")
    assert said.exit_code == 2
    assert "in use" in said.stderr
    assert (out / TRASH).exists()


def test_wrong_input_is_refused_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    for place in ("mine", "missing", "mine/notes.txt"):
        said = clean(tmp_path / place, "--yes")
        assert said.exit_code == 2
        assert said.stderr
    assert files(tmp_path) == {"mine/notes.txt": b"mine"}


@pytest.mark.parametrize("name", [EARLIER, TRASH, LIVE, MAKING])
def test_nothing_is_removed_through_a_link(name: str, out: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    if (out / name).exists():
        shutil.rmtree(out / name)
    (out / name).symlink_to(tmp_path / "precious")
    said = clean(out, "--yes")
    assert said.exit_code == 2
    assert "symbolic link" in said.stderr
    assert files(tmp_path / "precious") == {"file": b"mine"}


def test_a_link_within_the_trash_goes_and_what_it_leads_to_stays(out: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("mine")
    (out / TRASH / "link").symlink_to(tmp_path / "precious")
    assert clean(out, "--yes").exit_code == 0
    assert files(tmp_path / "precious") == {"file": b"mine"}


def test_complete_runs_of_killed_workers_are_kept(out: Path) -> None:
    before = files(out / RUN)
    staged = out / MAKING / "token-1" / RUN
    copytree(out / RUN, staged)
    assert clean(out, "--yes").exit_code == 0
    assert files(out / RUN).keys() == {*before} - {DRAFT, "events.parts/part-000000-0.parquet"}
    assert not (out / EARLIER).exists()
    copytree(out / RUN, staged)
    (staged / "notes.txt").write_text("of a run that differs")
    shutil.rmtree(out / "base")
    staging.clear(out)
    assert "notes.txt" in files(out / RUN), "the place was free"
    copytree(out / RUN, staged)
    (staged / "notes.txt").write_text("of a third")
    staging.clear(out)
    (kept,) = (out / EARLIER).glob("*/base/seed-1")
    assert (kept / "notes.txt").read_text() == "of a third"


class Stop(BaseException):
    """The process is gone."""


@pytest.mark.slow
@pytest.mark.parametrize("error", [Stop, OSError])
def test_a_removal_that_is_cut_off_anywhere_leaves_a_folder_that_runs(
    error: type[BaseException], made: Path, tmp_path: Path
) -> None:
    for number in itertools.count():
        out = Path(copytree(made, tmp_path / str(number)))
        before, steps = files(out / RUN).keys() - {DRAFT}, list[Operation]()

        def meet(operation: Operation, last: int = number, steps: Any = steps) -> None:
            steps.append(operation)
            if len(steps) == last + 1:
                raise error(5, "Input/output error")

        failed = False
        items = removable(out)
        with met(out, meet):
            try:
                remove(out, items)
            except (Stop, OutputError):
                failed = True
        present = files(out / RUN).keys()
        assert {name for name in before if "parts" not in name} <= present
        for kept in (out / EARLIER).glob("*/base/seed-1"):
            assert (kept / SUMMARY).exists(), "an earlier run is there whole, or not"
            assert len(files(kept)) == 7
        remove(out, removable(out))
        assert not (out / TRASH).exists()
        if not failed and len(steps) <= number:
            break
    assert number > 3


def test_a_large_folder_is_known_without_adding_up_all_of_it(out: Path) -> None:
    assert not is_large(out)
    assert is_large(out, 1000)
    set_aside(out, out / RUN, "now")
    with (out / TRASH / "now" / "large").open("wb") as file:
        file.truncate(2 * 10**9)
    assert is_large(out)


def test_status_mentions_a_large_folder(out: Path) -> None:
    words = f"fedsim clean {out} lists"
    assert words not in CliRunner().invoke(app, ["status", str(out)]).stderr.replace("\n", " ")
    with (out / TRASH / "large").open("wb") as file:
        file.truncate(2 * 10**9)
    said = CliRunner().invoke(app, ["status", str(out)])
    assert said.exit_code == 0
    assert words in said.stderr.replace("\n", " ")
