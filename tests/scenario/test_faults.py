"""What is wrong with a scenario: where, which key, what is said; and all of it at once."""

import copy
from importlib.metadata import EntryPoints
from pathlib import Path

import pytest
from pydantic import ValidationError

import fedsim
from fedsim.cli.describe import registry_of
from fedsim.core.blocks import catalogue
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Spec
from fedsim.core.errors import DataError, ScenarioError
from fedsim.problems import MEASURES, Logistic, Problem
from fedsim.scenario import load
from fedsim.scenario.registries import REGISTRIES
from tests.problems.test_problem import PARTS
from tests.runs import small
from tests.scenario.examples import FILE, LINES, faults, least, written
from tests.scenario.wrong import WRONG
from tests.tiers import every


@pytest.mark.slow
@every(("line", "text", "key", "words"), WRONG)
def test_one_thing_wrong(tmp_path: Path, line: int, text: str, key: str, words: list[str]) -> None:
    path = written(tmp_path, {line: text})
    if not words:  # what looks wrong and is not
        load(path)
        return
    (fault,) = faults(path)
    assert fault.key == key
    assert [word for word in words if word not in fault.message] == []
    assert fault.where == f"{FILE}:{_line_of(line, text, key)}"


def _line_of(line: int, text: str, key: str) -> int:
    """Return where the fault stands: what is not there has the line of the block around it."""
    if not text or "kin:" in text:
        return {5: 4, 19: 18}[line]
    return 7 if key == "problem.split.clients" else line


def test_the_good_scenario_is_good(tmp_path: Path) -> None:
    plan = load(written(tmp_path))
    assert [variant.name for variant in plan.variants] == ["base", "hb", "gd"]


def test_all_that_is_wrong_comes_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    chosen: dict[int, str] = {}
    for line, text, _key, words in WRONG:
        alone = "clients: 6" in text or "count: 4" in text or line in (9, 19)  # hide others
        if words and text and not alone:
            chosen.setdefault(line, text)
    single = {line: faults(written(tmp_path, {line: text})) for line, text in chosen.items()}
    together = faults(written(tmp_path, chosen))
    assert {fault for each in single.values() for fault in each} <= set(together)
    lines = [int(fault.where.rpartition(":")[2]) for fault in together]
    assert lines == sorted(lines)
    assert set(lines) >= set(chosen)


def test_the_text_of_the_error_is_for_people(tmp_path: Path) -> None:
    path = written(tmp_path, {20: "      up: 5", 3: "seed: -1"})
    first, second = map(str, faults(path))
    assert first == "good.yaml:3: seed: got -1; give a value of 0 or more"
    assert second == (
        "good.yaml:20: fleet.1.radio.up: got 5, a bare number;"
        ' give a rate with its unit, such as "5 Mbit/s"'
    )


def test_a_fault_of_the_base_is_not_said_again_for_each_variant(tmp_path: Path) -> None:
    changes = {3: "seed: -1", 26: "  hb: {seed: -2}", 28: "    wire: {values: float64}"}
    assert [str(fault) for fault in faults(written(tmp_path, changes))] == [
        "good.yaml:3: seed: got -1; give a value of 0 or more",
        "good.yaml:26: seed: variant hb: got -2; give a value of 0 or more",
    ]


def test_keys_written_twice_come_with_the_rest(tmp_path: Path) -> None:
    found = faults(written(tmp_path, {3: "name: again", 24: "seeds: 0", 12: "seeds: 4"}))
    assert [(fault.where, fault.key) for fault in found] == [
        ("good.yaml:3", "name"),
        ("good.yaml:24", "seeds"),
    ]
    assert found[1].message == "written twice; the first is at good.yaml:12"


