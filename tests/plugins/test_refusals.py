"""What cannot be used as a plugin, or in one: one readable error, and nothing has run."""

from pathlib import Path

import pytest

from fedsim.cli.app import TRACEBACK

from .files import COMPRESSOR, DEVICE, LOSSES, NAMED, SPLIT
from .test_commands import invoke, scenario, summary, written

__all__ = ["scenario"]

WITHOUT = {
    "contract": COMPRESSOR.partition("    def contract")[0],
    "compress": COMPRESSOR.replace("def compress(", "def squeeze("),
    "law": COMPRESSOR.replace("    law: ", "    _law: "),
    "source": COMPRESSOR.replace("    source: ", "    _source: "),
    "kind": COMPRESSOR.replace('kind: Literal["every-other"] = "every-other"', 'kind: str = "x"'),
}
LACKS = {
    "contract": "has no `contract`. It must return the class and the constant for the worst vector",
    "compress": "has no `compress`. It must return the payload of a vector; its `values` are the",
    "law": "has no `law`. It must state the class and constant of its bound, human-readable",
    "source": "has no `source`. It must state the paper that defines it, human-readable",
    "kind": "has no `kind` of its own by which a scenario could name it. It must have a line such"
    ' as kind: Literal["every-other"] = "every-other"',
}
DEVICES = {
    "seconds": "has no `seconds`. It must return how long a task takes without its slowdown, s",
    "working": "has no `working`. It must return the power that it draws while it computes, W, its"
    " idle power included",
}
WRONG = {
    "def f(:\n": "line 1: SyntaxError",
    "import no_such_module\n": "line 1: ModuleNotFoundError: No module named 'no_such_module'",
    "x = 1\nclass Mine(Compresor): pass\n": "line 2: NameError: name 'Compresor' is not defined",
    "def f():\n    return 1 / 0\nf()\n": "line 2: ZeroDivisionError",
    "import sys\nsys.exit(3)\n": "line 2: SystemExit: 3",
    "\0": "cannot be used",
    "x = 1\n": "has no block: none of its classes is a subclass of any of Algorithm, Loss",
    "from fedsim.wire import TopK\n": "has no block",
    COMPRESSOR.replace("every-other", "top-k"): "'top-k' is that of fedsim's own TopK",
    COMPRESSOR.replace("stride: int", "stride: range"): "EveryOther cannot be used as a compressor:"
    " its fields cannot be read from a file: Unable to generate pydantic-core schema for <class"
    " 'range'>",
    COMPRESSOR.replace("stride: int", "stride: 'Integer'"): "the types of its fields are not known:"
    " name 'Integer' is not defined",
    COMPRESSOR.replace("(self, dimension)", "(self)"): "`contract` takes (self), but is called with"
    " (self, dimension)",
}


PEER = '''\
from typing import ClassVar, Literal

from fedsim.algorithms import PeerAlgorithm


class Idle(PeerAlgorithm):
    """A method of peers."""

    kind: Literal["idle"] = "idle"
    source: ClassVar[str] = "nobody"
    step_size: float = 0.1

    LIVE
'''
LIVES = {
    "": "Idle cannot be used as an algorithm: it has no `live`. It must run a node: exchange with",
    "async def live(self): ...": "its `live` takes (self), but is called with (self, node)",
    "def live(self, node): ...": "its `live` cannot be awaited. It must begin with async def",
}


