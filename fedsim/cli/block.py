"""One block that a scenario can name: what it is, its source, its parameters, an example."""

from collections.abc import Iterator, Mapping
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from rich.markup import escape
from rich.table import Table

from fedsim.blocks.catalogue import Catalogue
from fedsim.blocks.choice import OneOf
from fedsim.blocks.presets import Preset, Presettable
from fedsim.blocks.quantity import Quantity
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.blocks.wording import unknown
from fedsim.cli.describe import FIGURE, figure_cells, presets_of, registry_of
from fedsim.errors import DataError
from fedsim.tables import listing

_PLACES = {
    "algorithm": "algorithm: {}",
    "loss": "problem: {{loss: {}, ...}}",
    "penalty": "problem: {{penalty: {}, ...}}",
    "source": "problem: {{data: {}, ...}}",
    "split": "problem: {{split: {}, ...}}",
    "start": "problem: {{start: {}, ...}}",
    "compressor": "wire: {{up: {{compressor: {}}}}}",
    "measure": "measures: [{}]",
    "device": "fleet: [{{device: {}, ...}}]",
    "radio": "fleet: [{{radio: {}, ...}}]",
    "network": "network: {}",
    "overlay": "network: {{topology: graph, neighbours: {}}}",
    "participation": "participation: {}",
    "silence": "silence: {}",
    "availability": "fleet: [{{availability: {}, ...}}]",
    "carbon": "fleet: [{{carbon: {}, ...}}]",
    "charging": "fleet: [{{battery: {{charging: {}}}, ...}}]",
    "slowdown": "fleet: [{{device: {{kind: pi-4, slowdown: {}}}, ...}}]",
    "packet loss": "fleet: [{{radio: {{kind: wifi, loss: {}}}, ...}}]",
    "trace": "fleet: [{{radio: {{kind: wifi, up_trace: {}}}, ...}}]",
}
"""Where a block of a kind stands in a scenario."""

_SMALL = 0.1
_SAID: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("algorithm", "fedsgm"): {"step_size": 0.1, "tolerance": 0.1},
    ("algorithm", "fedsgm-stale"): {"step_size": 0.1, "tolerance": 0.1},
    ("compressor", "top-k"): {"fraction": 0.1},
    ("compressor", "rand-k"): {"fraction": 0.1},
    ("source", "smoothness"): {"growth": 1.3},
    ("device", "custom"): {"speed": "1 Gflop/s", "active": "5 W"},
    ("network", "graph"): {"path": "links.csv"},
    ("overlay", "random"): {"degree": 3},
    ("overlay", "edges"): {"edges": [[0, 1], [1, 2]]},
    ("participation", "uniform"): {"count": 10},
    ("participation", "weighted"): {"count": 10},
}
"""What the example of a block says that needs one of several keys."""


def block_lines(table: str, name: str, known: Catalogue) -> Iterator[str | Table]:
    """Yield what there is to say of one block, part by part.

    Args:
        table: that lists it, such as "algorithms".
        name: its kind, or a preset's.
        known: what a scenario can name.

    Raises:
        DataError: the table has none of this name.
        BlockError: an installed one cannot be used.
    """
    registry = registry_of(table)
    names = known.names(registry) if registry else ()
    model = known.find(registry, name) if registry else None
    if registry is None or model is None:
        raise DataError("list", f"{table} has none of this name: {unknown(name, names)}")
    first, _, rest = _told(model).partition("\n")
    yield f"[bold]{escape(name)}[/]: {escape(first)}"
    if rest.strip():
        yield escape(rest.strip("\n"))
    preset = presets_of(table).get(name)
    source = preset.basis if preset else getattr(model, "source", "")
    if source:
        yield f"source: {escape(source)}"
    rows = list(_parameters(model, registry, preset))
    yield listing("parameters", ("key", "default", "meaning"), rows) if rows else "no parameters"
    if preset and preset.doubts:
        known_of = [(key, *figure_cells(preset, key)) for key in preset.doubts]
        yield listing("how well its figures are known", ("key", *FIGURE), known_of)
        for source in dict.fromkeys(doubt.source for doubt in preset.doubts.values()):
            yield f"{escape(source.short)}: {escape(str(source))}"
    block = as_written(example(name, model, registry))
    yield f"in a scenario: {escape(_PLACES.get(registry.name, '{}').format(block))}"


def example(name: str, model: type[BaseModel], registry: Registry[Spec]) -> dict[str, Any] | str:
    """Return a block of a kind as a file may have it: with all that it needs, and no more."""
    if issubclass(model, Presettable) and name in model.presets:
        return name
    needed = {**_fields_of(model), **_SAID.get((registry.name, name), {})}
    needed.pop(registry.key, None)
    return {registry.key: name, **needed} if needed else name


def as_written(value: object) -> str:
    """Return a value as YAML has it on one line."""
    match value:
        case Enum() | BaseModel():
            return as_written(to_jsonable_python(value))
        case dict():
            return f"{{{', '.join(f'{key}: {as_written(each)}' for key, each in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(as_written, value))}]"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)


def _told(model: type[BaseModel]) -> str:
    """Return the docstring of a class, without the section on attributes."""
    return cleandoc(model.__doc__ or "").split("\n\nAttributes:")[0]


def _parameters(
    model: type[BaseModel], registry: Registry[Spec], preset: Preset | None
) -> Iterator[tuple[str, str, str]]:
    """Yield the keys of a block with their defaults and what they mean."""
    for key, field in model.model_fields.items():
        if key == registry.key:
            continue
        value = field.default
        if preset and key in preset.values:
            value = preset.values[key]
        elif field.is_required():
            value = "required"
        elif field.default_factory is not None:
            value = field.get_default(call_default_factory=True, validated_data={})
        yield key, as_written(value), " ".join((field.description or "").split())


def _sample(key: str, field: FieldInfo) -> object:
    """Return a value that a field takes."""
    of = field.annotation
    kinds = next((each for each in field.metadata if isinstance(each, OneOf)), None)
    if kinds is not None:
        return next(iter(kinds.registry.own))
    quantity = next((each for each in field.metadata if isinstance(each, Quantity)), None)
    if quantity is not None:
        return quantity.example
    if get_origin(of) is tuple:
        inner = get_args(of)[0]
        block = isinstance(inner, type) and issubclass(inner, BaseModel)
        return [_fields_of(inner) if block else _number(key, inner, field)]
    choices = [each for each in (of, *get_args(of)) if get_origin(each) is Literal]
    if choices:
        return get_args(choices[0])[0]
    if isinstance(of, type) and issubclass(of, BaseModel):
        return _fields_of(of)
    return _number(key, of, field)


def _number(key: str, of: object, field: FieldInfo) -> object:
    """Return a number or a text that a field takes."""
    parts = {each for each in (of, *get_args(of)) if each is not NoneType}
    if Path in parts:
        return f"{key}.txt"
    if str in parts:
        return "1/L" if float in parts else key
    least = next((float(str(each.ge)) for each in field.metadata if isinstance(each, Ge)), 0.0)
    return max(int(least), 1) if of is int else least or _SMALL


def _fields_of(model: type[BaseModel]) -> dict[str, object]:
    needed = ((key, field) for key, field in model.model_fields.items() if field.is_required())
    return {key: _sample(key, field) for key, field in needed}
