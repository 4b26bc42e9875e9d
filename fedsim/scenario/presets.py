"""Blocks that start from a preset: a name alone, or a name and what differs from it."""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from fedsim.scenario.choice import failure, kind_in
from fedsim.scenario.wording import unknown
from fedsim.spec import Spec

CUSTOM = "custom"
"""The kind of a block that starts from nothing and gives every value."""


class Preset(NamedTuple):
    """A row of a table of presets.

    Attributes:
        basis: where the figures are from, and how good they are: [lit] from the literature,
            [meas] a public measurement, [est] an estimate good to a factor of 2.
        values: field -> text with its unit, as a scenario would have it.
    """

    basis: str
    values: Mapping[str, str]


class Presettable(Spec):
    """A block whose `kind` is a preset, which fills in what the block does not give.

    Attributes:
        presets: name -> preset, in the order in which they are listed.
    """

    presets: ClassVar[Mapping[str, Preset]]

    kind: str = Field(description='the preset to start from, or "custom" to give every value')

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, block: Any) -> Any:  # noqa: ANN401 - anything that a file can hold
        """Turn a name into a block, and a block into one with every value."""
        known = (*cls.presets, CUSTOM)
        if isinstance(block, str):
            if block not in known:
                raise failure(("", unknown(block, known), block))
            block = {"kind": block}
        kind = kind_in(block, known)
        return {**cls.presets[kind].values, **block} if kind in cls.presets else block

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the block as it is written: a preset's name, or a block that names one."""
        block = handler.resolve_ref_schema(handler(schema))
        block["properties"]["kind"]["enum"] = [*cls.presets, CUSTOM]
        block["required"] = ["kind"]
        return {"anyOf": [{"type": "string", "enum": list(cls.presets)}, block]}
