"""Reading YAML 1.2: values, lines, and every way in which a file can be no scenario."""

import math
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from fedsim.core.errors import Fault, ScenarioError
from fedsim.scenario.located import DEEPEST, Located, Origin, locate
from fedsim.scenario.yaml import MOST, read_text
from tests.tiers import every, examples


def tree(text: str) -> Located:
    read, repeated = read_text(text, lambda line: Origin("f", line))
    assert repeated == []
    return read


def refused(text: str) -> tuple[Fault, ...]:
    with pytest.raises(ScenarioError) as caught:
        read_text(text, lambda line: Origin("f", line))
    return caught.value.faults


@every(
    ("text", "value"),
    [
        ("1e-3", 0.001),
        ("1E5", 1e5),
        ("-.5", -0.5),
        ("12", 12),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        (".inf", math.inf),
        ("true", True),
        ("yes", "yes"),
        ("on", "on"),
        ("no", "no"),
        ("~", None),
        ("null", None),
        ("", None),
        ("'5'", "5"),
        ("5 Mbit/s", "5 Mbit/s"),
        ("1:30", "1:30"),
        ("2001-01-01", "2001-01-01"),
        ("=", "="),
        ("!!str 5", "5"),
        ("1/L", "1/L"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(text: str, value: object) -> None:
    plain = tree(f"a: {text}").plain()["a"]
    assert plain == value
    assert type(plain) is type(value)


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=15,
)


@example({"?0": None}, True)
@example(["?a", "?", ["?"], {"?": "?,"}], True)
@given(documents, st.sampled_from([True, False, None]))
def test_what_the_library_writes_is_read_back(value: Any, flow: bool | None) -> None:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = flow
    yaml.allow_unicode = False  # left as it is, a line end of Unicode's is folded away
    yaml.width = 10**6  # where the writer folds a line it loses a space beside a control character
    stream = StringIO()
    yaml.dump(value, stream)
    assert tree(stream.getvalue()).plain() == value
    assert locate(value, Origin()).plain() == value


def test_every_key_knows_its_line() -> None:
    read = tree("# first\na:\n  b: 1\n  c:\n    - x\n    - {d: 2,\n       e: 3}\nf: |\n  text\n")
    lines = {
        (): 2,
        ("a",): 2,
        ("a", "b"): 3,
        ("a", "c"): 4,
        ("a", "c", 0): 5,
        ("a", "c", 1): 6,
        ("a", "c", 1, "d"): 6,
        ("a", "c", 1, "e"): 7,
        ("f",): 8,
    }
    for path, line in lines.items():
        piece, depth = read.nearest(path)
        assert (piece.origin, depth) == (Origin("f", line), len(path))


def test_what_is_not_there_has_the_line_of_the_block_around_it() -> None:
    read = tree("a:\n  b: [1, 2]\n")
    assert read.fault(("a", "b", 7, "c"), "no").where == "f:2"
    assert read.fault(("a", "x", "y"), "no") == Fault("f:1", "a.x.y", "no")
    assert read.fault(("z",), "no").where == "f:1"


def test_an_alias_is_the_value_again() -> None:
    read = tree("a: &rate 5 Mbit/s\nb: *rate\nc: &rate 6\nd: *rate\n")
    assert read.plain() == {"a": "5 Mbit/s", "b": "5 Mbit/s", "c": 6, "d": 6}
    assert read.nearest(("b",))[0].origin.line == 2


def test_every_repeated_key_is_listed_with_both_lines() -> None:
    text = "a: 1\nb: {c: 1,\n c: 2}\na: 2\nd: 3\na: 4\n"
    read, repeated = read_text(text, lambda line: Origin("f", line))
    assert [(each.where, each.key) for each in repeated] == [
        ("f:3", "b.c"),
        ("f:4", "a"),
        ("f:6", "a"),
    ]
    assert [each.message for each in repeated] == [
        "written twice; the first is at f:2",
        "written twice; the first is at f:1",
        "written twice; the first is at f:1",
    ]
    assert read.plain() == {"a": 1, "b": {"c": 1}, "d": 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a: 1\n\tb: 2", 2, "'\\t'"),
        ("a: [1,\n2", 2, "expected"),
        ("a: 'x\n\n", 3, "end of stream"),
        ("a: 1\nb: -", 2, "sequence entries"),
        ("a: 1\n b: 2", 2, "indented differently from line 1"),
        ("a: 1\n---\nb: 2", 2, "another document"),
        ("a: *nowhere", 1, "undefined alias"),
        ("a: 1\nb: \x01", 2, "not allow"),
        ("%YAML 2.0\n---\na: 1", 1, "version"),
        ("[" * 2000, 1, "deep"),
    ],
)
def test_a_slip_of_syntax_is_one_fault_with_its_line(text: str, line: int, words: str) -> None:
    (fault,) = refused(text)
    assert (fault.where, fault.key) == (f"f:{line}", "")
    assert fault.message.startswith("not YAML 1.2: ")
    assert words in fault.message
    assert "\n" not in fault.message


@every(
    ("text", "where", "key", "words"),
    [
        ("a: !!python/object/apply:os.getcwd []", "f:1", "a", "a scenario holds data only"),
        ("a: !!python/name:os.system", "f:1", "a", "a scenario holds data only"),
        ("a:\n  b: !mine {c: 1}", "f:2", "a.b", "the tag !mine"),
        ("a: !!set {x}", "f:1", "a", "a scenario holds data only"),
        ("a: !!binary aGk=", "f:1", "a", "a scenario holds data only"),
        ("!!omap []", "f:1", "", "a scenario holds data only"),
        ("a: !!int five", "f:1", "a", "got five, which is no int"),
        ("a: !!bool 5", "f:1", "a", "which is no bool"),
        ("a: 0x_", "f:1", "a", "which is no int"),
        ("a: " + "9" * 5000, "f:1", "a", "which is no int"),
        ("a: 0x" + "f" * 5000, "f:1", "a", "which is no int"),
        ('a: "\\ud800"', "f:1", "a", "half of a surrogate pair"),
        ("a: &a [1, *a]", "f:1", "a.1", "an alias that contains itself"),
        ("a:\n  b: &b\n    c: *b", "f:3", "a.b.c", "an alias that contains itself"),
        ("a: 1\n<<: {b: 2}", "f:2", "", "merge keys"),
        ("a:\n  ? [1, 2]\n  : 3", "f:2", "a", "as a key"),
    ],
)
def test_what_no_data_could_be_is_refused(text: str, where: str, key: str, words: str) -> None:
    (fault,) = refused(text)
    assert (fault.where, fault.key) == (where, key)
    assert words in fault.message


def test_reading_runs_nothing(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for tag in ("apply:pathlib.Path.touch", "new:pathlib.Path", "apply:os.mkdir"):
        (fault,) = refused(f"a: !!python/object/{tag} ['{mark}']")
        assert "a scenario holds data only" in fault.message
    assert not mark.exists()


def test_several_refusals_come_together() -> None:
    found = refused("a: !x 1\nb: &b [*b]\nc: 1\nc: 2\n")
    assert [fault.where for fault in found] == ["f:1", "f:2", "f:4"]


@pytest.mark.slow
def test_aliases_of_aliases_do_not_blow_up() -> None:
    first = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"
    others = (f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30))
    (fault,) = refused("\n".join((first, *others)))
    assert f"more than {MOST} values" in fault.message


def test_blocks_within_blocks_end_somewhere() -> None:
    def nested(depth: int) -> str:
        return "".join(f"{' ' * level}a:\n" for level in range(depth))

    assert tree(nested(DEEPEST - 1)).nearest(("a",) * 1000)[1] == DEEPEST - 1
    assert f"more than {DEEPEST} deep" in refused(nested(DEEPEST + 1))[0].message


TOKENS = (
    "a|b: |- |{|}|[|]|,|\n|  |&a |*a|!!int |!x |'|\"|> |%YAML 1.1\n|---\n|? |<<: |~|1e-3|0x|\t|#"
)


@examples(300)
@given(
    st.text(max_size=80) | st.lists(st.sampled_from(TOKENS.split("|")), max_size=25).map("".join)
)
def test_any_text_is_read_or_refused(text: str) -> None:
    faults: list[Fault] = []
    try:
        read, faults = read_text(text, lambda line: Origin("f", line))
        read.plain()
    except ScenarioError as error:
        faults.extend(error.faults)
    assert all(fault.where.startswith("f:") for fault in faults)
    assert all(fault.message.isprintable() for fault in faults)
