"""What was handed over in Python: values are compared, and code never is, but for its version."""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedsim
from fedsim.core.blocks import plugins
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.values import digest_of
from fedsim.core.errors import DataError, RunWarning, Unfinished
from fedsim.problems.partition import CACHE_VARIABLE
from fedsim.results.record.manifest import read_manifest
from fedsim.running import resuming
from fedsim.running.run import RunProgress
from fedsim.scenario.registries import blocks_in
from tests.runs import small

OWN = '''
from typing import Literal
from fedsim.algorithms.censored import GradientDescent
from fedsim.problems.losses.logistic import Logistic

FACTOR = 1.0
BROKEN = False


class Mine(GradientDescent):
    """A method whose step hangs on what is around its class."""

    kind: Literal["mine"] = "mine"

    def configure(self, info):
        if BROKEN:
            raise ValueError("broken")
        made = super().configure(info)
        return made.model_copy(update={"step_size": made.step_size * FACTOR})


class Multiple(Logistic):
    """A loss that hangs on a value of its module."""

    kind: Literal["multiple"] = "multiple"

    def value(self, rows, w, state):
        return FACTOR * super().value(rows, w, state)

    def gradient(self, rows, w, state):
        return FACTOR * super().gradient(rows, w, state)
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Yield a module of a user's own."""
    (tmp_path / "own_blocks.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    yield import_module("own_blocks")
    del sys.modules["own_blocks"]


X = np.random.default_rng(0).standard_normal((20, 3))
Y = np.sign(X[:, 0] + 0.3)
LOSS = {"kind": "logistic", "l2": 0.1}
MINE = {"kind": "mine", "step_size": 0.1}


def scenario(data: Any = None, **keys: Any) -> dict[str, Any]:
    given = fedsim.arrays(X, Y) if data is None else data
    problem = {"loss": LOSS, "data": given, "split": {"kind": "iid", "clients": 2}}
    method = {"kind": "gd", "step_size": 0.1}
    return {"name": "own", "problem": problem, "algorithm": method, "stop": {"rounds": 2}, **keys}


def ends(out: Path) -> dict[str, int]:
    """Return when each run was made."""
    found = sorted(out.glob("*/*/summary.json"))
    return {str(path.relative_to(out)): path.stat().st_mtime_ns for path in found}


def remade(out: Path, told: list[str], *args: Any, **keys: Any) -> int:
    """Run a scenario; return how many complete runs were made again, and add what was told."""
    before = ends(out)
    fedsim.run(*args, out=out, tell=lambda note: told.append(note.text), **keys)
    after = ends(out)
    return sum(after[name] != moment for name, moment in before.items())


def test_the_same_values_are_the_same_run_and_others_are_not(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=np.where(Y > 0, "ill", "well"))
    pairs: list[tuple[Callable[[], Any], Callable[[], Any]]] = [
        (lambda: fedsim.arrays(X.copy(), Y), lambda: fedsim.arrays(X + 1e-12, Y)),
        (
            lambda: fedsim.table(frame.copy(), target="y"),
            lambda: fedsim.table(frame.replace("well", "good"), target="y"),
        ),
    ]
    for number, (same, other) in enumerate(pairs):
        out, told = tmp_path / str(number), list[str]()
        assert remade(out, told, scenario(same())) == 0
        assert remade(out, told, scenario(same())) == 0
        assert not [text for text in told if "again" in text]
        assert remade(out, told, scenario(other())) == 1
        assert "problem.data.digest" in " ".join(told)
        assert remade(out, told, scenario(same())) == 1  # it comes back
        assert "version" not in read_manifest(out / "base/seed-1")


def test_rows_that_have_changed_since_are_refused(tmp_path: Path) -> None:
    rows = X.copy()
    asked = scenario(fedsim.arrays(rows, Y))
    fedsim.run(asked, out=tmp_path)
    rows[0, 0] += 1.0
    with pytest.raises(DataError, match="the data has changed since it was handed over"):
        fedsim.run(asked, out=tmp_path)


VALUES: list[Any] = [
    *(None, True, 1, 1.0, -0.0, 0.0, 1j, "1", b"1", "", b"", [], (), {}, [1], (1,), [[1]], [1, 1]),
    *({"a": 1}, {"a": "1"}, {1: "a"}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, ["a", "b"], ["ab"]),
    *(np.float32(1), np.float64(1), np.ones(1), np.ones((1, 1)), np.ones(2), np.ones(1, np.int64)),
    *(np.array(["a"]), np.array(["2026-01-01"], "datetime64[D]"), [np.ones(2)], [0, np.ones(2)]),
]


def test_values_have_one_digest_each_and_nothing_else_has_any() -> None:
    digests = [digest_of(each) for each in VALUES]
    assert all(digests)
    assert len({*digests}) == len(VALUES)
    assert digests == [digest_of(pickle.loads(pickle.dumps(each))) for each in VALUES]
    assert digest_of(1, 2) not in {digest_of([1, 2]), digest_of(2, 1), digest_of(1), ""}
    endless: list[Any] = []
    endless.append(endless)
    others: tuple[Any, ...]
    others = print, int, object(), np, lambda: 1, {1}, iter([]), [print], endless, type("", (), {})
    assert [digest_of(each) for each in (*others, np.array([1], object))] == [""] * 11
    assert digest_of(print, 1) == digest_of(int, 1) != digest_of(print, 2)


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_code_is_made_again_with_one_line_unless_it_has_the_same_version(
    jobs: int, own: Any, tmp_path: Path
) -> None:
    out, told = tmp_path / "runs", list[str]()

    def again(**keys: Any) -> int:
        asked = scenario(algorithm=MINE, seeds=2)
        return remade(out, told, asked, blocks=[own.Mine], jobs=jobs, **keys)

    assert again() == 0
    assert told == []
    with pytest.warns(RunWarning, match=r"2 runs were made again.*\(Mine\).*version='1'") as warned:
        assert again() == 2
    assert [str(each.message) for each in warned] == told
    assert len(told) == 1
    assert "\n" not in told.pop()
    assert again(version="a") == 2  # nothing was known of what was there
    assert read_manifest(out / "base/seed-2")["version"] == "a"
    own.FACTOR = 2.0  # which the caller is trusted in
    assert again(version="a") == 0
    assert again(version="b") == 2
    assert again(version="a") == 2  # those of a, back from where they were
    assert told == []
    assert again() == 2
    assert len(told) == 1


@pytest.mark.parametrize("version", ["", " ", 3])
def test_a_version_is_a_text(version: Any) -> None:
    with pytest.raises(DataError, match=r"got .*; a version is a text of your choice"):
        fedsim.run("censoring", version=version)


def test_a_version_is_of_code_alone(tmp_path: Path) -> None:
    assert remade(tmp_path, [], small(), version="a") == 0
    assert remade(tmp_path, [], small(), version="b") == 0


# Plugins are known by their texts.


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("text", [OWN, "from own_blocks import Mine\n"])
def test_a_plugin_is_known_by_its_text_in_every_process(
    text: str, jobs: int, own: Any, tmp_path: Path
) -> None:
    """Also a class that it has from another file."""
    del own
    plugin, out, told = tmp_path / "plugin.py", tmp_path / "runs", list[str]()

    def again() -> int:
        return remade(
            out, told, scenario(algorithm=MINE), blocks=blocks_in([plugin]), jobs=jobs
        )  # fmt: skip

    plugin.write_text(text)
    assert (again(), again()) == (0, 0)
    plugin.write_text(f"{text}\nMine.unit = 2\n")
    assert (again(), again()) == (1, 0)
    assert told == []


def test_a_class_is_that_of_its_plugin_after_it_was_sent(own: Any, tmp_path: Path) -> None:
    (tmp_path / "plugin.py").write_text("from own_blocks import Mine as Renamed\n")
    assert plugins.is_handed_over(own.Mine)
    (model,) = blocks_in([tmp_path / "plugin.py"])
    sent = plugins.dump(model)
    plugins._offered.clear()  # as in another process
    assert pickle.loads(sent) is own.Mine
    assert not plugins.is_handed_over(own.Mine)


# A campaign that was cut off.


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list; the files of the user's code have the hash of its last item."""
    hashes = ["as they were"]
    monkeypatch.setattr(resuming, "hash_of_files", lambda: hashes[-1])
    return hashes


def cut_after(runs: int) -> Callable[[RunProgress], None]:
    """Return a callback for progress that interrupts a campaign after so many runs."""
    ended = set[int]()

    def watch(progress: RunProgress) -> None:
        if progress.seed not in ended and len(ended) == runs:
            raise KeyboardInterrupt
        if progress.ended:
            ended.add(progress.seed)

    return watch


def cut_off(own: Any, out: Path, runs: int = 2, **keys: Any) -> None:
    asked = scenario(algorithm=MINE, seeds=4)
    with pytest.raises(KeyboardInterrupt):
        fedsim.run(asked, blocks=[own.Mine], out=out, watch=cut_after(runs), **keys)


def test_a_campaign_that_was_cut_off_goes_on_and_a_finished_one_does_not(
    own: Any, tmp_path: Path, told: list[str]
) -> None:
    asked, notes = scenario(algorithm=MINE, seeds=4), list[str]()
    cut_off(own, tmp_path)
    cut_off(own, tmp_path, 3)  # and once more
    assert len(ends(tmp_path)) == 3
    assert remade(tmp_path, notes, asked, blocks=[own.Mine]) == 0
    assert len(ends(tmp_path)) == 4
    (note,) = notes
    assert "3 runs were kept from an interrupted call" in note
    assert remade(tmp_path, notes, asked, blocks=[own.Mine]) == 4
    assert "4 runs were made again" in notes[-1]
    cut_off(own, tmp_path)  # two are of this campaign, the third had begun, and one is complete
    assert remade(tmp_path, notes, asked, blocks=[own.Mine]) == 1
    assert told == ["as they were"]


@pytest.mark.parametrize("after", ["edited", ""])
def test_it_begins_anew_with_other_files_or_without_any(
    after: str, own: Any, tmp_path: Path, told: list[str]
) -> None:
    cut_off(own, tmp_path)
    told.append(after)
    assert remade(tmp_path, [], scenario(algorithm=MINE, seeds=4), blocks=[own.Mine]) == 2


def test_fresh_runs_are_those_of_the_campaign_that_makes_them(
    own: Any, tmp_path: Path, told: list[str]
) -> None:
    asked = scenario(algorithm=MINE, seeds=4)
    fedsim.run(asked, blocks=[own.Mine], out=tmp_path)
    cut_off(own, tmp_path, fresh=True)  # likewise
    assert remade(tmp_path, [], asked, blocks=[own.Mine]) == 1
    assert told


def test_runs_beside_one_that_has_failed_are_kept_while_the_code_is_as_it_was(
    own: Any, tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = scenario(algorithm=MINE, seeds=3)
    monkeypatch.setattr(own, "BROKEN", False)

    def failing(progress: RunProgress) -> None:
        own.BROKEN = progress.seed == 1 and progress.ended

    with pytest.raises(Unfinished):
        fedsim.run(asked, blocks=[own.Mine], out=tmp_path, watch=failing)
    own.BROKEN = False
    assert len(ends(tmp_path)) == 1
    assert remade(tmp_path, [], asked, blocks=[own.Mine]) == 0
    assert told


def test_files_have_no_hash_where_they_do_not_show_the_code(
    own: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "has_script", lambda: True)
    assert resuming.hash_of_files() == ""  # that of `own` is newer than this process
    monkeypatch.setattr(resuming, "LOADED", 2.0**40)
    first = resuming.hash_of_files()
    assert first
    assert resuming.hash_of_files() == first
    Path(own.__file__).write_text(f"{OWN}\n")
    assert resuming.hash_of_files() not in {"", first}
    monkeypatch.setattr(sys, "argv", [*sys.argv, "more"])
    Path(own.__file__).write_text(OWN)
    assert resuming.hash_of_files() not in {"", first}
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    assert resuming.hash_of_files() == ""  # a session, whose code is in no file


SCRIPT = """
import os, sys
import fedsim, own_blocks, numpy as np

def watch(progress):
    if progress.seed == 3 and os.path.exists("cut"):
        os._exit(9)

X = np.random.default_rng(0).standard_normal((20, 3))
problem = {
    "loss": {"kind": "logistic", "l2": 0.1},
    "data": fedsim.arrays(X, np.sign(X[:, 0])),
    "split": {"kind": "iid", "clients": 2},
}
method = own_blocks.Mine(step_size=0.1)
scenario = {"problem": problem, "algorithm": method, "stop": {"rounds": 2}, "seeds": 3}
fedsim.run(scenario, out="runs", watch=watch, tell=lambda note: print(note.text), check=False)
"""


@pytest.mark.slow
def test_a_script_goes_on_while_its_files_and_arguments_are_as_they_were(
    own: Any, tmp_path: Path
) -> None:
    del own
    (tmp_path / "script.py").write_text(SCRIPT)

    def run(*words: str, code: int = 0) -> str:
        asked = [sys.executable, "script.py", *words]
        done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout

    def cut() -> None:
        (tmp_path / "cut").touch()
        run(code=9)
        (tmp_path / "cut").unlink()

    cut()
    assert run().startswith("2 runs were kept from an interrupted call")
    cut()
    assert run("other").startswith("2 runs were made again")
    cut()
    (tmp_path / "own_blocks.py").write_text(f"{OWN}\nFACTOR = 2.0\n")
    assert run().startswith("2 runs were made again")


def test_an_optimum_is_that_of_the_loss_as_it_is(own: Any, tmp_path: Path) -> None:
    """None of such a loss is kept in the user's cache, from one call to the next."""

    def optimum(version: str | None) -> float:
        asked = scenario()
        asked["problem"]["loss"] = {**LOSS, "kind": "multiple"}
        out, blocks = tmp_path / "run", [own.Multiple]
        rounds = fedsim.run(asked, blocks=blocks, out=out, version=version).rounds
        return float((rounds["objective"] - rounds["gap"]).iloc[0])

    first = optimum(None)
    own.FACTOR = 2.0
    assert optimum(None) == pytest.approx(2 * first, rel=1e-6)
    assert optimum("a") == pytest.approx(2 * first, rel=1e-6)
    assert not list((tmp_path / "cache").rglob("*.json"))


def test_rows_to_test_on_are_part_of_the_problem(tmp_path: Path) -> None:
    file, found = tmp_path / "test.csv", []
    for label in (1, -1):
        rows = "\n".join(f"{a},{b},{c},{label}" for a, b, c in X)
        file.write_text(f"a,b,c,y\n{rows}\n")
        asked = scenario(measures=["test_accuracy"])
        asked["problem"]["test"] = {"kind": "csv", "path": str(file), "label": "y"}
        rounds = fedsim.run(asked, out=tmp_path / "run").rounds
        found.append(float(rounds["test_accuracy"].iloc[-1]))
    assert found[0] == pytest.approx(1 - found[1])
    assert found[0] != found[1]


def test_a_typed_in_class_is_code(tmp_path: Path) -> None:
    """As those of a notebook's cells."""
    inside: dict[str, Any] = {"__name__": "nowhere"}
    exec(OWN, inside)  # noqa: S102 - as a notebook does
    model: type[Spec] = inside["Mine"]
    told: list[str] = []
    assert remade(tmp_path, told, scenario(algorithm=MINE), blocks=[model]) == 0
    assert remade(tmp_path, told, scenario(algorithm=MINE), blocks=[model]) == 1
    assert len(told) == 1
