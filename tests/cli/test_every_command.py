"""Every command and every public function on every kind of scenario, and of folder.

Each ends well, or is refused in one readable block: none in a traceback. What is refused stands in
a table, so that nothing begins to be refused unseen.
"""

import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import matplotlib.figure
import pytest
import typer
from typer.testing import CliRunner

import fedsim
from fedsim.addons.robustness.result import Robustness
from fedsim.cli import app
from fedsim.core.errors import FedsimError
from fedsim.results.analysis import Comparison
from fedsim.results.display import Shown
from tests.tiers import every, missing, some

from .kinds import BASE, KINDS, fleet, write_data, write_scenario

DRAWN = ("no-fleet", "all-leave", "stop-at-once", "no-optimum")
"""Kinds of which every figure is drawn; to draw all would take longer than all else."""

MADE_AGAIN = "rounds that are not numbers alone"
"""Why runs have to be made again in each world."""

NO_VERDICT = {
    "one variant": (
        "no-fleet",
        "one-client",
        "one-variant-one-seed",
        "sparse",
        "stop-by-the-clock",
    ),
    "no constant": ("no-fleet-two-variants-two-seeds",),
    MADE_AGAIN: ("lossy", "graph-and-tree"),
    "nobody reaches the target": ("stop-not-reached",),
}
"""Kinds of which `robust` says nothing, and why."""

OTHER_DECISIONS = ("deadline", "closes-early", "asynchronous", "peers")
"""Kinds of which another fleet could decide otherwise, so that they are not priced again."""

NO_ROUND = ("all-leave", "stop-at-once")
"""Kinds of which no round ends, whose log could go on."""


FAILING = ("diverging", "all-leave")
"""Kinds of which a run does not end well."""


class Place(NamedTuple):
    """A kind of scenario, and its runs."""

    kind: str
    file: Path
    out: Path


def invoke(*words: str | Path) -> tuple[int, str]:
    """Give a command; return its exit code and, unless it ended well, what it said.

    Raises:
        AssertionError: it ended in a traceback, or refused without a word.
    """
    ended = CliRunner().invoke(app, [str(word) for word in words])
    said = ended.stderr.strip()
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise AssertionError(f"{words}: {ended.exception!r}") from ended.exception
    assert ended.exit_code in (0, 1, 2), (words, ended.exit_code)
    assert ended.exit_code == 0 or said, words
    assert "Traceback" not in ended.output, words
    return ended.exit_code, said