def refused(*command: str | Path) -> str:
    """Return what a command says that is refused, in one block, without a traceback."""
    result = invoke(*command)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    assert not result.stdout
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("part", LACKS)
def test_a_block_that_lacks_a_part_is_refused_with_what_it_is_for(
    part: str, scenario: Path, tmp_path: Path
) -> None:
    mine, out = written(tmp_path, WITHOUT[part]), tmp_path / "out"
    said = refused("run", scenario, "--out", out, "--plugin", mine)
    assert f"EveryOther cannot be used as a compressor: it {LACKS[part]}" in said
    assert not out.exists()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def mean(", "def other(", "it has no `mean`. It must state the share of packets lost in"),
        (
            "    @property\n",
            "",
            "its `mean` is a method, and is read as a value. Put @property above",
        ),
        (
            "def process(",
            "process = property(lambda self: 1)\n    def x(",
            "its `process` is no method",
        ),
    ],
)
def test_a_value_is_asked_for_as_a_value_and_a_method_as_a_method(
    old: str, new: str, words: str, scenario: Path, tmp_path: Path
) -> None:
    said = refused("check", scenario, "--plugin", written(tmp_path, LOSSES.replace(old, new)))
    assert f"EveryNth cannot be used as a packet loss: {words}" in said


@pytest.mark.parametrize("part", DEVICES)
def test_a_device_that_lacks_a_law_is_refused_with_what_it_is_for(
    part: str, scenario: Path, tmp_path: Path
) -> None:
    mine = written(tmp_path, DEVICE.replace(f"def {part}(", "def other("))
    said = refused("check", scenario, "--plugin", mine)
    assert f"Roofline cannot be used as a device: it {DEVICES[part]}" in said


def test_a_device_is_refused_where_its_work_would_save_energy(
    scenario: Path, tmp_path: Path
) -> None:
    mine, (_, override) = written(tmp_path, DEVICE), NAMED["device"]
    command = ("check", scenario, "--plugin", mine, "--set")
    said = refused(*command, override.replace("active: 3 W", "active: 500 mW"))
    assert "fleet.0.device.active" in said
    assert 'got "0.5 W", which is less than idle, "1 W"' in said
    assert "did you mean 'roofline'?" in refused(*command, override.replace("line", "lime"))


@pytest.mark.parametrize(
    ("other", "seen"), [("-1 * max(", "take -0."), ("1e999 * max(", "take inf")]
)
def test_work_that_ends_before_it_begins_or_never_ends_the_run(
    other: str, seen: str, scenario: Path, tmp_path: Path
) -> None:
    mine, out = written(tmp_path, DEVICE.replace("max(", other)), tmp_path / "out"
    sets = ("--set", NAMED["device"][1])
    result = invoke("run", scenario, "--out", out, "--plugin", mine, *sets)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    said = " ".join(result.stderr.split())
    assert seen in said
    assert "on the device roofline of client 0; its `seconds`" in said
    assert summary(out)["status"] == "work-duration"


@pytest.mark.parametrize("live", LIVES)
def test_a_method_of_peers_that_does_not_live(live: str, scenario: Path, tmp_path: Path) -> None:
    mine, out = written(tmp_path, PEER.replace("LIVE", live)), tmp_path / "out"
    keys = ("--set", "algorithm={kind: idle}", "--set", "network.peers={kind: ring}")
    assert LIVES[live] in refused("run", scenario, "--out", out, *keys, "--plugin", mine)
    assert not out.exists()


@pytest.mark.parametrize("text", WRONG)
def test_a_file_that_cannot_be_used(text: str, scenario: Path, tmp_path: Path) -> None:
    mine, out = written(tmp_path, text), tmp_path / "out"
    said = refused("run", scenario, "--out", out, "--plugin", mine)
    assert WRONG[text] in said
    assert not out.exists()


def test_the_line_that_failed_is_shown(scenario: Path, tmp_path: Path) -> None:
    said = refused("check", scenario, "--plugin", written(tmp_path, "x = 1\nclass A(Nobody): x\n"))
    assert said.endswith("class A(Nobody): x")


