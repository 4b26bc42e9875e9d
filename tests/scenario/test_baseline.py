"""The key `baseline`: it names a variant, and changes no run."""

from pathlib import Path
from typing import Any

import pytest

import fedsim
from fedsim.core.errors import Fault
from fedsim.results.record.studies import read_study
from fedsim.scenario import Scenario, load
from tests.runs import files, small
from tests.scenario.examples import FILE, faults, written
from tests.tiers import every

GD: dict[str, Any] = {"algorithm": {"kind": "gd", "step_size": "1/L"}}
THREE = {"chb": {}, "gd": GD, "slow": {"algorithm": {"kind": "gd", "step_size": "0.1/L"}}}


def test_it_names_a_variant() -> None:
    assert load(small(variants=THREE)).baseline == ""
    assert [load(small(variants=THREE, baseline=name)).baseline for name in THREE] == list(THREE)
    assert load(small(variants={"gd": GD}, baseline="base")).baseline == "base"
    assert load(small(variants=THREE, baseline=None)).baseline == ""


def test_it_names_a_variant_of_a_sweep() -> None:
    sweep = {"algorithm.censor": [0.1, 1.0]}
    plan = load(small(sweep=sweep, baseline="censor-1"))
    assert (plan.baseline, len(plan.variants)) == ("censor-1", 2)


@every(
    ("line", "words"),
    [
        ("baseline: hbb", "got \"hbb\", which is no variant; did you mean 'hb'?"),
        ("baseline: [hb]", "got a list, which is no variant."),
        ("baseline: 3", "got 3, which is no variant."),
    ],
)
def test_a_name_of_no_variant_is_refused_at_its_line(line: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path)
    text = f"{path.read_text(encoding='utf-8').rstrip()}\n{line}\n"
    path.write_text(text, encoding="utf-8")
    (fault,) = faults(path)
    said = f"{words} The variants are base, hb and gd"
    assert fault == Fault(f"{FILE}:{text.count(chr(10))}", "baseline", said)


def test_of_many_variants_the_error_lists_the_first() -> None:
    sweep = {"algorithm.censor": [number / 10 for number in range(1, 31)]}
    (fault,) = faults(small(sweep=sweep, baseline="x"))
    assert fault.message.endswith("censor-1.9, censor-2 and 10 more")


def test_a_variant_and_a_sweep_cannot_have_it() -> None:
    (fault,) = faults(small(variants={"gd": {**GD, "baseline": "gd"}}))
    assert fault.message == "is a key of the whole file; move it out of the variant"
    (fault,) = faults(small(sweep={"baseline": ["a"]}))
    assert fault.message == "baseline is no parameter of a run"


def test_an_override_names_another_one_or_removes_it() -> None:
    scenario = small(variants=THREE, baseline="gd")
    assert load(scenario, overrides=["baseline=slow"]).baseline == "slow"
    assert load(scenario, overrides=["baseline=null"]).baseline == ""
    # The variant that the file names is gone with the others: there is nothing left to compare.
    assert load(scenario, overrides=["variants={}"]).baseline == ""
    (fault,) = faults(scenario, overrides=["baseline=gdd"])
    assert fault.where == "--set baseline=gdd"
    (fault,) = faults(scenario, overrides=["variants={}", "baseline=gd"])
    assert fault.message == 'got "gd", which is no variant. The variant is base'


def test_fingerprints_and_files_of_runs_do_not_depend_on_it(tmp_path: Path) -> None:
    plain, named = small(variants=THREE), small(variants=THREE, baseline="slow")
    both = [load(each).variants for each in (plain, named)]
    assert [each.fingerprint for each in both[0]] == [each.fingerprint for each in both[1]]
    assert [each.text(1) for each in both[0]] == [each.text(1) for each in both[1]]
    one, other = (
        {name: content for name, content in files(path).items() if "/" in name}
        for path in (
            fedsim.run(plain, out=tmp_path / "plain").folder,
            fedsim.run(named, out=tmp_path / "named").folder,
        )
    )
    logs = [name for name in one if not name.endswith("manifest.json")]
    assert {name.rpartition("/")[2] for name in logs} >= {"events.parquet", "scenario.yaml"}
    assert [name for name in logs if one[name] != other[name]] == []
    assert one.keys() == other.keys()
    studies = [read_study(tmp_path / name) for name in ("plain", "named")]
    assert [each.baseline for each in studies if each] == ["", "slow"]
    assert len({each.digest for each in studies if each}) == 1


def test_a_scenario_in_python_has_it(tmp_path: Path) -> None:
    made = Scenario.model_validate({**small(variants=THREE), "baseline": "slow"})
    assert load(made).baseline == "slow"
    assert "baseline" not in Scenario.model_validate(small(variants=THREE)).model_dump()


@pytest.mark.parametrize("name", ["malicious-clients", "secrecy", "privacy"])
def test_examples_that_ask_for_a_price_name_what_it_is_the_price_of(name: str) -> None:
    plan = load(name)
    assert plan.baseline == plan.variants[0].name


def test_of_a_variant_that_a_sweep_multiplies_the_error_names_what_it_makes() -> None:
    swept = small(
        algorithm={"kind": "gd", "step_size": 0.1},
        variants={"one": {}, "one_more": {"stop": {"rounds": 7}}},
        sweep={"algorithm.step_size": [0.1, 0.2]},
    )
    with pytest.raises(fedsim.ScenarioError) as caught:
        load({**swept, "baseline": "one"})
    (fault,) = caught.value.faults
    made = "one_step_size-0.1 and one_step_size-0.2"
    assert fault.message.startswith(f'got "one", of which the sweep makes {made}; name one of')
    assert load({**swept, "baseline": "one_step_size-0.2"}).baseline == "one_step_size-0.2"
