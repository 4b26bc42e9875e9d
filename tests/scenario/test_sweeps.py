"""Sweeps: the scenarios that they stand for, and what is wrong with them."""

from itertools import product
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsim
from tests.scenario.examples import least
from tests.tiers import every

CENSOR, SHARE = "algorithm.censor", "wire.up.compressor.fraction"


def plan(sweep: Any, **changes: Any) -> Any:
    blocks = {"algorithm": {"kind": "chb", "step_size": 1e-3}, "sweep": sweep, **changes}
    return fedsim.load(least(**blocks))


def messages(sweep: Any, **changes: Any) -> list[str]:
    with pytest.raises(fedsim.ScenarioError) as raised:
        plan(sweep, **changes)
    return [f"{fault.key}: {fault.message}" for fault in raised.value.faults]


def test_every_combination_is_a_variant_and_the_first_key_changes_slowest() -> None:
    wire = {"up": {"compressor": {"kind": "top-k", "fraction": 1}}}
    made = plan({CENSOR: [0.01, 0.1], SHARE: [0.25, 0.5, 1]}, wire=wire)
    seen = [
        (each.scenario.algorithm.censor, each.scenario.wire.up.compressor.fraction)
        for each in made.variants
    ]
    assert seen == list(product([0.01, 0.1], [0.25, 0.5, 1]))
    assert made.variants[0].name == "censor-0.01_fraction-0.25"
    assert len({each.name.casefold() for each in made.variants}) == 6


@given(st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.integers(2, 9))
def test_a_logarithmic_range_has_equal_ratios_and_both_ends(
    low: float, high: float, count: int
) -> None:
    values = [
        each.scenario.algorithm.censor
        for each in plan({CENSOR: {"log": [low, high, count]}}).variants
    ]
    assert len(values) == count
    assert values[0] == pytest.approx(low, rel=1e-11)
    assert values[-1] == pytest.approx(high, rel=1e-11)
    steps = np.diff([log(value) for value in values])
    assert steps == pytest.approx(np.full(count - 1, steps[0]), abs=1e-9)


def test_a_linear_range_has_equal_steps() -> None:
    made = plan({CENSOR: {"linear": [0, 1, 5]}})
    assert [each.scenario.algorithm.censor for each in made.variants] == [0, 0.25, 0.5, 0.75, 1]


def test_a_variant_is_swept_as_well_unless_it_says_otherwise() -> None:
    variants = {
        "slow": {"algorithm": {"step_size": 1e-4}},
        "hb": {"algorithm": {"kind": "hb", "step_size": 1e-3}, "sweep": None},
    }
    names = [each.name for each in plan({CENSOR: [0.1, 1]}, variants=variants).variants]
    assert names == ["censor-0.1", "censor-1", "slow_censor-0.1", "slow_censor-1", "hb"]


def test_a_sweep_of_the_scenario_merges_with_that_of_a_variant() -> None:
    variants = {"both": {"sweep": {"algorithm.momentum": [0, 0.5]}}}
    made = plan({CENSOR: [0.1, 1]}, variants=variants)
    assert len(made.variants) == 2 + 4


def test_blocks_and_texts_can_be_swept() -> None:
    compressors = [{"kind": "identity"}, {"kind": "rand-k", "fraction": 0.5}]
    made = plan({"wire.up.compressor": compressors, "algorithm.step_size": ["1/L", "0.5/L"]})
    assert [each.name for each in made.variants] == [
        "compressor-identity_step_size-1-L",
        "compressor-identity_step_size-0.5-L",
        "compressor-rand-k-0.5_step_size-1-L",
        "compressor-rand-k-0.5_step_size-0.5-L",
    ]


def test_a_variant_keeps_its_name_with_a_plus() -> None:
    own: dict[str, Any] = {"secagg+": {}, "more+": {"sweep": {"stop.rounds": [2, 3]}}}
    names = [each.name for each in plan(None, variants=own).variants]
    assert names == ["secagg+", "more+_rounds-2", "more+_rounds-3"]


def test_names_that_would_be_the_same_are_told_apart() -> None:
    names = [each.name for each in plan({"algorithm.step_size": ["1/L", "1 / L"]}).variants]
    assert names == ["step_size-1-L", "step_size-1-L_2"]


@every(
    ("sweep", "words"),
    [
        (3, "sweep: got 3; give a block of keys"),
        ({CENSOR: []}, f"sweep.{CENSOR}: got a list; give a list of values, or {{log:"),
        ({CENSOR: 0.1}, f"sweep.{CENSOR}: got 0.1; give a list of values"),
        ({CENSOR: {"log": [0, 1, 3]}}, "two numbers, above 0, and 2 to 10000"),
        ({CENSOR: {"log": [0.1, 1, 1]}}, "got [0.1, 1, 1]"),
        ({CENSOR: {"square": [0.1, 1, 3]}}, "got a block of keys; give a list of values"),
        ({CENSOR: {"linear": [0, 1, 10_001]}}, "got [0, 1, 10001]; give [from, to, how many]"),
        (
            {"stop.rounds": list(range(1, 201)), CENSOR: list(range(100))},
            "stands for 20000 scenarios",
        ),
        ({"seed": [1, 2]}, "sweep.seed: seeds are for all variants alike"),
        ({"seeds": [1, 2]}, "sweep.seeds: seeds are for all variants alike"),
        ({"name": ["a", "b"]}, "sweep.name: name is no parameter of a run"),
        ({CENSOR: [0.1, "a"]}, 'variant censor-a: got "a"'),
        ({"algorithm.cens": [0.1]}, "did you mean 'censor'?"),
        ({"fleet.7.count": [1, 2]}, "accepted here: none"),
    ],
)
def test_a_wrong_sweep_is_told_what_would_do(sweep: Any, words: str) -> None:
    changes: dict[str, Any] = {"fleet": []} if "fleet.7.count" in str(sweep) else {}
    assert any(words in message for message in messages(sweep, **changes)), messages(sweep)


def test_what_all_points_have_in_common_is_wrong_once() -> None:
    found = messages({CENSOR: [0.1, 1, 10]}, stop={"rouns": 3})
    assert len(found) == 1


def test_a_run_is_written_down_without_its_sweep() -> None:
    (first, *_) = plan({CENSOR: [0.1, 1]}).variants
    assert first.scenario.sweep == {}
