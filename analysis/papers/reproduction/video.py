"""A frame of a video from few sums of its pixels, with atoms learnt from the frames before.

The sums are of all 76,800 pixels, but atoms that are learnt from 80 frames lie in the span of
these, and so does every model that is a combination of atoms. With an orthonormal basis Q of that
span a model is w = Q u with 80 numbers u: a client's loss is |A w - y| = |(A Q) u - y|, and lengths
and angles of u are those of w. So clients have the rows A Q in place of A, which are drawn, used
and dropped client by client; the iterates are those of the whole frame.

The video is a user's, xylophone.gray where FEDSIM_DATA points, of 240 x 320 bytes a frame:

    ffmpeg -i xylophone.mp4 -vf format=gray -f rawvideo xylophone.gray

Elsewhere it is one of ours: two discs and a bar over a still background, whose strokes repeat every
40 frames.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedsim.core.errors import DataError
from fedsim.core.ports import Array
from reproduction.small_sets import folder_of_data

HEIGHT, WIDTH = 240, 320
LEARNT, SHOWN = 80, 81
"""The frames from which atoms are learnt, and the place of the frame to recover, the 82nd."""

CLIENTS, SUMS = 50, 30
ALPHA, DECAY = 0.5, 0.9
"""The variance of the clients' means, and client i's entries have the variance i^-DECAY."""

FILE = "xylophone.gray"

Frames = NDArray[np.uint8]


def make() -> Frames:
    """Return the first frames of a video of ours, shape (82, 240, 320)."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    still = 0.2 + 0.2 * x / WIDTH + 0.1 * np.sin(y / 30)
    frames = np.empty((SHOWN + 1, HEIGHT, WIDTH), np.uint8)
    for number in range(len(frames)):
        angle, shown = 2 * np.pi * number / 40, still.copy()
        for radius, brightness, turns in ((16, 0.9, 1), (12, 0.05, -2)):
            cx = WIDTH / 2 + 100 * np.cos(turns * angle)
            cy = HEIGHT / 2 + 70 * np.sin(turns * angle)
            shown[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = brightness
        shown[np.abs(x - WIDTH / 2 - 120 * np.sin(angle)) < 3] = 0.7
        frames[number] = np.rint(255 * shown)
    return frames


def read() -> Frames:
    """Return the first frames of the user's video, shape (82, 240, 320).

    Raises:
        DataError: there is none, or it has too few frames.
    """
    path, size = folder_of_data(FILE) / FILE, HEIGHT * WIDTH
    try:
        found = np.fromfile(path, np.uint8, count=(SHOWN + 1) * size)
    except OSError as error:
        text = f"the video is not on this machine: looked for {path}"
        raise DataError("data.path", f"{text}; ffmpeg writes it, see {__name__}") from error
    if len(found) < (SHOWN + 1) * size:
        seen = f"{path} has {len(found) // size} frames of {HEIGHT} x {WIDTH} bytes"
        raise DataError("data.path", f"{seen}; at least {SHOWN + 1} are needed")
    return found.reshape(-1, HEIGHT, WIDTH)


VIDEOS: dict[str, Callable[[], Frames]] = {"ours": make, "user's": read}


def span(frames: Frames) -> tuple[Array, Array, Array]:
    """Return a basis Q (pixels, 80) of the frames before, these in it (80, 80), and the frame.

    Brightness is from 0 to 1.
    """
    pixels = frames.reshape(len(frames), -1) / 255
    basis, before = np.linalg.qr(pixels[:LEARNT].T)
    return basis, before.T, pixels[SHOWN]


def sums(basis: Array, frame: Array, clients: int, rows: int) -> tuple[Array, Array]:
    """Return A Q, shape (clients rows, 80), and A x, of random sums A of all pixels.

    Client i = 1, 2, ... has entries from N(mu_i, i^-DECAY) with mu_i from N(0, ALPHA).
    """
    stacked = np.column_stack((basis, frame))
    totals = stacked.sum(axis=0)  # what a mean other than 0 adds to every row
    made = np.empty((clients, rows, stacked.shape[1]))
    drawn = np.empty((rows, len(frame)))
    for number, rng in enumerate(np.random.default_rng(1).spawn(clients)):
        mean = rng.standard_normal() * np.sqrt(ALPHA)
        rng.standard_normal(out=drawn)
        made[number] = drawn @ stacked * (number + 1) ** (-DECAY / 2) + mean * totals
    every = made.reshape(clients * rows, -1)
    return every[:, :-1], every[:, -1]


def prepare(video: str, folder: Path) -> list[str]:
    """Write what the scenario needs of a video, and return the overrides that name it.

    The test rows are the coordinates of the frame and one for the part of it that lies outside of
    the span, scaled so that the test loss is the squared relative error of the whole frame.
    """
    basis, before, frame = span(VIDEOS[video]())
    X, y = sums(basis, frame, CLIENTS, SUMS)
    inside = basis.T @ frame
    outside = float(np.linalg.norm(frame - basis @ inside))
    scale = np.sqrt(2 * (LEARNT + 1) / (frame @ frame))
    folder.mkdir(parents=True, exist_ok=True)
    files = {name: (folder / f"{name}.npz").resolve() for name in ("video", "frame", "frames")}
    np.savez(files["video"], X=X, y=y, client=np.repeat(np.arange(CLIENTS), SUMS))
    rows = np.vstack((np.eye(LEARNT), np.zeros(LEARNT)))
    np.savez(files["frame"], X=scale * rows, y=scale * np.append(inside, outside))
    np.savez(files["frames"], signals=before)
    return [
        f"problem.data.path={files['video']}",
        f"problem.test.path={files['frame']}",
        f"algorithm.dictionary.path={files['frames']}",
    ]


PREPARED: dict[str, Callable[[Path], list[str]]] = {
    "video": partial(prepare, "ours"),
    "users-video": partial(prepare, "user's"),
}
"""The archives that the scenario needs, by name."""
