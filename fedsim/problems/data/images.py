"""Image files: the options of their sources, and their pixels as rows of bytes."""

import os
import struct
import warnings
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedsim.core.blocks.spec import AnyPath, Given, as_written
from fedsim.core.errors import DataError
from fedsim.core.files import read_bytes
from fedsim.core.memory import check_budget
from fedsim.problems.data.base import Source
from fedsim.problems.samples import Samples

if TYPE_CHECKING:
    from PIL import Image

Side = Annotated[int, Field(ge=1, le=10_000)]

FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "BMP": (".bmp",),
    "PPM": (".ppm", ".pgm"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
"""The accepted formats, by Pillow's name, with their file suffixes."""

ENDS = tuple(end for ends in FORMATS.values() for end in ends)

_GREY = ("1", "L", "LA")
_COLOUR = ("RGB", "RGBA", "P", "CMYK", "YCbCr")
_BILINEAR = 2
"""The value of Pillow's `Resampling.BILINEAR`."""

_DAMAGES = (
    *(OSError, SyntaxError, ValueError, TypeError, IndexError, KeyError, EOFError),
    *(MemoryError, struct.error, zlib.error),
)
"""The exceptions that Pillow's readers raise on damaged content."""


class PictureSource(Source):
    """A source whose rows may be images: bytes 0 to 255, flattened channel by channel."""

    size: Given[tuple[Side, Side] | None, Sequence[int] | None] = as_written(
        None,
        (
            "height and width that every image is resized to, bilinearly; null: images keep"
            " their size, which must be the same"
        ),
    )
    channels: Literal[1, 3] | None = Field(
        default=None, description="1: grey; 3: red, green, blue; null: as in the first image"
    )

    def rows_of(self, count: int, key: str) -> "ImageReader":
        """Return a reader of `count` images; `key` is the key of the scenario for errors."""
        return ImageReader(count, self.size, self.channels, key)


class ImageForm(NamedTuple):
    """The form that all images share: size (height, width) and number of channels."""

    size: tuple[int, int]
    channels: int


class ImageReader:
    """Reads images one after the other, each into a row of one array.

    Args:
        count: the number of images to read, at least one.
        size: see `PictureSource`.
        channels: see `PictureSource`.
        key: the key of the scenario, for errors.

    Attributes:
        X: the rows, shape (count, channels x height x width), filled as images are added.
    """

    def __init__(
        self, count: int, size: tuple[int, int] | None, channels: int | None, key: str
    ) -> None:
        self.X: NDArray[np.uint8] = np.empty((0, 0), np.uint8)
        self._count = count
        self._size = size
        self._channels = channels
        self._key = key
        self._form: ImageForm | None = None
        self._first = ""
        self._filled = 0

    def read(self, path: Path) -> None:
        """Read the next image from a file.

        Raises:
            DataError: it cannot be read, or as for `add`.
        """
        self.add(read_bytes(path, self._key), str(path))

    def add(self, content: bytes, name: str) -> None:
        """Add the next image.

        Args:
            content: the file's bytes.
            name: the file's name, for errors.

        Raises:
            DataError: it is no image, or its form differs from that of the earlier images.
        """
        pixels = self._decode(content, name)
        if not self._filled:
            what = f"{self._count} images of {pixels.size} numbers, as bytes and in float32,"
            # A number takes one byte as it is read, and four bytes in float32.
            check_budget(self._key, what, 5 * self._count * pixels.size)
            self.X = np.empty((self._count, pixels.size), np.uint8)
        self.X[self._filled] = pixels.reshape(-1)
        self._filled += 1

    def _decode(self, content: bytes, name: str) -> NDArray[np.uint8]:
        """Return the pixels of an image, shape (channels, height, width)."""
        from PIL import Image, UnidentifiedImageError  # takes 0.1 s, for few

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # Pillow only warns about huge images, and would open them.
                warnings.simplefilter("error", Image.DecompressionBombWarning)
                with Image.open(BytesIO(content), formats=tuple(FORMATS)) as image:
                    return self._pixels(image, name)
        except UnidentifiedImageError as error:
            raise self._unread(name, f"it begins with {content[:8]!r}") from error
        except (Image.DecompressionBombError, Image.DecompressionBombWarning, *_DAMAGES) as error:
            raise self._unread(name, str(error) or type(error).__name__) from error

    def _unread(self, name: str, reason: str) -> DataError:
        text = f"{name} is no image that can be read ({reason}); accepted are"
        return DataError(self._key, f"{text} {', '.join(FORMATS)}")

    def _pixels(self, image: "Image.Image", name: str) -> NDArray[np.uint8]:
        form = self._agree(image, name)
        width, height = image.size
        check_budget(self._key, f"{name}: its {height} x {width} pixels", 8 * width * height)
        plain = image.convert("L" if form.channels == 1 else "RGB")
        if self._size:
            # Pillow takes the width first.
            plain = plain.resize(form.size[::-1], _BILINEAR)
        array = np.asarray(plain, dtype=np.uint8)
        return array[None] if array.ndim == 2 else np.moveaxis(array, 2, 0)

    def _agree(self, image: "Image.Image", name: str) -> ImageForm:
        """Return the form of all images, which is by default that of the first image.

        Raises:
            DataError: this image has another form.
        """
        size, grey = image.size[::-1], image.mode in _GREY
        if not grey and image.mode not in _COLOUR:
            text = f"{name} has pixels of Pillow's mode {image.mode}"
            raise DataError(self._key, f"{text}; accepted are 8 bits a channel, grey or in colour")
        if self._form is None:
            self._first = name
            self._form = ImageForm(self._size or size, self._channels or (1 if grey else 3))
        form = self._form
        if not self._size and size != form.size:
            text = f"{name} has {_show(size)} pixels, but {self._first} has {_show(form.size)}"
            raise DataError(self._key, f"{text}; give size: [height, width] to resize all")
        if not self._channels and form.channels == 1 and not grey:
            text = f"{name} is in colour, but {self._first} is grey"
            raise DataError(self._key, f"{text}; give channels: 1 or channels: 3 for all")
        return form


def _show(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


# Folders of images, with one subfolder per class.


_KEY = "data.path"


class _Image(NamedTuple):
    client: str
    label: str
    path: Path


class ImageFolder(PictureSource):
    """A folder with a subfolder of images for each class.

    Labels are 0, 1, ... in the order of the classes' names, as in torchvision's ImageFolder. Images
    may be in deeper subfolders. Other files and hidden ones are ignored.
    """

    source: ClassVar[str] = "torchvision's ImageFolder"
    numbers_clients: ClassVar[bool | str] = "with clients: true"

    kind: Literal["image-folder"] = "image-folder"
    path: AnyPath = Field(description="the folder, relative to the scenario file's folder")
    clients: bool = Field(
        default=False,
        description="whether each client has a folder, with the classes' subfolders in it; "
        "for the split `groups`",
    )

    def read(self, folder: Path, rng: np.random.Generator) -> Samples:
        """Read all images: classes in order, and the files of each class by name."""
        images = self._find(folder / self.path)
        rows = self.rows_of(len(images), _KEY)
        for image in images:
            rows.read(image.path)
        # Classes are numbered in the order of their names, the same for all clients.
        y = np.unique([image.label for image in images], return_inverse=True)[1]
        client = np.unique([image.client for image in images], return_inverse=True)[1]
        numbers = client.astype(np.int64) if self.clients else None
        return Samples(rows.X, y.astype(np.float64), numbers)

    def _find(self, root: Path) -> list[_Image]:
        """Return the images in the folder.

        Raises:
            DataError: the folder does not exist, or a class in it has no image.
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
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
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
    """Yield the images in a folder and its subfolders, by name."""
    for place, below, names in os.walk(folder, onerror=_raise):
        # os.walk visits the subfolders that are left in this list, in its order.
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            if name.lower().endswith(ENDS) and not name.startswith("."):
                yield Path(place, name)
