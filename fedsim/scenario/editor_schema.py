"""The JSON Schema of scenario files as editors like it, and the line by which they find it.

It accepts what `schema` accepts. A block stands once, under the name that users write, and each
kind, preset and key has a description, which editors show.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedsim.core.blocks.presets import Preset
from fedsim.core.blocks.spec import Spec
from fedsim.physics.devices import DEVICES
from fedsim.physics.radios import CELLULAR, LORA, NB_IOT, RADIOS
from fedsim.scenario.json_schema import Schema, schema
from fedsim.scenario.yaml import MODELINE

FILE = "fedsim.schema.json"
"""The file of the schema, beside a scenario."""

FIRST_LINE = f"{MODELINE}{FILE}\n"
"""The line of a scenario by which editors find this file."""

ADDRESS = "https://json.schemastore.org/fedsim.json"
"""The name of the schema in SchemaStore, to which it can be submitted."""

_PREFIX = "#/$defs/"


def editor_schema(blocks: Sequence[type[Spec]] = ()) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a scenario file for an editor.

    Args:
        blocks: user-defined classes that the scenario can name.

    Raises:
        BlockError: one of them, or an installed one, cannot be used.
    """
    document = _described(schema(blocks))
    definitions = _Definitions(document.pop("$defs"))
    body = definitions.shared(document)
    head = {"$schema": body.pop("$schema"), "$id": ADDRESS, "title": "fedsim scenario"}
    return {**head, **{key: part for key, part in body.items() if key not in head}, **definitions()}


def _described(part: Any) -> Any:
    """Return a schema in which blocks are called as their kinds, and these are described."""
    match part:
        case {"properties": dict(keys)}:
            inner = {name: _described(_untitled(key, name)) for name, key in keys.items()}
            rest = {key: _described(each) for key, each in part.items() if key != "properties"}
            kind = next((key for key in inner.values() if "const" in key), None)
            if kind is not None:
                kind |= {"description": _summary(rest) or kind.get("description", "")}
                rest |= {"title": kind["const"]}
            return {**rest, "properties": inner}
        case {"enum": list(names)} if described := _presets(names):
            return {**part, "enumDescriptions": described}
        case {"format": "path", **others} | {"discriminator": dict(), **others}:  # in no draft
            return _described(others)
        case dict():
            return {key: _described(each) for key, each in part.items()}
        case list():
            return [_described(each) for each in part]
        case _:
            return part


def _untitled(key: Schema, name: str) -> Schema:
    """Return the schema of a key without the title that only repeats its name."""
    derived = name.replace("_", " ").title()
    return {each: part for each, part in key.items() if (each, part) != ("title", derived)}


def _summary(block: Mapping[str, Any]) -> str:
    """Return the first paragraph of the description of a block, as one line."""
    return " ".join(block.get("description", "").partition("\n\n")[0].split())


_ORIGINS = {"lit": "from the literature", "meas": "measured", "est": "an estimate"}
"""What the words in front of the basis of a preset mean."""

_TABLES: tuple[Mapping[str, Preset], ...] = (DEVICES, RADIOS, LORA, NB_IOT, CELLULAR)


def _presets(names: Sequence[Any]) -> list[str]:
    """Return the origin of each preset in a list of names; none if they are no presets."""
    for presets in _TABLES:
        if set(presets) <= set(names):
            return [_origin(presets[name]) if name in presets else "no preset" for name in names]
    return []


def _origin(preset: Preset) -> str:
    return re.sub(r"\[(\w+)\]", lambda word: f"{_ORIGINS.get(word[1], word[1])}:", preset.basis)


class _Definitions:
    """The definitions of a schema, in which equal blocks are one.

    Args:
        parts: the definitions so far, which keep their names.
    """

    def __init__(self, parts: Mapping[str, Schema]) -> None:
        self._names = dict[str, str]()
        self._parts: dict[str, Schema] = {name: {} for name in parts}
        for name, part in parts.items():
            self._parts[name] = {key: self.shared(each) for key, each in part.items()}

    def __call__(self) -> Schema:
        """Return them, as a part of the document."""
        return {"$defs": self._parts}

    def shared(self, part: Any, *, top: bool = True) -> Any:
        """Return a part in which every block below it is a reference."""
        match part:
            case dict():
                inner = {key: self.shared(each, top=False) for key, each in part.items()}
                is_block = not top and isinstance(part.get("properties"), dict) and "title" in part
                return self._reference(inner) if is_block else inner
            case list():
                return [self.shared(each, top=False) for each in part]
            case _:
                return part

    def _reference(self, block: Schema) -> Schema:
        written = json.dumps(block, sort_keys=True)
        if written not in self._names:
            number, name = 1, block["title"]
            while name in self._parts:
                number += 1
                name = f"{block['title']}-{number}"
            self._names[written], self._parts[name] = name, block
        return {"$ref": _PREFIX + self._names[written]}
