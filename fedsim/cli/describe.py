"""The available blocks, as human-readable tables."""

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from inspect import cleandoc, getdoc
from pathlib import Path
from types import NoneType
from typing import Any, Literal, get_args, get_origin

from annotated_types import Ge
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python
from rich.markup import escape
from rich.table import Table

from fedsim.core.blocks.catalogue import NOTHING_GIVEN, BlockCatalogue, Failed
from fedsim.core.blocks.choice import OneOf
from fedsim.core.blocks.presets import Preset, Presettable
from fedsim.core.blocks.quantities import Quantity
from fedsim.core.blocks.registry import Registry
from fedsim.core.blocks.spec import Spec
from fedsim.core.blocks.wording import unknown
from fedsim.core.errors import DataError
from fedsim.core.tables import listing
from fedsim.physics.carbon import COUNTRIES
from fedsim.physics.devices import DEVICES
from fedsim.physics.infrastructure import ACCESS
from fedsim.physics.radios import CELLULAR, LORA, NB_IOT, RADIOS
from fedsim.protocol.stop_rules import StopRule
from fedsim.scenario.registries import REGISTRIES

_BESIDE = 28  # width of the first column of an overview, in characters
_PRESETS: Mapping[str, Mapping[str, Preset]] = {
    "devices": DEVICES,
    "radios": {**RADIOS, **LORA, **NB_IOT, **CELLULAR},
    "countries": COUNTRIES,
    "infrastructure": ACCESS,
}
_READ_BY = {
    "devices": "device kinds",
    "radios": "radio kinds",
    "countries": "carbon",
    "infrastructure": "infrastructure",
}
"""The registry that reads the presets of each table."""

_CITATIONS = "citations"
FIGURE = ("value", "90 % interval", "basis", "source")
"""The columns of `figure_cells`."""


def listings(
    known: BlockCatalogue = NOTHING_GIVEN, failed: Failed | None = None
) -> Iterator[tuple[str, Table]]:
    """Yield the name and the table of each type of block, of presets, and of citations.

    Args:
        known: the blocks that a scenario can name.
        failed: called for each unusable installed block, which is then left out.

    Raises:
        BlockError: an installed block cannot be used, and `failed` is None.
    """
    sourced = [registry for registry in REGISTRIES if _declares(registry, "source")]
    for registry in sourced:
        yield registry.title or registry.several, _listing(registry, known, failed)
    for title, presets in _PRESETS.items():
        lines = [line for name, preset in presets.items() for line in _figures(name, preset)]
        yield title, listing(title, ("preset", "figure", *FIGURE), lines, keys=2)
    yield _CITATIONS, listing(_CITATIONS, ("cited as", "authors, title, year, where"), _citations())
    for registry in REGISTRIES:
        if registry not in sourced and (registry.title or registry.several) not in _PRESETS:
            yield (
                registry.title or registry.several,
                _listing(registry, known, failed),
            )


def contents(known: BlockCatalogue) -> dict[str, Sequence[str]]:
    """Return the names in each table, by the name of the table."""
    tables = {registry.title or registry.several: known.names(registry) for registry in REGISTRIES}
    tables |= {title: tuple(presets) for title, presets in _PRESETS.items()}
    tables[_CITATIONS] = tuple(short for short, _ in _citations())
    return {title.replace(" ", "-"): names for title, names in tables.items()}


def overview(known: BlockCatalogue, width: int) -> Table:
    """Return the table of tables: one row per table, with its name and its first entries.

    Args:
        known: the blocks that a scenario can name.
        width: the width of the terminal, in characters.
    """
    rows = [(title, _some(names, width - _BESIDE)) for title, names in contents(known).items()]
    heads = "table", "kinds and presets that a scenario can name"
    table = listing("", heads, rows)
    table.title, table.show_edge = None, False  # so that it fits on a screen
    return table


def held_by(name: str, known: BlockCatalogue) -> str:
    """Return a hint if the name of a table is that of a block or a file format; else ""."""
    titles = {registry.title or registry.several: registry for registry in REGISTRIES}
    for title, registry in titles.items():
        if name in known.names(registry):
            return f"; did you mean `fedsim list {title.replace(' ', '-')} {name}`?"
    if (suffix := name.lower().lstrip(".").rpartition(".")[2]) in _FORMATS:
        return f"; files of this format are data: `fedsim list data {_FORMATS[suffix]}`"
    return ""