@pytest.mark.parametrize("command", [["check", "small.yaml"], ["list"], ["schema"]])
def test_a_file_that_is_not_there(
    command: list[str], scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = refused(*command, "--plugin", "nowhere.py")
    assert said == "the plugin nowhere.py cannot be read: No such file or directory"
    assert "Is a directory" in refused(*command, "--plugin", tmp_path)


def test_two_files_with_one_name(scenario: Path, tmp_path: Path) -> None:
    one = written(tmp_path, SPLIT, "one.py")
    two = written(tmp_path, SPLIT.replace("Dealt", "Cards"), "two.py")
    said = refused("check", scenario, "--plugin", one, "--plugin", two)
    assert (
        "Cards (two.py) cannot be used as a split: its kind 'round-robin' is that of Dealt" in said
    )
    assert "(one.py)" in said


def test_every_block_that_cannot_be_used_is_named_at_once(scenario: Path, tmp_path: Path) -> None:
    both = f"{WITHOUT['law']}\n\n{SPLIT.replace('def assign', 'def deal')}"
    said = refused("check", scenario, "--plugin", written(tmp_path, both))
    assert "EveryOther cannot be used as a compressor" in said
    assert "Dealt cannot be used as a split" in said
    assert "has no `assign`" in said


def test_what_is_only_there_for_others_and_what_is_private_is_no_block(
    scenario: Path, tmp_path: Path
) -> None:
    base = SPLIT.replace('    kind: Literal["round-robin"] = "round-robin"\n', "").replace(
        "Dealt", "Cards"
    )
    child = '\n\nclass Dealt(Cards):\n    kind: Literal["round-robin"] = "round-robin"\n'
    private = SPLIT.replace("Dealt", "_Hidden")
    mine = written(tmp_path, f"{base}{child}\n\n{private}")
    result = invoke("check", scenario, "--set", "problem.split.kind=round-robin", "--plugin", mine)
    assert result.exit_code == 0, result.output


BROKEN = '''
from typing import Literal

from fedsim.algorithms import GradientDescent


class Broken(GradientDescent):
    """It fails as its round begins, or as a client answers."""

    kind: Literal["broken"] = "broken"

    async def PART(self, *nodes):
        return {}["nothing"]  # the line
'''


@pytest.mark.parametrize("part", ["serve", "handle"])
@pytest.mark.parametrize("command", ["check", "run"])
def test_the_line_of_a_method_that_fails_comes_first_and_ours_on_demand(
    part: str, command: str, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = written(tmp_path, BROKEN.replace("PART", part))
    place = ["--out", str(tmp_path / "out")] if command == "run" else []
    words: list[str | Path] = [
        command,
        scenario,
        "--plugin",
        mine,
        "--set",
        "algorithm={kind: broken, step_size: 1/L}",
        *place,
    ]
    failed = invoke(*words)
    assert failed.exit_code == 1, failed.output
    lines = failed.stderr.splitlines()
    first = lines.index(f"{mine}:13, in {part}")
    assert lines[first + 1 : first + 3] == [
        '    return {}["nothing"]  # the line',
        "KeyError: 'nothing'",
    ]
    assert lines[-1] == "FEDSIM_TRACEBACK=1 shows the whole traceback"
    assert "Traceback" not in failed.output
    assert ".py" not in "".join(lines[first + 1 :])
    monkeypatch.setenv(TRACEBACK, "1")
    assert isinstance(invoke(*words).exception, KeyError)


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("quux", ". One of: chb, "), ("gdd", "; did you mean 'gd'? `fedsim list algorithms`")],
)
def test_a_kind_of_a_forgotten_plugin(kind: str, hint: str, scenario: Path) -> None:
    said = refused("check", scenario, "--set", f"algorithm={{kind: {kind}}}")
    assert f'got "{kind}"{hint}' in said
    assert "If a file of yours defines it, pass --plugin FILE (in Python: blocks=[...])" in said


def test_a_kind_that_no_user_can_define_needs_no_plugin(scenario: Path) -> None:
    said = refused("check", scenario, "--set", "infrastructure.kind=moble")
    assert "did you mean 'mobile'?" in said
    assert "--plugin" not in said
