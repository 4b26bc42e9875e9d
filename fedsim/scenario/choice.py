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

from fedsim.scenario.wording import nearest, printable, shown, unknown
from fedsim.spec import Spec


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


def kinds_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the kinds that a class goes by: the literals of its field `kind`."""
    field = model.model_fields.get("kind")
    return () if field is None else tuple(map(str, get_args(field.annotation)))


def kind_in(block: object, known: Sequence[str]) -> str:
    """Return the kind of a block, one of those known.

    Raises:
        ValidationError: it is no block, says no kind, or one that nobody knows.
    """
    if not isinstance(block, Mapping):
        kind = block if isinstance(block, str) and block in known else known[0]
        text = f"seen {shown(block)}; give a block, such as {{kind: {kind}, ...}}"
        raise failure(("", text, block))
    if "kind" not in block:
        meant = [f" ('{printable(str(key))}' is none)" for key in block if nearest(key, ["kind"])]
        text = f"missing{''.join(meant)}; say which. One of: {', '.join(known)}"
        raise failure(("kind", text, block))
    kind = block["kind"]
    if not isinstance(kind, str) or kind not in known:
        raise failure(("kind", unknown(kind, known), kind))
    return kind


@dataclass(frozen=True)
class OneOf:
    """An annotation for pydantic: a block that one of several classes reads.

    Attributes:
        models: the classes, each with a literal `kind`.
    """

    models: tuple[type[Spec], ...]

    def kinds(self, context: Any) -> tuple[str, ...]:  # noqa: ANN401, ARG002 - pydantic's context
        """Return the kinds to choose from."""
        return tuple(kind for model in self.models for kind in kinds_of(model))

    def model(self, kind: str, context: Any) -> type[Spec]:  # noqa: ANN401, ARG002
        """Return the class for one of `kinds`."""
        return next(model for model in self.models if kind in kinds_of(model))

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
        model = self.model(kind_in(value, self.kinds(info.context)), info.context)
        if info.mode == "json":
            # Strict JSON: text becomes a path and a list a tuple, but no text a number.
            text = json.dumps(value)
            return model.model_validate_json(text, strict=True, context=info.context)
        return model.model_validate(value, context=info.context)

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `validate`; write whatever class the instance is of."""
        return core_schema.with_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the alternatives, for editors."""
        return {"anyOf": [handler(model.__pydantic_core_schema__) for model in self.models]}
