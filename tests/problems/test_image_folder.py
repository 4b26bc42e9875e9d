"""Folders of images: what Pillow has written is read back, and what is no image is named."""

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from fedsim.core.errors import DataError
from fedsim.problems import Groups, Samples
from fedsim.problems.data import ImageFolder

Pixels = NDArray[np.uint8]


def pixels(*shape: int, seed: int = 0) -> Pixels:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def write(path: Path, image: Pixels, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(path, **options)


def read(folder: Path, **keys: Any) -> Samples:
    source = ImageFolder.model_validate({"path": folder.name, **keys})
    return source.plain(folder.parent, np.random.default_rng(0))


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Three grey images of two classes."""
    folder = tmp_path / "pets"
    for number, name in enumerate(("dog/b.png", "cat/2.png", "dog/a.png")):
        write(folder / name, pixels(3, 2, seed=number))
    return folder


def test_a_class_is_a_subfolder_and_rows_come_by_name(pets: Path) -> None:
    samples = read(pets)
    assert samples.y.tolist() == [0, 1, 1]
    assert samples.X.dtype == np.uint8
    expected = np.stack([pixels(3, 2, seed=seed).ravel() for seed in (1, 2, 0)])
    assert np.array_equal(samples.X, expected)
    assert samples.client is None


def test_images_in_colour_lie_channel_by_channel(tmp_path: Path) -> None:
    image = pixels(4, 5, 3)
    write(tmp_path / "d/a/1.png", image)
    row = read(tmp_path / "d").X[0]
    assert np.array_equal(row.reshape(3, 4, 5), np.moveaxis(image, 2, 0))


def test_other_files_and_what_is_hidden_are_left_out_and_images_may_lie_deeper(pets: Path) -> None:
    (pets / "cat" / "notes.txt").write_text("purrs")
    (pets / ".cache").mkdir()
    (pets / "cat" / ".hidden.png").write_bytes(b"no image")
    write(pets / "cat" / "young" / "0.PNG", pixels(3, 2))
    assert read(pets).y.tolist() == [0, 0, 1, 1]


def test_a_folder_a_client_gives_the_natural_split(tmp_path: Path) -> None:
    for name in ("zoe/cat/1.png", "zoe/dog/1.png", "adam/dog/1.png"):
        write(tmp_path / "d" / name, pixels(2, 2))
    samples = read(tmp_path / "d", clients=True)
    assert samples.client is not None
    assert samples.client.tolist() == [0, 1, 1]
    assert samples.y.tolist() == [1, 0, 1]
    parts = Groups().assign(samples, None, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == [[0], [1, 2]]


def test_images_are_resized_and_converted_where_that_is_asked_for(tmp_path: Path) -> None:
    write(tmp_path / "d/a/1.png", np.full((9, 6), 40, np.uint8))
    write(tmp_path / "d/a/2.jpg", np.full((5, 8, 3), 200, np.uint8), quality=95)
    samples = read(tmp_path / "d", size=[4, 3], channels=1)
    assert samples.X.shape == (2, 12)
    assert (samples.X[0] == 40).all()
    assert np.abs(samples.X[1].astype(int) - 200).max() <= 2


def test_a_grey_image_among_those_in_colour_has_three_equal_channels(tmp_path: Path) -> None:
    write(tmp_path / "d/a/1.png", pixels(2, 2, 3))
    write(tmp_path / "d/a/2.png", pixels(2, 2))
    grey = read(tmp_path / "d").X[1].reshape(3, 4)
    assert (grey == pixels(2, 2).ravel()).all()


def no_folder(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()


def no_class(folder: Path) -> None:
    no_folder(folder)
    write(folder / "1.png", pixels(3, 2))


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (no_folder, ["cannot read the folder", "pets", "No such file"]),
        (no_class, ["pets has no subfolder", "one for each class"]),
        (lambda f: (f / "empty").mkdir(), ["empty has no image", ".png", ".jpeg"]),
        (lambda f: (f / "cat/2.png").write_bytes(b"GIF of lies"), ["cat/2.png", "b'GIF of l'"]),
        (lambda f: (f / "cat/2.png").write_bytes(b""), ["cat/2.png", "is no image"]),
        (
            lambda f: (f / "cat/2.png").write_bytes((f / "dog/a.png").read_bytes()[:50]),
            ["cat/2.png", "is no image that can be read"],
        ),
        (
            lambda f: write(f / "dog/c.png", pixels(9, 9)),
            ["c.png has 9 x 9", "2.png has 3 x 2"],
        ),
        (lambda f: write(f / "dog/c.png", pixels(3, 2, 3)), ["c.png is in colour", "channels: 3"]),
        (
            lambda f: Image.fromarray(np.ones((3, 2), np.uint16)).save(f / "cat/1.png"),
            ["cat/1.png", "I;16", "8 bits"],
        ),
    ],
)
def test_what_cannot_be_read_is_named(harm: Any, told: list[str], pets: Path) -> None:
    harm(pets)
    with pytest.raises(DataError) as caught:
        read(pets)
    assert caught.value.key == "data.path"
    assert all(each in str(caught.value) for each in told), str(caught.value)


def test_what_would_not_fit_into_memory_is_refused(
    pets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDSIM_MEMORY", "1 kB")
    with pytest.raises(DataError, match="3 images of 3600 numbers"):
        read(pets, size=[60, 60])


def test_a_small_file_that_announces_a_huge_image_is_refused(pets: Path) -> None:
    content = bytearray((pets / "cat/2.png").read_bytes())
    content[16:24] = (60_000).to_bytes(4, "big") * 2  # width and height of a PNG
    content[29:33] = zlib.crc32(bytes(content[12:29])).to_bytes(4, "big")
    (pets / "cat/2.png").write_bytes(content)
    with pytest.raises(DataError, match=r"cat/2\.png is no image"):
        read(pets)


def test_a_picture_of_black_and_white_alone_is_grey(tmp_path: Path) -> None:
    bits = np.random.default_rng(1).random((3, 4)) < 0.5
    write(tmp_path / "d/a/1.png", bits)  # type: ignore[arg-type]  # of one bit a pixel
    assert read(tmp_path / "d").X.tolist() == [(255 * bits).ravel().tolist()]
