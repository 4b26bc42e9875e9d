"""A finished run that another one replaces is moved, comes back, and is never lost."""

import itertools
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

import fedsim
from fedsim.core.atomic import ASIDE
from fedsim.core.errors import OutputError
from fedsim.results.record.earlier import EARLIER, TRASH, bring_back, earlier_runs, set_aside
from fedsim.results.record.folder import SUMMARY
from fedsim.results.record.manifest import MADE_FROM, read_manifest
from fedsim.running.run import RunProgress
from tests.campaigns.faults.operations import Operation, met
from tests.disks import Disk
from tests.results.analysis.breaking import says, sealed
from tests.runs import files, small

RUN = Path("base/seed-1")


def scenario(rounds: int = 3) -> dict[str, Any]:
    return small(stop={"rounds": rounds})


def finished(out: Path) -> set[frozenset[tuple[str, bytes]]]:
    """Return the content of every finished run below a folder, wherever it is."""
    return {frozenset(files(path.parent).items()) for path in out.rglob(SUMMARY)}


def ages(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.rglob(SUMMARY)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fedsim.run(scenario(), out=tmp_path_factory.mktemp("made") / "out").folder


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(copytree(made, tmp_path / "out"))


def edit_and_return(out: Path, **how: Any) -> None:
    """Run another state of the scenario, and the first one again."""
    fedsim.run(scenario(4), out=out, **how)
    fedsim.run(scenario(), out=out, **how)


def test_what_an_edit_replaces_is_kept_and_comes_back_without_a_new_run(out: Path) -> None:
    (out / RUN / "notes.txt").write_text("of the user")
    before, age = files(out / RUN), (out / RUN / SUMMARY).stat().st_mtime_ns
    told = list[str]()
    fedsim.run(scenario(4), out=out, tell=lambda note: told.append(note.text))
    assert any(EARLIER in text and "new runs are made" in text for text in told)
    (kept,) = (out / EARLIER).glob("*/base/seed-1")
    assert files(kept) == before
    reports = list[RunProgress]()
    fedsim.run(scenario(), out=out, tell=lambda note: told.append(note.text), watch=reports.append)
    assert "come back" in told[-1]
    assert files(out / RUN) == before
    assert (out / RUN / SUMMARY).stat().st_mtime_ns == age
    assert [(each.round, each.ended) for each in reports] == [(3, True)]
    assert len(list((out / EARLIER).glob("*/base/seed-1"))) == 1, "the other state is kept now"


def test_runs_of_an_earlier_version_are_made_again_and_kept(out: Path) -> None:
    fedsim.run(scenario() | {"seeds": 2}, out=out)
    fresh = files(out)
    for seed in (1, 2):
        sealed(says("manifest.json", schema_version=5))(out / f"base/seed-{seed}")
    old = files(out)
    notes = list[str]()
    fedsim.run(scenario() | {"seeds": 2}, out=out, tell=lambda note: notes.append(str(note)))
    expected = (
        f"base: runs: {out} has runs whose log has schema version 5, and this fedsim reads version"
        " 6, which counts rounds and objectives otherwise, so that the figures cannot be compared:"
        f" they move into {EARLIER}, and new runs are made"
    )
    assert [note for note in notes if "schema" in note] == [expected]
    assert files(out) == fresh
    (state,) = (out / EARLIER).iterdir()  # both seeds stand together
    for seed in (1, 2):
        own = f"base/seed-{seed}"
        assert files(state / own) == {
            name.removeprefix(f"{own}/"): content
            for name, content in old.items()
            if name.startswith(own)
        }
    assert not (out / TRASH).exists()
    notes.clear()
    fedsim.run(scenario() | {"seeds": 2}, out=out, tell=lambda note: notes.append(str(note)))
    assert not [note for note in notes if "schema" in note]


@pytest.mark.slow
@pytest.mark.parametrize("how", [{"jobs": 2}, {"shard": "1/1"}, {"cluster": "local:1"}])
def test_workers_keep_and_bring_back_too(how: dict[str, Any], out: Path) -> None:
    if "cluster" in how:
        pytest.importorskip("distributed")
    before, runs = ages(out), finished(out)
    edit_and_return(out, **how)
    assert runs < finished(out)
    assert before.items() <= ages(out).items()


def test_fresh_moves_to_the_trash_what_it_replaces_and_does_not_take_it_back(out: Path) -> None:
    before = files(out / RUN)
    fedsim.run(scenario(), out=out, fresh=True)
    (old,) = (out / TRASH).glob("*/base/seed-1")
    assert files(old) == before == files(out / RUN)
    assert not (out / EARLIER).exists()


def test_an_interrupted_fresh_run_loses_nothing(out: Path) -> None:
    before = finished(out)

    def interrupt(_: RunProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(scenario(), out=out, fresh=True, watch=interrupt)
    assert before <= finished(out)
    fedsim.run(scenario(), out=out)
    assert before <= finished(out)
    assert len(ages(out)) == 2, "the trash does not come back by itself"


def test_a_damaged_run_goes_to_the_trash(out: Path) -> None:
    (out / RUN / SUMMARY).write_text("{")
    (out / RUN / "manifest.json").write_text("{")
    fedsim.run(scenario(), out=out)
    (old,) = (out / TRASH).glob("*/base/seed-1")
    assert (old / SUMMARY).read_text() == "{"


@pytest.mark.parametrize(
    ("harm", "how"),
    [
        ("events.parquet", {}),
        ("summary.json", {}),
        pytest.param("events.parquet", {"jobs": 2}, marks=pytest.mark.slow),
    ],
)
def test_an_earlier_run_that_is_damaged_is_named_once_and_made_again(
    harm: str, how: dict[str, Any], out: Path
) -> None:
    before = files(out / RUN)
    fedsim.run(scenario(4), out=out)
    (kept,) = (out / EARLIER).glob("*/base/seed-1")
    (kept / harm).write_bytes(b"damaged")
    told = list[str]()
    fedsim.run(scenario(), out=out, tell=lambda note: told.append(note.text), **how)
    assert len([text for text in told if f"{kept} is damaged" in text]) == 1
    assert files(out / RUN) == before
    (old,) = (out / TRASH).glob("*/base/seed-1")
    assert (old / harm).read_bytes() == b"damaged"
    told.clear()
    edit_and_return(out, tell=lambda note: told.append(note.text))
    assert not [text for text in told if "damaged" in text]


def test_a_name_that_is_taken_gets_a_number(out: Path, made: Path) -> None:
    places = []
    for _ in range(3):
        places.append(set_aside(out, out / RUN, "now"))
        copytree(made / RUN, out / RUN)
    names = [path.parents[1].name for path in places if path]
    assert names == ["now", "now-2", "now-3"]


@pytest.mark.parametrize("link", [EARLIER, TRASH])
def test_nothing_moves_through_a_link(link: str, out: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (out / link).symlink_to(tmp_path / "precious")
    before = files(out / RUN)
    with pytest.raises(OutputError, match="symbolic link"):
        set_aside(out, out / RUN, "now" if link == TRASH else "")
    assert files(out / RUN) == before
    assert files(tmp_path / "precious") == {}


class Stop(BaseException):
    """The process is gone."""


@pytest.mark.parametrize("move", ["aside", "back"])
@pytest.mark.parametrize("error", [Stop, OSError])
def test_a_move_that_is_cut_off_anywhere_loses_nothing(
    move: str, error: type[BaseException], made: Path, tmp_path: Path
) -> None:
    for number in itertools.count():
        out = Path(copytree(made, tmp_path / str(number)))
        state = str(read_manifest(out / RUN)[MADE_FROM])
        if move == "back":
            set_aside(out, out / RUN)
            copytree(made / RUN, out / RUN)
            (out / RUN / "notes.txt").write_text("of the later one")
        before, steps = finished(out), list[Operation]()

        def meet(operation: Operation, last: int = number, steps: Any = steps) -> None:
            steps.append(operation)
            if len(steps) == last + 1:
                raise error(28, "No space left on device")

        failed = False
        with met(out, meet):
            try:
                if move == "aside":
                    set_aside(out, out / RUN)
                else:
                    bring_back(out, next(earlier_runs(out, "base", 1, state)), out / RUN)
            except (Stop, OutputError):
                failed = True
        assert finished(out) == before
        if not failed and len(steps) <= number:
            break
    assert number >= 2


def steps_of(out: Path, rng: random.Random) -> Callable[[], None]:
    """Return a random thing that a user may do with a folder."""
    state = scenario(rng.choice((2, 3, 4)))
    fresh = rng.random() < 0.3
    cut = rng.random() < 0.3

    def interrupt(_: RunProgress) -> None:
        if cut:
            raise KeyboardInterrupt

    def step() -> None:
        try:
            fedsim.run(state, out=out, fresh=fresh, watch=interrupt)
        except KeyboardInterrupt:
            assert cut

    return step


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 7))]
)
def test_no_finished_run_is_lost_over_random_sequences(seed: int, tmp_path: Path) -> None:
    rng, known = random.Random(seed), set[frozenset[tuple[str, bytes]]]()
    for _ in range(8 if seed else 5):
        steps_of(tmp_path / "out", rng)()
        now = finished(tmp_path / "out")
        assert known <= now
        known = now


@pytest.mark.slow
def test_a_disk_that_is_full_loses_no_earlier_run(out: Path) -> None:
    before = finished(out)
    for number in range(8):
        with met(out, Disk(number, "write")), suppress(OutputError):
            fedsim.run(scenario(4), out=out)
        assert before <= finished(out)
        assert not list(out.rglob(f"*{ASIDE}"))
    fedsim.run(scenario(), out=out)
    assert before <= finished(out)
