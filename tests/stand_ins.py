"""Files in place of a user's: of their form, and small, for rows of papers that need some.

A row names one with `stand_in`; it writes its files below a folder, where FEDSIM_DATA then points.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

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


def video(folder: Path) -> None:
    """Write 82 frames of 240 x 320 bytes: a gradient that moves, and a little noise."""
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:240, :320]
    noise = rng.integers(0, 4, (240, 320))
    frames = [128 + 60 * np.sin((x + 4 * t) / 40) + 40 * np.cos(y / 30) + noise for t in range(82)]
    folder.mkdir(parents=True, exist_ok=True)
    np.stack(frames).astype(np.uint8).tofile(folder / "xylophone.gray")


def femnist(folder: Path) -> None:
    """Write 16 writers of 110 images of ten digits, each bright at pixels of its own."""
    rng = np.random.default_rng(3)
    client, y = np.repeat(np.arange(16), 110), np.tile(np.arange(10), 176)
    X = rng.uniform(size=(len(y), 784)) * (np.arange(784) % 10 == y[:, None])
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "femnist.npz", X=X, y=y, client=client)


STAND_INS: dict[str, Callable[[Path], None]] = {
    "small-sets": small_sets,
    "adult": adult,
    "femnist": femnist,
    "video": video,
}
"""By name."""
