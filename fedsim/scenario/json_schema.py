"""The JSON Schema of scenario files, by which an editor completes and checks them."""

import re
from collections.abc import Sequence
from typing import Any

from fedsim.algorithms import ALGORITHMS
from fedsim.core.blocks.catalogue import described
from fedsim.core.blocks.spec import Spec, either_form
from fedsim.core.table_columns import higher_is_better
from fedsim.results.record.variants import BASE, RESERVED, RUN
from fedsim.scenario.figures import columns
from fedsim.scenario.merging import METHOD, NAME, OF_THE_WHOLE
from fedsim.scenario.registries import catalogue
from fedsim.scenario.scenario import Scenario

Schema = dict[str, Any]

_PREFIX = "#/$defs/"
_TAKEN: Schema = {"anyOf": [{"enum": [BASE, *RESERVED]}, {"pattern": f"^{RUN}$"}]}
"""Names that no variant may have. A schema cannot ignore case, so `load` checks that."""

_NAMED_GROUP = re.compile(r"\(\?P<\w+>")


def schema(blocks: Sequence[type[Spec]] = ()) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a scenario file.

    Args:
        blocks: user-defined classes that the scenario can name.

    Raises:
        BlockError: one of them, or an installed one, cannot be used.

    Example:
        >>> keys = schema().get("properties")
        >>> keys.get("fleet").get("type")
        'array'
    """
    token = described.set(catalogue(blocks))
    try:
        whole = Scenario.model_json_schema()
    finally:
        described.reset(token)
    document: Schema = _as_written(whole)
    definitions: dict[str, Schema] = document.pop("$defs")
    partial: Schema = _partial({key: value for key, value in document.items() if key != "title"})
    for key in OF_THE_WHOLE:
        del partial["properties"][key]
    # Paths of keys in inner blocks, such as `fleet.0.availability`.
    partial["patternProperties"] = {rf"^({'|'.join(partial['properties'])})[.\[].": {}}
    # A kind alone is enough for a variant's method, which inherits the required keys.
    kinds = {"type": "string", "enum": list(catalogue(blocks).names(ALGORITHMS))}
    partial["properties"][METHOD]["anyOf"].append(kinds)
    outer = definitions["Tier"]["properties"]["outer"]  # without the keys of clients
    outer["anyOf"] = [*map(_partial_but_kind, outer["anyOf"]), kinds]
    stop = definitions["Stop"]
    # Figures are keys of `stop`, beside its own: those of fedsim's measures are described here.
    figure = either_form({"type": "number"})
    for name in columns():
        side = "or more" if higher_is_better(name) else "or less"
        wanted = f"this value {side} (the measure has to be listed under `measures`)"
        stop["properties"].setdefault(name, {**figure, "description": wanted})
    stop["additionalProperties"] = False
    parts = {f"Partial{name}": _partial(definition) for name, definition in definitions.items()}
    document["properties"]["variants"] |= {
        "propertyNames": {"pattern": f"^{NAME}$", "not": _TAKEN},
        "additionalProperties": {"$ref": f"{_PREFIX}Variant"},
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return {**head, **document, "$defs": {**definitions, **parts, "Variant": partial}}


def _as_written(part: Any) -> Any:
    """Return a schema as it applies to files, in which a block has to name its kind.

    Named groups in patterns are removed, since only Python has this syntax.
    """
    match part:
        case dict():
            written = {key: _as_written(value) for key, value in part.items()}
            if "const" in written.get("properties", {}).get("kind", {}):
                others = [key for key in written.get("required", []) if key != "kind"]
                written["required"] = ["kind", *others]
            return written
        case list():
            return [_as_written(item) for item in part]
        case str():
            return _NAMED_GROUP.sub("(", part)
        case _:
            return part


def _partial_but_kind(block: Schema) -> Schema:
    """Return a block in which only its kind is required."""
    return {**block, "required": ["kind"]} if "required" in block else block


def _partial(part: Any) -> Any:
    """Return a schema in which no key is required, for blocks of variants."""
    match part:
        case {"$ref": str(name), **rest} if name.startswith(_PREFIX):
            return {**rest, "$ref": f"{_PREFIX}Partial{name.removeprefix(_PREFIX)}"}
        case {"required": list(), **rest}:
            return _partial(rest)
        case dict():
            return {key: _partial(value) for key, value in part.items()}
        case list():
            return [_partial(item) for item in part]
        case _:
            return part
