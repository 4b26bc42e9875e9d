"""What is beyond all memory is refused in a line before it is made; the limit can be raised."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

import fedsim
from fedsim.cli.app import errors
from fedsim.core.errors import DataError, ScenarioError
from fedsim.core.memory import DEFAULT, VARIABLE, limit
from fedsim.problems.data import libsvm
from fedsim.scenario import load
from fedsim.scenario.building import Builder
from tests.campaigns.hostile.beyond_memory import GOOD, with_data
from tests.runs import small
from tests.tiers import every

ROOT = Path(__file__).parents[2]
DRAWN: dict[str, Any] = {"kind": "sparse-linear", "clients": 3, "rows": 500, "features": 40}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """Return what became of each scenario, all of them read by one process with little memory."""
    command = [
        sys.executable,
        "-m",
        "tests.campaigns.hostile.beyond_memory",
        str(tmp_path_factory.mktemp("h")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_every_one_is_refused_in_little_memory(answers: list[dict[str, str]]) -> None:
    """A MemoryError, a traceback of any kind and an end of the process are no refusals."""
    assert [answer for answer in answers if "refused" not in answer] == []
    assert len(answers) > 85


@pytest.mark.slow
def test_the_refusals_can_be_read(answers: list[dict[str, str]]) -> None:
    for answer in answers:
        text = answer["refused"]
        first, *excerpt = text.splitlines()
        assert first.strip(), text
        # Of broken YAML the line stands below, cut to a width that can be read, and a caret.
        # Of a CSV all columns at fault stand below, a line each, and what would read them.
        listed = [line for line in excerpt if line.lstrip().startswith(("row ", "`kind: table`"))]
        marked = [line.strip()[:1] for line in excerpt if line not in listed]
        assert not marked or marked == ["1", "^"], text
        assert all(len(line) < 110 for line in excerpt), text
        assert len(text.replace("x" * 4000, "")) < 1500, text
        assert "Traceback" not in text


@pytest.mark.slow
@every(("name", "words"), [
    ("libsvm bomb.gz", ["bomb.gz", "of memory", "300 MB is accepted", "FEDSIM_MEMORY"]),
    ("libsvm pipe", ["it is a pipe; expected a file"]),
    ("csv folder.csv", ["it is a folder; expected a file"]),
    ("npz /dev/zero", ["it is a device; expected a file"]),
    ("csv twice.csv", ["several columns 'y'"]),
    ("csv label is client by number", ["data.client", "is the column of labels"]),
    ("libsvm far.libsvm", ["2000000000 features", "160 GB"]),
    ("npz announced.npz", ["announces the shape (1099511627776, 1048576)"]),
    ("idx huge.idx", ["means 79228162458924105385300197391"]),
    ("graph laughs.graphml", ["without a document type"]),
    ("fleet of 1000000000", ["1000000000 clients would take 400 GB"]),
    ("seeds=1000000000", ["1000000000 runs", "50 TB"]),
    ("labels without end", ["24000 rows with 24000 different labels"]),
])  # fmt: skip
def test_a_refusal_names_what_was_seen(
    name: str, words: list[str], answers: list[dict[str, str]]
) -> None:
    (text,) = [answer["refused"] for answer in answers if answer["name"] == name]
    assert [word for word in words if word not in text] == []


def test_the_limit_is_raised_where_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = load(with_data(**DRAWN, ones=3))
    monkeypatch.setenv(VARIABLE, "100 kB")
    with pytest.raises(ScenarioError, match="3 clients with 500 rows of 40 features would take"):
        Builder(plan).check()
    monkeypatch.setenv(VARIABLE, "3 MB")
    assert len(Builder(plan).check()) == 1


def test_a_fleet_beyond_the_limit_is_refused_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0.4 kB a client, at the least."""
    source = with_data(**DRAWN | {"clients": 60}, ones=3)
    source["problem"] |= {"split": GOOD["problem"]["split"] | {"clients": 60}}
    plan = load(source | {"fleet": [{"count": 60}]})
    monkeypatch.setenv(VARIABLE, "20 kB")
    with pytest.raises(ScenarioError, match="60 clients would take 24 kB of memory"):
        Builder(plan).check()


def test_the_limit_has_a_default_and_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert limit() == DEFAULT
    monkeypatch.setenv(VARIABLE, "1.5 GB")
    assert limit() == 1_500_000_000
    for wrong in ("much", "16", "-1 GB", "16 gigabytes", "1e9 GB"):
        monkeypatch.setenv(VARIABLE, wrong)
        with pytest.raises(DataError, match='expected a size such as "16 GB"'):
            limit()
        with pytest.raises(ScenarioError, match="FEDSIM_MEMORY: got"):
            Builder(load(GOOD)).check()


def test_a_dense_array_that_is_asked_for_may_be_as_large_as_is_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, path = b"1 1:1 5000:2\n" * 4, Path("rows")
    monkeypatch.setenv(VARIABLE, "319 kB")
    with pytest.raises(DataError, match=r"4 rows of 5000 features, 160 kB .*layout: sparse") as no:
        libsvm.parse(text, path, layout="dense")
    assert no.value.key == "data.layout"
    monkeypatch.setenv(VARIABLE, "320 kB")
    assert libsvm.parse(text, path, layout="dense").features == 5000


def test_a_machine_without_memory_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, errors():
        raise MemoryError
    assert ended.value.exit_code == 1
    assert "out of memory" in capsys.readouterr().err


READING = """
import os, sys
from pathlib import Path
from fedsim.results.record.read import read_run

def threads():
    tasks = Path("/proc/self/task").iterdir()
    return sorted(name for task in tasks if (name := (task / "comm").read_text()[:8]) != "jemalloc")

before = threads()
for name in ("events", "rounds", "clients"):
    assert len(read_run(Path(sys.argv[1]), name))
print(before == threads())
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are listed by Linux")
def test_tables_are_read_without_a_further_thread(tmp_path: Path) -> None:
    """Where there is no memory for one, Arrow would wait for it for ever, and hear no signal."""
    (folder,) = fedsim.run(small(stop={"rounds": 2}), out=tmp_path / "out").runs
    done = subprocess.run(
        [sys.executable, "-c", READING, str(folder)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True\n"


STARVED = """
import sys
import fedsim.cli
from fedsim.__main__ import main

def app():
    raise eval(sys.argv[1])

fedsim.cli.app = app
main()
"""


@every(
    "error",
    [
        "ImportError('a.so: failed to map segment from shared object')",
        "MemoryError()",
        "OSError(12, 'Cannot allocate memory')",
        'RuntimeError("can\'t start new thread")',
    ],
)
def test_a_want_of_memory_outside_of_commands_is_one_line(error: str) -> None:
    words = [sys.executable, "-c", STARVED, error]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("out of memory: ")
    assert done.stderr.count("\n") == 1
