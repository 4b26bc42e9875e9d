"""Files in place of a user's: of their form, and small, for rows of papers that need some.

A row names one with `stand_in`; it writes its files below a folder, where FEDSIM_DATA then points.
"""

import bz2
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from fedsim.core.ports import Array

SHAPES = {
    "data28": (20, 6),
    "data29": (13, 7),
    "data30": (15, 5),
    "data2": (20, 5),
    "data9": (31, 9),
    "data11": (17, 6),
}
"""Rows and features of the small sets' stand-ins; the last three have labels."""


def small_sets(folder: Path) -> None:
    """Write the six sets of LAG-code/; labels are 0 and 1 in two of three, as in the files."""
    rng = np.random.default_rng(5)
    for name, (n, d) in SHAPES.items():
        own = folder / "LAG-code" / name
        own.mkdir(parents=True)
        X = rng.uniform(-1, 1, (n, d))
        y = X.sum(axis=1) + rng.normal(size=n)
        if name in {"data2", "data9", "data11"}:
            y = np.where(y > 0, 1.0, -1.0 if name == "data11" else 0.0)
        np.savetxt(own / "data.txt", X, fmt="%.6f")
        np.savetxt(own / "y.txt", y, fmt="%e")


def adult(folder: Path) -> None:
    """Write a file of the shape and the labels of LIBSVM's a1a."""
    rng = np.random.default_rng(2)
    labels = rng.permutation(np.repeat([-1, 1], [1210, 395]))
    lines = [
        f"{label:+d} " + " ".join(f"{j}:1" for j in np.sort(rng.choice(123, 14, replace=False)) + 1)
        for label in labels
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a1a").write_text("\n".join(lines) + "\n", encoding="ascii")


def texts(name: str, features: int, labels: Sequence[int], folder: Path) -> None:
    """Write a file of LIBSVM's form: ten subjects of a word each, and forty words that say nothing.

    Odd subjects have the higher label, so that their words predict it.

    Args:
        name: of the file.
        features: of the set; the last one is in the first text.
        labels: of the texts, one after the other.
        folder: where it goes.
    """
    rng, highest = np.random.default_rng(1), max(labels)
    lines = []
    for row, label in enumerate(labels):
        subject = 2 * (row // 2 % 5) + (label == highest)
        words = {1 + subject, *(10 + rng.integers(1, 40, 5)).tolist()}
        words |= {features} if row == 0 else set()
        lines.append(" ".join([str(label), *(f"{word}:0.4" for word in sorted(words))]))
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(bz2.compress("\n".join([*lines, ""]).encode()))


E2006 = partial(texts, "E2006.test.bz2", 150360, [-4, -3] * 1654)
RCV1 = partial(texts, "rcv1_train.binary.bz2", 47236, [-1] * 9751 + [1] * 10491)
"""Of the size and the labels of the real ones."""


def femnist(folder: Path) -> None:
    """Write twelve writers of 48 characters, and one of eight; the first ten of 62 are digits."""
    rng = np.random.default_rng(3)
    client = np.append(np.repeat(np.arange(12), 48), np.full(8, 12))
    y = np.resize(np.append(np.arange(10), np.arange(62)), len(client))
    X = rng.uniform(size=(len(y), 784)) * (np.arange(784) % 62 == y[:, None])
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "femnist.npz", X=X.astype(np.float32), y=y, client=client)


def original_sets(folder: Path) -> None:
    """Write the six sets in their original formats, those of UCI, StatLib and LIBSVM."""
    rng = np.random.default_rng(6)
    folder.mkdir(parents=True, exist_ok=True)

    def write(name: str, rows: list[str]) -> None:
        (folder / name).write_text("\n".join(rows) + "\n", encoding="ascii")

    def blank(X: Array) -> list[str]:
        return [" ".join(f"{value:.4f}" for value in row) for row in X]

    write("housing.data", [f"  {row}" for row in blank(rng.uniform(0, 50, (20, 14)))])
    write("bodyfat", ["Percentage of body fat, and size.", "", *blank(rng.uniform(1, 9, (13, 15)))])
    sizes, rings = rng.uniform(0, 1, (50, 7)), rng.integers(1, 29, 50)
    middle = [",".join(f"{value:.4f}" for value in row) for row in sizes]
    sexes = np.resize(list("MFI"), 50)
    write("abalone.data", [f"{a},{b},{c}" for a, b, c in zip(sexes, middle, rings, strict=True)])
    radar = [",".join(f"{value:.5f}" for value in row) for row in rng.uniform(-1, 1, (21, 34))]
    kinds = np.resize(["g", "b"], 21)
    write("ionosphere.data", [f"{row},{kind}" for row, kind in zip(radar, kinds, strict=True)])
    skin = rng.integers(0, 4, (19, 33)).astype(str).tolist()
    ages = ["?" if n == 4 else str(20 + 3 * n) for n in range(19)]
    each = zip(skin, ages, np.resize([2, 1, 3, 1], 19), strict=True)
    write("dermatology.data", [f"{','.join(row)},{age},{kind}" for row, age, kind in each])
    adult(folder)


def video(folder: Path) -> None:
    """Write 82 frames of 240 x 320 bytes: a gradient that moves, and a little noise."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:240, :320]
    noise = rng.integers(0, 4, (240, 320))
    frames = [128 + 60 * np.sin((x + 4 * t) / 40) + 40 * np.cos(y / 30) + noise for t in range(82)]
    folder.mkdir(parents=True, exist_ok=True)
    np.stack(frames).astype(np.uint8).tofile(folder / "xylophone.gray")


STAND_INS: dict[str, Callable[[Path], None]] = {
    "small-sets": small_sets,
    "original-sets": original_sets,
    "adult": adult,
    "femnist": femnist,
    "e2006": E2006,
    "rcv1": RCV1,
    "video": video,
}
"""By name."""