def test_an_override_is_named_and_comes_last(tmp_path: Path) -> None:
    path = written(tmp_path, {24: "seeds: 0"})
    found = faults(path, overrides=["algorithm.censro=1", "fleet.9.count=1", "seed=x:1"])
    assert [(fault.where, fault.key) for fault in found] == [
        ("good.yaml:24", "seeds"),
        ("--set fleet.9.count=1", "fleet.9"),
        ("--set seed=x:1", "seed"),
        ("--set algorithm.censro=1", "algorithm.censro"),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "got nothing; give a block of keys; needed are problem and algorithm"),
        ("# nothing\n", "got nothing"),
        ("- a\n- b\n", "got a list"),
        ("just text\n", 'got "just text"'),
        ("5", "got 5"),
    ],
)
def test_a_file_that_holds_no_block(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / FILE
    path.write_text(text, encoding="utf-8")
    (fault,) = faults(path)
    assert (fault.where, fault.key) == (f"{FILE}:{max(1, text.count('# ') + 0)}", "")
    assert words in fault.message


def test_an_empty_block_misses_what_is_needed(tmp_path: Path) -> None:
    path = tmp_path / FILE
    path.write_text("{}", encoding="utf-8")
    assert [fault.key for fault in faults(path)] == ["problem", "algorithm"]


def test_a_fault_in_python_has_no_line() -> None:
    (fault,) = faults(least(seed=-1))
    assert str(fault) == "seed: got -1; give a value of 0 or more"
    (fault,) = faults(least(seed={1}))
    assert str(fault) == "seed: a scenario cannot hold a set"


def test_conflicts_come_together(tmp_path: Path) -> None:
    deadline = "silence: {kind: deadline, after: 2 s, late: drop}"
    found = faults(written(tmp_path, {13: deadline, 16: "  - count: 4", 27: "", 28: ""}))
    assert [fault.key for fault in found] == ["problem.split.clients", "silence.late"]
    assert "got 5, but the counts of fleet add up to 7" in found[0].message
    assert "the server of chb keeps a running sum" in found[1].message


def test_conflicts_between_valid_blocks_come_beside_errors_in_others() -> None:
    """A check ends where it reads a block in error: what it would read instead is not known."""
    cohort = {"kind": "uniform", "count": 50}
    block = {"participation": cohort, "fleet": [{"count": 10}]}
    for wrong, key in (
        ({"stop": {"gap": -1}}, "stop.gap"),
        ({"seeds": [1, 2]}, "seeds"),
        ({"algorithm": {"kind": "gd", "step_size": -1}}, "algorithm.step_size"),
        ({"measures": ["accuracyy"]}, "measures.0"),
        ({"problems": {}}, "problems"),
    ):
        found = [fault.key for fault in faults(least(**block, **wrong))]
        assert sorted(found) == sorted([key, "participation.count"])
    # Without a valid fleet the size of a cohort cannot be checked.
    (fault,) = faults(least(**block | {"fleet": [{"count": 0}]}))
    assert fault.key == "fleet.0.count"


def test_a_share_above_one_comes_beside_errors_in_all_other_blocks() -> None:
    """It is known from `stop` alone."""
    wrong = {
        "problem": {"loss": {"kind": "logistc"}, "data": {"kind": "npzz"}},
        "algorithm": {"kind": "fedavgg"},
        "measures": ["accuracyy"],
        "fleet": [{"count": 0}],
    }
    found = {fault.key: fault.message for fault in faults({"stop": {"test_accuracy": 95}, **wrong})}
    assert "give 0.95 for 95 %" in found.pop("stop.test_accuracy")
    assert set(found) == {
        "problem.loss.kind", "problem.data.kind", "algorithm.kind", "measures.0", "fleet.0.count",
    }  # fmt: skip


def test_valid_keys_of_the_problem_are_checked_beside_an_error_in_another() -> None:
    problem = {**least()["problem"], "split": {"kind": "iid", "clients": 5}, "weights": "rowz"}
    found = [fault.key for fault in faults(least(problem=problem, fleet=[{"count": 7}]))]
    assert sorted(found) == ["problem.split.clients", "problem.weights"]


def test_a_misspelt_required_key_is_one_fault() -> None:
    block = least()
    block["algoritm"] = block.pop("algorithm")
    (fault,) = faults(block)
    assert (fault.key, fault.message) == (
        "algoritm",
        "unknown key 'algoritm'; did you mean 'algorithm'?",
    )
    block["xyzzy"] = block.pop("algoritm")
    assert [fault.key for fault in faults(block)] == ["algorithm", "xyzzy"]


def test_a_misspelt_kind_has_the_near_name_and_the_command_that_lists_all() -> None:
    (fault,) = faults(least(algorithm={"kind": "fedavgg", "step_size": 1}))
    assert fault.message.startswith(
        "got \"fedavgg\"; did you mean 'fedavg'? `fedsim list algorithms` lists all names."
    )
    (fault,) = faults(least(algorithm={"kind": "xyzzy", "step_size": 1}))
    assert "One of: chb, " in fault.message


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.name)
def test_the_command_of_an_error_lists_the_kinds(registry: Registry[Spec]) -> None:
    assert registry_of(registry.command.removeprefix("fedsim list ")) is registry


def test_a_misspelt_stop_rule_comes_with_all_else() -> None:
    """It is a measure's column, for all that its block can tell: measures and loss tell more."""
    block = {"stop": {"round": 4, "test_loss": 0.1}, "fleet": [{"count": 1, "radio": 1}]}
    for measures, wrong in (
        ([], ["stop.round", "stop.test_loss", "problem.test"]),
        (["test_loss"], ["stop.round"]),
        (["test_los"], ["measures.0", "stop.round"]),  # test_loss may be a column
    ):
        found = {fault.key for fault in faults(least(**block, measures=measures))}
        assert found == {"fleet.0.radio", *wrong}


