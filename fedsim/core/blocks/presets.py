"""Blocks that start from a preset: its name alone, or its name and the fields that differ."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from math import inf
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import Field, GetJsonSchemaHandler, ValidationError, model_validator
from pydantic_core import CoreSchema

from fedsim.core.blocks.choice import failure, kind_in
from fedsim.core.blocks.registry import kinds_of
from fedsim.core.blocks.spec import Spec, either_form, per_cent
from fedsim.core.blocks.wording import unknown

CUSTOM = "custom"
"""The kind of a block without a preset, which gives every value."""


class Citation(NamedTuple):
    """The source of a figure.

    Attributes:
        authors: the authors of the paper or page; for a data sheet, the manufacturer.
        title: the title of the publication.
        year: the year of publication; for a page, that of access.
        where: a DOI, or the address of a repository or a document.
    """

    authors: str
    title: str
    year: int
    where: str

    @property
    def short(self) -> str:
        """The citation in a table: authors and year."""
        first, *others = self.authors.split(", ")
        rest = " et al." if len(others) > 1 else "".join(f" and {author}" for author in others)
        return f"{first}{rest} {self.year}"

    def __str__(self) -> str:
        return f'{self.authors}, "{self.title}", {self.year}, {self.where}'


Basis = Literal["meas", "lit", "est"]
"""The basis of a figure: a public measurement, the literature, or an estimate."""


class Doubt(NamedTuple):
    """The uncertainty of a figure of a preset.

    Attributes:
        low: the lower end of an interval that contains the figure with a probability of 90 %, in
            the notation of the field.
        high: the upper end.
        basis: "meas" if the source measured the figure, or values around it; "lit" if the source
            states the figure, its range, or a bound; "est" if it is an estimate, and the source the
            nearest published one.
        source: the source of the figure and its interval.
        aside: why the figure lies near an end of its interval, if it does.
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
        basis: origin and quality of the figures: [lit] from the literature, [meas] from a public
            measurement, [est] an estimate accurate to a factor of 2.
        values: values by field, in the notation of a scenario, such as a text with its unit. Other
            fields have the defaults of the block.
        doubts: the uncertainty by field. Fields without one are choices, or defined exactly, for
            example by a standard.
    """

    basis: str
    values: Mapping[str, str | float]
    doubts: Mapping[str, Doubt] = MappingProxyType({})


class Presettable(Spec):
    """A block whose `kind` is a preset, which supplies the fields that the block omits.

    A text in per cent is a share of the preset's figure: `speed: 10 %` is a tenth of its speed.

    Attributes:
        presets: the presets by name, in the order of lists.
        customs: the kinds without a preset; empty if every block needs one.
    """

    presets: ClassVar[Mapping[str, Preset]]
    customs: ClassVar[tuple[str, ...]] = (CUSTOM,)

    kind: str = Field(description='the preset to start from, or "custom" to give every value')

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the accepted kinds."""
        return (*cls.presets, *cls.customs)

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, block: Any) -> Any:
        block = _resolve_preset(block, cls.names())
        kind = kind_in(block, cls.names())
        if kind not in cls.presets:
            return block
        # The block's own keys come last, so that they replace those of the preset.
        own = cls.presets[kind].values
        return {**own, **{key: _share_of(own.get(key), value) for key, value in block.items()}}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the accepted forms: the name of a preset, or a block that names one."""
        block = handler.resolve_ref_schema(handler(schema))
        block["properties"]["kind"]["enum"] = list(cls.names())
        block["required"] = ["kind"]
        figures = {
            key: figure for each in cls.presets.values() for key, figure in each.values.items()
        }
        for key, figure in figures.items():
            if isinstance(figure, float):  # texts with units match their pattern in per cent, too
                block["properties"][key] = _or_per_cent(block["properties"][key])
        return {"anyOf": [{"type": "string", "enum": list(cls.presets)}, block]}


def _or_per_cent(field: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a number that may also be a share of a preset's figure."""
    # A number that may not be null is no alternative of several.
    bounds = ("type", "minimum", "maximum", "exclusiveMinimum")
    number = {key: field.pop(key) for key in bounds if key in field}
    forms = [form for form in field.pop("anyOf", [number]) if form.get("type") != "string"]
    return {**either_form({"anyOf": forms}), **field}


def _share_of(own: str | float | None, written: object) -> object:
    """Return what a field of a block is, if `written` may be a share of the preset's figure `own`.

    "10 %" of a figure with a unit is a tenth of it. Everything else is returned as it is: values
    that are not in per cent; per cent where the preset's figure is itself a share; and per cent
    where the preset has no figure, which the field then refuses.

    >>> _share_of("6 Mbit/s", "10 %"), _share_of("6 Mbit/s", "1 Mbit/s"), _share_of("5 %", "10 %")
    ('0.6 Mbit/s', '1 Mbit/s', '10 %')
    """
    share = per_cent(written)
    if not (isinstance(written, str) and isinstance(share, float)):
        return written
    if isinstance(own, float):
        return float(Decimal(repr(own)) * Decimal(repr(share)))
    number, _, unit = str(own).partition(" ")
    return written if unit in ("", "%") else f"{Decimal(number) * Decimal(repr(share))} {unit}"


def read_field(block: Presettable, field: str, text: str | float) -> float:
    """Return the value of a field of a block, in SI units, if the field were set to `text`.

    The whole block is validated, since the field may conflict with others.

    Raises:
        ValidationError: a ValueError; the field does not accept the text, or other fields rule it
            out.
    """
    values = {**block.model_dump(mode="json"), field: text}
    return float(getattr(type(block).model_validate(values), field))


def read_interval(block: Presettable, field: str, text: str) -> tuple[float, float]:
    """Return both ends of an interval of a field, such as "1 s..15 s", in SI units.

    Raises:
        ValueError: the text is no interval, or the field does not accept its ends.
    """
    first, dots, second = text.partition("..")
    if not dots:
        raise ValueError(f"got {text}; expected LOW..HIGH")
    try:
        low, high = (read_field(block, field, end.strip()) for end in (first, second))
    except ValidationError as error:
        raise ValueError("; ".join(fault["msg"] for fault in error.errors())) from error
    if not low < high < inf:
        raise ValueError(f"got {text}; expected the lower value first")
    return low, high


def fault_of_interval(block: object, field: str, text: str) -> str:
    """Return why a text is no interval of a numeric field of a block; empty if it is one."""
    value = getattr(block, field, None) if isinstance(block, Presettable) else None
    if not isinstance(block, Presettable) or not isinstance(value, int | float):
        return "is no figure of these clients; expected one such as radio.up or device.speed"
    try:
        read_interval(block, field, text)
    except ValueError as error:
        return str(error)
    return ""


def names_of(model: type[Spec]) -> tuple[str, ...]:
    """Return the names of a class: those of its presets, or its kinds."""
    return model.names() if issubclass(model, Presettable) else kinds_of(model)


def _resolve_preset(block: object, known: Sequence[str]) -> object:
    """Return the block that a name stands for; return other values unchanged.

    Raises:
        ValidationError: the text is none of the known names.
    """
    if not isinstance(block, str):
        return block
    if block not in known:
        raise failure(("", unknown(block, known), block))
    return {"kind": block}
