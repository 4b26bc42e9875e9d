"""Blocks that start from a preset: a name alone, or a name and what differs from it."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from fedsim.blocks.choice import failure, kind_in
from fedsim.blocks.registry import kinds_of
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import unknown

CUSTOM = "custom"
"""The kind of a block that starts from nothing and gives every value."""


class Source(NamedTuple):
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
    source: Source
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
        block = _named(block, cls.names())
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


def _named(block: object, known: Sequence[str]) -> object:
    """Return a block for a name, and all else as it is.

    Raises:
        ValidationError: a text that is none of the names known.
    """
    if not isinstance(block, str):
        return block
    if block not in known:
        raise failure(("", unknown(block, known), block))
    return {"kind": block}
