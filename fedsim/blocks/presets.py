"""Blocks that start from a preset: a name alone, or a name and what differs from it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema

from fedsim.blocks.choice import failure, kind_in
from fedsim.blocks.registry import kinds_of
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import unknown

CUSTOM = "custom"
"""The kind of a block that starts from nothing and gives every value."""


class Citation(NamedTuple):
    """Where a figure is from, so that it can be found.

    Attributes:
        authors: of a paper or a page; the maker, of a data sheet.
        title: of it.
        year: of its publication, or in which a page was read.
        where: a DOI, or the address of a repository or a document.
    """

    authors: str
    title: str
    year: int
    where: str

    @property
    def short(self) -> str:
        """How a table cites it."""
        first, *others = self.authors.split(", ")
        rest = " et al." if len(others) > 1 else "".join(f" and {each}" for each in others)
        return f"{first}{rest} {self.year}"

    def __str__(self) -> str:
        return f'{self.authors}, "{self.title}", {self.year}, {self.where}'


Basis = Literal["meas", "lit", "est"]
"""How a figure is known: a public measurement, the literature, or an estimate."""


class Doubt(NamedTuple):
    """How well a figure of a preset is known.

    Attributes:
        low: the lower end of an interval that holds the figure with a probability of 90 %, in
            the field's own notation.
        high: the upper end.
        basis: "meas" where the source measured it, or values around it; "lit" where the source
            states it, its range, or what bounds it; "est" where it is an estimate, to which the
            source is the nearest that is published.
        source: of the figure and its interval.
        aside: why the figure lies near an end of its interval, where it does.
    """

    low: str | float
    high: str | float
    basis: Basis
    source: Citation
    aside: str = ""

    def __str__(self) -> str:
        return f"{self.low} to {self.high}"


class Preset(NamedTuple):
    """A row of a table of presets.

    Attributes:
        basis: where the figures are from, and how good they are: [lit] from the literature,
            [meas] a public measurement, [est] an estimate good to a factor of 2.
        values: field -> what a scenario would have there, such as a text with its unit; the
            fields that are not in it have the defaults of the block.
        doubts: field -> how well its figure is known; a field that is not in it is a definition,
            such as a standard's, or a choice.
    """

    basis: str
    values: Mapping[str, str | float]
    doubts: Mapping[str, Doubt] = MappingProxyType({})


class Presettable(Spec):
    """A block whose `kind` is a preset, which fills in what the block does not give.

    Attributes:
        presets: name -> preset, in the order in which they are listed.
        customs: the kinds that start from nothing; none where every block has a preset.
    """

    presets: ClassVar[Mapping[str, Preset]]
    customs: ClassVar[tuple[str, ...]] = (CUSTOM,)

    kind: str = Field(description='the preset to start from, or "custom" to give every value')

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return what `kind` can be."""
        return (*cls.presets, *cls.customs)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, block: Any) -> Any:  # noqa: ANN401 - anything that a file can hold
        """Turn a name into a block, and a block into one with every value."""
        block = _resolve_preset(block, cls.names())
        kind = kind_in(block, cls.names())
        return {**cls.presets[kind].values, **block} if kind in cls.presets else block

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the block as it is written: a preset's name, or a block that names one."""
        block = handler.resolve_ref_schema(handler(schema))
        block["properties"]["kind"]["enum"] = list(cls.names())
        block["required"] = ["kind"]
        return {"anyOf": [{"type": "string", "enum": list(cls.presets)}, block]}


def names_of(model: type[Spec]) -> tuple[str, ...]:
    """Return what a class goes by: its presets' names, or its kinds."""
    return model.names() if issubclass(model, Presettable) else kinds_of(model)


def _resolve_preset(block: object, known: Sequence[str]) -> object:
    """Return a block for a name, and all else as it is.

    Raises:
        ValidationError: a text that is none of the names known.
    """
    if not isinstance(block, str):
        return block
    if block not in known:
        raise failure(("", unknown(block, known), block))
    return {"kind": block}


# Validation of presets' uncertainty: impossible intervals, and sources without a figure.


def faults_of_doubts(
    model: type[Presettable], name: str, preset: Preset | None = None
) -> Iterator[str]:
    """Yield what is wrong with the doubts of a preset, one sentence a fault.

    The block itself says what is possible: it is made with each end of each interval, and with
    each pair of ends of two intervals, such as the least active power with the most idle power.

    Args:
        model: the class of the block.
        name: of the preset.
        preset: in place of the one that the class has of this name.
    """
    row = model.presets[name] if preset is None else preset
    written = {**row.values, "kind": name}
    known = set[str]()
    for field, doubt in row.doubts.items():
        wrong = list(_faults_of_one(model, field, doubt, written))
        yield from (f"{name}: {field}: {each}" for each in wrong)
        if not wrong:
            known.add(field)
    for field, other in combinations([field for field in row.doubts if field in known], 2):
        yield from _faults_of_two(model, written, row.doubts, (field, other))


def _faults_of_one(
    model: type[Presettable], field: str, doubt: Doubt, written: Mapping[str, str | float]
) -> Iterator[str]:
    """Yield what is wrong with one doubt by itself."""
    yield from _faults_of_source(doubt.source)
    if doubt.basis not in get_args(Basis):
        yield f"got the basis {doubt.basis!r}; give one of {', '.join(get_args(Basis))}"
    if field not in model.model_fields:
        yield "is no field of the block, and cannot be in doubt"
        return
    figures = list[float]()
    for figure in (doubt.low, written.get(field), doubt.high):
        with_it = written if figure is None else {**written, field: figure}
        try:
            value = getattr(model.model_validate(with_it), field)
        except ValidationError as error:
            yield f"the interval holds what cannot be: {error.errors()[0]['msg']}"
            return
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"got {value!r}, which is no figure, and cannot be in doubt"
            return
        figures.append(value)
    if not figures[0] <= figures[1] <= figures[2]:
        yield (
            f"the interval from {doubt.low} to {doubt.high} does not hold the value,"
            f" {written.get(field, figures[1])}; give low <= value <= high"
        )


def _faults_of_two(
    model: type[Presettable],
    written: Mapping[str, str | float],
    doubts: Mapping[str, Doubt],
    fields: tuple[str, str],
) -> Iterator[str]:
    """Yield which ends of two intervals cannot be combined, at most one pair."""
    first, second = fields
    for one in doubts[first][:2]:
        for other in doubts[second][:2]:
            try:
                model.model_validate({**written, first: one, second: other})
            except ValidationError as error:
                yield (
                    f"{written['kind']}: {first} {one} and {second} {other} cannot be combined:"
                    f" {error.errors()[0]['msg']}"
                )
                return


def _faults_of_source(source: Citation) -> Iterator[str]:
    """Yield what a source lacks to be found."""
    for part in ("authors", "title", "where"):
        if not getattr(source, part).strip():
            yield f"its source has no {part}"
    if not 1900 < source.year < 2100:
        yield f"its source is of the year {source.year}"
