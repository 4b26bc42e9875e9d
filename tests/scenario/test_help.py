"""What an error says beyond being one: where it is to the column, and what was probably meant."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import fedsim
from fedsim.cli import app
from fedsim.scenario import Variant, load
from tests.runs import small

GOOD = """\
problem:
  loss: {kind: squared, scale: sum, l2: 1}
  data: {kind: sklearn, name: diabetes}
algorithm: {kind: chb, step_size: 1/L, momentum: 0.3, censor: 0.2}
fleet:
  - {count: 3, device: phone-mid, radio: lte}
stop: {rounds: 20}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "own.yaml"
    path.write_text(GOOD)
    return path


def said(file: Path, text: str) -> str:
    """Return what `fedsim check` says of a text, which is wrong."""
    file.write_text(text)
    result = CliRunner().invoke(app, ["check", str(file)])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return result.stderr


@pytest.mark.parametrize(
    ("old", "new", "place", "words", "mark"),
    [
        ("{rounds: 20}", "{rounds: 20", "8", "it began in line 7, column 7", "{rounds"),
        (
            "{kind: chb,",
            "kind: chb,",
            "4",
            "not allowed here, at column 16",
            ": chb",
        ),
        ("  loss", "\tloss", "2", "not with tabs", " loss"),
        ("name: diabetes", "name: 'diabetes", "8", "quotes are not closed", "'diabetes"),
        (
            "  data",
            " data",
            "3",
            "line 3 is indented differently from line 2: by 1 space instead of 2 spaces",
            "data",
        ),
        ("{rounds: 20}", "{rounds: 20}\n  seed: 3", "8", "line 8 is indented differently", "seed"),
        ("stop: {", "name: a\n  stop: {", "8", "by 2 spaces instead of 0 spaces", ":"),
        ("stop: {rounds: 20}", "seeds: [1] 2", "7", "put the whole value in quotes", "2"),
        ("stop:", " stop:", "7", "line 7 is indented differently from line 6", "stop"),
        ("stop:", "stop: [1, 2\nx:", "8", "", ":"),
        ("count: 3", "count: 3\x07", "6", "not allow", "\\x07"),
    ],
)
def test_broken_yaml_is_shown_with_a_mark_below(
    old: str, new: str, place: str, words: str, mark: str, file: Path
) -> None:
    text = said(file, GOOD.replace(old, new, 1))
    assert f"own.yaml:{place}: not YAML 1.2: " in text
    assert ", at column " in text
    assert words in text
    *_, line, caret = text.rstrip("\n").splitlines()
    assert caret.strip() == "^"
    assert line[caret.index("^") :].startswith(mark)
    assert " | " in line


def test_of_a_long_line_the_part_around_the_mark_is_shown(file: Path) -> None:
    text = said(file, GOOD.replace("{rounds: 20}", "{" + "rounds: 20, " * 30 + "]"))
    *_, line, caret = text.rstrip("\n").splitlines()
    assert len(line) < 110
    assert line[caret.index("^")] == "]"


def test_wide_characters_do_not_move_the_mark(file: Path) -> None:
    text = said(file, GOOD.replace("stop: {rounds: 20}", "name: {a: 中中中 ]"))
    *_, line, caret = text.rstrip("\n").splitlines()
    assert caret.index("^") == line.index("]") + 3  # each of them takes two columns


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("radio: wifi", "fleet.0.radio"),
        ("rounds: 5", "stop.rounds"),
        ("step_size: 1", "algorithm.step_size"),
        ("loss: {kind: squared}", "problem.loss"),
        ("compressor: {kind: sign}", "wire.up.compressor or wire.down.compressor"),
        ("deadline: 3 s", "participation.deadline"),
    ],
)
def test_a_key_at_the_wrong_level_is_told_where_it_belongs(
    line: str, places: str, file: Path
) -> None:
    asked = "participation: {kind: full}\n" if "deadline" in line else ""
    text = said(file, f"{GOOD}{asked}{line}\n")
    assert f"did you mean {places}" in text


def test_a_key_too_deep_is_told_where_it_belongs(file: Path) -> None:
    text = said(file, GOOD.replace("{count: 3,", "{seeds: 3, count: 3,"))
    assert "fleet.0.seeds: unknown key 'seeds'; did you mean seeds?" in text


