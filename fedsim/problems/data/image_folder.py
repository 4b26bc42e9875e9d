"""Folders of images: a class a subfolder."""

# ruff: noqa: ARG002 - files draw nothing

import os
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple, NoReturn

import numpy as np
from pydantic import Field

from fedsim.blocks.given import AnyPath
from fedsim.errors import DataError
from fedsim.problems.data.pictures import ENDS, PictureSource
from fedsim.problems.samples import Samples

_KEY = "data.path"


class _Image(NamedTuple):
    client: str
    label: str
    path: Path


class ImageFolder(PictureSource):
    """A folder with a subfolder of images for each class.

    Labels are 0, 1, ... in the order of the classes' names, as in torchvision's ImageFolder.
    Images may lie deeper; other files, and what is hidden, are left out.
    """

    source: ClassVar[str] = "torchvision's ImageFolder"
    numbers_clients: ClassVar[bool | str] = "with clients: true"

    kind: Literal["image-folder"] = "image-folder"
    path: AnyPath = Field(description="the folder, relative to the scenario file's folder")
    clients: bool = Field(
        default=False,
        description="whether there is a folder a client, with the classes' subfolders in each; "
        "for the split `groups`",
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read all images, classes in order, and the files of each by name."""
        images = self._found(folder / self.path)
        rows = self.rows_of(len(images), _KEY)
        for image in images:
            rows.read(image.path)
        y = np.unique([image.label for image in images], return_inverse=True)[1]
        client = np.unique([image.client for image in images], return_inverse=True)[1]
        numbers = client.astype(np.int64) if self.clients else None
        return Samples(rows.X, y.astype(np.float64), numbers)

    def _found(self, root: Path) -> list[_Image]:
        """Return the images there are.

        Raises:
            DataError: there is no such folder, or a class of it has none.
        """
        owners = _subfolders(root, "a client") if self.clients else [root]
        found = list[_Image]()
        for owner in owners:
            for label in _subfolders(owner, "a class"):
                paths = list(_images(label))
                if not paths:
                    text = f"{label} has no image; accepted are files that end in {', '.join(ENDS)}"
                    raise DataError(_KEY, text)
                found += [_Image(owner.name, label.name, path) for path in paths]
        return found


def _subfolders(folder: Path, what: str) -> list[Path]:
    try:
        names = sorted(each.name for each in os.scandir(folder) if each.is_dir())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(_KEY, f"cannot read the folder {str(folder)!r}: {reason}") from error
    shown = [name for name in names if not name.startswith(".")]
    if not shown:
        text = f"{folder} has no subfolder; give a folder that has one for each {what[2:]}"
        raise DataError(_KEY, text)
    return [folder / name for name in shown]


def _raise(error: OSError) -> NoReturn:
    raise DataError(_KEY, f"cannot read the folder {error.filename}: {error.strerror}") from error


def _images(folder: Path) -> Iterator[Path]:
    """Yield the images in a folder and below it, by their names."""
    for place, below, names in os.walk(folder, onerror=_raise):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(ENDS) and not name.startswith("."):
                yield Path(place, name)