_FORMATS = {
    **dict.fromkeys(("csv", "tsv", "txt", "xlsx", "parquet", "feather", "arrow"), "table"),
    **dict.fromkeys(("json", "jsonl", "ndjson"), "table"),
    **dict.fromkeys(("sqlite", "sqlite3", "db"), "sql"),
    "npz": "npz",
    "svm": "libsvm",
    "libsvm": "libsvm",
    "idx": "idx",
}
"""The kinds of data that read files with these suffixes."""


def _some(names: Sequence[str], width: int) -> str:
    """Return as many names as fit on a line, and the number of the others."""
    for count in range(len(names), 0, -1):
        more = [f"and {len(names) - count} more"] if count < len(names) else []
        line = ", ".join([*names[:count], *more])
        if len(line) <= width:
            return line
    return f"{len(names)} of them"


def registry_of(table: str) -> Registry[Spec] | None:
    """Return the registry of the blocks in a table, or of the presets in it."""
    title = _READ_BY.get(table, table.replace("-", " "))
    return next((it for it in REGISTRIES if title == (it.title or it.several)), None)


def presets_of(table: str) -> Mapping[str, Preset]:
    """Return the presets in a table, or the presets of the kinds in it."""
    title = table.replace("-", " ")
    pairs = _READ_BY.items()
    return next((_PRESETS[presets] for presets, kinds in pairs if title in {presets, kinds}), {})


def _listing(registry: Registry[Spec], known: BlockCatalogue, failed: Failed | None) -> Table:
    """Return the table of a registry's blocks; compressors also have their contract.

    If some blocks are not part of fedsim, a column names the file or package of each.
    """
    titles = {"law": "class and constant", "source": "source"}
    further = [name for name in titles if _declares(registry, name)]
    heads = ["kind", "what it is", *(titles[name] for name in further)]
    models = known.every(registry, failed)
    rows = [
        [_kind(model, registry), _first_line(model), *(getattr(model, name) for name in further)]
        for model in models
    ]
    origins = [known.origin(registry, model) for model in models]
    if any(origins):
        heads.append("from")
        rows = [[*row, origin] for row, origin in zip(rows, origins, strict=True)]
    return listing(registry.title or registry.several, heads, rows)


def _declares(registry: Registry[Spec], name: str) -> bool:
    """Return whether the base class of a registry declares a class attribute."""
    return registry.base is not None and name in registry.base.__class_vars__


def _kind(model: type[Any], registry: Registry[Spec]) -> str:
    return ", ".join(registry.names_of(model))


def figure_cells(preset: Preset, key: str) -> tuple[str, str, str, str]:
    """Return value, 90 % interval in its unit, basis, and short source of a preset's figure.

    Args:
        preset: the preset.
        key: the key of the figure; the cells are empty if the preset lacks it.
    """
    written, doubt = _plain(preset.values.get(key, "")), preset.doubts.get(key)
    if doubt is None:
        return written, "", "", ""
    low, _, unit = _plain(doubt.low).partition(" ")
    ends = f"{low} to {_plain(doubt.high)}"
    ends = ends.removesuffix(f" {unit}") if unit and written.endswith(f" {unit}") else ends
    return written, ends, f"[{doubt.basis}]", doubt.source.short