def test_a_parameter_of_other_methods_says_whose_it_is(file: Path) -> None:
    text = said(file, GOOD.replace("censor: 0.2", "local_steps: 2"))
    assert "unknown key 'local_steps'; it belongs to" in text
    assert "fedavg" in text
    assert " more. Accepted here: kind" in text
    text = said(file, GOOD.replace("censor: 0.2", "mu: 0.2"))
    assert "it belongs to fedprox" in text
    assert "Accepted here: kind, step_size, momentum, censor" in text


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("radio: lte", "radio: 5g", "did you mean '5g-low', '5g-mmwave' or '5g-sa'?"),
        ("radio: lte", "radio: {kind: 5g}", "did you mean '5g-low', '5g-mmwave' or '5g-sa'?"),
        ("device: phone-mid", "device: phone-m", "'phone-mid'"),
        ("name: diabetes", "name: mnist", "did you mean {kind: catalogue, name: mnist}?"),
        ("kind: sklearn, name: diabetes", "kind: mnist", "{kind: catalogue, name: mnist}?"),
        ("{kind: sklearn, name: diabetes}", "wine", "did you mean {kind: sklearn, name: wine}?"),
        ("{kind: sklearn, name: diabetes}", "sklearn", "problem.data.name: missing"),
        ("kind: sklearn, name: diabetes", "kind: catalogue, name: wine", "{kind: sklearn, name"),
    ],
)
def test_what_was_meant_is_suggested(old: str, new: str, words: str, file: Path) -> None:
    assert words in said(file, GOOD.replace(old, new))


def test_a_kind_alone_stands_for_a_block_of_that_kind() -> None:
    plain = small(silence="beacon", participation="full", problem={**PROBLEM, "loss": "squared"})
    block = {**PROBLEM, "loss": {"kind": "squared"}}
    full = small(silence={"kind": "beacon"}, participation={"kind": "full"}, problem=block)
    assert load(plain).variants[0].fingerprint == load(full).variants[0].fingerprint


PROBLEM = small()["problem"]


def variant(over: object, *overrides: str) -> Variant:
    base = small(algorithm=CHB, variants={"other": over} if over else {})
    return load(base, overrides=overrides).variants[-1]


CHB = {"kind": "chb", "step_size": "0.5/L", "momentum": 0.3, "censor": 0.2}


@pytest.mark.parametrize(
    "of",
    [
        variant({"algorithm": "hb"}),
        variant({"algorithm": {"kind": "hb"}}),
        variant({}, "algorithm.kind=hb", "variants={}"),
    ],
)
def test_a_method_inherits_from_one_of_its_family(of: Variant) -> None:
    assert of.scenario.algorithm.model_dump() == {
        "kind": "hb",
        "step_size": variant({}).scenario.algorithm.model_dump()["step_size"],
        "momentum": 0.3,
    }


def test_what_a_variant_says_comes_before_what_it_inherits() -> None:
    of = variant({"algorithm": {"kind": "hb", "momentum": 0.9}})
    assert of.scenario.algorithm.model_dump()["momentum"] == 0.9


def test_a_sweep_over_methods_inherits() -> None:
    swept = small(algorithm=CHB, sweep={"algorithm.kind": ["chb", "hb"]})
    momenta = [each.scenario.algorithm.model_dump()["momentum"] for each in load(swept).variants]
    assert momenta == [0.3, 0.3]


def test_a_method_of_another_family_inherits_nothing() -> None:
    for over in ({"algorithm": "signsgd"}, {"algorithm": {"kind": "signsgd"}}):
        with pytest.raises(
            fedsim.ScenarioError, match="step_size: variant other: missing"
        ) as caught:
            variant(over)
        (fault,) = caught.value.faults
        assert "another `kind` replaces the whole block; repeat step_size" in fault.message
    with pytest.raises(fedsim.ScenarioError, match="repeat step_size"):
        variant({}, "algorithm.kind=signsgd")
    variant({"algorithm": {"kind": "signsgd", "step_size": 0.1}})


def test_a_key_that_was_never_there_is_just_missing() -> None:
    bare = small(algorithm={"kind": "chb"}, variants={"other": {"algorithm": "signsgd"}})
    with pytest.raises(fedsim.ScenarioError) as caught:
        load(bare)
    assert all("repeat" not in fault.message for fault in caught.value.faults)


def test_a_misspelt_method_is_the_only_fault_beside_variants_of_its_family() -> None:
    base = small(algorithm=CHB | {"kind": "cbh"}, variants={"cbh": {}, "hb": {"algorithm": "hb"}})
    with pytest.raises(fedsim.ScenarioError, match="did you mean 'chb'") as raised:
        load(base)
    assert [fault.key for fault in raised.value.faults] == ["algorithm.kind"]


def test_an_index_may_stand_in_brackets() -> None:
    dotted, brackets = (
        load(small(), overrides=[f"{key}=wifi"]).variants[0].fingerprint
        for key in ("fleet.0.radio", "fleet[0].radio")
    )
    assert dotted == brackets
    assert dotted != load(small()).variants[0].fingerprint
    swept = load(small(sweep={"fleet[0].count": [1, 2]}))
    assert [each.scenario.fleet[0].count for each in swept.variants] == [1, 2]
    with pytest.raises(fedsim.ScenarioError, match=r"fleet.7: fleet has \d item"):
        load(small(), overrides=["fleet[7].radio=wifi"])


def test_a_key_of_another_kind_deep_in_the_scenario_says_whose_it_is() -> None:
    fleet = [{"count": 2, "radio": {"kind": "lte", "electronics": 1}}]
    words = r"fleet\.0\.radio\.electronics: unknown key 'electronics'; it belongs to first-order\."
    with pytest.raises(fedsim.ScenarioError, match=words):
        load(small(fleet=fleet))
