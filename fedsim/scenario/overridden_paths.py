"""Relative paths in overrides: by default from the current folder, as paths of a command.

A path in a scenario file starts from the folder of that file. An override is typed elsewhere: for a
scenario that comes with fedsim, the folder of its file is one that the user never sees.
"""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel

from fedsim.core.blocks.spec import FILE_OR_ADDRESS
from fedsim.scenario.located import KeyPath, Located
from fedsim.scenario.merging import OPTION, place


def with_paths_from(base: Path, tree: Located, scenario: BaseModel, folder: Path) -> Located:
    """Return a scenario as written, whose overridden paths mean the same in the scenario's folder.

    Paths below that folder are written relative to it, so that runs do not record where it is;
    others become absolute.

    Args:
        base: the folder from which the paths of overrides start.
        tree: the scenario as written, with its overrides.
        scenario: the same, validated, which shows which of its texts are paths.
        folder: the folder from which the paths of the scenario start.
    """
    for keys, path in _paths(scenario, ()):
        piece, depth = tree.nearest(keys)
        by_option = piece.origin.source.startswith(f"{OPTION} ")
        if by_option and piece.content == str(path) and not path.is_absolute():
            file = base / path
            below = file.relative_to(folder) if file.is_relative_to(folder) else file
            text = Located(piece.origin, below.as_posix())
            tree = place(tree, [str(key) for key in keys[:depth]], text)
    return tree


def _paths(value: object, keys: KeyPath) -> Iterator[tuple[KeyPath, Path]]:
    """Yield all paths in a block, with their keys."""
    match value:
        case Path():
            yield keys, value
        case BaseModel():
            for name, inner in value:
                field = type(value).model_fields.get(name)
                is_file = field is not None and FILE_OR_ADDRESS in field.metadata
                path = Path(inner) if is_file and "://" not in inner else inner
                yield from _paths(path, (*keys, name))
        case dict():
            for name, inner in value.items():
                yield from _paths(inner, (*keys, name))
        case list() | tuple():
            for number, inner in enumerate(value):
                yield from _paths(inner, (*keys, number))
