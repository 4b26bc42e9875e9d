"""Converts pydantic's errors to faults: place, key, the value seen, and what would be accepted."""

import re

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fedsim.core.blocks.synonyms import meaning
from fedsim.core.blocks.wording import (
    ALL_LISTED,
    LEAST_PER_CENT,
    closest,
    join_names,
    nearest,
    printable,
    show,
    unknown,
)
from fedsim.core.errors import Fault
from fedsim.scenario.located import KeyPath, Located
from fedsim.scenario.registries import BlockReader

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
_FEW, _MOST = 3, 8  # at most this many places of a key, and kinds of blocks, are listed
_QUOTED = re.compile(r"'([^']*)'")


def faults_of(
    error: ValidationError, tree: Located, model: type[BaseModel], context: object
) -> list[Fault]:
    """Return the faults of a tree that was validated as `model`, in pydantic's order.

    If a field accepts alternatives, each alternative reports its own errors. The messages for one
    key are joined to one fault. Two sorts of message are left out: those of alternatives that
    expect another shape altogether, and, beside an unknown key, missing keys of the other
    alternatives. A missing key whose name is misspelt has no fault of its own.

    Args:
        error: the error of pydantic.
        tree: the data that was validated.
        model: the class that it was validated as.
        context: the context of the validation.
    """
    reader = BlockReader(model, tree, context)
    errors = [
        (_path(error_detail, tree), error_detail)
        for error_detail in error.errors(include_url=False)
    ]
    unknown = [path for path, error_detail in errors if error_detail["type"] == "extra_forbidden"]
    unknown_in = {path[:-1] for path in unknown}
    misspelt = {
        (*path[:-1], near)
        for path in unknown
        for near in closest(path[-1], reader.fields(path[:-1]))
    }
    around = {path[:depth] for path, _ in errors for depth in range(len(path))}
    closer = {path for path, error_detail in errors if error_detail["type"] not in _BLOCKS}
    messages: dict[KeyPath, list[str]] = {}
    for path, error_detail in errors:
        # For a block or a list, a complaint about its shape is noise once an error inside it shows
        # that another alternative accepted the shape. For a scalar, "give a block" is noise beside
        # any other message.
        if isinstance(error_detail["input"], dict | list):
            beside_the_point = path in around and error_detail["type"] in _SHAPES
        else:
            beside_the_point = path in closer and error_detail["type"] in _BLOCKS
        if error_detail["type"] == "missing" and path[:-1] in unknown_in:
            of_another_alternative = error_detail["loc"][-2:-1] != path[-2:-1]
            beside_the_point = path in misspelt or of_another_alternative
        if not beside_the_point:
            messages.setdefault(path, []).append(_message(error_detail, path, reader))
    return [
        tree.fault(path, "; or ".join(dict.fromkeys(texts)), unknown_key=path in unknown)
        for path, texts in messages.items()
    ]


def _path(error: ErrorDetails, tree: Located) -> KeyPath:
    """Return the key path of an error, without pydantic's names for alternatives."""
    if error["type"] == "stated":
        return error["loc"]
    path: KeyPath = ()
    piece = tree
    # pydantic's names of alternatives are not in the tree, and are skipped.
    for key in error["loc"]:
        inner = piece.get(key)
        if inner is not None:
            path, piece = (*path, key), inner
    return (*path, error["loc"][-1]) if error["type"] == "missing" else path


def _message(error: ErrorDetails, path: KeyPath, reader: BlockReader) -> str:
    key = str(path[-1]) if path else ""
    if error["input"] is None and ":" in key:  # within braces, `{a:1}` has the key "a:1" in YAML
        text = "a blank is missing after the colon between a key and its value; write"
        return f"{text} {printable(key.replace(':', ': ', 1))}"
    match error["type"]:
        case "stated" | "quantity":  # fedsim's own messages, which are complete
            return error["msg"]
        case "missing":
            field = reader.fields(path[:-1]).get(str(path[-1]))
            meaning = field.description if field else None
            return f"missing, and has no default ({meaning})" if meaning else "missing"
        case "extra_forbidden":
            return _unknown_key(path, reader)
        case "literal_error" | "enum":
            hint = reader.suggest(path, error["input"])
            return unknown(error["input"], _QUOTED.findall(error["ctx"]["expected"]), hint)
        case _:
            return _describe(error)


def _describe(error: ErrorDetails) -> str:
    """Return a message with the value seen and what would be accepted."""
    wanted = _WANTED.get(error["type"])
    if wanted:
        bounds = error.get("ctx", {})
        text = f"got {show(error['input'])}; give {wanted.format(**bounds)}"
        share = 1 in (bounds.get("le"), bounds.get("lt"))
        seen = error["input"]
        if not (share and isinstance(seen, float | int) and 1 < seen <= 100):
            return text
        # 85 was meant as 85 %, while 1.5 may have been written as 150 %.
        meant = f"{seen:g} % is {seen / 100:g}" if seen >= LEAST_PER_CENT else ""
        return f"{text} ({meant or f'{seen:g} is {100 * seen:g} %'})"
    if isinstance(error["input"], dict | list):  # a rule of the block, whose text names the keys
        return _plain(error)
    return f"got {show(error['input'])}; {_plain(error)}"


def _unknown_key(path: KeyPath, reader: BlockReader) -> str:
    """Return a message that a key is unknown here, with the blocks or places that accept it."""
    key, accepted = str(path[-1]), list(reader.fields(path[:-1]))
    meant = meaning(key)
    hint = f"; did you mean '{meant}'?" if meant in accepted else nearest(key, accepted)
    if len(path) == 1 and hint and (places := reader.places(key)):
        # A key that a block has may stand at the top by mistake, though its name is like another.
        others = [*places[:_FEW], *(f"'{name}'" for name in closest(key, accepted))]
        hint = f"; did you mean {join_names(others, 'or')}?"
    if not hint and meant and (places := reader.places(meant)):
        hint = f"; did you mean {join_names(places[:_FEW], 'or')}?"
    if not hint and (others := reader.kinds_with(path)):
        kind = "" if reader.tree.nearest(path[:-1])[0].get("kind") else "; give a `kind`, too"
        hint = f"; it belongs to {_some(others)}{kind}."
    elif not hint and (places := reader.places(key)):
        hint = f"; did you mean {join_names(places[:_FEW], 'or')}?"
    # Beside a key that is surely meant, a long list of others hides it.
    shown = accepted if len(accepted) <= ALL_LISTED or not closest(key, accepted) else []
    listed = f" Accepted here: {', '.join(shown)}" if shown else ""
    return f"unknown key '{printable(key)}'{hint or '.'}{listed}"


def _some(names: list[str]) -> str:
    more = [f"{len(names) - _MOST} more"] if len(names) > _MOST + 1 else []
    return join_names([*names[: _MOST if more else None], *more], "and")


def _plain(error: ErrorDetails) -> str:
    """Return pydantic's text, without its prefix."""
    text = error["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return " ".join(text.split())
