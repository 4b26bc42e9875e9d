"""Mutants are made as they are told, and noticed or not as the tests are."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cosmic_ray.mutating import mutate_code

from .copies import load_libraries, make_copy
from .exchange import exchange, functions_of, same_at_import
from .listed import SAMPLE, Listed, listed, sources_of
from .operators import operators
from .packages import LEFT_OUT, ROOMS, ROOT, asked, room_of, sources
from .packages import tests_of as made_for
from .places import Change, Place, change, mutated, places, sample
from .reach import Reach
from .results import ALIVE, EXCUSED, KILLED, REASONS, UNREACHED, Trial, outcome, reasons, table
from .trials import Trials

SOURCE = '''
"""A text."""
__all__ = ["f"]


def f(x: int | None = None, *, flag: bool = True) -> list[int]:
    """Return ones."""
    if x is None:
        raise ValueError("no x: " + "0")
    self.seen["count"] += 1
    return [1 for _ in range(2 * x)] if "a" in x else {**x}
'''


@pytest.mark.parametrize("name", operators())
def test_every_operator_does_what_its_example_says(name: str) -> None:
    operator = operators()[name]
    for each in operator.examples():
        if each.post_mutation_code != each.pre_mutation_code:  # some show what they leave alone
            seen = mutate_code(each.pre_mutation_code, operator, each.occurrence)
            assert seen == each.post_mutation_code


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one file."""
    file = tmp_path / "fedsim" / "sim" / "mine.py"
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE, encoding="utf-8")
    return tmp_path


def test_places_are_where_the_program_does_something(checkout: Path) -> None:
    made = {change(SOURCE, mutated(SOURCE, place)).after for place in places(checkout)}
    assert {text.replace("[ ", "[").replace("( ", "(") for text in made} == {
        "def f(x: int | None = None, *, flag: bool = False) -> list[int]:",
        "if x is not None:",
        "if not x is None:",
        "pass",  # instead of the raise, and of counting
        'self.seen["mutant"] += 1',
        'self.seen["count"] += 2',
        'self.seen["count"] += 0',
        'return [2 for _ in range(2 * x)] if "a" in x else {**x}',
        'return [0 for _ in range(2 * x)] if "a" in x else {**x}',
        'return [1 for _ in range(3 * x)] if "a" in x else {**x}',
        'return [1 for _ in range(1 * x)] if "a" in x else {**x}',
        'return [1 for _ in range(2 / x)] if "a" in x else {**x}',
        'return [1 for _ in range(2 * x)] if not "a" in x else {**x}',
        'return [1 for _ in range(2 * x)] if "a" not in x else {**x}',
        'return [1 for _ in range(2 * x)] if "mutant" in x else {**x}',
    }


def test_a_sample_is_a_function_of_its_seed_and_begins_with_a_smaller_one(checkout: Path) -> None:
    assert sample(checkout, 4, 1) == sample(checkout, 8, 1)[:4] != sample(checkout, 4, 2)


def test_a_sample_of_a_room_is_its_part_of_the_whole_or_as_many_as_are_asked_of_each(
    checkout: Path,
) -> None:
    other = checkout / "fedsim" / "wire" / "theirs.py"
    other.parent.mkdir()
    other.write_text("def f(x):\n    return x < 1, x + 2, x['a'], not x\n", encoding="utf-8")
    whole = sample(checkout, 99, 1)
    assert {place.room for place in whole} == {"sim", "wire"}
    own = [place for place in whole if place.room == "wire"]
    assert sample(checkout, 99, 1, ["wire"]) == own
    each = sample(checkout, 2, 1, ["wire", "sim"], each=True)
    assert [place.room for place in each] == ["wire", "sim", "wire", "sim"]
    assert each[::2] == own[:2]


def test_every_source_but_the_drawing_is_of_a_room_whose_tests_are_there() -> None:
    files = sources(ROOT)
    every = {each.relative_to(ROOT) for each in (ROOT / "fedsim").rglob("*.py")}
    drawing = {Path("fedsim", each) for each in LEFT_OUT}
    assert drawing == {Path("fedsim/results/report/drawing.py")}
    assert drawing <= every
    assert {*files} == every - drawing
    assert {room_of(each) for each in files} == {*ROOMS}
    for room in ROOMS:
        assert all((ROOT / test).exists() for test in made_for(room)), room
        assert {*made_for(room)} <= {*asked([room])}
    assert len({*asked()}) == len(asked())


def test_a_listed_mutant_is_where_it_says_and_its_tests_are_there() -> None:
    mutants = listed()
    texts = sources_of(mutants)
    for each in mutants:
        source = texts[each.file]
        assert source.splitlines()[each.place(source).line - 1].strip()
        assert each.mutated(source) != source
        compile(each.mutated(source), str(each.file), "exec")
        for file, _, test in (name.partition("::") for name in each.tests):
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")
    assert len(mutants) == len({each[:3] for each in mutants}) > 30, SAMPLE


def test_a_listed_mutant_that_stands_nowhere_or_twice_is_refused() -> None:
    mutant = Listed(Path("fedsim/sim/mine.py"), "x is", "x", ())
    for source in ("y", "x is x is"):
        with pytest.raises(ValueError, match="not once"):
            mutant.place(source)
    assert mutant.place("a\nif x is 1").line == 2


