"""What the observer looks at: measures, and rows to test on."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema

from fedsim.blocks.choice import OneOf, block_of, failure
from fedsim.blocks.given import Block, Given
from fedsim.blocks.registry import kinds_of
from fedsim.blocks.wording import nearest, printable, shown
from fedsim.problems import MEASURES, SOURCES, HeldOut, Measure, Source
from fedsim.protocol.stopping import Stop


@dataclass(frozen=True)
class OneTest(OneOf):
    """An annotation for pydantic: a source of test rows, or a share to hold out."""

    def takes(self, value: object) -> bool:
        """Say whether a value made in Python is taken as it is."""
        return isinstance(value, HeldOut) or super().takes(value)

    def validate(self, value: object, info: ValidationInfo) -> object:
        """Return what a block describes: without a kind, a share of the training data."""
        if not isinstance(value, Mapping) or "kind" in value:
            return super().validate(value, info)
        if "fraction" not in value:
            text = (
                f"got {shown(value)} without fraction or kind; give {{fraction: 0.2}}, the share"
                " of the rows to hold out, or a source of its own, as for data"
            )
            raise failure(("", text, value))
        return block_of(HeldOut, value, info)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the alternatives, for editors."""
        sources = super().__get_pydantic_json_schema__(schema, handler)["anyOf"]
        share = HeldOut.__get_pydantic_json_schema__(HeldOut.__pydantic_core_schema__, handler)
        return {"anyOf": [share, *sources]}


AnyMeasures = Given[tuple[Annotated[Measure, OneOf(MEASURES)], ...], Sequence[Measure | Block]]
"""A field that takes measures."""

AnyTest = Given[
    Annotated[HeldOut | Source, OneTest(SOURCES)] | None, HeldOut | Source | Block | None
]
"""A field that takes test data, or none."""


def targets(
    stop: Stop, measures: Sequence[Measure], reported: Iterable[str] = ()
) -> Iterator[tuple[str, str, object]]:
    """Yield where a run is to stop at what nobody measures, as key, message and value.

    Args:
        stop: the rules.
        measures: of the scenario.
        reported: the figures that the clients' own programs say of a model.
    """
    measured = {name for measure in measures for name in measure.columns} | set(reported)
    known = columns()
    for name, value in stop.figures.items():
        if name in known and name not in measured:
            text = f"nobody measures it; give measures: [{known[name]}]"
        elif name not in measured:
            rules = [*type(stop).model_fields, *dict.fromkeys([*known, *measured])]
            hint = nearest(name, rules) or "."
            text = f"unknown key '{printable(name)}'{hint} Accepted here: {', '.join(rules)}"
        else:
            continue
        yield f"stop.{name}", text, value


def columns() -> dict[str, str]:
    """Return the columns that fedsim's own measures fill, each with the kind that fills it."""
    return {name: kinds_of(each)[0] for each in MEASURES for name in each.columns}


def repeated(measures: Sequence[Measure]) -> Iterator[tuple[str, str, object]]:
    """Yield where two measures would fill the same columns, as key, message and value."""
    first: dict[str, int] = {}
    for number, measure in enumerate(measures):
        if first.setdefault(measure.kind, number) != number:
            text = (
                f"measures.{first[measure.kind]} is {measure.kind} already, and a column has one"
                " value a round; leave one of the two out"
            )
            yield f"measures.{number}", text, measure.kind
