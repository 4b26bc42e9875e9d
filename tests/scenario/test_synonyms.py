"""Usual words for keys lead to the keys, and the glossary has the same words."""

import re
from pathlib import Path

import pytest

import fedsim
from fedsim.core.blocks.synonyms import SYNONYMS
from tests.runs import small

GLOSSARY = Path(__file__).parents[2] / "docs/glossary.md"
SHORT = {"lr", "slower", "fraction"}


def fault(*overrides: str) -> str:
    with pytest.raises(fedsim.ScenarioError) as error:
        fedsim.load(small(algorithm={"kind": "fedavg", "step_size": 0.1}), overrides=overrides)
    (found,) = error.value.faults
    return found.message


@pytest.mark.parametrize("word", sorted(SYNONYMS.keys() - SHORT))
def test_the_glossary_has_each_word_with_its_key(word: str) -> None:
    sections = re.split(r"^### ", GLOSSARY.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    heads = {
        section.partition("\n")[0].casefold().replace("-", " "): section for section in sections
    }
    own = [text for head, text in heads.items() if word.replace("_", " ") in head.split(", ")]
    assert own, f"{word} is no word of the field in the glossary"
    assert SYNONYMS[word] in own[0].casefold()


@pytest.mark.parametrize("word", ["learning_rate", "lr", "Learning-Rate"])
def test_a_usual_word_leads_to_the_key(word: str) -> None:
    assert "; did you mean 'step_size'? Accepted here: " in fault(f"algorithm.{word}=0.1")
    assert "; did you mean algorithm.step_size? " in fault(f"{word}=0.1")


def test_a_number_for_a_slowdown_leads_to_the_speed() -> None:
    for word in ("slowdown", "slower"):
        assert "did you mean fleet.0.device.slowdown?" in fault(f"fleet.0.{word}=10")
    assert "did you mean 'slowdown'?" in fault("fleet.0.device.slower=10")
    text = fault("fleet.0.device.slowdown=10")
    assert text.startswith("got 10; give a block, such as {kind: none, ...}. One of: none, ")
    assert text.endswith(
        "; a device that is always slower has a lower `speed`, such as speed: 1 Gflop/s"
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [("150 %", "(1.5 is 150 %)"), ("1.5", "(1.5 is 150 %)"), ("85", "(85 % is 0.85)")],
)
def test_a_share_above_one_is_explained_by_the_number_that_was_seen(
    written: str, meant: str
) -> None:
    assert fault(f"problem.test={{fraction: {written}}}").endswith(meant)


def test_a_sweep_that_one_variant_cannot_take_names_it() -> None:
    alone = "variants={two: {}, one: {fleet: [{count: 5, device: pi-4, radio: lte}]}}"
    text = fault(alone, "sweep={fleet.1.radio: [lte, wifi]}")
    assert text.startswith("variant one: fleet has 1 item, numbered from 0; accepted here: 0. ")


def test_a_key_that_is_unknown_in_all_variants_is_one_error() -> None:
    wrong = ["participation={kind: uniform, fraction: 20}"]
    with pytest.raises(fedsim.ScenarioError) as caught:  # a variant has another key `fraction`
        fedsim.load("quickstart", overrides=wrong)
    (fault,) = caught.value.faults
    assert fault.message.startswith("unknown key 'fraction'; did you mean 'share'?")
