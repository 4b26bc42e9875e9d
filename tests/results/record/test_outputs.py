"""No call writes over the output of another one, or over a file of a user."""

import hashlib
import itertools
import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import fedsim
from fedsim.cli import app
from fedsim.core.atomic import write_whole
from fedsim.core.errors import OccupiedError, OutputError
from fedsim.results.analysis import Comparison, gather
from fedsim.results.analysis.compare.caveats import read_doubts
from fedsim.results.record.earlier import EARLIER
from fedsim.results.record.lock import hold
from fedsim.results.record.outputs import OUTPUTS, Call, output
from tests.campaigns.faults.operations import Operation, met
from tests.disks import Disk
from tests.runs import small

Files = dict[str, bytes]


def write(root: Path, words: str, wanted: Path, files: Files, **options: Any) -> Path:
    """Write a folder of files, or a single one whose name is empty."""
    with output(Call(root, words), wanted, **options) as made:
        for name, content in files.items():
            path = made.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return made.place


def contents(folder: Path) -> set[bytes]:
    skipped = {".lock", OUTPUTS}
    every = (path for path in folder.rglob("*") if path.is_file() and path.name not in skipped)
    return {path.read_bytes() for path in every}


def test_the_same_call_replaces_its_own_and_another_gets_another_name(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert write(tmp_path, "one", page, {"": b"1"}) == page
    assert write(tmp_path, "two", page, {"": b"2"}) == tmp_path / "page-2.html"
    assert write(tmp_path, "one", page, {"": b"1, later"}) == page
    assert contents(tmp_path) == {b"1, later", b"2"}


@pytest.mark.parametrize(
    ("name", "second"),
    [
        ("gap.pdf", "gap-2.pdf"),
        ("trace.json.gz", "trace-2.json.gz"),
        ("gap=1e-5.v.svg", "gap=1e-5.v-2.svg"),
    ],
)
def test_a_number_stands_before_the_ending(name: str, second: str, tmp_path: Path) -> None:
    for words, place in (("one", name), ("two", second), ("two", second)):
        assert write(tmp_path, words, tmp_path / name, {"": words.encode()}).name == place


def test_a_file_that_was_edited_or_is_of_a_user_stays(tmp_path: Path) -> None:
    folder = tmp_path / "paper"
    write(tmp_path, "one", folder, {"main.tex": b"1", "figures/a.pdf": b"2"})
    (folder / "main.tex").write_bytes(b"edited")
    again = write(tmp_path, "one", folder, {"main.tex": b"3", "figures/a.pdf": b"2"})
    assert again == tmp_path / "paper-2"
    assert contents(folder) == {b"edited", b"2"}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_bytes(b"mine")
    assert write(tmp_path, "one", tmp_path / "mine", {"a.csv": b"4"}) == tmp_path / "mine"
    assert contents(tmp_path / "mine") == {b"mine", b"4"}


def test_the_same_content_is_in_no_way(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(b"1")
    before = page.stat()
    assert write(tmp_path, "one", page, {"": b"1"}) == page
    assert page.stat().st_mtime_ns == before.st_mtime_ns
    assert write(tmp_path, "one", page, {"": b"2"}) == page, "it is this call's from now on"


def test_a_folder_of_runs_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "comparison-2" / "seed-1").mkdir(parents=True)
    places = [
        write(tmp_path, words, tmp_path / "comparison", {"a.csv": words.encode()})
        for words in ("one", "two")
    ]
    assert [place.name for place in places] == ["comparison", "comparison-3"]


def test_what_is_in_the_way_of_a_kept_name_moves_to_the_earlier_runs(tmp_path: Path) -> None:
    figure = tmp_path / "convergence.png"
    for words in ("one", "two", "one", "two", "one"):
        assert write(tmp_path, words, figure, {"": words.encode()}, keep_name=True) == figure
        assert figure.read_bytes() == words.encode()
    assert contents(tmp_path / EARLIER) == {b"one", b"two"}


def test_a_journal_that_cannot_be_written_costs_a_name_and_no_file(tmp_path: Path) -> None:
    (tmp_path / OUTPUTS).mkdir()
    page = tmp_path / "page.html"
    names = [write(tmp_path, "one", page, {"": text}).name for text in (b"1", b"1", b"2")]
    assert names == ["page.html", "page.html", "page-2.html"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / "page.html").symlink_to(tmp_path / "precious")
    with pytest.raises(OutputError, match="symbolic link"):
        write(tmp_path, "one", tmp_path / "page.html", {"": b"1"})
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.csv").symlink_to(tmp_path / "precious")
    assert write(tmp_path, "one", tmp_path / "out", {"a.csv": b"1"}).name == "out-2"
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_a_folder_in_use_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    with hold(tmp_path / "out"), pytest.raises(OccupiedError):
        write(tmp_path, "one", tmp_path / "out", {"a.csv": b"1"})
    with (
        pytest.raises(RuntimeError),
        output(Call(tmp_path, "one"), tmp_path / "new/deep/page.html"),
    ):
        raise RuntimeError
    assert contents(tmp_path) == set()
    assert {path.name for path in tmp_path.iterdir()} <= {"out", OUTPUTS}


def test_a_full_disk_is_reported_for_the_place_and_takes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write(tmp_path, "one", page, {"": b"1"})

    def write_more() -> None:
        with output(Call(tmp_path, "one"), page) as made:
            write_whole(made.path, b"2")

    with met(tmp_path, Disk(0, "write")), pytest.raises(OutputError) as caught:
        write_more()
    assert str(page) in str(caught.value)
    assert contents(tmp_path) == {b"1"}


class Stop(BaseException):
    """The process is gone."""


def test_a_call_that_is_cut_off_anywhere_loses_nothing(tmp_path: Path) -> None:
    new = {"a.csv": b"new a", "b/c.svg": b"new c"}
    for number in itertools.count():
        root = tmp_path / str(number)
        root.mkdir()
        write(root, "other", root / "out", {"a.csv": b"other"})
        (root / "out-2").mkdir()
        (root / "out-2" / "b").write_bytes(b"mine")
        steps, failed = list[Operation](), False

        def meet(operation: Operation, last: int = number, steps: Any = steps) -> None:
            steps.append(operation)
            if len(steps) == last + 1:
                raise Stop

        with met(root, meet):
            try:
                write(root, "one", root / "out", new)
            except Stop:
                failed = True
        assert {b"other", b"mine"} <= contents(root)
        place = write(root, "one", root / "out", new)
        assert contents(place) == {b"new a", b"new c"}
        assert place.name == "out-3"
        if not failed and len(steps) <= number:
            break
    assert number > 5


def test_calls_at_once_take_names_of_their_own(tmp_path: Path) -> None:
    places, start = dict[int, Path](), threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        content = {"": str(number).encode()}
        places[number] = write(tmp_path, str(number), tmp_path / "page.html", content)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {number: places[number].read_bytes() for number in range(8)} == {
        number: str(number).encode() for number in range(8)
    }


@pytest.mark.parametrize("seed", range(20))
def test_over_random_calls_and_edits_only_a_call_itself_replaces_its_output(
    seed: int, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    precious, latest = set[bytes](), dict[tuple[str, Path], tuple[Path, Files]]()
    for step in range(40):
        words, single = rng.choice("abc"), rng.random() < 0.5
        wanted = tmp_path / ("page.html" if single else "folder")
        names = [""] if single else rng.sample(["a", "b", "c/d"], rng.randint(1, 3))
        new = {name: f"{words} {name} {rng.randint(0, 2)}".encode() for name in names}
        place = write(tmp_path, words, wanted, new)
        assert {name: (place / name).read_bytes() for name in new} == new
        latest[words, place] = place, new
        if rng.random() < 0.3:  # a user edits a file
            path = place / rng.choice(names)
            path.write_bytes(f"edited {step}".encode())
            precious.add(path.read_bytes())
            latest.pop((words, place))
        assert precious <= contents(tmp_path)
        for where, files in latest.values():
            if where != place:
                for name, content in files.items():
                    assert (where / name).read_bytes() == content


# The commands.


def scenario(rounds: int) -> dict[str, Any]:
    gd = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
    return small(stop={"rounds": rounds}, variants={"gd": gd})


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, [*map(str, words)])


def hashes(out: Path) -> set[str]:
    """Return the hashes of all finished files, wherever they are."""
    skipped = {".lock", OUTPUTS, ".history.jsonl", "study.json"}
    return {
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.rglob("*")
        if path.is_file() and path.name not in skipped
    }


def calls(rng: random.Random, out: Path) -> Iterator[list[object]]:
    """Yield a random sequence of commands on a folder."""
    pages = "page.html", "report.html"
    while True:
        yield rng.choice(
            [
                ["compare", out, "--target", f"objective={rng.choice((3e5, 4e5)):g}"],
                ["compare", out, "--x", rng.choice(("t", "bits")), "--out", out / "figure.svg"],
                ["report", out, "--out", out / rng.choice(pages)],
                ["trace", out, "--rounds", rng.choice(("1:1", "1:2"))],
                ["reprice", out, "--set", f"fleet.0.radio={rng.choice(('wifi', 'nb-iot'))}"],
                ["explore", out],
            ]
        )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_command_loses_a_byte_that_another_one_wrote(seed: int, tmp_path: Path) -> None:
    rng, out, known = random.Random(seed), tmp_path / "out", set[str]()
    sequence = calls(rng, out)
    for _ in range(4):
        for words in (
            ["run", *_written(tmp_path, rng.choice((2, 3))), "--out", out, "-q"],
            *itertools.islice(sequence, 3),
        ):
            done = invoke(*words)
            assert done.exit_code == 0, done.output
            now = hashes(out)
            assert known <= now, words
            known = now


def _written(folder: Path, rounds: int) -> list[object]:
    file = folder / "study.yaml"
    file.write_text(json.dumps(scenario(rounds)))
    return [file]


@pytest.mark.slow
def test_a_repeated_robust_call_replaces_its_tables_and_compare_reads_the_latest(
    tmp_path: Path,
) -> None:
    out = fedsim.run(scenario(3), out=tmp_path / "out").folder
    for target, folder in (("1e8", "robustness"), ("1e9", "robustness-2"), ("1e8", "robustness")):
        done = invoke("robust", out, "--target", f"gap={target}", "--worlds", "8")
        assert done.exit_code == 0, done.output
        assert done.stdout.replace("\n", "").endswith(str(out / folder))
    for target in ("1e8", "1e9"):
        (case,) = Comparison.of([out], [f"gap={target}"]).cases
        assert read_doubts(gather([out]), str(case.target)) is not None, "both are found"


def test_a_page_goes_into_no_figure_and_reprice_asks_for_a_change(tmp_path: Path) -> None:
    out = fedsim.run(small(stop={"rounds": 2}), out=tmp_path / "out").folder
    (tmp_path / "fig.pdf").write_bytes(b"mine")
    for name in ("report", "explore"):
        done = invoke(name, out, "--out", tmp_path / "fig.pdf")
        assert done.exit_code == 2
        assert "ends in .html" in done.stderr
    assert (tmp_path / "fig.pdf").read_bytes() == b"mine"
    done = invoke("reprice", out)
    assert done.exit_code == 2
    assert "--set" in done.stderr
    assert "fleet, network, infrastructure or stop" in done.stderr
    assert not (out / "repriced").exists()
