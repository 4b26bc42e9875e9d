"""Blocks of several kinds: `kind` says which class reads the block.

Pydantic has discriminated unions; these differ in that the classes of one of them are known
only when a scenario is read (those of a user and of installed packages), and in that an error
keeps the key path of the file, without the kind in the middle of it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from fedsim.blocks.catalogue import BlockCatalogue, described
from fedsim.blocks.registry import Registry, kinds_of
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import nearest, printable, show, unknown
from fedsim.errors import BlockError


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


def kind_in(block: object, known: Sequence[str], key: str = "kind") -> str:
    """Return what a block says at `key`: its kind, one of those known.

    Raises:
        ValidationError: see `wrong_kind`.
    """
    kind = block.get(key) if isinstance(block, Mapping) else None
    if not isinstance(kind, str) or kind not in known:
        raise wrong_kind(block, known, key)
    return kind


def wrong_kind(
    block: object, known: Sequence[str], key: str = "kind", hint: str = ""
) -> ValidationError:
    """Return an error: it is no block, says no kind, or one that is none of those known.

    Args:
        block: what was seen; a text stands for a block of that kind.
        known: the kinds.
        key: where a block says its kind.
        hint: what may have been meant, where that is no kind.
    """
    if isinstance(block, str):
        return failure(("", unknown(block, known, hint), block))
    if not isinstance(block, Mapping):
        text = f"got {show(block)}; give a block, such as {{{key}: {known[0]}, ...}}."
        return failure(("", f"{text} One of: {', '.join(known)}", block))
    if key not in block:
        meant = [f" ('{printable(str(each))}' is none)" for each in block if nearest(each, [key])]
        text = f"missing{''.join(meant)}; say which. One of: {', '.join(known)}"
        return failure((key, text, block))
    return failure((key, unknown(block[key], known, hint), block[key]))


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
    """An annotation for pydantic: a block that one of the classes of a registry reads.

    Attributes:
        registry: of the kind of block.
        default: what a block says at the registry's key where it is not written; empty where it
            has to be.
    """

    registry: Registry[Spec]
    default: str = ""

    @property
    def key(self) -> str:
        """The key that says which class reads a block."""
        return self.registry.key

    def kinds(self, context: object) -> tuple[str, ...]:
        """Return the kinds to choose from; the context is that of the validation."""
        return BlockCatalogue.of(context).names(self.registry)

    def model(self, kind: str, context: object) -> type[Spec] | None:
        """Return the class of a kind; None where there is none.

        Raises:
            ValidationError: an installed package has it, and it cannot be used.
        """
        try:
            return BlockCatalogue.of(context).find(self.registry, kind)
        except BlockError as error:
            raise failure((self.key, str(error), kind)) from error

    def takes(self, value: object) -> bool:
        """Return whether a value made in Python is taken as it is."""
        return self.registry.takes(value)

    def validate(self, value: object, info: ValidationInfo) -> object:
        """Return the instance that a block describes; a text is a block of that kind.

        Raises:
            ValidationError: see `wrong_kind`; or what is wrong within the block.
        """
        if self.takes(value):
            return value
        if self.default and isinstance(value, Mapping):
            value = {self.key: self.default, **value}
        kind = value.get(self.key) if isinstance(value, Mapping) else value
        model = self.model(kind, info.context) if isinstance(kind, str) else None
        if model is None:
            hint = self.suggest(kind, info.context) if isinstance(kind, str) else ""
            raise wrong_kind(value, self.kinds(info.context), self.key, hint)
        return block_of(model, {self.key: value} if isinstance(value, str) else value, info)

    def suggest(self, value: str, context: object, field: str = "") -> str:
        """Return "; did you mean {kind: sklearn, name: iris}?" for "iris", or nothing.

        Args:
            value: a text, which some field of a block may have to be.
            context: of the validation.
            field: the field, where it is known.
        """
        every = (*self.registry.built_in, *BlockCatalogue.of(context).of_kind(self.registry))
        for model in every:
            for name, of in model.model_fields.items():
                if value in get_args(of.annotation) and field in ("", name) and name != self.key:
                    kind = self.registry.names_of(model)[0]
                    return f"; did you mean {{{self.key}: {kind}, {name}: {value}}}?"
        return ""

    def having(self, field: str, context: object) -> list[str]:
        """Return the kinds of the blocks that have a field of this name."""
        every = (*self.registry.built_in, *BlockCatalogue.of(context).of_kind(self.registry))
        models = [model for model in every if field in model.model_fields]
        return [name for model in models for name in self.registry.names_of(model)]

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Validate by `validate`; write whatever class the instance is of."""
        return core_schema.with_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the alternatives, for editors: kinds that need nothing else, and blocks."""
        models = described.get().every(self.registry)
        blocks = [
            # By its own hand, since its core schema alone does not know of presets.
            model.__get_pydantic_json_schema__(model.__pydantic_core_schema__, handler)
            for model in models
        ]
        if alone := [kind for each in models for kind in _alone(each, self.key)]:
            blocks.append({"type": "string", "enum": alone})
        return {"anyOf": blocks}


def _alone(model: type[Spec], key: str) -> tuple[str, ...]:
    """Return the kinds of a class whose blocks need say nothing else."""
    fields = model.model_fields.items()
    needed = any(field.is_required() for name, field in fields if name != key)
    return () if needed else kinds_of(model, key)