def _plain(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _figures(name: str, preset: Preset) -> list[tuple[str, ...]]:
    """Return a row for each figure of a preset that is not zero."""
    nothing = ("0 W", "0 mW", "0 J/bit", "0 s")
    keys = [key for key, value in preset.values.items() if value not in nothing]
    return [(name if n == 0 else "", key, *figure_cells(preset, key)) for n, key in enumerate(keys)]


def _citations() -> list[tuple[str, str]]:
    """Return short and full form of the sources of all presets."""
    sources = {
        doubt.source
        for presets in _PRESETS.values()
        for preset in presets.values()
        for doubt in preset.doubts.values()
    }
    return sorted((source.short, str(source)) for source in sources)


def _first_line(model: type) -> str:
    return (getdoc(model) or "").partition("\n")[0]


# The description of one block: docstring, source, parameters, and an example.

_PLACES = {
    "algorithm": "algorithm: {}",
    "optimizer": "algorithm: {{kind: fedavg, optimizer: {}, ...}}",
    "schedule": "algorithm: {{kind: fedavg, schedule: {}, ...}}",
    "loss": "problem: {{loss: {}, ...}}",
    "architecture": "problem: {{loss: {{kind: torch, model: {}}}, ...}}",
    "infrastructure": "infrastructure: {}",
    "penalty": "problem: {{penalty: {}, ...}}",
    "source": "problem: {{data: {}, ...}}",
    "split": "problem: {{split: {}, ...}}",
    "start": "problem: {{start: {}, ...}}",
    "compressor": "wire: {{up: {{compressor: {}}}}}",
    "measure": "measures: [{}]",
    "device": "fleet: [{{device: {}, ...}}]",
    "radio": "fleet: [{{radio: {}, ...}}]",
    "network": "network: {}",
    "network model": "network: {{model: {}}}",
    "overlay": "network: {{peers: {}}}",
    "mixing": "network: {{peers: {{kind: ring}}, mixing: {}}}",
    "participation": "participation: {}",
    "silence": "silence: {}",
    "aggregation": "aggregation: {}",
    "secrecy": "secrecy: {}",
    "attack": "fleet: [{{attack: {}, ...}}]",
    "stop rule": "stop: {{{}}}",
    "availability": "fleet: [{{availability: {}, ...}}]",
    "carbon": "fleet: [{{carbon: {}, ...}}]",
    "charging": "fleet: [{{battery: {{charging: {}}}, ...}}]",
    "slowdown": "fleet: [{{device: {{kind: pi-4, slowdown: {}}}, ...}}]",
    "packet loss": "fleet: [{{radio: {{kind: wifi, loss: {}}}, ...}}]",
    "trace": "fleet: [{{radio: {{kind: wifi, up_trace: {}}}, ...}}]",
}
"""By the name of a registry: the place of its blocks in a scenario."""

_SMALL = 0.1  # the number of an example
_SAID: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("participation", "poisson"): {"share": 0.4},
    ("algorithm", "fedsgm"): {"step_size": 0.1, "tolerance": 0.1},
    ("algorithm", "fedsgm-stale"): {"step_size": 0.1, "tolerance": 0.1},
    ("compressor", "top-k"): {"fraction": 0.1},
    ("compressor", "rand-k"): {"fraction": 0.1},
    ("source", "smoothness"): {"growth": 1.3},
    ("source", "sql"): {"query": "SELECT * FROM patients"},
    ("device", "custom"): {"speed": "1 Gflop/s", "active": "5 W"},
    ("network", "graph"): {"path": "links.csv"},
    ("overlay", "random"): {"degree": 3},
    ("overlay", "edges"): {"edges": [[0, 1], [1, 2]]},
    ("overlay", "regular"): {"degree": 4},
    ("overlay", "geometric"): {"range": 0.4},
    ("overlay", "contacts"): {"path": "contacts.csv"},
    ("overlay", "random-waypoint"): {"range": "100 m"},
    ("overlay", "levy-walk"): {"range": "100 m"},
    ("overlay", "positions"): {"path": "positions.csv", "range": "100 m"},
    ("mixing", "matrix"): {"weights": [[0, 1, 0.5], [1, 0, 0.5]]},
    ("participation", "uniform"): {"count": 10},
    ("participation", "weighted"): {"count": 10},
    ("participation", "age"): {"count": 10},
    ("participation", "oort"): {"count": 10},
    ("participation", "power-of-choice"): {"count": 10, "candidates": 30},
    ("participation", "energy-aware"): {"count": 10},
    ("participation", "carbon-aware"): {"count": 10},
    ("participation", "importance"): {"count": 10},
}
"""Keys of examples that cannot be derived from the fields, such as one of several required keys."""


