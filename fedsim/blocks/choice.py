"""Blocks of several kinds: `kind` says which class reads the block.

Pydantic has discriminated unions; these differ in that the classes of one of them are known
only when a scenario is read (a user's own algorithms), and in that an error keeps the key
path of the file, without the kind in the middle of it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import (
    BaseModel,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import nearest, printable, shown, unknown


def failure(*wrong: tuple[str, str, object]) -> ValidationError:
    """Return an error about a block under validation.

    Args:
        wrong: key paths within the block ("" is the block itself), messages, values seen.
    """
    details = [
        InitErrorDetails(
            type=PydanticCustomError("stated", "{text}", {"text": text}),
            loc=tuple(key.split(".")) if key else (),
            input=seen,
        )
        for key, text, seen in wrong
    ]
    return ValidationError.from_exception_data("scenario", details)


def kinds_of(model: type[BaseModel], key: str = "kind") -> tuple[str, ...]:
    """Return the kinds that a class goes by: the literals of its field `key`."""
    field = model.model_fields.get(key)
    return () if field is None else tuple(map(str, get_args(field.annotation)))


def kind_in(block: object, known: Sequence[str], key: str = "kind") -> str:
    """Return what a block says at `key`: its kind, one of those known.

    Raises:
        ValidationError: it is no block, says no kind, or one that nobody knows.
    """
    if not isinstance(block, Mapping):
        kind = block if isinstance(block, str) and block in known else known[0]
        text = (
            f"seen {shown(block)}; give a block, such as {{{key}: {kind}, ...}}."
            f" One of: {', '.join(known)}"
        )
        raise failure(("", text, block))
    if key not in block:
        meant = [f" ('{printable(str(each))}' is none)" for each in block if nearest(each, [key])]
        text = f"missing{''.join(meant)}; say which. One of: {', '.join(known)}"
        raise failure((key, text, block))
    kind = block[key]
    if not isinstance(kind, str) or kind not in known:
        raise failure((key, unknown(kind, known), kind))
    return kind


def block_of(model: type[Spec], value: object, info: ValidationInfo) -> Spec:
    """Return the instance of a class that a block under validation describes.

    Raises:
        ValidationError: with what is wrong within the block.
    """
    if info.mode == "json":
        # Strict JSON: text becomes a path and a list a tuple, but no text a number.
        text = json.dumps(value)
        return model.model_validate_json(text, strict=True, context=info.context)
    return model.model_validate(value, context=info.context)


@dataclass(frozen=True)
class OneOf:
    """An annotation for pydantic: a block that one of several classes reads.

    Attributes:
        models: the classes, each with a literal `kind`.
        key: the key that says which, where it is not `kind`.
        default: what it says where it is not written; empty where it has to be.
    """

    models: tuple[type[Spec], ...]
    key: str = "kind"
    default: str = ""

    def kinds(self, context: Any) -> tuple[str, ...]:  # noqa: ANN401, ARG002 - pydantic's context
        """Return the kinds to choose from."""
        return tuple(kind for model in self.models for kind in kinds_of(model, self.key))

    def model(self, kind: str, context: Any) -> type[Spec]:  # noqa: ANN401, ARG002
        """Return the class for one of `kinds`."""
        return next(model for model in self.models if kind in kinds_of(model, self.key))

    def takes(self, value: object) -> bool:
        """Say whether a value made in Python is taken as it is."""
        return isinstance(value, self.models)

    def validate(self, value: object, info: ValidationInfo) -> object:
        """Return the instance that a block describes.

        Raises:
            ValidationError: see `kind_in`; or what is wrong within the block.
        """
        if self.takes(value):
            return value
        if self.default and isinstance(value, Mapping):
            value = {self.key: self.default, **value}
        kind = kind_in(value, self.kinds(info.context), self.key)
        return block_of(self.model(kind, info.context), value, info)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `validate`; write whatever class the instance is of."""
        return core_schema.with_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the alternatives, for editors."""
        described = [
            # By its own hand, since its core schema alone does not know of presets.
            model.__get_pydantic_json_schema__(model.__pydantic_core_schema__, handler)
            for model in self.models
        ]
        return {"anyOf": described}
