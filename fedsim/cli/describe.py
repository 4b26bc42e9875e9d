"""What there is to choose from, as tables for people."""

from collections.abc import Iterator, Mapping, Sequence
from inspect import getdoc
from typing import Any

from rich.table import Table

from fedsim.blocks.catalogue import NOTHING_GIVEN, Catalogue, Failed
from fedsim.blocks.presets import Preset
from fedsim.blocks.registry import Registry
from fedsim.blocks.spec import Spec
from fedsim.physics.carbon import COUNTRIES
from fedsim.physics.devices import DEVICES
from fedsim.physics.radios import LORA, NB_IOT, RADIOS
from fedsim.scenario.registries import REGISTRIES
from fedsim.tables import listing

_BESIDE = 28  # columns of an overview that the names of its tables take
_PRESETS: Mapping[str, Mapping[str, Preset]] = {
    "devices": DEVICES,
    "radios": {**RADIOS, **LORA, **NB_IOT},
    "countries": COUNTRIES,
}
_READ_BY = {"devices": "device kinds", "radios": "radio kinds", "countries": "carbon"}
"""The tables of the classes that read their blocks."""

_CITATIONS = "citations"
FIGURE = ("value", "90 % interval", "basis", "source")
"""The columns of `figure_cells`."""


def listings(
    known: Catalogue = NOTHING_GIVEN, failed: Failed | None = None
) -> Iterator[tuple[str, Table]]:
    """Yield a table for everything that a scenario names by its kind, each with its name.

    Args:
        known: what a scenario can name.
        failed: told of each installed block that cannot be used, which is left out then.

    Raises:
        BlockError: an installed one cannot be used, and nobody is to be told.
    """
    sourced = [each for each in REGISTRIES if _declares(each, "source")]
    for registry in sourced:
        yield registry.title or registry.several, _listing(registry, known, failed)
    for title, presets in _PRESETS.items():
        lines = [line for name, preset in presets.items() for line in _figures(name, preset)]
        yield title, listing(title, ("preset", "figure", *FIGURE), lines, keys=2)
    yield _CITATIONS, listing(_CITATIONS, ("cited as", "authors, title, year, where"), _citations())
    for registry in REGISTRIES:
        if registry not in sourced:
            yield (
                registry.title or registry.several,
                _listing(registry, known, failed),
            )


def overview(known: Catalogue, width: int) -> Table:
    """Return a table of all tables, a line each: their names, and what is in them.

    Args:
        known: what a scenario can name.
        width: of the terminal.
    """
    held = {registry.title or registry.several: known.names(registry) for registry in REGISTRIES}
    held |= {title: tuple(presets) for title, presets in _PRESETS.items()}
    held[_CITATIONS] = tuple(short for short, _ in _citations())
    rows = [
        (title.replace(" ", "-"), _some(names, width - _BESIDE)) for title, names in held.items()
    ]
    return listing("what a scenario can name", ("table", "kinds and presets"), rows)


def held_by(name: str, known: Catalogue) -> str:
    """Return the command that shows a block, where a name is that of one; else nothing."""
    titles = {registry.title or registry.several: registry for registry in REGISTRIES}
    for title, registry in titles.items():
        if name in known.names(registry):
            return f"; did you mean `fedsim list {title.replace(' ', '-')} {name}`?"
    return ""


def _some(names: Sequence[str], width: int) -> str:
    """Return as many names as a line takes, and how many more there are."""
    for count in range(len(names), 0, -1):
        more = [f"and {len(names) - count} more"] if count < len(names) else []
        line = ", ".join([*names[:count], *more])
        if len(line) <= width:
            return line
    return f"{len(names)} of them"


def registry_of(table: str) -> Registry[Spec] | None:
    """Return the registry whose blocks a table lists; of the tables of presets, of their blocks."""
    title = _READ_BY.get(table, table.replace("-", " "))
    return next((each for each in REGISTRIES if title == (each.title or each.several)), None)


def presets_of(table: str) -> Mapping[str, Preset]:
    """Return the presets that a table lists, or those of its kinds."""
    title = table.replace("-", " ")
    return next((_PRESETS[each] for each, of in _READ_BY.items() if title in {each, of}), {})


def _listing(registry: Registry[Spec], known: Catalogue, failed: Failed | None) -> Table:
    """Return the table of a kind of block; of compressors with what each promises.

    Where some are not fedsim's own, it says which file or package they are from.
    """
    said = {"law": "class and constant", "source": "source"}
    further = [name for name in said if _declares(registry, name)]
    heads = ["kind", "what it is", *(said[name] for name in further)]
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
    """Say whether every class of a registry has a class attribute."""
    return registry.base is not None and name in registry.base.__class_vars__


def _kind(model: type[Any], registry: Registry[Spec]) -> str:
    return ", ".join(registry.names_of(model))


def figure_cells(preset: Preset, key: str) -> tuple[str, str, str, str]:
    """Return what is known of a figure: value, 90 % interval in its unit, basis, short source.

    Args:
        preset: that has it.
        key: of the figure; the cells are empty where the preset has none.
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
    """Return a line for each figure of a preset that is not nothing."""
    nothing = ("0 W", "0 mW", "0 J/bit", "0 s")
    keys = [key for key, value in preset.values.items() if value not in nothing]
    return [(name if n == 0 else "", key, *figure_cells(preset, key)) for n, key in enumerate(keys)]


def _citations() -> list[tuple[str, str]]:
    """Return the sources of all presets, as they are cited and as they are found."""
    sources = {
        doubt.source
        for presets in _PRESETS.values()
        for preset in presets.values()
        for doubt in preset.doubts.values()
    }
    return sorted((source.short, str(source)) for source in sources)


def _first_line(model: type) -> str:
    return (getdoc(model) or "").partition("\n")[0]