def block_lines(table: str, name: str, known: BlockCatalogue) -> Iterator[str | Table]:
    """Yield the parts of the description of one block.

    Args:
        table: the table that lists the block, such as "algorithms".
        name: the kind of the block, or a preset.
        known: the blocks that a scenario can name.

    Raises:
        DataError: the table has no block of this name.
        BlockError: an installed block cannot be used.
    """
    registry = registry_of(table)
    names = known.names(registry) if registry else ()
    model = known.find(registry, name) if registry else None
    if registry is None or model is None:
        raise DataError("list", f"{table} has no block of this name: {unknown(name, names)}")
    first, _, rest = _docstring(model).partition("\n")
    yield f"[bold]{escape(name)}[/]: {escape(first)}"
    if rest.strip():
        yield escape(rest.strip("\n"))
    preset = presets_of(table).get(name)
    source = preset.basis if preset else getattr(model, "source", "")
    if source and isinstance(source, str):  # a charger's `source` is a method
        yield f"source: {escape(source)}"
    rows = list(_parameters(model, registry, preset))
    yield listing("parameters", ("key", "default", "meaning"), rows) if rows else "no parameters"
    if preset and preset.doubts:
        uncertain = [(key, *figure_cells(preset, key)) for key in preset.doubts]
        yield listing("uncertainty of its figures", ("key", *FIGURE), uncertain)
        for source in dict.fromkeys(doubt.source for doubt in preset.doubts.values()):
            yield f"{escape(source.short)}: {escape(str(source))}"
    block = _in_place(example(name, model, registry), model, registry)
    yield f"in a scenario: {escape(_PLACES.get(registry.name, '{}').format(block))}"


def example(name: str, model: type[BaseModel], registry: Registry[Spec]) -> dict[str, Any] | str:
    """Return a valid block of a kind with its required keys only."""
    if issubclass(model, Presettable) and name in model.presets:
        return name
    needed = {**_fields_of(model), **_SAID.get((registry.name, name), {})}
    needed.pop(registry.key, None)
    return {registry.key: name, **needed} if needed else name


def _in_place(block: dict[str, Any] | str, model: type[Spec], registry: Registry[Spec]) -> str:
    """Return a block as YAML in its place; a stop rule's kind is its key there."""
    if not issubclass(model, StopRule) or isinstance(block, str):
        return as_written(block)
    keys = {key: value for key, value in block.items() if key != registry.key}
    value = keys.get(model.value_key(), keys)
    return f"{block[registry.key]}: {as_written(value)}"


def as_written(value: object) -> str:
    """Return a value as YAML on one line.

    >>> as_written([None, True, 0.5, {"kind": "gd"}])
    '[null, true, 0.5, {kind: gd}]'
    """
    match value:
        case Enum() | BaseModel():
            return as_written(to_jsonable_python(value))
        case dict():
            return f"{{{', '.join(f'{key}: {as_written(item)}' for key, item in value.items())}}}"
        case list() | tuple():
            return f"[{', '.join(map(as_written, value))}]"
        case None | bool():
            return {None: "null", True: "true", False: "false"}[value]
        case _:
            return f"{value:g}" if isinstance(value, float) else str(value)


def _docstring(model: type[BaseModel]) -> str:
    """Return the docstring of a class, without the section on attributes."""
    return cleandoc(model.__doc__ or "").split("\n\nAttributes:")[0]


def _parameters(
    model: type[BaseModel], registry: Registry[Spec], preset: Preset | None
) -> Iterator[tuple[str, str, str]]:
    """Yield key, default and meaning of a block's parameters."""
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
    """Return a valid value of a field."""
    annotation = field.annotation
    kinds = next((item for item in field.metadata if isinstance(item, OneOf)), None)
    if kinds is not None:
        return next(iter(kinds.registry.own))
    quantity = next((item for item in field.metadata if isinstance(item, Quantity)), None)
    if quantity is not None:
        return quantity.example
    if get_origin(annotation) is tuple:
        inner = get_args(annotation)[0]
        block = isinstance(inner, type) and issubclass(inner, BaseModel)
        return [_fields_of(inner) if block else _number(key, inner, field)]
    types = (annotation, *get_args(annotation))
    choices = [part for part in types if get_origin(part) is Literal]
    if choices:
        return get_args(choices[0])[0]
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _fields_of(annotation)
    return _number(key, annotation, field)


def _number(key: str, annotation: object, field: FieldInfo) -> object:
    """Return a valid number or text of a field with this annotation."""
    types = {part for part in (annotation, *get_args(annotation)) if part is not NoneType}
    if Path in types:
        return f"{key}.txt"
    if str in types:
        return "1/L" if float in types else key
    least = next((float(str(item.ge)) for item in field.metadata if isinstance(item, Ge)), 0.0)
    return max(int(least), 1) if annotation is int else least or _SMALL


def _fields_of(model: type[BaseModel]) -> dict[str, object]:
    needed = ((key, field) for key, field in model.model_fields.items() if field.is_required())
    return {key: _sample(key, field) for key, field in needed}
