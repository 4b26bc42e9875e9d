"""Blocks of several kinds: the key `kind` chooses the class that reads the block.

This differs from pydantic's discriminated unions in two ways. The classes are known only when a
scenario is read, because callers and installed packages add some. And the path in an error is the
key path in the file, without the name of the kind that pydantic would insert.
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

from fedsim.core.blocks.catalogue import NOTHING_GIVEN, BlockCatalogue, described
from fedsim.core.blocks.registry import Registry, kinds_of
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import nearest, printable, show, unknown
from fedsim.core.errors import BlockError


def failure(*wrong: tuple[str, str, object]) -> ValidationError:
    """Return an error about a block under validation.

    Args:
        wrong: triples of key path, message and value. The path is relative to the block, and empty
            for the block itself.
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
    """Return the kind of a block: the value of `key`, which has to be one of `known`.

    Raises:
        ValidationError: see `wrong_kind`.
    """
    kind = block.get(key) if isinstance(block, Mapping) else None
    if not isinstance(kind, str) or kind not in known:
        raise wrong_kind(block, known, key)
    return kind


def wrong_kind(
    block: object,
    known: Sequence[str],
    key: str = "kind",
    hint: str = "",
    command: str = "",
    *,
    own: bool = True,
) -> ValidationError:
    """Return the error for a value that is not a block, has no kind, or has an unknown kind.

    Args:
        block: the value; a text stands for a block of that kind.
        known: the known kinds.
        key: the key of the kind.
        hint: a suggestion for an unknown kind, or for what is no block.
        command: the command that lists the kinds.
        own: whether users can define kinds.
    """
    if isinstance(block, str):
        return failure(("", _unknown_kind(block, known, hint, command, own=own), block))
    if not isinstance(block, Mapping):
        text = f"got {show(block)}; give a block, such as {{{key}: {known[0]}, ...}}."
        return failure(("", f"{text} One of: {', '.join(known)}{hint}", block))
    if key not in block:
        # A misspelt key, such as `knid`, is named in the message.
        meant = [
            f" ('{printable(str(written))}' is none)"
            for written in block
            if nearest(written, [key])
        ]
        text = f"missing{''.join(meant)}. One of: {', '.join(known)}"
        return failure((key, text, block))
    return failure((key, _unknown_kind(block[key], known, hint, command, own=own), block[key]))


def _unknown_kind(kind: object, known: Sequence[str], hint: str, command: str, *, own: bool) -> str:
    """Return a message about an unknown kind, with the advice to load the user's file."""
    text = unknown(kind, known, hint, command)
    return f"{text}. {_DEFINED}" if own and isinstance(kind, str) else text


_DEFINED = "If a file of yours defines it, pass --plugin FILE (in Python: blocks=[...])"


def block_of(model: type[Spec], value: object, info: ValidationInfo) -> Spec:
    """Validate a block with its class, and return the instance.

    Raises:
        ValidationError: the block is invalid; the error has the key paths.
    """
    if info.mode == "json":
        # Strict validation of JSON, because a file is read in this mode: a text may become a path,
        # and a list a tuple, but a text never becomes a number.
        text = json.dumps(value)
        return model.model_validate_json(text, strict=True, context=info.context)
    return model.model_validate(value, context=info.context)


@dataclass(frozen=True)
class OneOf:
    """An annotation for pydantic: one of the classes of a registry reads the block.

    Attributes:
        registry: the registry of these blocks.
        default: the kind of a block that does not name one; if empty, the kind is required.
        number: what gives the effect of a number that is written in place of a block.
    """

    registry: Registry[Spec]
    default: str = ""
    number: str = ""

    @property
    def key(self) -> str:
        """The key that chooses the class."""
        return self.registry.key

    def kinds(self, context: object) -> tuple[str, ...]:
        """Return the known kinds; the context is that of pydantic's validation."""
        return BlockCatalogue.of(context).names(self.registry)

    def model(self, kind: str, context: object) -> type[Spec] | None:
        """Return the class of a kind; None for an unknown kind.

        Raises:
            ValidationError: the class belongs to an installed package and cannot be used.
        """
        try:
            return BlockCatalogue.of(context).find(self.registry, kind)
        except BlockError as error:
            raise failure((self.key, str(error), kind)) from error

    def takes(self, value: object) -> bool:
        """Return whether a value is an instance already, as a caller in Python may pass it."""
        return self.registry.takes(value)

    def validate(self, value: object, info: ValidationInfo) -> object:
        """Return the instance that a block describes; a text stands for a block of that kind.

        Raises:
            ValidationError: the kind is missing or unknown (see `wrong_kind`), or a key is invalid.
        """
        if self.takes(value):
            return value
        if self.default and isinstance(value, Mapping):
            value = {self.key: self.default, **value}
        kind = value.get(self.key) if isinstance(value, Mapping) else value
        model = self.model(kind, info.context) if isinstance(kind, str) else None
        if model is None:
            hint = self.suggest(kind, info.context) if isinstance(kind, str) else ""
            if isinstance(value, int | float) and self.number:
                hint = f"; {self.number}"
            kinds = self.kinds(info.context)
            own = self.registry.base is not None
            raise wrong_kind(value, kinds, self.key, hint, self.registry.command, own=own)
        return block_of(model, {self.key: value} if isinstance(value, str) else value, info)

    def suggest(self, value: str, context: object, field: str = "") -> str:
        """Return "; did you mean {kind: sklearn, name: iris}?" for "iris", or an empty text.

        For "xlsx" it is "; did you mean 'table'?", since the table block lists it in `also_called`.

        Args:
            value: a text that may be the value of a field of some block.
            context: the context of the validation.
            field: the name of the field, if known.
        """
        every = (*self.registry.built_in, *BlockCatalogue.of(context).of_kind(self.registry))
        for model in every:
            if not field and value.casefold() in model.also_called:
                return f"; did you mean '{self.registry.names_of(model)[0]}'?"
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
        """Validate by `validate`; serialise by the class of the instance."""
        return core_schema.with_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """Describe the alternatives, for editors: kinds that need nothing else, and blocks.

        They are described once per schema, since blocks contain blocks: a compressor is a part of
        the wire of each method.
        """
        known = described.get()
        kept = {} if known is NOTHING_GIVEN else known.descriptions  # of one schema alone
        if self.registry.group not in kept:
            kept[self.registry.group] = self._describe(known, handler)
        return {"anyOf": kept[self.registry.group]}

    def _describe(
        self, known: BlockCatalogue, handler: GetJsonSchemaHandler
    ) -> list[dict[str, Any]]:
        models = known.every(self.registry)
        blocks = [
            # By the class itself, since presets are not part of its core schema.
            model.__get_pydantic_json_schema__(model.__pydantic_core_schema__, handler)
            for model in models
        ]
        if alone := [kind for model in models for kind in _alone(model, self.key)]:
            blocks.append({"type": "string", "enum": alone})
        return blocks


def _alone(model: type[Spec], key: str) -> tuple[str, ...]:
    """Return the kinds of a class whose blocks need no other key."""
    fields = model.model_fields.items()
    needed = any(field.is_required() for name, field in fields if name != key)
    return () if needed else kinds_of(model, key)