def test_a_misspelt_stop_rule_is_named_beside_a_missing_problem() -> None:
    """What a user's own program reports is not known then: only names near a rule's are wrong."""
    block = {"stop": {"round": 4, "my_score": 1.0}, "algorithm": {"kind": "gd", "step_size": 1}}
    assert {fault.key for fault in faults(block)} == {"problem", "stop.round"}
    bare = {**block, "problem": {"data": {"kind": "none"}}}
    assert {"problem.loss", "stop.round"} <= {fault.key for fault in faults(bare)}


def test_no_line_of_the_good_scenario_can_be_misspelt(tmp_path: Path) -> None:
    for number, line in enumerate(LINES, start=1):
        head, colon, rest = line.partition(":")
        if not colon or line.lstrip().startswith(("-", "#")) or number in (9, 19, 26, 27):
            continue
        found = faults(written(tmp_path, {number: f"{head}zz:{rest}"}))
        fault = next(each for each in found if each.key.endswith("zz"))
        assert fault.where == f"{FILE}:{number}"
        assert f"did you mean '{head.strip(' -')}'?" in fault.message


@every("end", ["\r", "\x85", "\u2028", "\r\n", "\n\n\r", "\x0b", "\x1c"])
@every("text", ["{rounds: ", "[1, ", "'a", "{a: *b"])
def test_where_a_text_is_no_yaml_is_shown_whatever_ends_its_lines(text: str, end: str) -> None:
    for value in (text + end, end + text, f"{text}{end}{end}#"):
        with pytest.raises(ScenarioError) as caught:
            load(small(), overrides=[f"stop={value}"])
        (fault,) = caught.value.faults
        assert "^" in fault.excerpt or "not" in fault.message


def test_the_line_of_a_mark_is_the_one_that_the_library_counts() -> None:
    with pytest.raises(ScenarioError) as caught:
        load(small(), overrides=["stop=a: b\x85\nd: e: f"])
    assert "2 | d: e: f" in caught.value.faults[0].excerpt


def test_packages_are_looked_through_once_however_much_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = 0

    def entry_points() -> EntryPoints:
        nonlocal searches
        searches += 1
        return EntryPoints()

    monkeypatch.setattr(catalogue, "entry_points", entry_points)
    with pytest.raises(ScenarioError) as caught:
        load(small(fleet=[{"count": 1, "device": "phone-x", "radio": "ltte"}] * 50))
    assert len(caught.value.faults) == 100
    assert searches == 1


@pytest.mark.slow
def test_of_very_many_faults_the_first_are_told() -> None:
    with pytest.raises(ScenarioError) as caught:
        load(small(fleet=[{"count": 0}] * 5000))
    assert len(caught.value.faults) == 5000
    lines = str(caught.value).splitlines()
    assert (len(lines), lines[-1]) == (101, "and 4900 more errors")
    assert str(copy.copy(caught.value)) == str(caught.value)  # as another process hands it back


@every(
    ("keys", "problem", "wrong"),
    [
        ({"test_accuracy": 0.9}, {}, {"stop.test_accuracy", "problem.test"}),
        ({"test_loss": 0.9}, {"test": {"fraction": 0.2}}, {"stop.test_loss"}),
        ({"train_accuracy": 0.9}, {}, {"stop.train_accuracy"}),
        (
            {"test_loss": 0.9},
            {"test": {"fraction": 2}},
            {"stop.test_loss", "problem.test.fraction"},
        ),
    ],
)
def test_a_target_without_measure_and_test_rows_has_both_errors_at_once(
    keys: dict[str, float], problem: dict[str, object], wrong: set[str]
) -> None:
    scenario = least(stop={"rounds": 4, **keys})
    scenario["problem"] = {**scenario["problem"], **problem}
    assert {fault.key for fault in faults(scenario)} == wrong


def test_what_is_missing_is_the_same_before_and_after_the_first_error_is_mended() -> None:
    with pytest.raises(ScenarioError) as caught:
        load(small(stop={"rounds": 4, "test_accuracy": 0.9}))
    (later,) = (fault for fault in caught.value.faults if fault.key == "problem.test")
    mended = small(stop={"rounds": 4, "test_accuracy": 0.9}, measures=["test_accuracy"])
    with pytest.raises(ScenarioError) as caught:
        fedsim.check(mended)
    (fault,) = caught.value.faults
    assert fault.message == later.message


def test_a_measure_says_that_it_needs_test_rows_if_it_does() -> None:
    """Whether it raises that error for a problem without them, bound as a run binds it."""
    bound = Problem.of(Logistic(l2=0.1), PARTS)
    for measure in MEASURES:
        needs = ""
        try:
            made = measure.model_validate({"kind": measure.model_fields["kind"].default})
            made.bind(bound)
        except (DataError, ValidationError) as error:
            needs = str(error)
        assert ("needs test rows" in needs) == measure.held_out, measure
