"""Shares: every one takes a number and per cent, means the same by both, and refuses above 1."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, get_args

import jsonschema
import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import TypeAdapter, ValidationError

from fedsim.core.blocks.quantities import Quantity
from fedsim.core.blocks.spec import IN_SI, Spec
from fedsim.core.errors import ScenarioError
from fedsim.scenario import load
from tests.scenario.examples import the_schema
from tests.tiers import every


def blocks(base: type[Spec] = Spec) -> Iterator[type[Spec]]:
    for each in base.__subclasses__():
        yield each
        yield from blocks(each)


def is_share(field: Any) -> bool:
    """Return whether a field is a number between 0 and 1."""
    low = any((isinstance(each, Ge) and each.ge == 0) or (isinstance(each, Gt) and each.gt == 0)
              for each in field.metadata)  # fmt: skip
    high = any((isinstance(each, Le) and each.le == 1) or (isinstance(each, Lt) and each.lt == 1)
               for each in field.metadata)  # fmt: skip
    given = [part for part in field.metadata if isinstance(part, Quantity)]
    inner = [
        part
        for each in get_args(field.annotation)
        for part in getattr(each, "__metadata__", ())
        if isinstance(part, Quantity)
    ]
    quantity = any(each.base == "whole" for each in [*given, *inner])
    number = float in {field.annotation, *get_args(field.annotation)}
    return quantity or (number and low and high)


def shares() -> dict[str, Any]:
    """Return every share of every block, by class and key."""
    the_schema()  # imports them
    return {
        f"{each.__name__}.{key}": field
        for each in blocks()
        if each.__module__.startswith("fedsim.")
        for key, field in each.model_fields.items()
        if is_share(field)
    }


def test_there_are_shares_of_both_forms() -> None:
    known = shares()
    assert len(known) > 40
    assert {"HeldOut.fraction", "TopK.fraction", "Battery.cutoff", "Sample.share"} <= known.keys()


def test_a_share_takes_a_number_and_per_cent() -> None:
    forms = {(field.annotation, *map(str, field.metadata)): field for field in shares().values()}
    for field in forms.values():
        share: Any = Annotated[(field.annotation, *(field.metadata or [None]))]
        check(TypeAdapter(share))


def check(read: TypeAdapter[float]) -> None:
    for written in ("30 %", "30%", 0.3, " 30 % "):
        assert read.validate_python(written) == 0.3, written
    for wrong in ("130 %", 1.3, 30, "-1 %", -0.1, "x"):
        with pytest.raises(ValidationError):
            read.validate_python(wrong)
    assert read.validate_python(0.3, context=IN_SI) == 0.3


@every("place", ["test", "share", "figure"])
@every(("value", "taken"), [(0.3, True), ("30 %", True), ("many", False)])
def test_editors_know_both_forms(place: str, value: object, taken: bool) -> None:
    changes = {
        "test": {"problem": {"test": {"fraction": value}}},
        "share": {"participation": {"kind": "uniform", "share": value}},
        "figure": {"stop": {"test_accuracy": value}},
    }
    document = {**the_schema(), "$ref": "#/$defs/Variant"}
    for key in ("properties", "required", "additionalProperties"):
        document.pop(key)
    assert jsonschema.Draft202012Validator(document).is_valid(changes[place]) == taken


def stopped_at(bound: object) -> Mapping[str, float]:
    changes = ["problem.test={fraction: 20 %}", "measures=[test_accuracy]"]
    plan = load("quickstart", overrides=[*changes, f"stop.test_accuracy={bound}"])
    return plan.variants[0].scenario.stop.figures


def test_a_target_of_a_measure_takes_per_cent() -> None:
    assert stopped_at("85 %") == stopped_at(0.85) == {"test_accuracy": 0.85}


@pytest.mark.parametrize("bound", [85, "130 %"])
def test_a_target_above_1_is_refused_however_it_is_written(bound: object) -> None:
    with pytest.raises(ScenarioError, match=r"at most 1 \(100 %\)"):
        stopped_at(bound)