def drawn(figure: matplotlib.figure.Figure, target: Any, **_: object) -> None:
    """Draw a figure, and save it in less time than its pixels take."""
    figure.draw_without_rendering()
    target.write(b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 1 1'/>")


@contextmanager
def cheap_figures(kind: str) -> Iterator[None]:
    """Save no pixels, and make figures of few kinds only: that takes longer than all else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matplotlib.figure.Figure, "savefig", drawn)
        if kind not in DRAWN:
            patch.setattr(Comparison, "figures", lambda _, **__: {})
            patch.setattr(Robustness, "figures", lambda _: {})
            patch.setattr(Shown, "_draw", lambda *_: matplotlib.figure.Figure())
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the rows of all scenarios."""
    folder = tmp_path_factory.mktemp("kinds")
    write_data(folder)
    return folder


@pytest.fixture(scope="module", params=some(KINDS, "no-fleet", "batteries-and-carbon"))
def place(request: pytest.FixtureRequest, data: Path) -> Iterator[Place]:
    """Yield a scenario of each kind and its runs, made once."""
    kind = request.param
    if kind == "torch" and (reason := missing("torch")):
        pytest.skip(reason)
    file, out = data / f"{kind}.yaml", data / "runs" / kind
    write_scenario(KINDS[kind], file)
    with cheap_figures(kind):
        code, said = invoke("run", file, "--out", out)
        assert code == (1 if kind in FAILING else 0), said
        yield Place(kind, file, out)


def commands(place: Place) -> dict[str, Sequence[str | Path]]:
    """Return the commands that read a scenario or its runs, each by what it is called here."""
    _, file, out = place
    base = next(path for path in sorted(out.iterdir()) if path.is_dir())
    at = "--base", file.parent
    return {
        "check": ("check", file),
        "run again": ("run", file, "--out", out),
        "status": ("status", out),
        "status of a scenario": ("status", file, "--out", out),
        "clean": ("clean", out, "--yes"),
        "history": ("history", out),
        "diff": ("diff", file, file),
        "diff of runs": ("diff", out, out),
        "compare": ("compare", out),
        "compare at a target": ("compare", base, "--target", "objective=1e9"),
        "report": ("report", out),
        "trace": ("trace", out, "--gzip"),
        "trace of a round": ("trace", base, "--rounds", "1:1", "--clients", "0:0"),
        "reprice": ("reprice", out, "--set", "name=again", *at),
        "robust": ("robust", out, "--worlds", "8"),
        "robust, made again": ("robust", out, "--worlds", "8", "--runs", "3", *at),
    }


def refused(kind: str) -> set[str]:
    """Return the commands that are refused for a kind of scenario."""
    found = {"reprice", "robust"} if kind in (*OTHER_DECISIONS, *NO_ROUND) else set[str]()
    why = [reason for reason, kinds in NO_VERDICT.items() if kind in kinds]
    if why:
        found.add("robust")
    if kind in NO_ROUND or set(why) - {MADE_AGAIN}:
        found.add("robust, made again")
    if kind in FAILING:
        found |= {"run again", "reprice"}
    if kind == "stop-by-the-clock":  # it ended within a round
        found.add("reprice")
    if kind == "stop-at-once":  # the others begin a round, which the trace has
        found.add("trace of a round")
    return found


@pytest.mark.slow
def test_commands_end_well_or_are_refused(place: Place) -> None:
    ended = {name: invoke(*words) for name, words in commands(place).items()}
    failed = {name: said for name, (code, said) in ended.items() if code}
    assert failed.keys() == refused(place.kind), failed


FREE: Sequence[Sequence[str]] = (
    ("list",),
    ("list", "all"),
    ("list", "compressors", "top-k"),
    ("examples",),
    ("examples", "quickstart"),
    ("schema",),
    ("fetch",),
)
"""Commands that read no scenario of a user's."""

ELSEWHERE = {
    "bench": "tests/addons/bench",
    "crate": "tests/addons/crate",
    "init": "tests/cli/test_starting.py",
    "calibrate": "tests/addons/calibration",
    "conformance": "tests/plugins",
    "explore": "tests/addons/explorer",
    "join": "tests/addons/live",
    "live": "tests/addons/live",
    "paper": "tests/addons/paper",
    "serve": "tests/addons/live",
    "watch": "tests/cli/test_watch.py",
}
"""Commands that write a scenario or a page, take a plugin, or wait for others, and their tests."""


def test_no_command_is_left_out(data: Path) -> None:
    (data / "out" / "base").mkdir(parents=True)
    named = set(getattr(typer.main.get_command(app), "commands"))  # noqa: B009 - untyped
    given = {words[0] for words in commands(Place("", data, data / "out")).values()}
    assert named == given | {words[0] for words in FREE} | set(ELSEWHERE)


@pytest.mark.slow
@every("words", FREE)
def test_commands_without_a_scenario_end_well(words: Sequence[str]) -> None:
    assert invoke(*words)[0] == 0


Call = Callable[[Place], object]

FUNCTIONS: Mapping[str, Call] = {
    "run": lambda at: fedsim.run(at.file, out=at.out),
    "check": lambda at: repr(fedsim.check(at.file)),
    "load": lambda at: fedsim.load(at.file),
    "open": lambda at: fedsim.open(at.out),
    "reprice": lambda at: fedsim.reprice(at.out, [], at.out / "again", base=at.file.parent),
    "robust": lambda at: fedsim.robust(at.out, worlds=8),
}
"""The public functions that take a scenario or a folder."""

OTHERS = {"arrays", "dataset", "table", "explore", "Scenario", "Result"}
"""What is public beside them and the errors: what scenarios hold, what is returned, and `explore`,
which has tests of its own."""


def draw_network(result: fedsim.Result) -> None:
    """Draw who has sent what to whom, or be refused where nothing was sent."""
    if len(result.edges):
        result.plot_network()
    else:
        with pytest.raises(fedsim.DataError, match="no message was sent"):
            result.plot_network()


def ask_for_nodes(result: fedsim.Result) -> None:
    """Ask for the models of nodes, which are kept among peers alone, where a scenario asks."""
    with pytest.raises(ValueError, match=r"models of its nodes|no run"):
        result.node_models(seed=1)


def find_causes(result: fedsim.Result) -> None:
    """Take the costs of two variants apart, or be refused where they do not differ."""
    first, *others = result.compare().runs.labels
    with suppress(fedsim.DataError):
        result.causes(first, next(iter(others), first))


METHODS: Mapping[str, Callable[[fedsim.Result], object]] = {
    "plot": lambda result: result.plot(),
    "plot_network": draw_network,
    "compare": lambda result: repr(result.compare()),
    "causes": find_causes,
    "report": lambda result: result.report(),
    "model": lambda result: result.model(seed=1),
    "node_models": ask_for_nodes,
    "scenario": lambda result: result.scenario(seed=1),
    "__repr__": repr,
    "_repr_html_": lambda result: result._repr_html_(),
}
"""The methods of a result."""

AS_COMMANDS = ("robust", "report")
"""What the commands of these names do of every kind, and is called of `DRAWN` alone besides."""


@pytest.mark.slow
def test_functions_return_or_raise_an_error_of_fedsim(place: Place) -> None:
    failed = set[str]()
    left = () if place.kind in DRAWN else AS_COMMANDS
    called = [name for name in FUNCTIONS if name not in left]
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(Shown, "_strip", lambda _: matplotlib.figure.Figure((1, 1)))
        warnings.simplefilter("ignore", fedsim.TheoryWarning)
        for name in called:
            try:
                FUNCTIONS[name](place)
            except FedsimError:
                failed.add(name)
        result = fedsim.open(place.out)
        for name in (each for each in dir(result) if not each.startswith("_")):
            if name not in METHODS:
                getattr(result, name)
        for name, method in METHODS.items():
            if name not in left:
                method(result)
    assert failed == refused(place.kind) & {*called}


def test_no_public_function_is_left_out() -> None:
    errors = {name for name in fedsim.__all__ if issubclass(_class(name), (FedsimError, Warning))}
    assert set(fedsim.__all__) == FUNCTIONS.keys() | OTHERS | errors
    methods = {name for name, each in vars(fedsim.Result).items() if isinstance(each, FunctionType)}
    generated = {"__init__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__replace__"}
    assert methods - generated == METHODS.keys()


def _class(name: str) -> type:
    """Return a public class, or one that is no error."""
    found = getattr(fedsim, name)
    return found if isinstance(found, type) else object


def stopped_by_a_user(out: Path, file: Path) -> None:
    """Interrupt a run after its first round."""

    def watch(reached: Any) -> None:
        if reached.round == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fedsim.run(file, out=out, watch=watch)


def killed_before_the_summary(out: Path, file: Path) -> None:
    """Make runs, and take the last file that a run writes."""
    fedsim.run(file, out=out)
    for summary in out.rglob("summary.json"):
        summary.unlink()


def killed_in_the_first_moment(out: Path, file: Path) -> None:
    """Make a folder as it is before a run has written anything but its scenario."""
    killed_before_the_summary(out, file)
    for path in sorted(out.rglob("*"), reverse=True):
        if path.is_file() and path.name not in ("scenario.yaml", "study.json"):
            path.unlink()


def with_drafts(out: Path, file: Path) -> None:
    """Make a folder as a kill leaves it: with drafts, a holder, and half of the runs."""
    killed_before_the_summary(out / "aside", file)
    shutil.move(out / "aside" / "base", out / "base")
    (out / "study.json").write_bytes((out / "aside" / "study.json").read_bytes())
    shutil.rmtree(out / "aside")
    (out / "base/seed-1/events.parquet.99-0.aside").write_bytes(b"PAR1")
    (out / ".lock.json").write_text("{")


def with_other_files(out: Path, _: Path) -> None:
    """Make a folder that holds no run."""
    out.mkdir()
    (out / "notes.txt").write_text("mine")


STATES: Mapping[str, Callable[[Path, Path], object]] = {
    "empty": lambda out, _: out.mkdir(),
    "of other files": with_other_files,
    "a file": lambda out, _: out.write_text("mine"),
    "missing": lambda *_: None,
    "stopped by a user": stopped_by_a_user,
    "killed before the summary": killed_before_the_summary,
    "killed in the first moment": killed_in_the_first_moment,
    "killed, with drafts": with_drafts,
}
"""Folders that hold no whole run, and what makes them."""

READERS = ("compare", "report", "trace", "reprice", "robust", "status", "clean", "history")


@pytest.mark.parametrize("state", STATES)
def test_folders_without_a_whole_run(state: str, data: Path, tmp_path: Path) -> None:
    scenario = fleet({"data": {**BASE["problem"]["data"], "path": str(data / "rows.csv")}})
    file, out = tmp_path / "small.yaml", tmp_path / "out"
    write_scenario(scenario, file)
    STATES[state](out, file)
    kept = ("trace", "status", "clean", "history")  # how far runs have come can be told
    with cheap_figures(""):
        for name in READERS:
            given = ("--set", "name=again") if name == "reprice" else ()
            code, said = invoke(name, out, *given)
            assert code == 2 or (name in kept and out.is_dir()), (name, said)
        code, said = invoke("run", file, "--out", out)
        assert code == (2 if state == "a file" else 0), said
        if code == 0:  # what was cut off is made, and nothing of it left
            assert invoke("compare", out)[0] == 0
            assert not [*out.rglob("*.aside")]


def test_an_override_that_no_variant_takes_is_refused(data: Path) -> None:
    file = data / "swept.yaml"
    write_scenario(KINDS["a-sweep"], file)
    told = "no variant takes this value: the sweep sets it"
    assert told in invoke("check", file, "--set", "fleet.0.radio=nb-iot")[1]
    twice = ("--set", "fleet.1.radio=ble", "--set", "fleet=[{count: 3}]")
    assert invoke("check", file, "--set", "sweep={}", *twice)[0] == 0  # the last one wins
    assert invoke("check", file, "--set", "fleet.1.radio=ble")[0] == 0
    assert invoke("check", file, "--set", "fleet.1.radio=wifi")[0] == 0  # as it is written


def test_a_variant_that_an_override_adds_is_named(data: Path) -> None:
    file = data / "added.yaml"
    write_scenario(fleet(), file)
    code, said = invoke("check", file, "--set", "variants.chbb.algorithm.step_size=0.1/L")
    assert code == 0
    assert "note: chbb: variants: an override adds this variant; the scenario has" in said
    assert "did you mean 'chb'?" in said
    for known in ("variants.chb.algorithm.censor=0.2", "variants={}", "variants={one: {}}"):
        assert "adds" not in invoke("check", file, "--set", known)[1]


@pytest.mark.slow
def test_repricing_that_changes_nothing_says_so(data: Path, tmp_path: Path) -> None:
    scenario = fleet({"data": {**BASE["problem"]["data"], "path": str(data / "rows.csv")}})
    fedsim.run(scenario, out=tmp_path / "out")
    for written in ("fleet.0.radio=lte", "seed=1", "sweep={}", "stop.rounds=3"):
        words = "reprice", tmp_path / "out", "--out", tmp_path / "same", "--set", written
        code, said = invoke(*words)
        assert code == 0
        assert f"--set {written} changes nothing" in said
    code, said = invoke(*words[:-1], "fleet.2.radio=ble")
    assert code == 2
    assert "fleet has 2 items, numbered from 0" in said
    code, said = invoke(*words[:-1], "fleet.0.radio=ble")
    assert (code, said) == (0, "")
