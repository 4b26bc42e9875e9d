"""Pydantic's errors as faults: where, which key, what was seen, what would be accepted."""

import re
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from fedsim.blocks.choice import OneOf
from fedsim.blocks.registry import kinds_of
from fedsim.blocks.wording import nearest, printable, shown, unknown
from fedsim.errors import Fault
from fedsim.scenario.located import Located, Path

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "text",
    "finite_number": "a finite number",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a block of keys",
    "model_type": "a block of keys",
    "model_attributes_type": "a block of keys",
    "greater_than": "a value above {gt:g}",
    "greater_than_equal": "a value of {ge:g} or more",
    "less_than": "a value below {lt:g}",
    "less_than_equal": "a value of {le:g} or less",
    "too_short": "{min_length} or more of them",
    "too_long": "{max_length} or fewer of them",
    "string_too_short": "a text of {min_length} characters or more",
    "string_too_long": "a text of {max_length} characters or fewer",
}
_BLOCKS = ("model_type", "model_attributes_type", "dict_type", "dataclass_type")
_SHAPES = (*_WANTED, "literal_error", "enum")
_QUOTED = re.compile(r"'([^']*)'")
_Reader = OneOf | type[BaseModel]


def faults_of(
    error: ValidationError, tree: Located, model: type[BaseModel], context: object
) -> list[Fault]:
    """Return the faults of a tree that was validated as `model`, in pydantic's order.

    Where a field takes one thing or another, each of them fails for itself: their faults are
    joined in one, without those that wanted something of another shape altogether, and without
    what one block or another misses where a key is in none of them.
    """
    errors = [(_path(each, tree), each) for each in error.errors(include_url=False)]
    unknown_in = {path[:-1] for path, each in errors if each["type"] == "extra_forbidden"}
    around = {path[:depth] for path, _ in errors for depth in range(len(path))}
    closer = {path for path, each in errors if each["type"] not in _BLOCKS}
    messages: dict[Path, list[str]] = {}
    for path, each in errors:
        if isinstance(each["input"], dict | list):
            beside_the_point = path in around and each["type"] in _SHAPES
        else:
            beside_the_point = path in closer and each["type"] in _BLOCKS
        if each["type"] == "missing" and path[:-1] in unknown_in:
            beside_the_point = each["loc"][-2:-1] != path[-2:-1]  # one of several blocks
        if not beside_the_point:
            messages.setdefault(path, []).append(_message(each, path, tree, model, context))
    return [tree.fault(path, "; or ".join(dict.fromkeys(said))) for path, said in messages.items()]


def _path(error: ErrorDetails, tree: Located) -> Path:
    """Return the key path of an error: without the members of unions, which are no keys."""
    if error["type"] == "stated":
        return error["loc"]
    path: Path = ()
    piece = tree
    for key in error["loc"]:
        inner = piece.get(key)
        if inner is not None:
            path, piece = (*path, key), inner
    return (*path, error["loc"][-1]) if error["type"] == "missing" else path


def _message(
    error: ErrorDetails, path: Path, tree: Located, model: type[BaseModel], context: object
) -> str:
    match error["type"]:
        case "stated" | "quantity":  # fedsim's own, which say all that is to be said
            return error["msg"]
        case "missing":
            field = _fields(model, path[:-1], tree, context).get(str(path[-1]))
            meaning = field.description if field else None
            return f"missing, and has no default ({meaning})" if meaning else "missing"
        case "extra_forbidden":
            accepted = list(_fields(model, path[:-1], tree, context))
            return _unknown_key(str(path[-1]), accepted)
        case "literal_error" | "enum":
            return unknown(error["input"], _QUOTED.findall(error["ctx"]["expected"]))
        case _:
            return _seen(error)


def _seen(error: ErrorDetails) -> str:
    """Say what was seen and what would be accepted."""
    wanted = _WANTED.get(error["type"])
    if wanted:
        return f"seen {shown(error['input'])}; give {wanted.format(**error.get('ctx', {}))}"
    if isinstance(error["input"], dict | list):  # a block's own rule, which says what it is about
        return _plain(error)
    return f"seen {shown(error['input'])}; {_plain(error)}"


def _unknown_key(key: str, accepted: list[str]) -> str:
    hint = nearest(key, accepted) or "."
    listed = f" Accepted here: {', '.join(accepted)}" if accepted else ""
    return f"unknown key '{printable(key)}'{hint}{listed}"


def _plain(error: ErrorDetails) -> str:
    """Return pydantic's text, without its prefix."""
    text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return " ".join(text.split())


def _fields(
    model: type[BaseModel], path: Path, tree: Located, context: object
) -> dict[str, FieldInfo]:
    """Return the fields of the block at a path, by the class that reads it; or none."""
    readers: list[_Reader] = [model]
    for depth, key in enumerate(path):
        if isinstance(key, str):
            here = _chosen(readers, tree.nearest(path[:depth])[0], context)
            field = here.model_fields.get(key) if here else None
            readers = list(_readers((field.annotation, *field.metadata))) if field else []
    last = _chosen(readers, tree.nearest(path)[0], context)
    if last:
        return dict(last.model_fields)
    plain = [reader for reader in readers if isinstance(reader, type) and not kinds_of(reader)]
    return {name: field for reader in plain for name, field in reader.model_fields.items()}


def _readers(parts: tuple[Any, ...]) -> Iterator[_Reader]:
    """Yield what may read the blocks of a field; the parts are those of its annotation."""
    choices = [part for part in parts if isinstance(part, OneOf)]
    for part in choices or parts:
        if isinstance(part, OneOf) or (isinstance(part, type) and issubclass(part, BaseModel)):
            yield part
        else:
            yield from _readers(get_args(part))


def _chosen(readers: list[_Reader], block: Located, context: object) -> type[BaseModel] | None:
    """Return the class that reads a block: the only one there is, or by the block's kind."""
    for reader in readers:
        if isinstance(reader, OneOf):
            kind = _said(block, reader.key) or reader.default
            model = reader.model(kind, context) if kind else None
            if model:
                return model
        elif len(readers) == 1 or _said(block, "kind") in kinds_of(reader):
            return reader
    return None


def _said(block: Located, key: str) -> str:
    """Return the text at a key of a block, or of the block that a preset's name stands for."""
    if isinstance(block.content, str):
        return block.content
    written = block.get(key)
    return written.content if written and isinstance(written.content, str) else ""