def test_what_no_line_is_reached_by_is_told_from_what_nobody_notices(tmp_path: Path) -> None:
    """Places of a function and of a constant, before tests that look at them, others, and none."""
    load_libraries()
    copy = tmp_path / "copy"
    copy.mkdir()
    make_copy(ROOT, copy)
    inside = Path("fedsim/wire/bitstream.py"), "BitOr_BitAnd", ""
    at_import = Path("fedsim/scenario/building/round_completion.py"), "NumberReplacer", "GIVE_UP = "
    chosen = [
        next(
            each
            for each in places(ROOT, [str(file)])
            if each.operator.endswith(operator)
            and (ROOT / file)
            .read_text(encoding="utf-8")
            .splitlines()[each.line - 1]
            .startswith(start)
        )
        for file, operator, start in (inside, at_import)
    ]
    looking = [
        "tests/protocol/test_orders.py",
        "tests/wire/test_bitstream.py",
        "tests/test_giving_up.py::test_check_names_the_time_that_nobody_has_written",
    ]
    for tests, ends in ((looking[:1], [ALIVE, ALIVE]), (looking, [KILLED, KILLED])):
        trials = {
            trial.place: trial
            for trial in Trials(copy, tmp_path, Reach({}, {}), 1, tests).of_places(chosen)
        }
        assert [trials[place].end for place in chosen] == ends
        for place, test in zip(chosen, looking[1:], strict=True):
            assert trials[place].by.startswith(test) is (trials[place].end == KILLED)
    unreached = Trials(copy, tmp_path, Reach({}, {}), 1).of_places(chosen)
    assert [trial.end for trial in unreached] == [UNREACHED, UNREACHED]
    for place in chosen:
        assert (copy / place.file).read_bytes() == (ROOT / place.file).read_bytes()


def test_tests_that_fail_without_any_mutant_are_refused(tmp_path: Path) -> None:
    """They would seem to notice every one."""
    copy = tmp_path / "copy"
    (copy / "tests").mkdir(parents=True)
    (copy / "fedsim").mkdir()
    (copy / "tests" / "test_it.py").write_text("def test_it():\n    assert 0\n", encoding="utf-8")
    (copy / "fedsim" / "it.py").write_text("x = 1\n", encoding="utf-8")
    (copy / "pyproject.toml").write_text("", encoding="utf-8")
    mutant = Listed(Path("fedsim/it.py"), "x = 1", "x = 2", ("tests/test_it.py",))
    with pytest.raises(RuntimeError, match="fail without any mutant"):
        next(Trials(copy, tmp_path, Reach({}, {}), 1).of_list([mutant]))


def test_lines_of_a_file_that_has_changed_since_say_nothing(tmp_path: Path) -> None:
    source, file = "def f():\n    a()\n    b()\n", Path("fedsim/wire/it.py")
    reached = {str(file): {2: ["tests/t.py::test_a"], 3: ["tests/t.py::test_b", ""]}}
    seconds = {"tests/t.py::test_a": 2.0, "tests/t.py::test_b": 1.0}
    kept = tmp_path / "reach.json"
    Reach(seconds, reached, {str(file): sha256(source.encode()).hexdigest()}).save(kept)
    reach, place = Reach.load(kept), Place(file, 2, 4, "DeleteStatement", 0)
    assert reach.tests(place, source) == ["tests/t.py::test_a"]
    assert reach.tests(place, f"{source}\n") == ["tests/t.py::test_b", "tests/t.py::test_a"]
    assert [reach.at_import(place._replace(line=line), source) for line in (2, 3)] == [False, True]


def test_only_what_is_called_is_changed_without_importing_anew() -> None:
    text = "X = 1\n\ndef f(a, b=2):\n    def g():\n        return a + b\n    return g\n\n"
    text += "class C:\n    Y = 3\n    Z = [each * 4 for each in (5,)]\n    h = f(6)\n"
    for old, new in (("1", "7"), ("2", "7"), ("3", "7"), ("4", "7"), ("5", "7"), ("6", "7")):
        assert not same_at_import(text, text.replace(old, new))
    assert not same_at_import(text, text.replace("return a + b", "return b"))  # another closure
    changed = text.replace("a + b", "a - b")
    assert same_at_import(text, changed)
    scope: dict[str, Any] = {}
    exec(compile(text, "/folder/it.py", "exec"), scope)  # noqa: S102
    exchange(Path("/folder/it.py"), text, changed, functions_of(Path("/folder")))
    assert scope["f"](9)() == 7  # made by a function that has got its code
    assert scope["C"].h() == 4  # made before that


def test_every_reason_is_given_for_a_line_that_is_there() -> None:
    for (file, (before, _)), reason in reasons().items():
        text = " ".join((ROOT / file).read_text(encoding="utf-8").split())
        assert " ".join(before.split()) in text, f"{REASONS.name}: no {before!r} in {file} any more"
        assert len(reason) > 20


def test_a_reason_excuses_what_lives_and_the_table_counts_it() -> None:
    (file, known), *_ = reasons()
    place = Place(Path(file), 1, 0, "AddNot", 0)
    other = Change("a", "b")
    trials = [Trial(place, known, ALIVE, 1), Trial(place, other, ALIVE, 1)]
    assert [outcome(trial) for trial in trials] == [EXCUSED, ALIVE]
    last = table([*trials, Trial(place, other, KILLED, 1)]).splitlines()[-1]
    assert last.split() == ["all", "3", "1", "0", "1", "1", "0", "33.3%"]
